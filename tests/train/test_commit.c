// test_commit.c: commits in memory: what is one, who can read it, and what is held for it.
// again: memory train 60 memory
#include "board.h"
#include "where.h"

#include <runtime/shm/process_table.h>
#include <train/memory_commit.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOST_US = 1000 }; // They make all calls dear.
#else
enum { MOST_US = 50 };
#endif

static char *storage;
static board *where;

// ---- whole runs

static uint64_t count_objects(void)
{
    troupe_store_usage usage;
    troupe_must(troupe_store_usage_get(&usage));
    return usage.objects;
}

static bool is_released(void *before)
{
    return count_objects() <= *(const uint64_t *)before;
}

static uint64_t objects_at_first; // Before any run.

// Waits until earlier runs have left no object: who had the last hold may be slow to let go.
static uint64_t count_when_quiet(void)
{
    assert_true(support_wait_until(is_released, &objects_at_first, SUPPORT_SOON_MS));
    return count_objects();
}

// C02, C08: the newest state is in memory, and nothing of it on disk.
static void test_without_keep_the_newest_state_is_in_memory(void **state)
{
    (void)state;
    uint64_t before = count_when_quiet();
    board_settings config = board_plain(where, SAVES);
    config.victim = 1;
    config.at = STEPS / 2;
    troupe_job *job;
    troupe_result *result;
    board_state now;
    troupe_must(troupe_submit(board_fit, &config, NULL, &job, .ranks = WORLD, .storage = storage,
                              .keep = TROUPE_NONE, .restarts = 1));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_string_equal(troupe_result_error(result), "");
    assert_int_equal(troupe_result_restarts(result), 1);
    assert_true(atomic_load(&where->restored[0]) >= STEPS / 2 - 1); // Of the last attempt.
    for (int rank = 0; rank < WORLD; rank++) {
        troupe_must(troupe_job_committed(board_state, job, rank, &now));
        board_assert_end(&now, rank);
    }
    assert_int_equal(where_count_checkpoints(troupe_job_path(job)), 0);
    assert_null(troupe_result_checkpoint(result));
    troupe_job_close(&job);
    for (int rank = 0; rank < WORLD; rank++) {
        troupe_must(troupe_result_committed(board_state, result, rank, &now));
        board_assert_end(&now, rank);
    }
    troupe_arena_reset();
    troupe_result_free(&result);
    assert_true(support_wait_until(is_released, &before, SUPPORT_SOON_MS));
}

static bool has_commit(void *job)
{
    board_state now;
    troupe_status status = troupe_job_committed(board_state, (troupe_job *)job, 1, &now);
    assert_true(status == TROUPE_OK || status == TROUPE_NOT_FOUND);
    return status == TROUPE_OK && now.step >= 3;
}

// C13: from memory.
static void test_a_commit_is_read_while_the_run_goes_on(void **state)
{
    (void)state;
    board_settings config = board_plain(where, COMMITS);
    troupe_job *job;
    troupe_result *result;
    board_state now;
    board_other other;
    config.steps = 1000000;
    troupe_must(troupe_submit(board_fit, &config, NULL, &job, .ranks = WORLD, .storage = storage));
    assert_true(support_wait_until(has_commit, job, SUPPORT_SOON_MS));
    for (int i = 0; i < 100; i++) {
        troupe_must(troupe_job_committed(board_state, job, i % WORLD, &now));
        assert_int_equal(now.rank, i % WORLD);
        assert_int_equal(now.weights.count, WEIGHTS);
        assert_true(now.own == board_own(now.rank, now.step));
        troupe_arena_reset();
    }
    assert_int_equal(troupe_job_committed(board_state, job, WORLD, &now), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "there is no rank 3 in the run at "));
    assert_int_equal(troupe_job_committed(board_state, job, -1, &now), TROUPE_NOT_FOUND);
    assert_int_equal(troupe_job_committed(board_other, job, 0, &other), TROUPE_WRONG_TYPE);
    assert_non_null(strstr(troupe_last_error()->text, "the state of rank 0 in memory, of report"));
    assert_non_null(strstr(troupe_last_error()->text, "is of type 'board_state', not"));
    troupe_job_stop(job);
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    troupe_must(troupe_result_committed(board_state, result, 2, &now));
    assert_int_equal(now.step, troupe_result_reports(result));
    troupe_result_free(&result);
    troupe_job_close(&job);
}

static void test_a_run_without_commits_has_none(void **state)
{
    (void)state;
    board_settings config = board_plain(where, NOTHING);
    troupe_result *result;
    board_state now;
    troupe_must(troupe_train(board_fit, &config, &result, .ranks = WORLD, .storage = storage));
    assert_int_equal(troupe_result_committed(board_state, result, 0, &now), TROUPE_NOT_FOUND);
    assert_non_null(strstr(troupe_last_error()->text, "has no commit in memory"));
    troupe_result_free(&result);
}

// C14: rank 0's commit alone stands for all, also after a restart.
static void test_what_rank_0_alone_commits_is_that_of_all(void **state)
{
    (void)state;
    board_settings config = board_plain(where, FIRST);
    troupe_result *result;
    board_state now;
    config.victim = 2;
    config.at = STEPS / 2;
    troupe_must(troupe_train(board_fit, &config, &result, .ranks = WORLD, .storage = storage,
                             .restarts = 1));
    for (int rank = 0; rank < WORLD; rank++) {
        assert_true(atomic_load(&where->restored[rank]) >= STEPS / 2 - 1);
        troupe_must(troupe_result_committed(board_state, result, rank, &now));
        assert_int_equal(now.rank, 0);
        assert_int_equal(now.step, STEPS);
    }
    troupe_result_free(&result);
}

static void assert_only_whole(troupe_result **result, int world)
{
    board_state now;
    for (int rank = 0; rank < world; rank++) {
        troupe_must(troupe_result_committed(board_state, *result, rank, &now));
        assert_int_equal(now.rank, rank);
        assert_int_equal(now.step, WHOLE_STEP);
    }
    troupe_result_free(result);
}

static void test_a_report_that_lacks_a_state_is_no_commit(void **state)
{
    (void)state;
    board_settings config = board_plain(where, NOT_ALL);
    troupe_result *result;
    troupe_must(troupe_train(board_fit, &config, &result, .ranks = WORLD, .storage = storage));
    assert_only_whole(&result, WORLD);
    // Of two ranks, where one has no room, the other is not rank 0 alone.
    config = board_plain(where, ONE_IS_TORN);
    config.steps = 8;
    troupe_must(troupe_train(board_fit, &config, &result, .ranks = 2, .storage = storage));
    assert_only_whole(&result, 2);
    assert_int_equal(atomic_load(&where->refused), config.steps - 1);
}

// With what never goes to disk.
static size_t fill_store(trp_object *held, size_t most)
{
    size_t count = 0;
    void *data;
    for (size_t size = 8 << 20; size > SMALL_BLOB / 4; size /= 2)
        while (count < most && trp_store_share(size, &held[count], &data) == TROUPE_OK)
            count++;
    return count;
}

static void test_a_full_store_leaves_the_last_commit(void **state)
{
    (void)state;
    (void)count_when_quiet(); // What an earlier run gives back would be room.
    trp_object held[256];
    board_settings config = board_plain(where, ONE_HAS_NO_ROOM);
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit(board_fit, &config, NULL, &job, .ranks = 2, .storage = storage));
    support_await_counter(&where->waiting, 1);
    size_t count = fill_store(held, sizeof held / sizeof *held);
    assert_in_range(count, 2, sizeof held / sizeof *held - 1);
    atomic_store(&where->full, 1);
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_string_equal(troupe_result_error(result), "");
    assert_int_equal(atomic_load(&where->refused), STEPS - WHOLE_STEP);
    assert_int_equal(troupe_result_reports(result), STEPS);
    assert_only_whole(&result, 2);
    troupe_job_close(&job);
    while (count > 0)
        trp_store_release(held[--count], trp_process_slot());
}

TROUPE_STRUCT(linked, (int, step), (troupe_ref, data));

static troupe_status commits_a_reference(troupe_rank *me)
{
    linked model = {.step = 1, .data = troupe_put_bytes("seven", 5)};
    troupe_status status = troupe_commit(linked, me, &model);
    troupe_ref_drop(model.data);
    return status == TROUPE_INVALID ? TROUPE_OK
                                    : troupe_fail(TROUPE_FAILED, "it was not refused: %d", status);
}
TROUPE_TRAINER(commits_a_reference);

static void test_a_state_with_references_is_refused(void **state)
{
    (void)state;
    troupe_result *result;
    troupe_must(troupe_train(commits_a_reference, NULL, &result, .storage = storage));
    troupe_result_free(&result);
}

// The newer of commit and checkpoint counts: the loop saves in every third step on disk, and
// commits up to a step.
static void test_the_newest_state_counts(void **state)
{
    (void)state;
    static const struct {
        int way, at, least, saved;
    } cases[] = {{COMMITS_AND_SAVES, 20, 19, 39}, {SAVES_AFTER_COMMITS, 30, 20, STEPS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        board_settings config = board_plain(where, cases[i].way);
        troupe_result *result;
        board_state now;
        config.victim = 0;
        config.at = cases[i].at;
        troupe_must(troupe_train(board_fit, &config, &result, .ranks = WORLD, .storage = storage,
                                 .keep = 2, .restarts = 1));
        for (int rank = 0; rank < WORLD; rank++) {
            assert_true(atomic_load(&where->restored[rank]) >= cases[i].least);
            troupe_must(
                troupe_checkpoint_load(board_state, troupe_result_checkpoint(result), rank, &now));
            board_assert_at(&now, rank, cases[i].saved);
        }
        troupe_result_free(&result);
    }
}

// ---- what they cost

enum { PACE_US = 1000, PACED = 500 };

// What a step computes is waited for: others may use the CPU meanwhile. What is measured is the
// CPU's time, which does not depend on them.
static troupe_status commits_often(troupe_rank *me)
{
    double weights[WEIGHTS] = {0};
    board_state now = {.rank = me->rank, .weights = {weights, WEIGHTS}};
    int64_t inside = 0;
    while (now.step < PACED) {
        usleep(PACE_US);
        TROUPE_TRY(troupe_barrier(me));
        now.step++;
        int64_t before = support_cpu_ns();
        TROUPE_TRY(troupe_commit(board_state, me, &now));
        TROUPE_TRY(troupe_report(me, {"inside_us", (double)inside / 1e3 / now.step}));
        inside += support_cpu_ns() - before;
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(commits_often);

// C20: a thousand a second, with keep = 1: below 5 % is below 50 us each.
static void test_a_thousand_commits_a_second_cost_little(void **state)
{
    (void)state;
    troupe_result *result;
    board_state now;
    troupe_must(
        troupe_train(commits_often, NULL, &result, .ranks = 2, .storage = storage, .keep = 1));
    double inside_us = troupe_result_metric(result, "inside_us");
    print_message("a commit and its report take %.1f us\n", inside_us);
    assert_true(inside_us > 0 && inside_us < MOST_US);
    troupe_must(troupe_result_committed(board_state, result, 1, &now));
    assert_int_equal(now.step, PACED);
    troupe_result_free(&result);
}

// ---- open reports

static trp_object make_state(int value)
{
    trp_object made;
    void *data;
    troupe_must(trp_store_create(sizeof value, 1, TRP_ENCODING_PARCEL, &made, &data));
    memcpy(data, &value, sizeof value);
    troupe_must(trp_store_seal(made));
    return made;
}

// The rank's process lets go of it once its report is sent.
static void give(trp_memory_commits *all, int world, int rank, int number, int value)
{
    trp_object made = make_state(value);
    trp_memory_commits_take(all, world, rank, number, made);
    trp_store_release(made, trp_process_slot());
}

static void test_states_are_held_until_another_commit(void **state)
{
    (void)state;
    uint64_t before = count_when_quiet();
    trp_memory_commits all = {0};
    for (int number = 1; number <= 100; number++) { // Rank 0 is ahead of the other.
        give(&all, 2, 0, number, number);
        if (number <= 30)
            continue;
        give(&all, 2, 1, number - 30, number);
        assert_true(trp_memory_commits_whole(&all, number - 30));
        assert_int_equal(all.last->report, number - 30);
        assert_int_equal(count_objects() - before, 30 + 2);
    }
    trp_memory_commit *held = trp_memory_commit_hold(all.last);
    trp_memory_commits_take(&all, 2, 1, 71, 0);
    assert_false(trp_memory_commits_whole(&all, 71)); // It is torn.
    trp_memory_commits_drop_open(&all);
    give(&all, 2, 1, 101, 1);
    assert_false(trp_memory_commits_whole(&all, 101)); // It lacks that of rank 0.
    assert_false(trp_memory_commits_whole(&all, 102)); // It has none at all.
    assert_int_equal(count_objects() - before, 2);
    give(&all, 2, 0, 103, 1);
    assert_true(trp_memory_commits_whole(&all, 103));
    assert_int_equal(count_objects() - before, 2 + 1);
    trp_memory_commits_clear(&all);
    assert_int_equal(count_objects() - before, 2);
    trp_memory_commit_release(held);
    assert_int_equal(count_objects(), before);
}

static void test_another_world_needs_states_that_are_alike(void **state)
{
    (void)state;
    const troupe_stages reshards = {.reshards = true};
    const troupe_trainer plain = {.name = "plain"}, other = {.name = "other", .stages = &reshards};
    trp_memory_commits all = {0};
    for (int rank = 0; rank < 2; rank++)
        give(&all, 2, rank, 1, 5);
    assert_true(trp_memory_commits_whole(&all, 1));
    assert_int_equal(trp_memory_commit_world(all.last, &plain, 3), TROUPE_OK);
    assert_true(trp_memory_commit_state(all.last, 2) == all.last->states[0]);
    for (int rank = 0; rank < 2; rank++)
        give(&all, 2, rank, 2, rank);
    assert_true(trp_memory_commits_whole(&all, 2));
    assert_int_equal(trp_memory_commit_world(all.last, &plain, 3), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "2 ranks committed a part"));
    assert_int_equal(trp_memory_commit_world(all.last, &plain, 2), TROUPE_OK);
    // Nobody could give it the parts of the others.
    assert_int_equal(trp_memory_commit_world(all.last, &other, 3), TROUPE_INVALID);
    trp_memory_commits_clear(&all);
}

// ---- the end of the runtime

static int arguments;
static char **argument;

static void test_a_commit_goes_with_its_runtime(void **state)
{
    (void)state;
    board_settings config = board_plain(where, COMMITS);
    troupe_result *result;
    board_state now;
    troupe_must(troupe_train(board_fit, &config, &result, .ranks = WORLD, .storage = storage));
    const troupe_trainer plain = {.name = "plain"};
    trp_memory_commits all = {0};
    for (int rank = 0; rank < 2; rank++)
        give(&all, 2, rank, 1, 5); // Alike.
    assert_true(trp_memory_commits_whole(&all, 1));
    troupe_must(troupe_stop());
    assert_int_equal(troupe_result_committed(board_state, result, 0, &now), TROUPE_NOT_STARTED);
    troupe_must(troupe_start(arguments, argument, .cpus = 4, .store_bytes_max = STORE_BYTES));
    assert_int_equal(troupe_result_committed(board_state, result, 0, &now), TROUPE_NOT_STARTED);
    assert_non_null(strstr(troupe_last_error()->text, "went with its runtime"));
    assert_int_equal(trp_memory_commit_world(all.last, &plain, 3), TROUPE_NOT_STARTED);
    trp_memory_commits_clear(&all);
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    where_begin(argc, argv);
    troupe_must(troupe_start(argc, argv, .cpus = 4, .store_bytes_max = STORE_BYTES));
    objects_at_first = count_objects();
    arguments = argc;
    argument = argv;
    storage = where_storage;
    where = board_open(where_folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_keep_the_newest_state_is_in_memory),
        cmocka_unit_test(test_a_commit_is_read_while_the_run_goes_on),
        cmocka_unit_test(test_a_run_without_commits_has_none),
        cmocka_unit_test(test_what_rank_0_alone_commits_is_that_of_all),
        cmocka_unit_test(test_a_report_that_lacks_a_state_is_no_commit),
        cmocka_unit_test(test_a_full_store_leaves_the_last_commit),
        cmocka_unit_test(test_a_state_with_references_is_refused),
        cmocka_unit_test(test_the_newest_state_counts),
        cmocka_unit_test(test_a_thousand_commits_a_second_cost_little),
        cmocka_unit_test(test_states_are_held_until_another_commit),
        cmocka_unit_test(test_another_world_needs_states_that_are_alike),
        cmocka_unit_test(test_a_commit_goes_with_its_runtime),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    board_close(where);
    failed |= troupe_stop();
    where_end();
    return failed;
}
