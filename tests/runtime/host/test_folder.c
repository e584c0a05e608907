// test_folder.c: a folder for results is made with those above it, and never shared.
#include <runtime/base/memory.h>
#include <runtime/host/folder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect(const char *storage, const char *name, const char *home, const char *rest)
{
    char *path, expected[512];
    snprintf(expected, sizeof expected, "%s/%s", home, rest);
    if (trp_folder_claim(storage, name, &path) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    assert_string_equal(path, expected);
    assert_true(support_exists(path));
    trp_free(path);
}

static void test_missing_folders_are_made_and_taken_names_numbered(void **state)
{
    (void)state;
    char *home = support_directory_make();
    char *deep = support_path(home, "a/b/c");
    expect(deep, "fit", home, "a/b/c/fit");
    expect(deep, "fit", home, "a/b/c/fit_1");
    expect(deep, "fit", home, "a/b/c/fit_2");
    free(deep);
    support_directory_remove(home);
}

static void test_the_default_is_in_the_home_folder(void **state)
{
    (void)state;
    char *home = support_directory_make(), *before = getenv("HOME");
    before = before == NULL ? NULL : strdup(before);
    setenv("HOME", home, 1);
    expect(NULL, "fit", home, "troupe_results/fit");
    expect("", "fit", home, "troupe_results/fit_1");
    char here[512];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(home), 0);
    expect("runs", "fit", home, "runs/fit"); // Absolute all the same.
    unsetenv("HOME");
    expect(NULL, "fit", home, "troupe_results/fit_2");
    assert_int_equal(chdir(here), 0);
    if (before != NULL)
        setenv("HOME", before, 1);
    free(before);
    support_directory_remove(home);
}

static void test_what_cannot_be_made_is_named(void **state)
{
    (void)state;
    char *home = support_directory_make(), *path;
    char *file = support_path(home, "file");
    support_write_file(file, "x", 1);
    char *below = support_path(file, "below");
    assert_int_equal(trp_folder_claim(below, "fit", &path), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, below));
    assert_int_equal(trp_folder_claim(file, "fit", &path), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, file));
    free(below);
    free(file);
    support_directory_remove(home);

    char *endless = malloc(5000);
    memset(endless, 'a', 4999);
    endless[4999] = '\0';
    assert_int_equal(trp_folder_claim(endless, "fit", &path), TROUPE_INVALID);
    free(endless);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_folders_are_made_and_taken_names_numbered),
        cmocka_unit_test(test_the_default_is_in_the_home_folder),
        cmocka_unit_test(test_what_cannot_be_made_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
