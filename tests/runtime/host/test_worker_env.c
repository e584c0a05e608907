// test_worker_env.c: the variables that a worker is given, as its process sees them then.
#include <support.h>

#include <runtime/host/worker_env.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A worker is given its variables once, and never gives the array of them back.
static char **given[4];
static size_t given_count;

static bool apply(const char *env, const char *folder)
{
    bool applied = trp_worker_env_apply(env, folder);
    assert_in_range(given_count, 0, sizeof given / sizeof *given - 1);
    given[given_count++] = environ;
    return applied;
}

static void expect(const char *key, const char *value)
{
    const char *is = getenv(key);
    if (value == NULL)
        assert_null(is);
    else
        assert_string_equal(is, value);
}

static int count_variables(void)
{
    int count = 0;
    while (environ[count] != NULL)
        count++;
    return count;
}

static void test_variables_are_added_and_replaced(void **state)
{
    (void)state;
    setenv("TEST_KEPT", "kept", 1);
    setenv("TEST_OLD", "old", 1);
    setenv("TEST_OLDER", "older", 1);
    int before = count_variables();
    assert_true(apply("TEST_OLD=new\n\nTEST_MADE=a=b\nTEST_EMPTY=\nTEST_TWICE=1\n"
                      "TEST_TWICE=2\nno variable\n",
                      ""));
    expect("TEST_KEPT", "kept");
    expect("TEST_OLD", "new");
    expect("TEST_OLDER", "older");
    expect("TEST_MADE", "a=b");
    expect("TEST_EMPTY", "");
    expect("TEST_TWICE", "2"); // What comes later counts.
    expect("no variable", NULL);
    assert_int_equal(count_variables(), before + 3);
    // The program goes on with them as with any.
    setenv("TEST_MADE", "again", 1);
    setenv("TEST_ITS_OWN", "own", 1);
    unsetenv("TEST_EMPTY");
    expect("TEST_MADE", "again");
    expect("TEST_ITS_OWN", "own");
    expect("TEST_EMPTY", NULL);
    expect("TEST_TWICE", "2");
}

static void test_a_folder_is_entered(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *none = support_path(folder, "none"), here[4096];
    assert_true(apply("", folder));
    assert_string_equal(getcwd(here, sizeof here), folder);
    assert_false(apply("", none));
    assert_int_equal(chdir("/"), 0);
    free(none);
    support_directory_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables_are_added_and_replaced),
        cmocka_unit_test(test_a_folder_is_entered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
