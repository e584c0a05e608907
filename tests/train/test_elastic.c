// test_elastic.c: runs that start with as many ranks as there is room for.
// timeout: 120
#include "adds.h"
#include "fresh.h"
#include "hold.h"

enum { CPUS = 4, EPOCHS = 20 };

static char *storage, *broken;

// The process of rank 3 ends before it is a worker, while that file is there.
static void end_where_broken(void)
{
    const char *rank = getenv("RANK");
    if (rank && atoi(rank) == CPUS - 1 && support_exists(broken))
        _exit(1);
}

static troupe_result *ended(troupe_job *job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    if (troupe_result_status(result) != TROUPE_OK)
        fail_msg("%s", troupe_result_error(result));
    return result;
}

// Holds so many CPUs until it is closed.
static troupe_job *block(int cpus)
{
    adds config = {.epochs = 1000000, .pause_ms = 5};
    troupe_job *job;
    troupe_must(troupe_submit(add_up, &config, NULL, &job, .cpus_per_rank = cpus,
                              .keep = TROUPE_NONE, .storage = storage, .name = "blocks"));
    await_state(job, TROUPE_JOB_RUNNING, 1, 1);
    return job;
}

static bool half_is_free(void *unused)
{
    (void)unused;
    troupe_resources all;
    troupe_must(troupe_resources_get(&all));
    return 2 * all.cpus.free == CPUS;
}

// B09: it starts with what is free, and grows when its group is formed anew.
static void test_an_elastic_run_takes_what_there_is(void **state)
{
    (void)state;
    adds config = {.epochs = EPOCHS};
    hold held = {0};
    const troupe_gate gate = hold_gate(&held, (const int[]){1, EPOCHS / 2}, 2);
    troupe_job *other = block(CPUS / 2), *job;
    troupe_must(troupe_submit(add_up, &config, NULL, &job, .ranks = CPUS, .min_ranks = 1,
                              .storage = storage, .name = "elastic", .gate = &gate));
    hold_await(&held, 1);
    await_state(job, TROUPE_JOB_RUNNING, 1, CPUS / 2);
    troupe_job_close(&other);
    assert_true(support_wait_until(half_is_free, NULL, SUPPORT_SOON_MS));
    troupe_job_pause(job);
    hold_let_go(&held, 1);
    await_state(job, TROUPE_JOB_PAUSED, 2, 0);
    troupe_job_go_on(job);
    hold_await(&held, EPOCHS / 2);
    await_state(job, TROUPE_JOB_RUNNING, EPOCHS / 2, CPUS);
    hold_let_go(&held, EPOCHS / 2);
    troupe_result *result = ended(job);
    assert_true(troupe_result_metric(result, "total") == total_of(EPOCHS));
    assert_true(troupe_result_metric(result, "world") == CPUS);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// What gets free with the fewest is taken too.
static void test_it_waits_for_the_fewest(void **state)
{
    (void)state;
    adds config = {.epochs = 3};
    troupe_job *other = block(3), *job;
    troupe_result *result;
    troupe_must(troupe_submit(add_up, &config, NULL, &job, .ranks = CPUS, .min_ranks = 2,
                              .storage = storage, .name = "fewest"));
    assert_int_equal(troupe_job_wait(job, 100, &result), TROUPE_TIMED_OUT);
    assert_int_equal(status_of(job).state, TROUPE_JOB_QUEUED);
    troupe_job_close(&other);
    result = ended(job);
    assert_true(troupe_result_metric(result, "world") == CPUS);
    assert_true(troupe_result_metric(result, "total") == total_of(3));
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// B09: parts of ranks that a trainer does not divide anew are waited for.
static void test_parts_of_ranks_leave_only_their_number(void **state)
{
    (void)state;
    adds config = {.epochs = 4, .own_parts = 1};
    troupe_result *result;
    troupe_job *job;
    troupe_must(troupe_train(add_up, &config, &result, .ranks = CPUS, .storage = storage,
                             .name = "parts", .min_ranks = 1));
    troupe_result_free(&result);
    config.epochs = 6;
    troupe_job *other = block(2);
    char *folder = support_path(storage, "parts"), *end = support_path(folder, "end");
    assert_int_equal(unlink(end), 0); // As if its driver had been killed.
    free(end);
    free(folder);
    troupe_must(troupe_submit(add_up, &config, NULL, &job, .ranks = CPUS, .min_ranks = 1,
                              .storage = storage, .name = "parts", .open = TROUPE_OPEN_RESUME));
    assert_int_equal(troupe_job_wait(job, 100, &result), TROUPE_TIMED_OUT);
    troupe_job_close(&other);
    result = ended(job);
    assert_true(troupe_result_metric(result, "world") == CPUS);
    assert_true(troupe_result_metric(result, "total") == total_of(6));
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// B09: where the process of a rank cannot be started, a restart goes on with fewer.
static void test_a_rank_that_cannot_be_started_is_left_out(void **state)
{
    (void)state;
    adds config = {.epochs = 4};
    troupe_result *result;
    support_write_file(broken, "", 0);
    troupe_must(troupe_train(add_up, &config, &result, .ranks = CPUS, .min_ranks = 2, .restarts = 1,
                             .storage = storage, .name = "broken"));
    assert_true(troupe_result_metric(result, "world") == CPUS - 1);
    assert_true(troupe_result_metric(result, "total") == total_of(4));
    assert_int_equal(troupe_result_restarts(result), 1);
    troupe_result_free(&result);
    // Not below the fewest.
    assert_int_not_equal(troupe_train(add_up, &config, &result, .ranks = CPUS, .min_ranks = CPUS,
                                      .restarts = 1, .storage = storage, .name = "all"),
                         TROUPE_OK);
    assert_non_null(strstr(troupe_last_error()->text, "rank 3 could not be started"));
    troupe_result_free(&result);
    assert_int_equal(unlink(broken), 0);
}

static void test_a_least_number_beyond_the_ranks_is_refused(void **state)
{
    (void)state;
    adds config = {.epochs = 1};
    troupe_job *job;
    assert_int_equal(
        troupe_submit(add_up, &config, NULL, &job, .ranks = 2, .min_ranks = 3, .storage = storage),
        TROUPE_INVALID);
    assert_non_null(
        strstr(troupe_last_error()->text, ".min_ranks is 3: expected 0, or 1 to .ranks"));
    assert_int_equal(
        troupe_submit(add_up, &config, NULL, &job, .min_ranks = -1, .storage = storage),
        TROUPE_INVALID);
}

static int argument_count;
static char **arguments;

static void start(void)
{
    troupe_must(troupe_start(argument_count, arguments, .cpus = CPUS, .threads = 2,
                             .worker_init = end_where_broken));
}

int main(int argc, char **argv)
{
    argument_count = argc;
    arguments = argv;
    // Before there are workers, which know it too: those of a second start run this anew.
    const char *made = getenv("ELASTIC_STORAGE");
    storage = made ? strdup(made) : support_directory_make();
    setenv("ELASTIC_STORAGE", storage, 1);
    broken = support_path(storage, "broken");
    fresh_start = start;
    start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_an_elastic_run_takes_what_there_is, fresh_after),
        cmocka_unit_test_teardown(test_it_waits_for_the_fewest, fresh_after),
        cmocka_unit_test_teardown(test_parts_of_ranks_leave_only_their_number, fresh_after),
        cmocka_unit_test_teardown(test_a_rank_that_cannot_be_started_is_left_out, fresh_after),
        cmocka_unit_test_teardown(test_a_least_number_beyond_the_ranks_is_refused, fresh_after),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(broken);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
