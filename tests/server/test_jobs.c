// test_jobs.c: what happens to jobs of the train server: submitted, granted, started, ended, lost,
// stopped, paused, and found again by the next server.
#include "shop.h"
#include <sys/mount.h>
#include <train/run_job.h>

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
    assert_non_null(strstr(troupe_last_error()->text, "config.walk.rate"));
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
    assert_int_equal(it.order.restarts_before, 1);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(it.launches, 2);
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    assert_int_equal(job->row.status, TROUPE_PEER_LOST);
    assert_non_null(strstr(job->row.error, "signal 9"));
    // Its folder says how many there were, as the books do.
    trp_arena arena = {0};
    trp_job_end end;
    assert_int_equal(trp_job_end_read(job->folder, &arena, &end), TROUPE_OK);
    assert_int_equal(end.restarts, 1);
    assert_int_equal(job->row.counted + job->row.restarts, 1);
    trp_arena_clear(&arena);
    shop_close(&it);
}

// Those of ranks, which a runner says of all attempts, and lost attempts are one number.
static void test_restarts_of_each_attempt_are_added_up(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .restarts = 5), TROUPE_OK);
    for (int lost = 0; lost < 2; lost++) {
        shop_turn(&it);
        assert_int_equal(it.order.restarts_before, 2 * lost);
        assert_int_equal(it.order.restarts_left, 5 - 2 * lost);
        assert_int_equal(shop_greet(&it, job), TROUPE_OK);
        trp_wire_progress progress = {TRP_JOB_RUNNING, 1, 7, 2 * lost + 1, 0, NULL, false};
        trp_jobs_progress(it.jobs, job, &progress);
        shop_die(&it, job);
    }
    shop_turn(&it);
    assert_int_equal(it.order.restarts_before, 4);
    assert_int_equal(it.order.restarts_left, 1);
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

// Its run is busy, say: as often as it takes, each time later, and by no restart.
static void test_an_attempt_that_cannot_begin_now_is_tried_again(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(it.launches, i);
        kill(job->process, SIGKILL);
        assert_int_equal(waitpid(job->process, NULL, 0), job->process);
        trp_jobs_exited(it.jobs, job, TRP_JOB_NO_END << 8);
        shop_turn(&it);
        assert_int_equal(job->row.state, TRP_JOB_QUEUED);
        shop_pass(&it, 900 * (1 << (i - 1)));
        assert_int_equal(it.launches, i); // Not yet.
        shop_pass(&it, 200 * (1 << (i - 1)));
    }
    assert_int_equal(job->row.counted, 0);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_end(&it, job, TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    shop_close(&it);
}

// What a server has is said at each start.
static void test_a_resource_that_is_gone_is_no_reason_not_to_start(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    it.resources = "license=1";
    shop_reopen(&it);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .resources = "license=1"),
                     TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &job, .submission = "b", .resources = "license=1"),
                     TROUPE_OK);
    shop_turn(&it);
    it.resources = NULL;
    shop_reopen(&it);
    job = shop_job(&it, "a"); // It runs, and its CPU is counted.
    assert_int_equal(job->row.state, TRP_JOB_STARTING);
    assert_non_null(job->ticket);
    job = shop_job(&it, "b");
    assert_int_equal(job->row.state, TRP_JOB_QUEUED);
    assert_true(job->row.paused);
    assert_non_null(strstr(job->row.why, "license"));
    it.resources = "license=1";
    shop_reopen(&it);
    assert_int_equal(shop_wish(&it, shop_job(&it, "b"), TRP_WISH_GO_ON, 0), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(it.launches, 1); // Behind the first one.
    shop_end(&it, shop_job(&it, "a"), TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(it.launches, 2);
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

#ifdef TROUPE_FAULTS
static char late_folder[512];
static pid_t late;

// A launcher of attempt 1 comes to the lock.
static void come_late(void)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    late = fork();
    if (late == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        shop_run(late_folder, 1, ready[1]);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
}

// The lock was seen to be free, and is taken before anything is done about that.
static void test_a_launcher_that_just_comes_is_the_run(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    snprintf(late_folder, sizeof late_folder, "%s", job->folder);
    kill(job->process, SIGKILL); // As if it had not come to the lock.
    assert_int_equal(waitpid(job->process, NULL, 0), job->process);
    trp_fault_call_at("before over", 1, come_late);
    shop_reopen(&it);
    shop_pass(&it, 100);
    job = shop_job(&it, "a");
    assert_int_equal(it.launches, 1);
    assert_int_equal(job->process, late);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_end(&it, job, TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(job->row.status, TROUPE_OK);
    shop_close(&it);
}
#endif

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

// F17.
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
    trp_arena arena = {0};
    trp_wire_job shown;
    (void)state;
    shop_open(&it, 1);
    it.refuses = TROUPE_NO_MEMORY;
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(it.launches, 1);
    assert_int_equal(trp_jobs_show(it.jobs, job, &arena, &shown), TROUPE_OK);
    assert_string_equal(shown.why, "it cannot be started now, and will be tried again: refused by "
                                   "the test");
    trp_arena_clear(&arena);
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

static void test_one_that_is_overdue_is_ended(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .limit_s = 100, .restarts = 1),
                     TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_pass(&it, 40000);
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(it.launches, 2);
    assert_true(it.order.elapsed_s > 39 && it.order.elapsed_s < 41); // Of its limit.
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    shop_pass(&it, 85000); // It has not seen to its limit, and has 30 s more.
    assert_int_equal(it.kills, 0);
    shop_pass(&it, 10000);
    assert_int_equal(it.kills, 1);
    shop_die(&it, job);
    shop_turn(&it);
    assert_int_equal(job->row.status, TROUPE_DEADLINE_EXCEEDED);
    assert_int_equal(it.launches, 2);
    shop_close(&it);
}

// F14.
static void test_lost_books_are_made_of_folders(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 2);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .key = "night"), TROUPE_OK);
    shop_turn(&it);
    shop_end(&it, job, TROUPE_OK, 3);
    shop_turn(&it);
    assert_int_equal(shop_submit(&it, &job, .submission = "b", .ranks = 2, .restarts = 4),
                     TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &job, .submission = "c", .priority = 6), TROUPE_OK);
    shop_turn(&it);
    shop_lose_books(&it);
    job = shop_job(&it, "a");
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    assert_int_equal(job->row.reports, 3);
    assert_string_equal(job->row.key, "night");
    job = shop_job(&it, "b"); // Its process is there.
    assert_int_equal(job->row.state, TRP_JOB_STARTING);
    assert_int_equal(job->row.attempt, 1);
    assert_int_equal(job->row.need.restarts, 4);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    job = shop_job(&it, "c"); // It may have been stopped: nobody knows.
    assert_true(job->row.paused);
    assert_int_equal(job->row.need.priority, 6);
    shop_end(&it, shop_job(&it, "b"), TROUPE_OK, 1);
    shop_turn(&it);
    assert_int_equal(it.launches, 2);
    assert_int_equal(shop_wish(&it, job, TRP_WISH_GO_ON, 0), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(it.launches, 3);
    // Numbers go on.
    assert_int_equal(shop_submit(&it, &job, .submission = "d"), TROUPE_OK);
    assert_int_equal(job->row.id, 4);
    shop_turn(&it);
    shop_reopen(&it);
    assert_int_equal(shop_job(&it, "a")->row.reports, 3);
    shop_close(&it);
}

static void test_folders_that_nobody_knows(void **state)
{
    shop it;
    trp_entry *job;
    char *half, *whole, *aside;
    (void)state;
    shop_open(&it, 1);
    half = support_path(it.folder, "jobs/00000008");
    whole = support_path(it.folder, "jobs/00000001");
    aside = support_path(it.folder, "jobs/00000001.lost");
    assert_int_equal(mkdir(half, 0700), 0);
    // Killed before the commit: the client sends again, and has another number then.
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_reopen(&it);
    assert_null(trp_jobs_by_submission(it.jobs, "a"));
    assert_false(support_exists(whole));
    assert_false(support_exists(half));
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    assert_int_equal(job->row.id, 9);
    shop_turn(&it);
    shop_end(&it, job, TROUPE_OK, 1);
    shop_turn(&it);
    // One that ran, and of which the books say nothing, is kept for people.
    char *ran = support_path(it.folder, "jobs/00000009");
    assert_int_equal(rename(ran, whole), 0);
    shop_reopen(&it);
    assert_false(support_exists(whole));
    assert_true(support_exists(aside));
    free(ran);
    free(half);
    free(whole);
    free(aside);
    shop_close(&it);
}

static void test_removed_jobs_are_remembered(void **state)
{
    shop it;
    trp_entry *job;
    trp_buffer said = {0};
    trp_wire_gc bounds = {.keep = 1};
    (void)state;
    shop_open(&it, 4);
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(shop_submit(&it, &job, .submission = name, .key = name), TROUPE_OK);
        shop_turn(&it);
        shop_end(&it, job, TROUPE_OK, 1);
        shop_turn(&it);
    }
    assert_int_equal(shop_submit(&it, &job, .submission = "runs"), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(trp_jobs_gc(it.jobs, &bounds, &said), TROUPE_OK);
    assert_null(trp_jobs_by_submission(it.jobs, "0"));
    assert_non_null(trp_jobs_by_submission(it.jobs, "2"));
    assert_non_null(trp_jobs_by_submission(it.jobs, "runs"));
    char *folder = support_path(it.folder, "jobs"), *run = support_path(it.storage, "0");
    assert_int_equal(support_count_files(folder), 2);
    assert_true(support_exists(run)); // What it made stays.
    free(folder);
    free(run);
    shop_reopen(&it);
    // A client that slept over all that does not run it again.
    assert_int_equal(shop_submit(&it, &job, .submission = "0"), TROUPE_NOT_FOUND);
    assert_int_equal(shop_submit(&it, &job, .submission = "new", .key = "1"), TROUPE_NOT_FOUND);
    bounds = (trp_wire_gc){.keys = true};
    assert_int_equal(trp_jobs_gc(it.jobs, &bounds, &said), TROUPE_OK);
    assert_int_equal(shop_submit(&it, &job, .submission = "0"), TROUPE_NOT_FOUND);
    assert_int_equal(shop_submit(&it, &job, .submission = "new", .key = "1"), TROUPE_OK);
    assert_int_equal(job->row.id, 5);
    shop_turn(&it);
    trp_buffer_free(&said);
    shop_close(&it);
}

static void claim(const shop *it, const char *submission, int64_t age_s)
{
    char run[600], job[620];
    trp_run_job what = {.submission = submission, .server = it->folder};
    snprintf(run, sizeof run, "%s/claim-%s", it->storage, submission);
    snprintf(job, sizeof job, "%s/job", run);
    assert_int_equal(mkdir(run, 0700), 0);
    assert_int_equal(trp_run_job_write(run, &what, true), TROUPE_OK);
    struct timespec at = {(time_t)it->unix_s - age_s, 0};
    assert_int_equal(utimensat(AT_FDCWD, job, (struct timespec[]){at, at}, 0), 0);
}

static bool is_claimed(const shop *it, const char *submission)
{
    char run[600];
    snprintf(run, sizeof run, "%s/claim-%s", it->storage, submission);
    return support_exists(run);
}

static void test_claims_that_no_job_came_for_go(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    claim(&it, "a", 7200);   // A job has it.
    claim(&it, "new", 60);   // Its client may be on the way.
    claim(&it, "old", 7200); // Nobody came.
    assert_int_equal(trp_jobs_sweep_claims(it.jobs), 1);
    assert_true(is_claimed(&it, "a"));
    assert_true(is_claimed(&it, "new"));
    assert_false(is_claimed(&it, "old"));
    shop_close(&it);
}

static void test_a_full_disk_refuses_submissions_alone(void **state)
{
    shop it;
    trp_entry *job;
    char *mounted = support_directory_make();
    (void)state;
    if (mount("tmpfs", mounted, "tmpfs", 0, "size=512k") != 0) {
        support_directory_remove(mounted);
        skip(); // Not allowed here.
    }
    shop_open(&it, 2);
    trp_jobs_close(it.jobs);
    char *folder = it.folder;
    it.folder = mounted;
    assert_int_equal(shop_try_open(&it), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_submit(&it, &job, .submission = "a"), TROUPE_OK);
    shop_turn(&it);
    char *filler = support_path(mounted, "filler");
    FILE *file = fopen(filler, "we");
    while (fputc('x', file) != EOF && fflush(file) == 0)
        continue;
    (void)fclose(file);
    assert_int_equal(shop_submit(&it, &job, .submission = "b"), TROUPE_NO_SPACE);
    assert_null(trp_jobs_by_submission(it.jobs, "b"));
    char *jobs = support_path(mounted, "jobs");
    assert_int_equal(support_count_files(jobs), 1);
    job = shop_job(&it, "a");
    shop_end(&it, job, TROUPE_OK, 2); // Its blocks were reserved.
    (void)trp_jobs_turn(it.jobs);     // Stored now, or once there is space.
    assert_int_equal(job->row.state, TRP_JOB_ENDED);
    assert_int_equal(unlink(filler), 0);
    shop_pass(&it, 1500);
    assert_false(job->dirty);
    assert_int_equal(shop_submit(&it, &job, .submission = "b"), TROUPE_OK);
    shop_turn(&it);
    shop_reopen(&it);
    assert_int_equal(shop_job(&it, "a")->row.reports, 2);
    shop_end(&it, shop_job(&it, "b"), TROUPE_OK, 2);
    trp_jobs_close(it.jobs);
    assert_int_equal(umount(mounted), 0);
    support_directory_remove(mounted);
    support_directory_remove(folder);
    support_directory_remove(it.storage);
    free(filler);
    free(jobs);
}

// As the keeper of a runner.
static pid_t hold_second_byte(const char *folder)
{
    char path[512], byte;
    int ready[2];
    snprintf(path, sizeof path, "%s/alive", folder);
    assert_int_equal(pipe(ready), 0);
    pid_t keeper = fork();
    if (keeper == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
        int fd = open(path, O_RDWR);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0)
            (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return keeper;
}

// Of a runner that is dead processes may be left, until its keeper has reaped the last of them.
static void test_an_attempt_is_over_when_its_keeper_is(void **state)
{
    shop it;
    trp_entry *job;
    (void)state;
    shop_open(&it, 1);
    assert_int_equal(shop_submit(&it, &job, .submission = "a", .restarts = 1), TROUPE_OK);
    shop_turn(&it);
    assert_int_equal(shop_greet(&it, job), TROUPE_OK);
    pid_t keeper = hold_second_byte(job->folder);
    shop_die(&it, job);
    shop_turn(&it);
    shop_pass(&it, 60000);
    assert_int_equal(it.launches, 1);
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(waitpid(keeper, NULL, 0), keeper);
    shop_pass(&it, 60000);
    assert_int_equal(it.launches, 2);
    shop_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_runs_to_its_end),
        cmocka_unit_test(test_a_submission_counts_once),
        cmocka_unit_test(test_two_jobs_never_have_one_folder),
        cmocka_unit_test(test_lost_attempts_are_counted),
        cmocka_unit_test(test_restarts_of_each_attempt_are_added_up),
        cmocka_unit_test(test_a_restart_of_the_server_costs_no_attempt),
        cmocka_unit_test(test_an_attempt_is_over_when_its_keeper_is),
        cmocka_unit_test(test_an_attempt_that_never_began_is_not_counted),
        cmocka_unit_test(test_an_attempt_that_cannot_begin_now_is_tried_again),
        cmocka_unit_test(test_a_resource_that_is_gone_is_no_reason_not_to_start),
        cmocka_unit_test(test_a_late_launcher_runs_nothing),
#ifdef TROUPE_FAULTS
        cmocka_unit_test(test_a_launcher_that_just_comes_is_the_run),
#endif
        cmocka_unit_test(test_a_stop_of_what_waits_ends_it),
        cmocka_unit_test(test_a_kill_that_is_not_followed_is_a_signal),
        cmocka_unit_test(test_a_pause_gives_all_back),
        cmocka_unit_test(test_a_launch_that_fails_is_tried_again),
        cmocka_unit_test(test_what_is_changed_lasts),
        cmocka_unit_test(test_one_that_is_overdue_is_ended),
        cmocka_unit_test(test_lost_books_are_made_of_folders),
        cmocka_unit_test(test_folders_that_nobody_knows),
        cmocka_unit_test(test_removed_jobs_are_remembered),
        cmocka_unit_test(test_claims_that_no_job_came_for_go),
        cmocka_unit_test(test_a_full_disk_refuses_submissions_alone),
    };
    support_allow_mounts();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
