// test_survivors.c: runs with commits in memory whose ranks are killed, hang or fail: the others
// keep their processes, and the numbers are those of an undisturbed run.
//
//     test_survivors [KILLS]     TROUPE_SEED says which moments and victims; it is printed
//
// timeout: 120
// cost: 5
// again: full slow 900 1000
#include "board.h"

#include <stdio.h>
#include <time.h>

enum { KILLS = 60, LATER_MS = 20000 };

static char *storage;
static board *where;
static int kills_wanted = KILLS;
static unsigned dice;

static bool is_whole(board_state *now, int rank)
{
    double weights[WEIGHTS];
    board_undisturbed(now->step, weights);
    return now->rank == rank && now->own == board_own(rank, now->step) &&
           memcmp(now->weights.items, weights, sizeof weights) == 0;
}

// At its end all is as if nothing had happened, and nothing was ever on disk.
static void check_end(troupe_job **job, int restarts)
{
    troupe_result *result;
    board_state now;
    troupe_must(troupe_job_wait(*job, LATER_MS, &result));
    assert_string_equal(troupe_result_error(result), "");
    assert_int_equal(troupe_result_reports(result), STEPS);
    if (restarts >= 0)
        assert_int_equal(troupe_result_restarts(result), restarts);
    for (int rank = 0; rank < WORLD; rank++) {
        troupe_must(troupe_result_committed(board_state, result, rank, &now));
        board_assert_end(&now, rank);
    }
    troupe_arena_reset();
    char *path = support_path(troupe_job_path(*job), "checkpoints");
    assert_int_equal(support_count_files(path), 0);
    free(path);
    troupe_result_free(&result);
    troupe_job_close(job);
    assert_int_equal(atomic_load(&where->wrong), 0);
}

static void submit(const board_settings *config, troupe_job **job, int restarts)
{
    troupe_must(troupe_submit(board_fit, config, NULL, job, .ranks = WORLD, .storage = storage,
                              .keep = TROUPE_NONE, .restarts = restarts));
}

// ---- one failure

// The line of the journal that the second attempt has.
static void assert_replaced(troupe_job *job, const char *ranks)
{
    char *path = support_path(troupe_job_path(job), "journal.jsonl"), wanted[64];
    char *text = support_read_file(path);
    snprintf(wanted, sizeof wanted, "\"memory\": true, \"replaced\": [%s]", ranks);
    const char *line = strstr(text, "{\"event\": \"attempt\", \"attempt\": 1,");
    assert_non_null(line);
    const char *found = strstr(line, wanted);
    assert_true(found != NULL && found < strchr(line, '\n'));
    free(text);
    free(path);
}

static int pids_before[WORLD];

// Runs until the second attempt, and says which processes are other ones then.
static void run_once(board_settings config, const bool *replaced, const char *ranks)
{
    troupe_job *job;
    config.step_us = 1000;
    config.gate_step = 3; // Nothing happens before the processes are known.
    submit(&config, &job, 1);
    for (int rank = 0; rank < WORLD; rank++)
        support_await_counter(&where->begun[rank], 1);
    for (int rank = 0; rank < WORLD; rank++)
        pids_before[rank] = atomic_load(&where->pids[rank]);
    atomic_store(&where->gate, 1);
    for (int rank = 0; rank < WORLD; rank++)
        support_await_counter(&where->begun[rank], 2);
    for (int rank = 0; rank < WORLD; rank++) {
        bool other = atomic_load(&where->pids[rank]) != pids_before[rank];
        assert_int_equal(other, replaced[rank]);
        assert_int_equal(atomic_load(&where->statics[rank]), replaced[rank] ? 0 : 1);
        assert_true(atomic_load(&where->restored[rank]) >= config.at - 1);
        if (other)
            assert_false(support_process_lives(pids_before[rank]));
    }
    assert_replaced(job, ranks);
    check_end(&job, 1);
}

static void test_the_other_ranks_keep_their_processes(void **state)
{
    (void)state;
    for (int victim = 0; victim < WORLD; victim++) {
        board_settings config = board_plain(where, SAVES);
        bool replaced[WORLD] = {false};
        char ranks[16];
        config.victim = victim;
        config.at = STEPS / 2;
        replaced[victim] = true;
        snprintf(ranks, sizeof ranks, "%d", victim);
        run_once(config, replaced, ranks);
    }
}

static void test_a_loop_that_fails_keeps_its_process(void **state)
{
    (void)state;
    board_settings config = board_plain(where, COMMITS);
    config.victim = 1;
    config.at = STEPS / 2;
    config.trouble = RETURNS;
    run_once(config, (bool[WORLD]){false}, "");
}

static void test_who_takes_no_notice_of_a_lost_peer_stays(void **state)
{
    (void)state;
    board_settings config = board_plain(where, COMMITS);
    config.victim = 2;
    config.at = STEPS / 2;
    config.trouble = TAKES_NO_NOTICE;
    run_once(config, (bool[WORLD]){[2] = true}, "2");
}

static void test_a_survivor_that_hangs_is_replaced(void **state)
{
    (void)state;
    static const int ways[] = {HANGS_LATER, STOPS_LATER};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        board_settings config = board_plain(where, COMMITS);
        config.victim = 1;
        config.at = STEPS / 2;
        config.trouble = ways[i];
        run_once(config, (bool[WORLD]){true, true}, "0, 1");
    }
}

static void test_without_a_commit_all_are_replaced(void **state)
{
    (void)state;
    board_settings config = board_plain(where, NOTHING);
    troupe_result *result;
    config.victim = 1;
    config.at = STEPS / 2;
    troupe_must(troupe_train(board_fit, &config, &result, .ranks = WORLD, .storage = storage,
                             .restarts = 1));
    for (int rank = 0; rank < WORLD; rank++)
        assert_int_equal(atomic_load(&where->statics[rank]), 0);
    troupe_result_free(&result);
}

// ---- beside checkpoints

static bool has_all_reports(void *job)
{
    troupe_job_status now;
    troupe_job_status_get((troupe_job *)job, &now);
    return now.reports == STEPS;
}

// The last report is made, its states are committed in memory, and a rank dies that has not written
// its part of the checkpoint: without more steps there would never be one.
static void test_a_last_checkpoint_that_was_lost_is_made_again(void **state)
{
    (void)state;
    for (int restarts = 1; restarts <= 2; restarts++) {
        board_settings config = board_plain(where, COMMITS_AND_SAVES);
        troupe_job *job;
        troupe_result *result;
        board_state now;
        config.trouble = DIES_WRITING;
        config.victim = 1;
        config.at = STEPS;
        troupe_must(troupe_submit(board_fit, &config, NULL, &job, .ranks = WORLD,
                                  .storage = storage, .restarts = restarts));
        assert_true(support_wait_until(has_all_reports, job, LATER_MS));
        atomic_store(&where->gate, 1);
        troupe_must(troupe_job_wait(job, LATER_MS, &result));
        assert_string_equal(troupe_result_error(result), "");
        assert_int_equal(troupe_result_restarts(result), restarts);
        int last = restarts == 1 ? STEPS - 1 : STEPS; // Where no restart is left, it stays lost.
        for (int rank = 0; rank < WORLD; rank++) {
            troupe_must(
                troupe_checkpoint_load(board_state, troupe_result_checkpoint(result), rank, &now));
            board_assert_at(&now, rank, last);
            troupe_must(troupe_result_committed(board_state, result, rank, &now));
            board_assert_end(&now, rank);
        }
        troupe_result_free(&result);
        troupe_job_close(&job);
    }
}

// ---- stages

static int starts, shutdowns, left[2];

static troupe_status count_start(troupe_group *group, const board_settings *config)
{
    (void)config;
    starts += group->left == WORLD;
    return TROUPE_OK;
}

static troupe_status count_shutdown(troupe_group *group, const board_settings *config)
{
    (void)config;
    if (shutdowns < 2)
        left[shutdowns] = group->left;
    shutdowns++;
    return TROUPE_OK;
}

static troupe_status count_setup(troupe_rank *me, const board_settings *config)
{
    board *there = board_map(config->path);
    if (there == NULL)
        return troupe_fail(TROUPE_IO, "no board at %s", config->path);
    atomic_fetch_add(&there->setups[me->rank], 1);
    munmap(there, sizeof *there);
    return TROUPE_OK;
}

static troupe_status count_teardown(troupe_rank *me, const board_settings *config)
{
    board *there = board_map(config->path);
    if (there == NULL)
        return troupe_fail(TROUPE_IO, "no board at %s", config->path);
    atomic_fetch_add(&there->teardowns[me->rank], 1);
    munmap(there, sizeof *there);
    return TROUPE_OK;
}

static troupe_status staged_fit(troupe_rank *me, const board_settings *config)
{
    return board_fit(me, config);
}
TROUPE_TRAINER(staged_fit, board_settings, .on_start = count_start, .on_shutdown = count_shutdown,
               .rank_setup = count_setup, .rank_teardown = count_teardown);

static void test_stages_are_those_of_each_attempt(void **state)
{
    (void)state;
    board_settings config = board_plain(where, COMMITS);
    troupe_result *result;
    config.victim = 1;
    config.at = STEPS / 2;
    troupe_must(troupe_train(staged_fit, &config, &result, .ranks = WORLD, .storage = storage,
                             .restarts = 1));
    assert_int_equal(starts, 2);
    assert_int_equal(shutdowns, 2);
    assert_int_equal(left[0], WORLD - 1);
    assert_int_equal(left[1], WORLD);
    for (int rank = 0; rank < WORLD; rank++) {
        assert_int_equal(atomic_load(&where->setups[rank]), 2);
        assert_int_equal(atomic_load(&where->teardowns[rank]), rank == config.victim ? 1 : 2);
        assert_int_equal(atomic_load(&where->statics[rank]), rank == config.victim ? 0 : 1);
    }
    troupe_result_free(&result);
}

// ---- the end of a run while there are survivors

// A survivor hangs, so that the group takes a second to be formed anew.
static void test_an_end_while_the_group_is_formed_anew_ends_all(void **state)
{
    (void)state;
    enum { STOPPED, KILLED_BY_USER, CLOSED, ENDS };
    for (int end = 0; end < ENDS; end++) {
        board_settings config = board_plain(where, COMMITS);
        troupe_job *job;
        troupe_result *result = NULL;
        int pids[WORLD];
        config.victim = 1;
        config.at = 5;
        config.trouble = HANGS_LATER;
        submit(&config, &job, 5);
        support_await_counter(&where->hangs, 1);
        for (int rank = 0; rank < WORLD; rank++)
            pids[rank] = atomic_load(&where->pids[rank]);
        if (end == STOPPED)
            troupe_job_stop(job);
        else if (end == KILLED_BY_USER)
            troupe_job_kill(job, TROUPE_CANCELLED, "enough");
        else
            troupe_job_close(&job);
        if (job != NULL) {
            troupe_must(troupe_job_wait(job, LATER_MS, &result));
            assert_int_equal(troupe_result_status(result),
                             end == STOPPED ? TROUPE_OK : TROUPE_CANCELLED);
            troupe_result_free(&result);
            troupe_job_close(&job);
        }
        assert_true(support_processes_end(pids, WORLD, SUPPORT_SOON_MS));
        assert_int_equal(atomic_load(&where->begun[2]), 1);
    }
}

// Its failures use up the restarts, and then nothing is left of it.
static void test_restarts_are_used_up_by_a_loop_that_fails(void **state)
{
    (void)state;
    board_settings config = board_plain(where, COMMITS);
    troupe_job *job;
    troupe_result *result;
    config.victim = 1;
    config.at = STEPS / 2;
    config.trouble = ALWAYS_RETURNS;
    submit(&config, &job, 3);
    troupe_must(troupe_job_wait(job, LATER_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_FAILED);
    assert_non_null(strstr(troupe_result_error(result), "its 3 restarts are used up"));
    assert_int_equal(troupe_result_restarts(result), 3);
    int pids[WORLD];
    for (int rank = 0; rank < WORLD; rank++) {
        assert_int_equal(atomic_load(&where->begun[rank]), 4);
        assert_int_equal(atomic_load(&where->statics[rank]), 3); // Always in the same process.
        pids[rank] = atomic_load(&where->pids[rank]);
    }
    assert_true(support_processes_end(pids, WORLD, SUPPORT_SOON_MS));
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// ---- at random

static int kills_made, kept, lost;

// Kills one rank or several, at once.
static void kill_some(void)
{
    int victims = rand_r(&dice) % 4 == 0 ? 2 : 1, first = rand_r(&dice) % WORLD;
    for (int i = 0; i < victims; i++) {
        int pid = atomic_load(&where->pids[(first + i) % WORLD]);
        if (pid > 0 && support_process_lives(pid) && kill(pid, SIGKILL) == 0)
            kills_made++;
    }
}

static bool is_done(troupe_job *job)
{
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    return now.state == TROUPE_JOB_DONE;
}

// What each job reads meanwhile is a commit, whatever happens.
static void read_commit(troupe_job *job)
{
    board_state now;
    int rank = rand_r(&dice) % WORLD;
    troupe_status status = troupe_job_committed(board_state, job, rank, &now);
    if (status == TROUPE_OK)
        assert_true(is_whole(&now, rank));
    else
        assert_int_equal(status, TROUPE_NOT_FOUND);
    troupe_arena_reset();
}

// A rank killed while it sends a state leaves the driver's hold on it, in some 100 ns of each
// commit (docs/internals/runtime/store.md), and seldom.
static bool is_released(void *before)
{
    troupe_store_usage usage;
    troupe_must(troupe_store_usage_get(&usage));
    return usage.objects <= *(const uint64_t *)before + (uint64_t)kills_made / 30;
}

static void test_random_kills_change_no_number(void **state)
{
    (void)state;
    troupe_store_usage before;
    troupe_must(troupe_store_usage_get(&before));
    for (int games = 0; kills_made < kills_wanted; games++) {
        board_settings config = board_plain(where, games % 2 ? SAVES : COMMITS);
        troupe_job *job;
        config.step_us = 500;
        submit(&config, &job, TROUPE_FOREVER);
        support_await_counter(&where->begun[WORLD - 1], 1);
        while (!is_done(job) && kills_made < kills_wanted) {
            usleep((useconds_t)(rand_r(&dice) % 30000));
            read_commit(job);
            kill_some();
        }
        check_end(&job, -1);
        for (int rank = 0; rank < WORLD; rank++) {
            kept += atomic_load(&where->kept[rank]);
            lost += atomic_load(&where->begun[rank]) - atomic_load(&where->kept[rank]);
        }
    }
    print_message("%d kills; loops began %d times in a process that was kept, %d times in a new "
                  "one\n",
                  kills_made, kept, lost);
    assert_true(kept > 0);
    if (!support_wait_until(is_released, &before.objects, SUPPORT_SOON_MS)) {
        char command[256], output[8192];
        snprintf(command, sizeof command, "'%s' memory %d", support_setting("TROUPE_TOOL"),
                 (int)getpid());
        (void)support_run(command, output, sizeof output);
        support_fail_output(output, "%llu objects were there before",
                            (unsigned long long)before.objects);
    }
}

int main(int argc, char **argv)
{
    const char *seed = getenv("TROUPE_SEED");
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    dice = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)time(NULL);
    if (argc > 1)
        kills_wanted = atoi(argv[1]);
    print_message("TROUPE_SEED=%u\n", dice);
    storage = support_directory_make();
    where = board_open(storage);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_other_ranks_keep_their_processes),
        cmocka_unit_test(test_a_loop_that_fails_keeps_its_process),
        cmocka_unit_test(test_who_takes_no_notice_of_a_lost_peer_stays),
        cmocka_unit_test(test_a_survivor_that_hangs_is_replaced),
        cmocka_unit_test(test_without_a_commit_all_are_replaced),
        cmocka_unit_test(test_a_last_checkpoint_that_was_lost_is_made_again),
        cmocka_unit_test(test_stages_are_those_of_each_attempt),
        cmocka_unit_test(test_an_end_while_the_group_is_formed_anew_ends_all),
        cmocka_unit_test(test_restarts_are_used_up_by_a_loop_that_fails),
        cmocka_unit_test(test_random_kills_change_no_number),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    board_close(where);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
