// test_pbt_log.c: what a population puts down.
#include "simulate.h"

#include <fcntl.h>
#include <tune/schedule/pbt_log.h>
#include <unistd.h>

static const troupe_problem problem = {
    .size = sizeof problem, .dims = simulate_dims, .dim_count = SIMULATE_DIMS, .objectives = 1};

static void test_lines(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "pbt.jsonl");
    const double x[SIMULATE_DIMS] = {0.1, 32, (double)NAN};
    const char *expected =
        "{\"trial\": 3, \"report\": 0, \"x\": {\"rate\": 0.1, \"width\": 32, \"kind\": "
        "\"NaN\"}}\n"
        "{\"trial\": 3, \"report\": 10, \"source\": 1, \"source_report\": 12, \"x\": "
        "{\"rate\": 0.1, \"width\": 32, \"kind\": \"NaN\"}}\n";
    for (int again = 0; again < 2; again++) { // Made anew each time.
        trp_pbt_log log = {.fd = -1};
        assert_int_equal(trp_pbt_log_open(&log, path), TROUPE_OK);
        const trp_pbt_line first = {.trial = 3, .source = -1};
        const trp_pbt_line clone = {3, 10, 1, 12};
        trp_pbt_log_add(&log, &problem, &first, x);
        trp_pbt_log_add(&log, &problem, &clone, x);
        trp_pbt_log_close(&log);
        trp_pbt_log_add(&log, &problem, &clone, x); // Nothing to write to: nothing.
        trp_pbt_log_close(&log);
        support_assert_file(folder, "pbt.jsonl", expected);
    }
    free(path);
    support_directory_remove(folder);
}

static void test_what_cannot_be_written(void **state)
{
    (void)state;
    trp_pbt_log log = {.fd = -1};
    assert_int_equal(trp_pbt_log_open(&log, "/nonexistent/log"), TROUPE_NOT_FOUND);
    assert_string_equal(troupe_last_error()->text,
                        "pbt: cannot make the log \"/nonexistent/log\": No such file or "
                        "directory");
    assert_int_equal(trp_pbt_log_open(&log, "/"), TROUPE_IO);
    // A full disk: the population goes on.
    const double x[SIMULATE_DIMS] = {0};
    const trp_pbt_line line = {.source = -1};
    log.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(log.fd >= 0);
    trp_pbt_log_add(&log, &problem, &line, x);
    assert_true(log.warned);
    log.warned = false;
    trp_memory_fail_after(0);
    trp_pbt_log_add(&log, &problem, &line, x);
    trp_memory_fail_after(-1);
    assert_true(log.warned);
    trp_pbt_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_what_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
