// test_server_choice.c: which train server a submission goes to, by the environment.
#include <stdlib.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_folder_may_end_with_slashes),
        cmocka_unit_test(test_what_is_neither_a_word_nor_a_folder_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
