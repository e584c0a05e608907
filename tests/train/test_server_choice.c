// test_server_choice.c: which train server a submission goes to, by the environment.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <train/server_choice.h>

static void test_a_folder_may_end_with_slashes(void **state)
{
    static const char *const given[] = {"/var/tmp/state", "/var/tmp/state/", "/var/tmp/state///"};
    (void)state;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        trp_server_use use;
        trp_path folder;
        assert_int_equal(setenv("TROUPE_SERVER", given[i], 1), 0);
        assert_int_equal(trp_server_choose(TROUPE_SERVER_DEFAULT, &use, &folder), TROUPE_OK);
        assert_int_equal(use, TRP_SERVER_NEED);
        assert_string_equal(folder.text, "/var/tmp/state");
    }
}

static void test_what_is_neither_a_word_nor_a_folder_is_refused(void **state)
{
    trp_server_use use;
    trp_path folder;
    (void)state;
    assert_int_equal(setenv("TROUPE_SERVER", "sometimes", 1), 0);
    assert_int_equal(trp_server_choose(TROUPE_SERVER_DEFAULT, &use, &folder), TROUPE_INVALID);
    assert_int_equal(setenv("TROUPE_SERVER", "none", 1), 0);
    assert_int_equal(trp_server_choose(TROUPE_SERVER_DEFAULT, &use, &folder), TROUPE_OK);
    assert_int_equal(use, TRP_SERVER_NOT);
}

static void test_the_folder_of_the_users_server_is_told(void **state)
{
    char folder[PATH_MAX], *top = support_directory_make(), *given = support_path(top, "state");
    (void)state;
    assert_int_equal(setenv("TROUPE_SERVER", "none", 1), 0); // Which says nothing about it.
    assert_int_equal(setenv("TROUPE_STATE", given, 1), 0);
    assert_int_equal(troupe_server_folder(folder, sizeof folder), TROUPE_OK);
    assert_string_equal(folder, given);
    assert_int_equal(troupe_server_folder(folder, strlen(given) + 1), TROUPE_OK);
    memset(folder, 'x', sizeof folder);
    assert_int_equal(troupe_server_folder(folder, strlen(given)), TROUPE_TOO_LARGE);
    assert_int_equal(folder[0], 'x');
    assert_int_equal(setenv("TROUPE_STATE", "relative", 1), 0);
    assert_int_equal(troupe_server_folder(folder, sizeof folder), TROUPE_INVALID);
    free(given);
    support_directory_remove(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_folder_may_end_with_slashes),
        cmocka_unit_test(test_what_is_neither_a_word_nor_a_folder_is_refused),
        cmocka_unit_test(test_the_folder_of_the_users_server_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
