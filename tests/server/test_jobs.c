// test_jobs.c: what happens to jobs of the train server: submitted, granted, started, ended, lost,
// stopped, paused, and found again by the next server.
#include "shop.h"

static void test_a_job_runs_to_its_end(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 4);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .ranks = 2), TROUPE_OK);
    assert_int_equal(it.launches, 0); // Not before it is stored.
    shop_turn(&it);
    assert_int_equal(it.launches, 1);
    assert_int_equal(it.order.attempt, 1);
    assert_int_equal(it.order.ranks, 2);
    assert_int_equal(job->row.state, TRP_JOB_STARTING);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(job->state, TRP_JOB_RUNNING);
    shop_end(&it, job, TROUPE_OK, 5);
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    assert_int_equal(job->row.status, TROUPE_OK);
    assert_int_equal(job->row.reports, 5);
    assert_int_equal(trp_jobs_under_way(it.jobs), 0);
    shop_reopen(&it);
    job = shop_job(&it, "a");
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    assert_int_equal(job->row.reports, 5);
    char *launch = support_path(job->folder, "launch");
    assert_false(support_exists(launch)); // It had secrets.
    free(launch);
    shop_close(&it);
}

static void test_a_submission_counts_once(void **state)
{
    shop it;
    trp_entry *job, *same;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .key = "night"), TROUPE_OK);
    // In one turn, before anything is stored.
    assert_int_equal(shop_submit(&it, &same, .submission = "a", .key = "night"), TROUPE_OK);
    assert_ptr_equal(job, same);
    assert_int_equal(shop_submit(&it, &same, .submission = "b", .key = "night"), TROUPE_OK);
    assert_ptr_equal(job, same);
    shop_turn(&it);
    assert_int_equal(shop_submit(&it, &same, .submission = "c", .key = "night", .rate = 0.5),
                     TROUPE_EXISTS);
    assert_ptr_equal(job, same);
    assert_non_null(strstr(troupe_last_error()->text, "config.rate"));
    assert_int_equal(shop_submit(&it, &same, .submission = "d", .key = "night", .ranks = 2),
                     TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, ".ranks"));
    shop_end(&it, job, TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(shop_submit(&it, &same, .submission = "e", .key = "night"), TROUPE_OK);
    assert_ptr_equal(job, same); // Ended or not.
    shop_reopen(&it);
    assert_int_equal(shop_submit(&it, &same, .submission = "f", .key = "night"), TROUPE_OK);
    assert_int_equal(same->row.id, 1);
    assert_int_equal(it.launches, 1);
    // Its key can be given up, for another one.
    assert_int_equal(shop_wish(&it, same, TRP_WISH_FORGET, 0), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &same, .submission = "g", .key = "night"), TROUPE_OK);
    assert_int_equal(same->row.id, 2);
    shop_turn(&it);
    shop_close(&it);
}

static void test_two_jobs_never_have_one_folder(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &job, .submission = "b", .run = "a"), TROUPE_BUSY);
    shop_turn(&it);
    shop_close(&it);
}

static void test_lost_attempts_are_counted(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .restarts = 1), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    assert_int_equal(it.order.restarts_left, 1);
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(it.launches, 2);
    assert_int_equal(job->row.attempt, 2);
    assert_int_equal(it.order.restarts_left, 0);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(it.launches, 2);
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    assert_int_equal(job->row.status, TROUPE_PEER_LOST);
    assert_non_null(strstr(job->row.error, "signal 9"));
    shop_close(&it);
}

static void test_a_restart_of_the_server_costs_no_attempt(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_turn(&it);
    pid_t process = job->process;
    shop_reopen(&it); // It still has the lock: it is the run.
    job = shop_job(&it, "a");
    assert_int_equal(job->row.state, TRP_JOB_STARTING);
    assert_int_equal(job->process, process);
    shop_pass(&it, 3600000); // However long it says nothing.
    assert_int_equal(it.launches, 1);
    assert_int_equal(it.kills, 0);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_end(&it, job, TROUPE_FAILED, 0);
    shop_turn(&it);
    assert_int_equal(job->row.status, TROUPE_FAILED);
    assert_string_equal(job->row.error, "the loop failed");
    shop_close(&it);
}

static void test_an_attempt_that_never_began_is_not_counted(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    for (int i = 1; i <= 3; i++) {
        shop_turn(&it);
        assert_int_equal(it.launches, i);
        assert_int_equal(job->row.attempt, i);
        kill(job->process, SIGKILL);
        assert_int_equal(waitpid(job->process, NULL, 0), job->process);
        shop_reopen(&it); // Nobody has seen how it ended.
        job = shop_job(&it, "a");
    }
    assert_int_equal(job->row.state, TRP_JOB_ENDED); // But not for ever.
    assert_int_equal(job->row.status, TROUPE_PEER_LOST);
    shop_close(&it);
}

static void test_a_late_launcher_runs_nothing(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .restarts = 5), TROUPE_OK);
    shop_turn(&it);
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(job->row.attempt, 2);
    shop_die(&it, job);
    // Attempt 1 comes only now, before attempt 3.
    pid_t late = fork();
    if (late == 0)
        shop_run(job->folder, 1, -1);
    assert_int_equal(waitpid(late, NULL, 0), late);
    shop_turn(&it);
    assert_int_equal(job->row.attempt, 3);
    assert_int_equal(it.launches, 3);
    trp_entry *found;
    trp_wire_runner old = {.job = job->row.id, .attempt = 2};
    assert_int_equal(trp_jobs_greet(it.jobs, &old, job->process, &found), TROUPE_STOPPED);
    old.attempt = 3; // Not the one that has the lock.
    assert_int_equal(trp_jobs_greet(it.jobs, &old, getpid(), &found), TROUPE_STOPPED);
    shop_close(&it);
}

static void test_a_stop_of_what_waits_ends_it(void **state)
{
    shop it;
    trp_entry *first, *second;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &first, .submission = "a"), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &second, .submission = "b"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(second->row.state, TRP_JOB_QUEUED);
    assert_int_equal(shop_wish(&it, second, TRP_WISH_STOP, 0), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(second->row.state, TRP_JOB_ENDED);
    assert_true(second->row.stopped);
    assert_int_equal(second->row.status, TROUPE_OK);
    // What is asked of an ended one changes nothing, or is refused.
    assert_int_equal(shop_wish(&it, second, TRP_WISH_STOP, 0), TROUPE_OK);
    assert_int_equal(shop_wish(&it, second, TRP_WISH_RANKS, 2), TROUPE_STOPPED);
    // One that runs is told, and is not started again where it dies.
    assert_int_equal(shop_greet(&it, first), TROUPE_OK);
    assert_int_equal(shop_wish(&it, first, TRP_WISH_STOP, 0), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(first->row.state, TRP_JOB_STARTING);
    shop_reopen(&it);
    first = shop_job(&it, "a");
    assert_true(first->row.stop);
    shop_die(&it, first);
    shop_turn(&it);
    assert_int_equal(first->row.state, TRP_JOB_ENDED);
    assert_true(first->row.stopped);
    shop_close(&it);
}

static void test_a_kill_that_is_not_followed_is_a_signal(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .restarts = 9), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    trp_entry *found;
    trp_wire_wish wish = {.of = {.job = job->row.id},
                          .wish = TRP_WISH_KILL,
                          .number = TROUPE_DEADLINE_EXCEEDED,
                          .text = "it took too long"};
    assert_int_equal(trp_jobs_wish(it.jobs, &wish, &found), TROUPE_OK);
    shop_turn(&it);
    shop_pass(&it, 1000);
    assert_int_equal(it.kills, 0);
    shop_pass(&it, 1500);
    assert_int_equal(it.kills, 1);
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(job->row.status, TROUPE_DEADLINE_EXCEEDED);
    assert_string_equal(job->row.error, "it took too long");
    assert_int_equal(it.launches, 1);
    shop_close(&it);
}

static void test_a_pause_gives_all_back(void **state)
{
    shop it;
    trp_entry *first, *second;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &first, .submission = "a"), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &second, .submission = "b"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, first), TROUPE_OK);
    assert_int_equal(shop_wish(&it, first, TRP_WISH_PAUSE, 0), TROUPE_OK);
    shop_turn(&it);
    shop_die(&it, first); // Without an end, as a pause.
    shop_turn(&it);
    assert_true(first->row.paused);
    assert_int_equal(second->row.state, TRP_JOB_STARTING);
    shop_reopen(&it);
    first = shop_job(&it, "a");
    second = shop_job(&it, "b");
    assert_true(first->row.paused);
    shop_end(&it, second, TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(it.launches, 2); // It still waits.
    assert_int_equal(shop_wish(&it, first, TRP_WISH_GO_ON, 0), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(it.launches, 3);
    assert_int_equal(first->row.attempt, 2);
    assert_int_equal(first->row.counted, 0);
    shop_close(&it);
}

static void test_a_launch_that_fails_is_tried_again(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    it.refuses = TROUPE_NO_MEMORY;
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(it.launches, 1);
    shop_pass(&it, 500);
    assert_int_equal(it.launches, 1);
    shop_pass(&it, 1000);
    assert_int_equal(it.launches, 2);
    it.refuses = TROUPE_OK;
    shop_pass(&it, 2500);
    assert_int_equal(it.launches, 3);
    assert_int_equal(job->row.attempt, 1); // Still the first.
    shop_end(&it, job, TROUPE_OK, 1);
    shop_turn(&it);
    it.refuses = TROUPE_INVALID; // The program is another one by now.
    assert_int_equal(shop_submit(&it, &job, .submission = "b"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    assert_int_equal(job->row.status, TROUPE_INVALID);
    assert_string_equal(job->row.error, "refused by the test");
    shop_close(&it);
}

static void test_what_is_changed_lasts(void **state)
{
    shop it;
    trp_entry *first, *job, *found;
    trp_arena arena = {0};
    trp_wire_wishes wishes;
    (void)state;
    shop_open(&it, 2);
    assert_int_equal(shop_submit(&it, &first, .submission = "a", .ranks = 2), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &job, .submission = "b", .ranks = 2), TROUPE_OK);
    shop_turn(&it);
    trp_wire_wish live = {.wish = TRP_WISH_LIVE, .member = "rate", .value = "0.5"};
    live.of.job = job->row.id;
    assert_int_equal(trp_jobs_wish(it.jobs, &live, &found), TROUPE_OK);
    live.value = "0.25"; // The newest counts.
    assert_int_equal(trp_jobs_wish(it.jobs, &live, &found), TROUPE_OK);
    live.value = "half";
    assert_int_equal(trp_jobs_wish(it.jobs, &live, &found), TROUPE_INVALID);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_RANKS, 1), TROUPE_OK);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_PRIORITY, 7), TROUPE_OK);
    shop_turn(&it);
    shop_reopen(&it);
    job = shop_job(&it, "b");
    assert_int_equal(trp_jobs_wishes(job, &arena, &wishes), TROUPE_OK);
    assert_int_equal(wishes.revision, 4);
    assert_int_equal(wishes.live.count, 1);
    assert_string_equal(wishes.live.items[0].value, "0.25");
    assert_int_equal(wishes.live.items[0].revision, 2);
    assert_int_equal(wishes.ranks, 1);
    assert_int_equal(job->row.need.priority, 7);
    shop_end(&it, shop_job(&it, "a"), TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(it.order.ranks, 1);
    trp_arena_clear(&arena);
    shop_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_runs_to_its_end),
        cmocka_unit_test(test_a_submission_counts_once),
        cmocka_unit_test(test_two_jobs_never_have_one_folder),
        cmocka_unit_test(test_lost_attempts_are_counted),
        cmocka_unit_test(test_a_restart_of_the_server_costs_no_attempt),
        cmocka_unit_test(test_an_attempt_that_never_began_is_not_counted),
        cmocka_unit_test(test_a_late_launcher_runs_nothing),
        cmocka_unit_test(test_a_stop_of_what_waits_ends_it),
        cmocka_unit_test(test_a_kill_that_is_not_followed_is_a_signal),
        cmocka_unit_test(test_a_pause_gives_all_back),
        cmocka_unit_test(test_a_launch_that_fails_is_tried_again),
        cmocka_unit_test(test_what_is_changed_lasts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
