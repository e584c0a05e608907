// test_table.c: the tables character by character, from facts with a fixed time.
#include <math.h>
#include <runtime/text/table.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>

static const char *const metrics[] = {"accuracy", "epoch"};
static const char *const params[] = {"rate", "hidden"};

#define KNOWN(x)                                                                                   \
    {                                                                                              \
        (x), true, NULL                                                                            \
    }
#define NOTHING                                                                                    \
    {                                                                                              \
        0, false, NULL                                                                             \
    }

static const trp_table_cell param_cells[][2] = {
    {KNOWN(0.1), KNOWN(64)},   {KNOWN(0.00123456789), KNOWN(128)}, {KNOWN(1e-7), KNOWN(32)},
    {KNOWN(0.5), KNOWN(1024)}, {KNOWN(0.25), KNOWN(1 << 20)},
};
static const trp_table_cell metric_cells[][2] = {
    {KNOWN(0.8976), KNOWN(9)}, {KNOWN(0.5), KNOWN(2)},         {KNOWN(2.0 / 3), KNOWN(5)},
    {NOTHING, NOTHING},        {KNOWN((double)NAN), KNOWN(1)},
};

static trp_table_row rows[] = {
    {"fit_3d3d1_00000", TRP_TABLE_TERMINATED, 49324, 10, 80.9687, 0.9, param_cells[0],
     metric_cells[0], ""},
    {"fit_3d3d1_00001", TRP_TABLE_STOPPED, 49325, 3, 12, 0.55, param_cells[1], metric_cells[1], ""},
    {"fit_3d3d1_00002", TRP_TABLE_RUNNING, 49326, 6, 0.1234567, 2.0 / 3, param_cells[2],
     metric_cells[2], ""},
    {"fit_3d3d1_00003", TRP_TABLE_PENDING, 0, 0, 0, (double)NAN, param_cells[3], metric_cells[3],
     ""},
    {"fit_3d3d1_00004", TRP_TABLE_ERROR, 49328, 2, 1.5, (double)NAN, param_cells[4],
     metric_cells[4], "the loss is not finite"},
};

static trp_table facts(void)
{
    return (trp_table){.title = "Tune",
                       .row = "Trial",
                       .one = "trial",
                       .now = "2024-04-10 09:41:32",
                       .running_s = 93.99,
                       .searcher = "auto: TPE",
                       .scheduler = "ASHA (grace 1, reduction 3, limit 81)",
                       .cpus_used = 2,
                       .cpus_total = 2,
                       .metric = "accuracy",
                       .maximize = true,
                       .params = params,
                       .param_count = 2,
                       .metrics = metrics,
                       .metric_count = 2,
                       .rows = rows,
                       .count = 5};
}

static void shows(const trp_table *table, trp_table_look look, const char *expected)
{
    trp_buffer out = {0};
    trp_table_format(table, &look, &out);
    trp_buffer_append(&out, "", 1);
    assert_false(out.failed);
    assert_string_equal((const char *)out.data, expected);
    trp_buffer_free(&out);
}

static void test_what_is_left_is_shown(void **state)
{
    (void)state;
    static const struct {
        double left_s;
        const char *text;
    } rows_of[] = {{0.2, "1 s"},     {90, "90 s"},        {91, "2 min"},
                   {3600, "60 min"}, {7330, "2 h 3 min"}, {180 * 86400.0, "180 days"}};
    for (size_t i = 0; i < sizeof rows_of / sizeof *rows_of; i++) {
        trp_buffer out = {0}, line = {0};
        char expected[128];
        trp_table table = facts();
        table.left_s = rows_of[i].left_s;
        trp_table_format(&table, &(trp_table_look){0}, &out);
        trp_table_line(&table, &line);
        trp_buffer_append(&out, "", 1);
        trp_buffer_append(&line, "", 1);
        snprintf(expected, sizeof expected, "Running for: 00:01:33.99, about %s left\n",
                 rows_of[i].text);
        assert_non_null(strstr((const char *)out.data, expected));
        snprintf(expected, sizeof expected, "1 pending; about %s left; best accuracy 0.9 ",
                 rows_of[i].text);
        assert_non_null(strstr((const char *)line.data, expected));
        trp_buffer_free(&out);
        trp_buffer_free(&line);
    }
}

static void test_the_end_has_both_times(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_table_end("all files", "/runs/fit", 0.00567, 94.05, 93.99, "the tuning loop", &out);
    trp_buffer_append(&out, "", 1);
    assert_string_equal((const char *)out.data,
                        "Wrote the latest version of all files to '/runs/fit' in 0.0057s.\n"
                        "Total run time: 94.05 seconds (93.99 seconds for the tuning loop).\n");
    trp_buffer_free(&out);
}

// clang-format off
static void test_the_final_table(void **state)
{
    (void)state;
    trp_table table = facts();
    shows(&table, (trp_table_look){.width_max = 120},
          "Tune Status\n"
          "Current time: 2024-04-10 09:41:32\n"
          "Running for: 00:01:33.99\n"
          "Searched by auto: TPE\n"
          "Using ASHA (grace 1, reduction 3, limit 81) scheduling. Logical resource usage: 2.0/2 CPUs\n"
          "Best accuracy of all reports: 0.9 (fit_3d3d1_00000); the table has those of the last\n"
          "Trial Status: 1 terminated, 1 stopped, 1 failed, 1 running, 1 pending\n"
          "Trial name      | status     | loc             |       rate |  hidden | iter | total time (s) | accuracy | epoch\n"
          "----------------|------------|-----------------|------------|---------|------|----------------|----------|------\n"
          "fit_3d3d1_00000 | TERMINATED | 127.0.0.1:49324 |        0.1 |      64 |   10 |        80.9687 |   0.8976 |     9\n"
          "fit_3d3d1_00001 | STOPPED    | 127.0.0.1:49325 | 0.00123457 |     128 |    3 |             12 |      0.5 |     2\n"
          "fit_3d3d1_00002 | RUNNING    | 127.0.0.1:49326 |      1e-07 |      32 |    6 |       0.123457 | 0.666667 |     5\n"
          "fit_3d3d1_00003 | PENDING    |                 |        0.5 |    1024 |      |                |          |\n"
          "fit_3d3d1_00004 | ERROR      | 127.0.0.1:49328 |       0.25 | 1048576 |    2 |            1.5 |      nan |     1\n"
          "1 trial failed:\n"
          "  fit_3d3d1_00004: the loss is not finite\n");
}

static void test_parameters_are_shown_as_far_as_they_fit(void **state)
{
    (void)state;
    trp_table table = facts();
    table.count = 1;
    shows(&table, (trp_table_look){.width_max = 100},
          "Tune Status\n"
          "Current time: 2024-04-10 09:41:32\n"
          "Running for: 00:01:33.99\n"
          "Searched by auto: TPE\n"
          "Using ASHA (grace 1, reduction 3, limit 81) scheduling. Logical resource usage: 2.0/2 CPUs\n"
          "Best accuracy of all reports: 0.9 (fit_3d3d1_00000); the table has those of the last\n"
          "It has rate = 0.1, hidden = 64\n"
          "Trial Status: 1 terminated\n"
          "Trial name      | status     | loc             | rate | iter | total time (s) | accuracy | epoch\n"
          "----------------|------------|-----------------|------|------|----------------|----------|------\n"
          "fit_3d3d1_00000 | TERMINATED | 127.0.0.1:49324 |  0.1 |   10 |        80.9687 |   0.8976 |     9\n");
}

static void test_the_live_table_shows_running_trials_first_then_the_best(void **state)
{
    (void)state;
    trp_table table = facts();
    shows(&table, (trp_table_look){.rows_max = 4, .cut = 60},
          "Tune Status\n"
          "Current time: 2024-04-10 09:41:32\n"
          "Running for: 00:01:33.99\n"
          "Searched by auto: TPE\n"
          "Using ASHA (grace 1, reduction 3, limit 81) scheduling. Logi\n"
          "Best accuracy of all reports: 0.9 (fit_3d3d1_00000); the tab\n"
          "It has rate = 0.1, hidden = 64\n"
          "Trial Status: 1 terminated, 1 stopped, 1 failed, 1 running,\n"
          "Trial name      | status     | loc             | iter | tota\n"
          "----------------|------------|-----------------|------|-----\n"
          "fit_3d3d1_00002 | RUNNING    | 127.0.0.1:49326 |    6 |\n"
          "fit_3d3d1_00000 | TERMINATED | 127.0.0.1:49324 |   10 |\n"
          "fit_3d3d1_00001 | STOPPED    | 127.0.0.1:49325 |    3 |\n"
          "fit_3d3d1_00004 | ERROR      | 127.0.0.1:49328 |    2 |\n"
          "... and 1 more\n"
          "1 trial failed:\n"
          "  fit_3d3d1_00004: the loss is not finite\n");
}

static void test_the_lowest_comes_first_where_that_is_the_goal(void **state)
{
    (void)state;
    trp_table table = facts();
    table.maximize = false;
    table.metric_count = 0;
    table.running_s = 360000;
    shows(&table, (trp_table_look){.rows_max = 3},
          "Tune Status\n"
          "Current time: 2024-04-10 09:41:32\n"
          "Running for: 100:00:00.00\n"
          "Searched by auto: TPE\n"
          "Using ASHA (grace 1, reduction 3, limit 81) scheduling. Logical resource usage: 2.0/2 CPUs\n"
          "Best accuracy of all reports: 0.55 (fit_3d3d1_00001); the table has those of the last\n"
          "It has rate = 0.00123457, hidden = 128\n"
          "Trial Status: 1 terminated, 1 stopped, 1 failed, 1 running, 1 pending\n"
          "Trial name      | status     | loc             | iter | total time (s)\n"
          "----------------|------------|-----------------|------|---------------\n"
          "fit_3d3d1_00002 | RUNNING    | 127.0.0.1:49326 |    6 |       0.123457\n"
          "fit_3d3d1_00001 | STOPPED    | 127.0.0.1:49325 |    3 |             12\n"
          "fit_3d3d1_00000 | TERMINATED | 127.0.0.1:49324 |   10 |        80.9687\n"
          "... and 2 more\n"
          "1 trial failed:\n"
          "  fit_3d3d1_00004: the loss is not finite\n");
}

static void test_memory_gpus_and_a_run(void **state)
{
    (void)state;
    trp_table_row run = rows[0];
    run.name = "TorchTrainer_3d3d1_00000";
    trp_table table = facts();
    table.title = "Train";
    table.row = "Run";
    table.one = "run";
    table.searcher = table.scheduler = table.metric = NULL;
    table.memory_used = 31.5 * (1 << 30);
    table.memory_total = 90.0 * (1 << 30);
    table.cpus_used = 1;
    table.cpus_total = 64;
    table.gpus_used = table.gpus_total = 4;
    table.rows = &run;
    table.count = 1;
    run.best = (double)NAN;
    shows(&table, (trp_table_look){0},
          "Train Status\n"
          "Current time: 2024-04-10 09:41:32\n"
          "Running for: 00:01:33.99\n"
          "Memory: 31.5/90.0 GiB\n"
          "Logical resource usage: 1.0/64 CPUs, 4.0/4 GPUs\n"
          "Run Status: 1 terminated\n"
          "Run name                 | status     | loc             | iter | total time (s) | accuracy | epoch\n"
          "-------------------------|------------|-----------------|------|----------------|----------|------\n"
          "TorchTrainer_3d3d1_00000 | TERMINATED | 127.0.0.1:49324 |   10 |        80.9687 |   0.8976 |     9\n");
}

static void test_states_are_coloured_where_that_is_asked_for(void **state)
{
    (void)state;
    trp_table table = facts();
    table.metric_count = 0;
    table.metric = NULL;
    table.rows = &rows[4];
    table.count = 1;
    table.searcher = table.scheduler = NULL;
    const char *head =
          "Tune Status\n"
          "Current time: 2024-04-10 09:41:32\n"
          "Running for: 00:01:33.99\n"
          "Logical resource usage: 2.0/2 CPUs\n"
          "Trial Status: 1 failed\n"
          "Trial name      | status | loc             | iter | total time (s)\n"
          "----------------|--------|-----------------|------|---------------\n";
    char expected[1024];
    snprintf(expected, sizeof expected, "%s%s", head,
          "fit_3d3d1_00004 | \033[31mERROR\033[0m  | 127.0.0.1:49328 |    2 |            1.5\n"
          "1 trial failed:\n"
          "  fit_3d3d1_00004: the loss is not finite\n");
    shows(&table, (trp_table_look){.colours = true}, expected);
    // Where the line is cut before the end of the state, no sequence is begun.
    trp_buffer out = {0};
    trp_table_format(&table, &(trp_table_look){.colours = true, .cut = 20}, &out);
    assert_false(out.failed);
    assert_null(memchr(out.data, '\033', out.size));
    trp_buffer_free(&out);
}

// clang-format on

static void test_the_line(void **state)
{
    (void)state;
    trp_table table = facts();
    trp_buffer out = {0};
    table.running_s = 12.34;
    trp_table_line(&table, &out);
    trp_buffer_append(&out, "", 1);
    assert_string_equal((const char *)out.data,
                        "[12.3 s] 1 terminated, 1 stopped, 1 failed, 1 running, 1 pending; best "
                        "accuracy 0.9 (fit_3d3d1_00000)\n");
    trp_buffer_free(&out);

    table.rows = &rows[3];
    table.count = 1;
    trp_table_line(&table, &out);
    trp_buffer_append(&out, "", 1);
    assert_string_equal((const char *)out.data, "[12.3 s] 1 pending\n");
    trp_buffer_free(&out);
}

// As troupe_sweep_best has it.
static void test_a_trial_that_failed_is_not_the_best(void **state)
{
    (void)state;
    trp_table_row some[2] = {rows[4], rows[2]};
    some[0].best = 0.95;
    trp_table table = facts();
    table.rows = some;
    table.count = 2;
    trp_buffer out = {0};
    trp_table_format(&table, &(trp_table_look){.rows_max = 0}, &out);
    trp_table_line(&table, &out);
    trp_buffer_append(&out, "", 1);
    assert_non_null(
        strstr((const char *)out.data, "Best accuracy of all reports: 0.666667 (fit_3d3d1_00002)"));
    assert_non_null(strstr((const char *)out.data, "; best accuracy 0.666667 (fit_3d3d1_00002)\n"));
    trp_buffer_free(&out);
}

static void test_a_short_table_tells_few_errors(void **state)
{
    (void)state;
    trp_table_row failed[8];
    for (int i = 0; i < 8; i++)
        failed[i] = rows[4];
    trp_table table = facts();
    table.rows = failed;
    table.count = 8;
    trp_buffer out = {0};
    trp_table_format(&table, &(trp_table_look){.rows_max = 2}, &out);
    trp_buffer_append(&out, "", 1);
    const char *errors = strstr((const char *)out.data, "... and 6 more\n8 trials failed:\n");
    assert_non_null(errors);
    assert_non_null(
        strstr(errors, "  fit_3d3d1_00004: the loss is not finite\n  ... and 3 more\n"));
    trp_buffer_free(&out);
    trp_table_format(&table, &(trp_table_look){.rows_max = 0}, &out);
    trp_buffer_append(&out, "", 1);
    assert_null(strstr((const char *)out.data, "more"));
    trp_buffer_free(&out);
}

static void test_numbers_have_six_digits_at_most(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "0"},
                 {10, "10"},
                 {123456789, "123456789"},
                 {1e15, "1e+15"},
                 {1.0 / 3, "0.333333"},
                 {123456.789, "123457"},
                 {-1234567.5, "-1.23457e+06"},
                 {1e-5, "1e-05"},
                 {80.9687, "80.9687"},
                 {(double)NAN, "nan"},
                 {-(double)NAN, "nan"},
                 {(double)INFINITY, "inf"},
                 {-(double)INFINITY, "-inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        trp_table_number(cases[i].value, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
    assert_string_equal(trp_table_state_name((trp_table_state)17), "?");
}

static void test_sizes_have_a_unit(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {1536, "1.5 KiB"},
                 {3u << 20, "3.0 MiB"},
                 {UINT64_MAX, "16777216.0 TiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        assert_string_equal(trp_table_bytes(cases[i].bytes, text), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left_is_shown),
        cmocka_unit_test(test_the_end_has_both_times),
        cmocka_unit_test(test_the_final_table),
        cmocka_unit_test(test_parameters_are_shown_as_far_as_they_fit),
        cmocka_unit_test(test_the_live_table_shows_running_trials_first_then_the_best),
        cmocka_unit_test(test_memory_gpus_and_a_run),
        cmocka_unit_test(test_states_are_coloured_where_that_is_asked_for),
        cmocka_unit_test(test_the_lowest_comes_first_where_that_is_the_goal),
        cmocka_unit_test(test_the_line),
        cmocka_unit_test(test_a_trial_that_failed_is_not_the_best),
        cmocka_unit_test(test_a_short_table_tells_few_errors),
        cmocka_unit_test(test_numbers_have_six_digits_at_most),
        cmocka_unit_test(test_sizes_have_a_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
