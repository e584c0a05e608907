// test_task.c: tasks: where they run, what they carry, how they fail, that they are run again when
// their worker dies, and that waiting ones starve no other.
// timeout: 60
#include <places.h>
#include <support.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

// Shared with the worker processes.
typedef struct board {
    _Atomic int runs, gate, inside, free_pid;
    _Atomic int pids[64];
} board;
static board *shared;

static troupe_status square(const int64_t *x, int64_t *result)
{
    *result = *x * *x;
    return TROUPE_OK;
}
TROUPE_TASK(square, int64_t, int64_t);

static troupe_status where(const troupe_none *nothing, int *pid)
{
    (void)nothing;
    *pid = getpid();
    return TROUPE_OK;
}
TROUPE_TASK(where, troupe_none, int);

TROUPE_STRUCT(greeting, (troupe_text, name), (int, times));

static troupe_status greet(const greeting *who, troupe_text *text)
{
    char *out = troupe_arena_alloc(strlen(who->name) * (size_t)who->times + 1);
    for (int i = 0; i < who->times; i++)
        strcat(out, who->name);
    *text = out;
    return TROUPE_OK;
}
TROUPE_TASK(greet, greeting, troupe_text);

TROUPE_STRUCT(sum_job, (troupe_ref, left), (troupe_ref, right));

static troupe_status add_up(const sum_job *job, int64_t *sum)
{
    int64_t left, right;
    TROUPE_TRY(troupe_get(int64_t, troupe_ref_keep(job->left), &left));
    TROUPE_TRY(troupe_get(int64_t, troupe_ref_keep(job->right), &right));
    *sum = left + right;
    return TROUPE_OK;
}
TROUPE_TASK(add_up, sum_job, int64_t);

static troupe_status fill(const int64_t *bytes, troupe_array_uint8_t *out)
{
    uint8_t *items = troupe_arena_alloc((size_t)*bytes);
    memset(items, 7, (size_t)*bytes);
    *out = (troupe_array_uint8_t){items, (size_t)*bytes};
    return TROUPE_OK;
}
TROUPE_TASK(fill, int64_t, troupe_array_uint8_t);

static troupe_status fib(const int *n, int64_t *value);
TROUPE_TASK(fib, int, int64_t);
static troupe_status fib(const int *n, int64_t *value)
{
    int64_t a, b;
    if (*n < 2) {
        *value = *n;
        return TROUPE_OK;
    }
    troupe_ref left = troupe_run(fib, *n - 1), right = troupe_run(fib, *n - 2);
    troupe_status status = troupe_get(int64_t, left, &a);
    if (status != TROUPE_OK) {
        troupe_ref_drop(right);
        return status;
    }
    TROUPE_TRY(troupe_get(int64_t, right, &b));
    *value = a + b;
    return TROUPE_OK;
}

// Starts more tasks than a process may have unfinished, before it waits for any.
static troupe_status burst(const int *count, int64_t *sum)
{
    troupe_ref *refs = troupe_arena_alloc((size_t)*count * sizeof *refs);
    troupe_status status = TROUPE_OK;
    for (int64_t i = 0; i < *count; i++)
        refs[i] = troupe_run(square, 2);
    for (int i = 0; i < *count; i++) {
        int64_t value;
        if (status != TROUPE_OK)
            troupe_ref_drop(refs[i]);
        else if ((status = troupe_get(int64_t, refs[i], &value)) == TROUPE_OK)
            *sum += value;
    }
    return status;
}
TROUPE_TASK(burst, int, int64_t);

// Dies in its first `*deaths` runs.
static troupe_status die_first(const int *deaths, int *runs)
{
    *runs = ++shared->runs;
    if (*runs <= *deaths)
        raise(SIGKILL);
    return TROUPE_OK;
}
TROUPE_TASK(die_first, int, int);

static troupe_status fail_first(const int *failures, int *runs)
{
    *runs = ++shared->runs;
    if (*runs <= *failures)
        return troupe_fail(TROUPE_IO, "run %d found no disk", *runs);
    return TROUPE_OK;
}
TROUPE_TASK(fail_first, int, int);

// Waits until the test lets it go.
static troupe_status wait_gate(const int *number, int *out)
{
    shared->pids[*number % 64] = getpid();
    shared->inside++;
    while (shared->gate == 0 && shared->free_pid != getpid())
        usleep(500);
    *out = *number;
    return TROUPE_OK;
}
TROUPE_TASK(wait_gate, int, int);

// Runs until it is cancelled.
static troupe_status last(const int *number, int *out)
{
    shared->inside++;
    while (!troupe_cancelled())
        usleep(500);
    shared->runs++;
    *out = *number;
    return TROUPE_OK;
}
TROUPE_TASK(last, int, int);

static int threads; // On which tasks run, in all processes.

static int set_up_with(int workers)
{
    threads = workers > 0 ? 2 * workers : 2;
    shared = support_zeros(shared, sizeof *shared);
    return troupe_start(0, NULL, .workers = workers, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(2);
}

static int set_up_alone(void **state)
{
    (void)state;
    return set_up_with(TROUPE_NONE);
}

static void test_values(void **state)
{
    (void)state;
    int64_t value;
    troupe_text text;
    troupe_array_uint8_t bytes;
    troupe_must(troupe_get(int64_t, troupe_run(square, 12), &value));
    assert_int_equal(value, 144);
    troupe_must(troupe_get(troupe_text, troupe_run(greet, .name = "ho", .times = 3), &text));
    assert_string_equal(text, "hohoho");
    troupe_must(troupe_get(troupe_array_uint8_t, troupe_run(fill, 300000), &bytes));
    assert_int_equal(bytes.count, 300000);
    assert_int_equal(bytes.items[299999], 7);
    int64_t two = 2;
    troupe_ref four = troupe_run(square, 2), put = troupe_put(int64_t, &two);
    troupe_must(troupe_get(int64_t, troupe_run(add_up, four, put), &value));
    assert_int_equal(value, 6);
    troupe_must(troupe_get(int64_t, four, &value)); // The caller's are the caller's still.
    assert_int_equal(value, 4);
    troupe_ref_drop(put);
    troupe_arena_reset();
}

static void test_where_they_run(void **state)
{
    (void)state;
    int pids[8], pid, here = getpid();
    bool spread = false;
    for (int i = 0; i < 8; i++)
        troupe_must(troupe_get(int, troupe_run(where), &pids[i]));
    // The second goes to the other worker, unless that has just taken the first from this one.
    for (int round = 0; round < 10 && !spread; round++) {
        shared->gate = shared->inside = 0;
        troupe_ref both[2] = {troupe_run(wait_gate, 0), troupe_run(wait_gate, 1)};
        support_await_counter(&shared->inside, 2);
        spread = shared->pids[0] != shared->pids[1];
        shared->gate = 1;
        for (int i = 0; i < 2; i++)
            troupe_must(troupe_get(int, both[i], &pid));
    }
    assert_true(spread);
    assert_int_not_equal(pids[0], here);
    troupe_none none = {0};
    troupe_must(troupe_get(int, troupe_run_from(where, &none, .place = TROUPE_PLACE_HERE), &pid));
    assert_int_equal(pid, here);
    troupe_must(
        troupe_get(int, troupe_run_from(where, &none, .place = TROUPE_PLACE_ISOLATED), &pid));
    assert_int_not_equal(pid, here);
    assert_int_not_equal(pid, shared->pids[0]);
    assert_int_not_equal(pid, shared->pids[1]);
    for (int i = 0; i < 10000 && kill(pid, 0) == 0; i++)
        usleep(500);
    assert_int_not_equal(kill(pid, 0), 0); // Its process has ended with it.
}

static void test_errors(void **state)
{
    (void)state;
    int runs, always = 1000, twice = 2;
    assert_int_equal(troupe_get(int, troupe_run(fail_first, 1000), &runs), TROUPE_IO);
    const troupe_error *error = troupe_last_error();
    assert_string_equal(error->text, "run 1 found no disk");
    assert_int_equal(error->outcome, TROUPE_OUTCOME_FAILED);
    assert_int_equal(strncmp(error->actor, "fail_first", 10), 0);
    assert_true(error->process != 0);
    assert_int_equal(shared->runs, 1); // An error is no reason to run it again,
    shared->runs = 0;
    troupe_must(troupe_get(int, troupe_run_from(fail_first, &twice, .retry_errors = true), &runs));
    assert_int_equal(runs, 3); // unless the caller says so.
    shared->runs = 0;
    assert_int_equal(
        troupe_get(int, troupe_run_from(fail_first, &always, .retry_errors = true, .retries = 5),
                   &runs),
        TROUPE_IO);
    assert_int_equal(shared->runs, 6);
    assert_string_equal(troupe_last_error()->text, "run 6 found no disk");

    assert_int_equal(troupe_get(int, troupe_run_from(fail_first, &twice, .retries = -7), &runs),
                     TROUPE_INVALID);
    assert_int_equal(
        troupe_get(int, troupe_run_from(fail_first, &twice, .place = (troupe_place)9), &runs),
        TROUPE_INVALID);
    assert_int_equal(troupe_get(double, troupe_run(square, 1), &(double){0}), TROUPE_WRONG_TYPE);
}

static void test_deadline(void **state)
{
    (void)state;
    int number = 3, out;
    troupe_ref late = troupe_run_from(wait_gate, &number, .deadline_ms = 50);
    assert_int_equal(troupe_get(int, late, &out), TROUPE_DEADLINE_EXCEEDED);
    shared->gate = 1;
    troupe_must(troupe_get(int, troupe_run(wait_gate, 4), &out));
    assert_int_equal(out, 4);
}

static void test_death_of_the_worker(void **state)
{
    (void)state;
    int runs, once = 1, never = 1000;
    troupe_must(troupe_get(int, troupe_run(die_first, 2), &runs));
    assert_int_equal(runs, 3);
    shared->runs = 0;
    assert_int_equal(
        troupe_get(int, troupe_run_from(die_first, &once, .retries = TROUPE_NONE), &runs),
        TROUPE_MAYBE_EXECUTED);
    assert_int_equal(shared->runs, 1);
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_MAYBE_EXECUTED);
    shared->runs = 0;
    assert_int_equal(troupe_get(int, troupe_run_from(die_first, &never, .retries = 2), &runs),
                     TROUPE_MAYBE_EXECUTED);
    assert_int_equal(shared->runs, 3);
    shared->runs = 0;
    int four = 4;
    troupe_must(
        troupe_get(int, troupe_run_from(die_first, &four, .retries = TROUPE_FOREVER), &runs));
    assert_int_equal(runs, 5);
    shared->runs = 0;
    troupe_must(
        troupe_get(int, troupe_run_from(die_first, &once, .place = TROUPE_PLACE_ISOLATED), &runs));
    assert_int_equal(runs, 2);
}

// A worker is killed while tasks run in it and wait for it: each ends once, with its own value.
static void test_kill_amid_many(void **state)
{
    (void)state;
    enum { MANY = 400 };
    static troupe_ref refs[MANY];
    for (int i = 0; i < MANY; i++)
        refs[i] = troupe_run(wait_gate, i);
    support_await_counter(&shared->pids[0], 1); // Two others may have begun before it.
    kill(shared->pids[0], SIGKILL);
    shared->gate = 1;
    for (int i = 0; i < MANY; i++) {
        int out = -1;
        troupe_must(troupe_get(int, refs[i], &out));
        assert_int_equal(out, i);
        assert_int_equal(troupe_get(int, refs[i], &out), TROUPE_INVALID); // It is gone.
    }
}

static void test_many(void **state)
{
    (void)state;
    enum { MANY = 10000 }; // More than may be unfinished at a time.
    static troupe_ref refs[MANY];
    int64_t value;
    for (int64_t i = 0; i < MANY; i++)
        refs[i] = troupe_run(square, i);
    for (int64_t i = 0; i < MANY; i++) {
        troupe_must(troupe_get(int64_t, refs[i], &value));
        assert_int_equal(value, i * i);
    }
    for (int i = 0; i < 100; i++) // Forgotten ones run all the same.
        troupe_ref_drop(troupe_run(fail_first, 0));
    for (int i = 0; i < 20000 && shared->runs < 100; i++)
        usleep(500);
    assert_int_equal(shared->runs, 100);
}

static void test_tasks_that_wait_for_tasks(void **state)
{
    (void)state;
    int64_t value;
    troupe_must(troupe_get(int64_t, troupe_run(fib, 10), &value));
    assert_int_equal(value, 55);
    // More of them wait for others than a process has threads for.
    troupe_must(troupe_get(int64_t, troupe_run(fib, 15), &value));
    assert_int_equal(value, 610);
    troupe_must(troupe_get(int64_t, troupe_run(burst, 9000), &value));
    assert_int_equal(value, 36000);
}

// All tasks began, though one worker's hang: `taken` is how many the other one ran. Each of the two
// may take some of the other's first, on threads that take the place of those that hang.
static void all_begin(const troupe_ref *refs, int count, int *taken)
{
    int out, other = shared->pids[0];
    support_await_counter(&shared->inside, count);
    shared->gate = 1;
    for (int i = 0; i < count; i++) {
        troupe_must(troupe_get(int, refs[i], &out));
        assert_int_equal(out, i);
        *taken += shared->pids[i] == other;
    }
    assert_int_equal(shared->inside, count); // Each was run once.
}

// One worker's tasks hang, two at a time: those behind them are run by the other worker.
static void test_an_idle_worker_takes_from_a_busy_one(void **state)
{
    (void)state;
    enum { MANY = 20, THREADS = 2, TRIES = 20 };
    troupe_ref refs[MANY];
    int taken = 0;
    for (int tries = 0; taken <= MANY / 2; tries++) { // Half of them are sent to it.
        assert_true(tries < TRIES); // On a busy machine the other one may have got threads first.
        shared->gate = shared->free_pid = shared->inside = shared->pids[0] = taken = 0;
        for (int i = 0; i < MANY; i++)
            refs[i] = troupe_run(wait_gate, i);
        support_await_counter(&shared->inside, 2 * THREADS);
        support_await_counter(&shared->pids[0], 1);
        shared->free_pid = shared->pids[0];
        all_begin(refs, MANY, &taken);
    }
}

// The other worker runs dry at once, when what waits has only just been sent; nothing ends later.
static void test_what_was_just_sent_is_taken_later(void **state)
{
    (void)state;
    enum { ROUNDS = 20, EACH = 3, THREADS = 2 };
    int with_more = 0;
    for (int round = 0; round < ROUNDS; round++) {
        troupe_ref refs[2 * EACH];
        int taken = 0;
        shared->gate = shared->free_pid = shared->inside = 0;
        for (int i = 0; i < 2 * THREADS; i++)
            refs[i] = troupe_run(wait_gate, i);
        support_await_counter(&shared->inside, 2 * THREADS);
        for (int i = 2 * THREADS; i < 2 * EACH; i++)
            refs[i] = troupe_run(wait_gate, i);
        shared->free_pid = shared->pids[0];
        all_begin(refs, 2 * EACH, &taken);
        with_more += taken > EACH; // Half of them were sent to it.
    }
    assert_true(with_more > 0);
}

static void test_cancelling(void **state)
{
    (void)state;
    int out;
    troupe_ref running = troupe_run(last, 1);
    support_await_counter(&shared->inside, 1);
    troupe_must(troupe_cancel(running));
    assert_int_equal(troupe_get(int, running, &out), TROUPE_CANCELLED);
    assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_MAYBE);
    for (int i = 0; i < 20000 && shared->runs < 1; i++)
        usleep(500);
    assert_int_equal(shared->runs, 1); // It has heard of it.

    enum { BUSY = 40 }; // More than run at a time: those behind them wait for a thread.
    troupe_ref busy[BUSY];
    for (int i = 0; i < BUSY; i++)
        busy[i] = troupe_run(wait_gate, i);
    support_await_counter(&shared->inside, 1 + threads); // Nobody has a thread to spare.
    troupe_ref waiting[2] = {troupe_run(fail_first, 0), troupe_run(fail_first, 0)};
    for (int i = 0; i < 2; i++) {
        troupe_must(troupe_cancel(waiting[i]));
        assert_int_equal(troupe_get(int, waiting[i], &out), TROUPE_CANCELLED);
        assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_NO);
    }
    shared->gate = 1;
    for (int i = 0; i < BUSY; i++)
        troupe_must(troupe_get(int, busy[i], &out));
    assert_int_equal(shared->runs, 1);
    troupe_must(troupe_get(int, troupe_run(fail_first, 0), &out)); // The executors go on.
    assert_int_equal(out, 2);
}

static void test_stop_amid(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        troupe_ref_drop(troupe_run(wait_gate, i));
    support_await_counter(&shared->inside, 1);
    troupe_ref left = troupe_run(wait_gate, 1);
    shared->gate = 0;
    troupe_stop();
    int out;
    assert_int_not_equal(troupe_get(int, left, &out), TROUPE_OK);
    assert_int_equal(troupe_get(int, troupe_run(where), &out), TROUPE_NOT_STARTED);
    troupe_must(troupe_start(0, NULL, .workers = 2, .threads = 2));
    shared->gate = 1;
    troupe_must(troupe_get(int, troupe_run(wait_gate, 7), &out));
    assert_int_equal(out, 7);
}

static void test_without_workers(void **state)
{
    (void)state;
    int pid, runs;
    test_values(state);
    test_many(state);
    shared->runs = 0;
    test_tasks_that_wait_for_tasks(state);
    troupe_must(troupe_get(int, troupe_run(where), &pid));
    assert_int_equal(pid, getpid());
    int twice = 2;
    troupe_must(troupe_get(int, troupe_run_from(fail_first, &twice, .retry_errors = true), &runs));
    assert_int_equal(runs, 3);
    troupe_none none = {0};
    assert_int_equal(
        troupe_get(int, troupe_run_from(where, &none, .place = TROUPE_PLACE_WORKER), &pid),
        TROUPE_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_where_they_run, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_errors, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_deadline, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_death_of_the_worker, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_kill_amid_many, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_many, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_tasks_that_wait_for_tasks, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_an_idle_worker_takes_from_a_busy_one, set_up,
                                        stop_runtime),
        cmocka_unit_test_setup_teardown(test_what_was_just_sent_is_taken_later, set_up,
                                        stop_runtime),
        cmocka_unit_test_setup_teardown(test_cancelling, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_cancelling, set_up_alone, stop_runtime),
        cmocka_unit_test_setup_teardown(test_stop_amid, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_without_workers, set_up_alone, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
