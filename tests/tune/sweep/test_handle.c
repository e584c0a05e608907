// test_handle.c: a sweep that runs beside its caller: what can be asked of it meanwhile.
#include "follow.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <runtime/base/clock.h>
#include <stdatomic.h>
#include <unistd.h>

static void (*stop_of_jobs)(troupe_job *job) = fake_stop;

static troupe_status start(troupe_sweep **sweep, troupe_tune_options how)
{
    how.size = sizeof how;
    how.metric = "loss";
    how.goal = TROUPE_MINIMIZE;
    how.search = TROUPE_SEARCH_RANDOM;
    troupe_train_options train = {.size = sizeof train, .storage = storage};
    how.train = &train;
    static trp_sweep_port port; // The sweep's as long as that is there.
    port = fake_port;
    port.stop = stop_of_jobs;
    return trp_sweep_begin(&port, &fit, space, ROWS, sweep, &how);
}
#define START(sweep, ...) start((sweep), (troupe_tune_options){__VA_ARGS__})

// Jobs that run wait at the end of a report, until it is opened.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int most; // Reports that may be made, of all jobs together.
    int made;
} door = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static double at_the_door(const fake_settings *config, int report)
{
    pthread_mutex_lock(&door.lock);
    while (door.made >= door.most)
        pthread_cond_wait(&door.opened, &door.lock);
    door.made++;
    pthread_mutex_unlock(&door.lock);
    return fake_quadratic(config, report);
}

static void open_door(int most)
{
    pthread_mutex_lock(&door.lock);
    door.most = most;
    door.made = most == 0 ? 0 : door.made;
    pthread_cond_broadcast(&door.opened);
    pthread_mutex_unlock(&door.lock);
}

// As many jobs as can be at once. None of them ends before they are: the door is shut.
static bool all_are_submitted(void *count)
{
    pthread_mutex_lock(&fake.lock);
    bool are = fake.submitted == *(const int *)count;
    pthread_mutex_unlock(&fake.lock);
    return are;
}

static bool two_have_ended(void *user)
{
    int ended = 0;
    for (size_t i = 0; i < troupe_sweep_count(user); i++)
        ended += troupe_sweep_trial(user, i)->state == TROUPE_TRIAL_TERMINATED;
    return ended == 2;
}

static bool two_are_open(void *user)
{
    (void)user;
    pthread_mutex_lock(&fake.lock);
    bool are = fake.open == 2;
    pthread_mutex_unlock(&fake.lock);
    return are;
}

// Jobs that have ended are closed while the others are long.
static void test_handles_are_closed_while_nothing_happens(void **state)
{
    (void)state;
    enum { EACH = 9, MORE = 2 };
    int most = 3; // At once.
    troupe_sweep *sweep;
    fake_open(2);
    fake.curve = at_the_door;
    open_door(0);
    ok(START(&sweep, .trials = 4));
    assert_true(support_wait_until(all_are_submitted, &most, SUPPORT_SOON_MS));
    open_door(2 * EACH + MORE); // Of the first two, which report in turn.
    assert_true(support_wait_until(two_have_ended, sweep, SUPPORT_SOON_MS));
    assert_true(support_wait_until(two_are_open, NULL, SUPPORT_SOON_MS));
    open_door(INT_MAX);
    ok(troupe_sweep_wait(sweep, -1));
    troupe_sweep_free(&sweep);
    fake_shut();
}

static bool has_reports(void *user)
{
    const troupe_trial *trial = troupe_sweep_trial(user, 0);
    return trial != NULL && trial->reports >= 2;
}

static void test_a_sweep_runs_beside_its_caller(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    open_door(0);
    fake_open(1);
    fake.curve = at_the_door;
    ok(START(&sweep, .trials = 3, .concurrent = 1));
    assert_int_equal(troupe_sweep_wait(sweep, 10), TROUPE_TIMED_OUT);
    assert_int_equal(troupe_sweep_wait(sweep, 0), TROUPE_TIMED_OUT);
    assert_null(troupe_sweep_best(sweep));
    open_door(2);
    assert_true(support_wait_until(has_reports, sweep, SUPPORT_SOON_MS));
    const troupe_trial *then = troupe_sweep_trial(sweep, 0);
    assert_int_equal(then->state, TROUPE_TRIAL_RUNNING);
    assert_int_equal(then->reports, 2);
    assert_null(then->result);
    assert_string_equal(troupe_sweep_best(sweep)->name, then->name);
    assert_true(troupe_sweep_elapsed_s(sweep) > 0);
    open_door(1000);
    ok(troupe_sweep_wait(sweep, -1));
    ok(troupe_sweep_wait(sweep, 0));    // The same once more.
    assert_int_equal(then->reports, 2); // It is what it was.
    assert_int_equal(troupe_sweep_count(sweep), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_TERMINATED);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_stop_ends_what_runs_and_begins_nothing(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    open_door(0);
    fake_open(1);
    fake.curve = at_the_door;
    ok(START(&sweep, .trials = 50, .concurrent = 2));
    open_door(2);
    assert_true(support_wait_until(has_reports, sweep, SUPPORT_SOON_MS));
    troupe_sweep_stop(sweep);
    open_door(1000);
    ok(troupe_sweep_wait(sweep, -1));
    size_t count = troupe_sweep_count(sweep);
    assert_in_range(count, 1, 3);
    const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
    if (trial->reports < 9)
        assert_int_equal(trial->state, TROUPE_TRIAL_STOPPED);
    assert_int_equal(troupe_sweep_add(sweep, 1), TROUPE_STOPPED);
    troupe_sweep_stop(sweep);
    troupe_sweep_pause(sweep);
    troupe_sweep_go_on(sweep);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static atomic_bool is_stopping, is_read;

// A train server is away, and a job that is asked to stop waits for it.
static void slow_stop(troupe_job *job)
{
    atomic_store(&is_stopping, true);
    for (int i = 0; i < SUPPORT_SOON_MS && !atomic_load(&is_read); i++)
        usleep(1000);
    fake_stop(job);
}

static bool has_flag(void *flag)
{
    return atomic_load((atomic_bool *)flag);
}

static void test_a_sweep_is_read_while_its_jobs_are_asked_to_stop(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    open_door(0);
    fake_open(1);
    fake.curve = at_the_door;
    stop_of_jobs = slow_stop;
    ok(START(&sweep, .trials = 2, .concurrent = 1));
    open_door(2);
    assert_true(support_wait_until(has_reports, sweep, SUPPORT_SOON_MS));
    troupe_sweep_stop(sweep);
    assert_true(support_wait_until(has_flag, &is_stopping, SUPPORT_SOON_MS));
    int64_t begun_ms = trp_clock_ms();
    assert_int_equal(troupe_sweep_count(sweep), 1);
    assert_true(trp_clock_ms() - begun_ms < SUPPORT_SOON_MS / 2);
    atomic_store(&is_read, true);
    open_door(1000);
    ok(troupe_sweep_wait(sweep, -1));
    stop_of_jobs = fake_stop;
    troupe_sweep_free(&sweep);
    fake_shut();
}

static bool was_asked_to_pause(void *user)
{
    (void)user;
    pthread_mutex_lock(&fake.lock);
    bool was = fake.seen[0].pauses > 0;
    pthread_mutex_unlock(&fake.lock);
    return was;
}

static bool both_were_asked_to_pause(void *user)
{
    (void)user;
    pthread_mutex_lock(&fake.lock);
    bool were = fake.seen[0].pauses > 0 && fake.seen[1].pauses > 0;
    pthread_mutex_unlock(&fake.lock);
    return were;
}

static bool is_paused(void *user)
{
    for (size_t i = 0; i < 2; i++)
        if (troupe_sweep_trial(user, i)->state != TROUPE_TRIAL_PAUSED)
            return false;
    return true;
}

static bool first_is_paused(void *user)
{
    const troupe_trial *trial = troupe_sweep_trial(user, 0);
    return trial->state == TROUPE_TRIAL_PAUSED && trial->reports == 3;
}

static bool second_reports(void *user)
{
    const troupe_trial *trial = troupe_sweep_trial(user, 1);
    return trial != NULL && trial->reports >= 1;
}

static bool second_is_to_stop(void *user)
{
    (void)user;
    pthread_mutex_lock(&fake.lock);
    bool is = fake.jobs[1] != NULL && fake.jobs[1]->stop;
    pthread_mutex_unlock(&fake.lock);
    return is;
}

// The scheduler pauses a trial that is to be paused with the sweep already: it stays so when the
// sweep goes on, and when that is stopped.
static void test_a_trial_that_both_pause_is_the_schedulers(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE}};
    troupe_sweep *sweep;
    open_door(0);
    fake_open(1);
    fake.curve = at_the_door;
    fake.overrun = 1;
    ok(START(&sweep, .trials = 2, .concurrent = 1, .scheduler = follow(steps, 1, NULL, 0)));
    open_door(2);
    assert_true(support_wait_until(has_reports, sweep, SUPPORT_SOON_MS));
    troupe_sweep_pause(sweep);
    assert_true(support_wait_until(was_asked_to_pause, NULL, SUPPORT_SOON_MS));
    open_door(4); // On the way to the pause there is one where the scheduler says so, and one more.
    assert_true(support_wait_until(first_is_paused, sweep, SUPPORT_SOON_MS));
    troupe_sweep_go_on(sweep);
    open_door(5);
    assert_true(support_wait_until(second_reports, sweep, SUPPORT_SOON_MS));
    troupe_sweep_stop(sweep);
    assert_true(support_wait_until(second_is_to_stop, NULL, SUPPORT_SOON_MS));
    open_door(1000);
    ok(troupe_sweep_wait(sweep, -1));
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_PAUSED);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_STOPPED);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_pause_holds_all_and_more_trials_come(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    open_door(0);
    fake_open(1);
    fake.curve = at_the_door;
    ok(START(&sweep, .trials = 2, .concurrent = 2));
    open_door(2);
    assert_true(support_wait_until(has_reports, sweep, SUPPORT_SOON_MS));
    troupe_sweep_pause(sweep);
    assert_true(support_wait_until(both_were_asked_to_pause, NULL, SUPPORT_SOON_MS));
    open_door(1000);
    assert_true(support_wait_until(is_paused, sweep, SUPPORT_SOON_MS));
    assert_int_equal(troupe_sweep_wait(sweep, 20), TROUPE_TIMED_OUT);
    int made = troupe_sweep_trial(sweep, 0)->reports;
    assert_in_range(made, 2, 8);
    assert_int_equal(troupe_sweep_add(sweep, 0), TROUPE_INVALID);
    assert_int_equal(troupe_sweep_add(sweep, 1000000), TROUPE_INVALID);
    ok(troupe_sweep_add(sweep, 3));
    assert_int_equal(troupe_sweep_wait(sweep, 20), TROUPE_TIMED_OUT);
    assert_int_equal(troupe_sweep_count(sweep), 2);
    troupe_sweep_go_on(sweep);
    ok(troupe_sweep_wait(sweep, -1));
    assert_int_equal(troupe_sweep_count(sweep), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_TERMINATED);
        assert_int_equal(troupe_sweep_trial(sweep, i)->reports, 9);
    }
    assert_int_equal(fake.submitted, 5);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// What is asked to stop can do so from then on.
static void stop_and_open(troupe_job *job)
{
    fake_stop(job);
    open_door(1000);
}

static void test_one_that_runs_can_be_freed(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    open_door(0);
    fake_open(1);
    fake.curve = at_the_door;
    stop_of_jobs = stop_and_open;
    ok(START(&sweep, .trials = 40));
    open_door(2);
    assert_true(support_wait_until(has_reports, sweep, SUPPORT_SOON_MS));
    troupe_sweep_free(&sweep);
    assert_null(sweep);
    assert_int_equal(fake.submitted, 2); // The one that runs, and the one that waits for its CPU.
    stop_of_jobs = fake_stop;
    fake_shut(); // Nothing was left.
}

// ---- when it stops by itself

static bool first_is_asked_to_stop(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&fake.lock);
    bool asked = fake.submitted > 0 && (fake.jobs[0] == NULL || fake.jobs[0]->stop);
    pthread_mutex_unlock(&fake.lock);
    return asked;
}

// G11: its time may be over before the first trial runs.
static void test_a_sweep_ends_with_its_time(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    open_door(0);
    fake_open(1);
    fake.curve = at_the_door;
    ok(START(&sweep, .trials = 50, .time_budget_s = 0.05));
    assert_true(support_wait_until(first_is_asked_to_stop, NULL, SUPPORT_SOON_MS));
    assert_true(troupe_sweep_elapsed_s(sweep) >= 0.05);
    open_door(1000);
    ok(troupe_sweep_wait(sweep, SUPPORT_SLOWER * SUPPORT_SOON_MS));
    const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
    assert_int_equal(trial->state, TROUPE_TRIAL_STOPPED);
    assert_in_range(trial->reports, 0, 1); // One may be on its way.
    assert_in_range(troupe_sweep_count(sweep), 1, 2);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static double by_hidden(const fake_settings *config, int report)
{
    return config->hidden - report;
}

static void test_a_sweep_ends_when_it_is_good_enough(void **state)
{
    (void)state;
    const double target = 32 - 5;
    troupe_sweep *sweep;
    fake_open(1);
    fake.curve = by_hidden;
    ok(START(&sweep, .trials = 100, .concurrent = 1, .target = &target));
    (void)troupe_sweep_best(sweep); // While it runs.
    ok(troupe_sweep_wait(sweep, -1));
    const troupe_trial *best = troupe_sweep_best(sweep);
    assert_true(best->best_metric <= target);
    assert_in_range(troupe_sweep_count(sweep), 1, 30);
    assert_int_equal(((const fake_settings *)best->config)->hidden, 32);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_sweep_ends_when_nothing_gets_better(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(1);
    fake.curve = by_hidden; // There are three values: soon it is none that is new.
    ok(START(&sweep, .trials = 100, .concurrent = 1, .patience = 4));
    ok(troupe_sweep_wait(sweep, -1));
    size_t count = troupe_sweep_count(sweep), last = 0;
    double best = INFINITY;
    for (size_t i = 0; i < count; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        last = trial->best_metric < best && trial->reports == 9 ? i : last;
        best = fmin(best, trial->best_metric);
    }
    assert_int_equal(count, last + 1 + 4);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// ---- several objectives

static double trade(const fake_settings *config, int report)
{
    (void)report;
    return config->rate;
}

static void test_a_front_is_what_no_other_is_better_than(void **state)
{
    (void)state;
    static const troupe_objective two[] = {{"loss", TROUPE_MINIMIZE}, {"epoch", TROUPE_MAXIMIZE}};
    static const troupe_param rows[] = {TROUPE_UNIFORM(fake_settings, rate, 0, 1),
                                        TROUPE_CHOICE(fake_settings, epochs, 1)};
    troupe_sweep *sweep;
    size_t count;
    fake_open(1);
    fake.curve = trade;
    ok(trp_sweep_run(
        &fake_port, &fit, rows, 2, &sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .objectives = two,
                               .objective_count = 2,
                               .search = TROUPE_SEARCH_RANDOM,
                               .trials = 20,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
    // All have the same second value: the best by the first alone is left.
    const troupe_trial *const *front = troupe_sweep_front(sweep, &count);
    assert_non_null(front);
    assert_int_equal(count, 1);
    assert_ptr_equal(front[0], troupe_sweep_best(sweep));
    troupe_sweep_free(&sweep);
    fake_shut();
}

// ---- reading

typedef struct pipe_out {
    int ends[2];
    FILE *file;
    atomic_bool drained;
} pipe_out;

static void fill_pipe(pipe_out *out)
{
    static const char bytes[4096];
    assert_int_equal(pipe(out->ends), 0);
    assert_int_equal(fcntl(out->ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(out->ends[1], bytes, sizeof bytes) > 0)
        continue;
    assert_int_equal(fcntl(out->ends[1], F_SETFL, 0), 0);
    out->file = fdopen(out->ends[1], "w");
    assert_non_null(out->file);
}

static void *drain_pipe(void *user)
{
    pipe_out *out = user;
    char bytes[4096];
    for (int i = 0; i < 500 && !out->drained; i++)
        usleep(10000);
    while (read(out->ends[0], bytes, sizeof bytes) > 0)
        continue;
    return NULL;
}

// Who reads a sweep does not wait for the terminal on which it is shown.
static void test_a_terminal_that_hangs_holds_up_no_reader(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    pipe_out out = {.drained = false};
    pthread_t thread;
    fill_pipe(&out);
    assert_int_equal(pthread_create(&thread, NULL, drain_pipe, &out), 0);
    fake_open(1);
    ok(START(&sweep, .trials = 2, .progress = out.file));
    int64_t began = support_now_ms();
    while (support_now_ms() - began < 300) {
        assert_in_range(troupe_sweep_count(sweep), 0, 2);
        (void)troupe_sweep_best(sweep);
        usleep(1000);
    }
    assert_true(support_now_ms() - began < 4000); // It was not drained for this.
    assert_int_equal(troupe_sweep_wait(sweep, 0), TROUPE_TIMED_OUT);
    atomic_store(&out.drained, true);
    ok(troupe_sweep_wait(sweep, -1));
    troupe_sweep_free(&sweep);
    fclose(out.file);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(out.ends[0]);
    fake_shut();
}

static _Atomic(troupe_sweep *) looked_at;
static atomic_int kept_waiting, longest; // Readers, and for how many looks one was at most.

// How many looks the reader that waits for the sweep now has waited for.
static void count_waits(trp_fair_lock *lock)
{
    static uint64_t last;
    static int waited;
    pthread_mutex_lock(&lock->lock);
    uint64_t next = lock->next;
    bool waits = next > lock->now + 1; // The controller has the ticket whose turn it is.
    pthread_mutex_unlock(&lock->lock);
    if (!waits)
        return;
    if (next != last) { // Another one.
        atomic_fetch_add(&kept_waiting, 1);
        waited = 0;
    }
    last = next;
    waited++;
    if (waited > atomic_load(&longest))
        atomic_store(&longest, waited);
}

// Takes longer than a report.
static bool looks_long(void *user, const troupe_progress *progress)
{
    (void)user;
    (void)progress;
    int64_t until = support_cpu_ns() + 50000;
    while (support_cpu_ns() < until)
        continue;
    troupe_sweep *sweep = atomic_load(&looked_at);
    if (sweep != NULL)
        count_waits(&sweep->lock);
    return false;
}

// Nor for the end of a queue of reports that has none: it comes before the controller's next turn,
// which takes in 64 of them.
static void test_many_reports_hold_up_no_reader(void **state)
{
    enum { READS = 50, TURN = 64 };
    (void)state;
    const troupe_stop_when when = {.size = sizeof when, .predicate = looks_long};
    const troupe_param rows[] = {TROUPE_UNIFORM(fake_settings, rate, 0, 1),
                                 TROUPE_FIXED(fake_settings, epochs, 1000000)};
    troupe_sweep *sweep;
    fake_open(1);
    ok(trp_sweep_begin(
        &fake_port, &fit, rows, 2, &sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .search = TROUPE_SEARCH_RANDOM,
                               .trials = 1,
                               .scheduler = troupe_stopping(NULL, &when),
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
    assert_true(support_wait_until(has_reports, sweep, SUPPORT_SOON_MS));
    atomic_store(&looked_at, sweep);
    int64_t until_ms = support_now_ms() + SUPPORT_SOON_MS;
    for (int i = 0; i < READS || (atomic_load(&kept_waiting) == 0 && support_now_ms() < until_ms);
         i++) {
        usleep(2000); // It is the controller's again.
        assert_non_null(troupe_sweep_best(sweep));
    }
    assert_int_equal(troupe_sweep_wait(sweep, 0), TROUPE_TIMED_OUT);
    print_message("%d of the reads waited, one for %d reports\n", atomic_load(&kept_waiting),
                  atomic_load(&longest));
    assert_in_range(atomic_load(&longest), 1, TURN);
    troupe_sweep_free(&sweep);
    troupe_arena_reset();
    fake_shut();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handles_are_closed_while_nothing_happens),
        cmocka_unit_test(test_a_sweep_runs_beside_its_caller),
        cmocka_unit_test(test_a_stop_ends_what_runs_and_begins_nothing),
        cmocka_unit_test(test_a_sweep_is_read_while_its_jobs_are_asked_to_stop),
        cmocka_unit_test(test_a_pause_holds_all_and_more_trials_come),
        cmocka_unit_test(test_a_trial_that_both_pause_is_the_schedulers),
        cmocka_unit_test(test_one_that_runs_can_be_freed),
        cmocka_unit_test(test_a_sweep_ends_with_its_time),
        cmocka_unit_test(test_a_sweep_ends_when_it_is_good_enough),
        cmocka_unit_test(test_a_sweep_ends_when_nothing_gets_better),
        cmocka_unit_test(test_a_front_is_what_no_other_is_better_than),
        cmocka_unit_test(test_a_terminal_that_hangs_holds_up_no_reader),
        cmocka_unit_test(test_many_reports_hold_up_no_reader),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
