// test_console_text.c: what a run's console says, character by character, from facts with a fixed
// time and faked resources.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <train/console_text.h>

static const troupe_metric metrics[] = {{"acc", 0.8976}, {"epoch", 9}};
static const troupe_metric others[] = {{"epoch", 2}, {"loss", 0.25}};

static const trp_console_machine machine = {.now = "2024-04-10 09:41:32",
                                            .memory_used = 31.5 * (1 << 30),
                                            .memory_total = 90.0 * (1 << 30),
                                            .cpus_total = 64,
                                            .gpus_total = 4};

static trp_console_run run_of_the_tutorial(void)
{
    return (trp_console_run){.name = "TorchTrainer_3d3d1_00000",
                             .state = TRP_TABLE_TERMINATED,
                             .pid = 49324,
                             .reports = 10,
                             .elapsed_s = 80.9687,
                             .open_s = 93.99,
                             .cpus = 1,
                             .gpus = 4,
                             .metrics = metrics,
                             .metric_count = 2};
}

static void is(trp_buffer *out, const char *expected)
{
    trp_buffer_append(out, "", 1);
    assert_false(out->failed);
    assert_string_equal((const char *)out->data, expected);
    trp_buffer_free(out);
}

// clang-format off
// E01, E02.
static void test_the_block_of_a_run_that_has_ended(void **state)
{
    (void)state;
    trp_console_run run = run_of_the_tutorial();
    trp_buffer out = {0};
    trp_console_block_text(&run, 1, &machine, &(trp_table_look){0}, &out);
    is(&out,
       "Train Status\n"
       "Current time: 2024-04-10 09:41:32\n"
       "Running for: 00:01:33.99\n"
       "Memory: 31.5/90.0 GiB\n"
       "Logical resource usage: 0.0/64 CPUs, 0.0/4 GPUs\n"
       "Run Status: 1 terminated\n"
       "Run name                 | status     | loc             | iter | total time (s) |    acc | epoch\n"
       "-------------------------|------------|-----------------|------|----------------|--------|------\n"
       "TorchTrainer_3d3d1_00000 | TERMINATED | 127.0.0.1:49324 |   10 |        80.9687 | 0.8976 |     9\n");
}

static void test_the_block_of_several_runs(void **state)
{
    (void)state;
    trp_console_run runs[3] = {run_of_the_tutorial(), run_of_the_tutorial(), run_of_the_tutorial()};
    runs[0].state = TRP_TABLE_RUNNING;
    runs[0].rate = 12.345;
    runs[0].expected = 500;
    runs[0].limit_left_s = 3600; // Later than that.
    runs[1] = (trp_console_run){.name = "digits", .state = TRP_TABLE_RESTARTING, .pid = 7,
                                .reports = 1, .elapsed_s = 1.5, .open_s = 100, .rate = 61234.5, .cpus = 2, .limit_left_s = 7330,
                                .metrics = others, .metric_count = 2};
    runs[2] = (trp_console_run){.name = "waits", .state = TRP_TABLE_PENDING, .open_s = 1, .cpus = 8};
    trp_buffer out = {0};
    trp_console_block_text(runs, 3, &machine, &(trp_table_look){0}, &out);
    is(&out,
       "Train Status\n"
       "Current time: 2024-04-10 09:41:32\n"
       "Running for: 00:01:40.00\n"
       "Memory: 31.5/90.0 GiB\n"
       "Logical resource usage: 3.0/64 CPUs, 4.0/4 GPUs\n"
       "Run Status: 1 running, 1 restarting, 1 pending\n"
       "Run name                 | status     | loc             | iter | total time (s) |    acc | epoch | loss\n"
       "-------------------------|------------|-----------------|------|----------------|--------|-------|-----\n"
       "TorchTrainer_3d3d1_00000 | RUNNING    | 127.0.0.1:49324 |   10 |        80.9687 | 0.8976 |     9 |\n"
       "digits                   | RESTARTING | 127.0.0.1:7     |    1 |            1.5 |        |     2 | 0.25\n"
       "waits                    | PENDING    |                 |      |                |        |       |\n"
       "TorchTrainer_3d3d1_00000: 10 of 500 reports, 12.3/s, 40 s left\n"
       "digits: 1 report, 61234/s, 2 h 3 min left\n");
}

static void test_lines_are_cut_at_the_width_of_a_terminal(void **state)
{
    (void)state;
    trp_console_run run = run_of_the_tutorial();
    run.state = TRP_TABLE_RUNNING;
    run.rate = 3;
    trp_buffer out = {0};
    trp_console_block_text(&run, 1, &machine, &(trp_table_look){.cut = 32}, &out);
    is(&out,
       "Train Status\n"
       "Current time: 2024-04-10 09:41:32\n"
       "Running for: 00:01:33.99\n"
       "Memory: 31.5/90.0 GiB\n"
       "Logical resource usage: 1.0/64 C\n"
       "Run Status: 1 running\n"
       "Run name                 | statu\n"
       "-------------------------|------\n"
       "TorchTrainer_3d3d1_00000 | RUNNI\n"
       "TorchTrainer_3d3d1_00000: 10 rep\n");
}

static void test_a_run_that_failed_says_why(void **state)
{
    (void)state;
    trp_console_run run = {.name = "fit", .state = TRP_TABLE_ERROR, .open_s = 2,
                           .error = "rank 1 (pid 8) failed: no data"};
    trp_console_machine small = {.now = "now", .cpus_total = 2};
    trp_buffer out = {0};
    trp_console_block_text(&run, 1, &small, &(trp_table_look){0}, &out);
    is(&out,
       "Train Status\n"
       "Current time: now\n"
       "Running for: 00:00:02.00\n"
       "Logical resource usage: 0.0/2 CPUs\n"
       "Run Status: 1 failed\n"
       "Run name | status | loc | iter | total time (s)\n"
       "---------|--------|-----|------|---------------\n"
       "fit      | ERROR  |     |      |\n"
       "1 run failed:\n"
       "  fit: rank 1 (pid 8) failed: no data\n");
}

// clang-format on

static void test_the_line(void **state)
{
    (void)state;
    trp_console_run run = run_of_the_tutorial();
    trp_buffer out = {0};
    run.state = TRP_TABLE_RUNNING;
    run.rate = 0.125;
    run.expected = 11;
    trp_console_line_text(&run, &out);
    is(&out,
       "[94.0 s] TorchTrainer_3d3d1_00000: RUNNING, 10 of 11 reports, 0.1/s, 8 s left; acc 0.8976, "
       "epoch 9\n");
    run = (trp_console_run){.name = "fit", .state = TRP_TABLE_PENDING};
    trp_console_line_text(&run, &out);
    is(&out, "[0.0 s] fit: PENDING, 0 reports\n");
}

static void is_left(trp_console_run run, const char *expected)
{
    trp_buffer out = {0};
    run.name = "fit";
    run.open_s = 1;
    trp_console_line_text(&run, &out);
    is(&out, expected);
}

static void test_what_is_left(void **state)
{
    (void)state;
    const trp_table_state runs = TRP_TABLE_RUNNING;
    is_left((trp_console_run){.state = runs, .reports = 120, .expected = 500, .rate = 34.1},
            "[1.0 s] fit: RUNNING, 120 of 500 reports, 34.1/s, 12 s left\n");
    is_left((trp_console_run){.state = runs, .reports = 120, .expected = 500},
            "[1.0 s] fit: RUNNING, 120 of 500 reports\n"); // No rate yet.
    is_left(
        (trp_console_run){
            .state = runs, .reports = 120, .expected = 500, .rate = 1, .limit_left_s = 90},
        "[1.0 s] fit: RUNNING, 120 of 500 reports, 1.0/s, 90 s left\n"); // The limit is first.
    is_left((trp_console_run){.state = runs, .reports = 0, .expected = 1, .limit_left_s = 0.2},
            "[1.0 s] fit: RUNNING, 0 of 1 report, 1 s left\n");
    is_left((trp_console_run){.state = runs, .reports = 7, .expected = 5, .rate = 2},
            "[1.0 s] fit: RUNNING, 7 of 5 reports, 2.0/s\n"); // More than was expected.
    is_left((trp_console_run){.state = runs, .expected = 300, .rate = 1},
            "[1.0 s] fit: RUNNING, 0 of 300 reports, 1.0/s, 5 min left\n");
    is_left((trp_console_run){.state = runs, .expected = 2000000000, .rate = 500},
            "[1.0 s] fit: RUNNING, 0 of 2000000000 reports, 500/s, 47 days left\n");
    is_left((trp_console_run){.state = TRP_TABLE_RESTARTING, .reports = 5, .limit_left_s = 5401},
            "[1.0 s] fit: RESTARTING, 5 reports, 1 h 31 min left\n");
    is_left(
        (trp_console_run){.state = TRP_TABLE_TERMINATED, .reports = 5, .expected = 9, .rate = 1},
        "[1.0 s] fit: TERMINATED, 5 of 9 reports, 1.0/s\n");
}

// E04.
static void test_the_group(void **state)
{
    (void)state;
    static const trp_console_rank ranks[] = {{49399, 0, 0}, {49400, 1, 0}, {77, 0, 1}};
    trp_buffer out = {0};
    trp_console_group_text(ranks, 3, &out);
    is(&out, "Started distributed worker processes:\n"
             "- (pid=49399) world_rank=0, local_rank=0, node_rank=0\n"
             "- (pid=49400) world_rank=1, local_rank=1, node_rank=0\n"
             "- (pid=77) world_rank=2, local_rank=0, node_rank=1\n");
}

// E06.
static void test_the_end(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_console_end_text("/home/u/results/fit", 0.0057, 94.05, 93.99, &out);
    is(&out, "Wrote the latest version of all result files to '/home/u/results/fit' in 0.0057s.\n"
             "Total run time: 94.05 seconds (93.99 seconds for the training loop).\n");
}

static void test_more_metrics_than_there_are_columns(void **state)
{
    (void)state;
    static char names[4][32][32];
    static troupe_metric many[4][32];
    trp_console_run runs[4];
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 32; k++) {
            snprintf(names[i][k], 32, "m%d_%d", i, k);
            many[i][k] = (troupe_metric){names[i][k], i * 100 + k};
        }
        runs[i] = run_of_the_tutorial();
        runs[i].metrics = many[i];
        runs[i].metric_count = 32;
    }
    trp_buffer out = {0};
    trp_console_block_text(runs, 4, &machine, &(trp_table_look){0}, &out);
    trp_buffer_append(&out, "", 1);
    assert_false(out.failed);
    assert_non_null(strstr((const char *)out.data, "| m1_31"));
    assert_null(strstr((const char *)out.data, "m2_0"));
    trp_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_block_of_a_run_that_has_ended),
        cmocka_unit_test(test_the_block_of_several_runs),
        cmocka_unit_test(test_lines_are_cut_at_the_width_of_a_terminal),
        cmocka_unit_test(test_a_run_that_failed_says_why),
        cmocka_unit_test(test_the_line),
        cmocka_unit_test(test_what_is_left),
        cmocka_unit_test(test_the_group),
        cmocka_unit_test(test_the_end),
        cmocka_unit_test(test_more_metrics_than_there_are_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
