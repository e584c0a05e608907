// test_task_needs.c: tasks that hold CPUs, GPUs and named resources: how many run at a time, what
// never fits, what waits, and what comes back however a task ends.
// timeout: 90
#include <places.h>
#include <support.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

// Shared with the worker processes.
typedef struct board {
    _Atomic int runs, running, most, gate, deaths;
} board;
static board *shared;

static void note_most(void)
{
    int now = ++shared->running, most = shared->most;
    while (now > most && !atomic_compare_exchange_weak(&shared->most, &most, now))
        continue;
}

// Runs for so many milliseconds.
static troupe_status work(const int *ms, int *pid)
{
    shared->runs++;
    note_most();
    usleep((useconds_t)*ms * 1000);
    shared->running--;
    *pid = getpid();
    return TROUPE_OK;
}
TROUPE_TASK(work, int, int);

// Runs until the gate is open, whatever becomes of its call.
static troupe_status hold(const int *number, int *out)
{
    shared->runs++;
    note_most();
    while (shared->gate == 0)
        usleep(500);
    shared->running--;
    *out = *number;
    return *number < 0 ? troupe_fail(TROUPE_INVALID, "held with %d", *number) : TROUPE_OK;
}
TROUPE_TASK(hold, int, int);

// Brings its process down so many times in all.
static troupe_status die(const int *times, int *runs)
{
    *runs = ++shared->runs;
    if (++shared->deaths <= *times)
        (void)raise(SIGKILL);
    return TROUPE_OK;
}
TROUPE_TASK(die, int, int);

static troupe_status fail_first(const int *failures, int *runs)
{
    *runs = ++shared->runs;
    return *runs <= *failures ? troupe_fail(TROUPE_IO, "run %d failed", *runs) : TROUPE_OK;
}
TROUPE_TASK(fail_first, int, int);

static troupe_status see_gpus(const troupe_none *none, troupe_text *out)
{
    (void)none;
    const char *seen = getenv("CUDA_VISIBLE_DEVICES");
    *out = troupe_arena_text(seen != NULL ? seen : "(not set)");
    return TROUPE_OK;
}
TROUPE_TASK(see_gpus, troupe_none, troupe_text);

// A task in a task.
static troupe_status work_within(const int *ms, int *pid)
{
    return troupe_get(int, troupe_run_from(work, ms, .cpus = 1), pid);
}
TROUPE_TASK(work_within, int, int);

typedef struct asker {
    troupe_ref held;
} asker;

// Has a task hold the licence, and never looks at it.
static troupe_status asker_ask(asker *self, const int *number, troupe_none *none)
{
    (void)none;
    self->held = troupe_run_from(hold, number, .resources = "license=1");
    return TROUPE_OK;
}
TROUPE_ACTOR(asker, (asker_ask, int, troupe_none));

static int set_up(void **state)
{
    (void)state;
    if (shared == NULL)
        shared = support_share(sizeof *shared);
    memset(shared, 0, sizeof *shared);
    setenv("CUDA_VISIBLE_DEVICES", "4,7", 1);
    return troupe_start(0, NULL, .workers = 2, .threads = 2, .cpus = 2, .gpus = 2,
                        .memory_bytes = 1000, .resources = "license=1") == TROUPE_OK
               ? 0
               : -1;
}

static bool all_is_free(void *unused)
{
    (void)unused;
    troupe_resources all;
    troupe_must(troupe_resources_get(&all));
    return all.cpus.free == 2 && all.gpus.free == 2 && all.memory_bytes.free == 1000 &&
           all.named[0].free == 1 && all.waiting == 0;
}

static void expect_all_free(void)
{
    assert_true(support_wait_until(all_is_free, NULL, SUPPORT_SOON_MS));
}

static bool runs_are(void *count)
{
    return shared->runs >= *(int *)count;
}

static void expect_runs(int count)
{
    assert_true(support_wait_until(runs_are, &count, SUPPORT_SOON_MS));
}

static void test_so_many_at_a_time(void **state)
{
    (void)state;
    enum { TASKS = 40 };
    static const char *const resources[] = {"license=1", "", NULL};
    for (int p = 0; p < 3; p++) {
        static const troupe_place wanted_places[] = {TROUPE_PLACE_ANY, TROUPE_PLACE_HERE,
                                                     TROUPE_PLACE_ISOLATED};
        troupe_ref refs[TASKS];
        int pids[TASKS], ms = 1,
                         count = wanted_places[p] == TROUPE_PLACE_ISOLATED ? TASKS / 4 : TASKS;
        shared->most = 0;
        for (int i = 0; i < count; i++)
            refs[i] = troupe_run_from(work, &ms, .cpus = p == 0 ? 0 : 1, .resources = resources[p],
                                      .place = wanted_places[p]);
        troupe_must(troupe_get_all(int, refs, (size_t)count, pids));
        assert_int_equal(shared->running, 0);
        assert_in_range(shared->most, 1, p == 0 ? 1 : 2);
        for (int i = 0; i < count; i++)
            assert_int_equal(pids[i] == getpid(), wanted_places[p] == TROUPE_PLACE_HERE);
    }
    expect_all_free();
}

static void test_what_never_fits(void **state)
{
    (void)state;
    int ms = 1, pid;
    assert_int_equal(troupe_get(int, troupe_run_from(work, &ms, .cpus = 3), &pid),
                     TROUPE_TOO_LARGE);
    assert_string_equal(troupe_last_error()->text, "3 CPUs were asked for, and there are 2");
    assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_NO);
    assert_int_equal(troupe_get(int, troupe_run_from(work, &ms, .resources = "dongle=1"), &pid),
                     TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "dongle"));
    assert_int_equal(troupe_get(int, troupe_run_from(work, &ms, .memory_bytes = 1001), &pid),
                     TROUPE_TOO_LARGE);
    assert_int_equal(troupe_get(int, troupe_run_from(work, &ms, .cpus = -1), &pid), TROUPE_INVALID);
    assert_int_equal(troupe_get(int, troupe_run_from(work, &ms, .resources = "??"), &pid),
                     TROUPE_INVALID);
    assert_int_equal(troupe_get(int, troupe_run_from(work, &ms, .gpus = 1.5), &pid),
                     TROUPE_INVALID);
    assert_int_equal(
        troupe_get(int, troupe_run_from(work, &ms, .gpus = 1, .place = TROUPE_PLACE_WORKER), &pid),
        TROUPE_INVALID);
    assert_int_equal(shared->runs, 0);
    expect_all_free();
}

static bool one_waits(void *name)
{
    troupe_resources all;
    troupe_must(troupe_resources_get(&all));
    return all.waiting == 1 && strcmp(all.waits[0].actor, name) == 0 &&
           strcmp(all.waits[0].why, "1 license (0 of 1 are free)") == 0 &&
           all.waits[0].pid == getpid();
}

static void test_what_waits_is_seen_and_can_be_given_up(void **state)
{
    (void)state;
    int number = 5, ms = 0, out;
    troupe_ref first = troupe_run_from(hold, &number, .resources = "license=1");
    expect_runs(1);
    troupe_ref second = troupe_run_from(work, &ms, .resources = "license=1");
    assert_true(support_wait_until(one_waits, (void *)(uintptr_t) "work", SUPPORT_SOON_MS));
    // Who wants none of it is not held up.
    troupe_must(troupe_get(int, troupe_run_from(work, &ms, .cpus = 1), &out));
    troupe_must(troupe_cancel(second));
    assert_int_equal(troupe_get(int, second, &out, SUPPORT_SOON_MS), TROUPE_CANCELLED);
    assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_NO);
    second = troupe_run_from(work, &ms, .resources = "license=1", .deadline_ms = 30);
    assert_int_equal(troupe_get(int, second, &out, SUPPORT_SOON_MS), TROUPE_DEADLINE_EXCEEDED);
    assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_NO);
    assert_int_equal(shared->runs, 2);
    // One that is dropped is run all the same.
    troupe_ref_drop(troupe_run_from(work, &ms, .resources = "license=1"));
    shared->gate = 1;
    troupe_must(troupe_get(int, first, &out));
    assert_int_equal(out, 5);
    expect_runs(3);
    expect_all_free();
}

// A function that nobody waits for any more has what it holds until it returns.
static void test_held_until_the_function_returns(void **state)
{
    (void)state;
    int number = 1, ms = 0, out;
    troupe_ref late = troupe_run_from(hold, &number, .resources = "license=1", .deadline_ms = 1500);
    expect_runs(1);
    assert_int_equal(troupe_get(int, late, &out, SUPPORT_SOON_MS), TROUPE_DEADLINE_EXCEEDED);
    troupe_ref next = troupe_run_from(work, &ms, .resources = "license=1");
    assert_true(support_wait_until(one_waits, (void *)(uintptr_t) "work", SUPPORT_SOON_MS));
    assert_int_equal(troupe_get(int, next, &out, 30), TROUPE_TIMED_OUT);
    shared->gate = 1;
    troupe_must(troupe_get(int, next, &out));
    assert_int_equal(shared->most, 1);
    // Likewise one that is cancelled, and one that fails.
    shared->gate = 0;
    troupe_ref cancelled = troupe_run_from(hold, &number, .resources = "license=1");
    expect_runs(3);
    troupe_must(troupe_cancel(cancelled));
    assert_int_equal(troupe_get(int, cancelled, &out, SUPPORT_SOON_MS), TROUPE_CANCELLED);
    number = -1;
    troupe_ref failed = troupe_run_from(hold, &number, .resources = "license=1");
    assert_int_equal(troupe_get(int, failed, &out, 30), TROUPE_TIMED_OUT);
    shared->gate = 1;
    assert_int_equal(troupe_get(int, failed, &out), TROUPE_INVALID);
    assert_int_equal(shared->most, 1);
    expect_all_free();
}

static void test_run_again(void **state)
{
    (void)state;
    static const troupe_place wanted_places[] = {TROUPE_PLACE_WORKER, TROUPE_PLACE_ISOLATED};
    for (int p = 0; p < 2; p++) {
        int times = 2, runs;
        shared->runs = shared->deaths = 0;
        // All that there is: what the attempt before had must be back for the next one.
        troupe_must(troupe_get(int,
                               troupe_run_from(die, &times, .cpus = 2, .resources = "license=1",
                                               .place = wanted_places[p]),
                               &runs));
        assert_int_equal(runs, 3);
        shared->runs = shared->deaths = 0;
        assert_int_equal(
            troupe_get(int,
                       troupe_run_from(die, &times, .cpus = 2, .place = wanted_places[p],
                                       .retries = TROUPE_NONE),
                       &runs),
            TROUPE_MAYBE_EXECUTED);
        expect_all_free();
        shared->runs = 0;
        troupe_must(troupe_get(int,
                               troupe_run_from(fail_first, &times, .cpus = 2, .retry_errors = true,
                                               .place = wanted_places[p]),
                               &runs));
        assert_int_equal(runs, 3);
        expect_all_free();
    }
}

static void test_gpus(void **state)
{
    (void)state;
    troupe_none none = {0};
    troupe_text seen;
    int number = 1, out;
    troupe_must(troupe_get(troupe_text, troupe_run_from(see_gpus, &none, .gpus = 2), &seen));
    assert_string_equal(seen, "4,7");
    troupe_ref first = troupe_run_from(hold, &number, .gpus = 1);
    expect_runs(1);
    troupe_must(troupe_get(troupe_text, troupe_run_from(see_gpus, &none, .gpus = 0.5), &seen));
    assert_true(strcmp(seen, "4") == 0 || strcmp(seen, "7") == 0);
    shared->gate = 1;
    troupe_must(troupe_get(int, first, &out));
    troupe_arena_reset();
    expect_all_free();
}

static void test_tasks_in_tasks(void **state)
{
    (void)state;
    enum { TASKS = 10 };
    troupe_ref refs[TASKS];
    int pids[TASKS], ms = 1;
    for (int i = 0; i < TASKS; i++) // Those outside hold the licence, those inside a CPU.
        refs[i] = troupe_run_from(work_within, &ms, .resources = "license=1");
    troupe_must(troupe_get_all(int, refs, TASKS, pids));
    assert_int_equal(shared->most, 1);
    expect_all_free();
}

// What a process asked for, and what its tasks hold elsewhere, ends with it.
static void test_the_death_of_the_asker(void **state)
{
    (void)state;
    int number = 1, ms = 0, out;
    troupe_none none;
    asker_actor one = troupe_spawn(asker, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(troupe_get(troupe_none, troupe_call(one, asker_ask, number), &none));
    expect_runs(1);
    troupe_must(troupe_get(troupe_none, troupe_call(one, asker_ask, number), &none)); // Waits.
    troupe_actor_kill(one);
    troupe_ref mine = troupe_run_from(work, &ms, .resources = "license=1");
    assert_int_equal(troupe_get(int, mine, &out, 30), TROUPE_TIMED_OUT);
    shared->gate = 1; // The function runs on until then, and no other one of that process begins.
    troupe_must(troupe_get(int, mine, &out));
    assert_int_equal(shared->runs, 2);
    expect_all_free();
}

// Hundreds that wait when the runtime ends.
static void test_the_end_of_the_runtime(void **state)
{
    (void)state;
    enum { TASKS = 300 };
    troupe_ref refs[TASKS];
    int number = 1, out;
    for (int i = 0; i < TASKS; i++)
        refs[i] = troupe_run_from(hold, &number, .resources = "license=1");
    expect_runs(1);
    troupe_must(troupe_stop());
    for (int i = 0; i < TASKS; i++)
        assert_int_not_equal(troupe_get(int, refs[i], &out, TROUPE_POLL), TROUPE_TIMED_OUT);
    assert_int_equal(shared->runs, 1);
    assert_int_equal(set_up(NULL), 0);
    shared->gate = 1;
    troupe_must(troupe_get(int, troupe_run_from(hold, &number, .resources = "license=1"), &out));
    expect_all_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_so_many_at_a_time, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_what_never_fits, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_what_waits_is_seen_and_can_be_given_up, set_up,
                                        stop_runtime),
        cmocka_unit_test_setup_teardown(test_held_until_the_function_returns, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_run_again, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_gpus, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_tasks_in_tasks, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_the_death_of_the_asker, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_the_end_of_the_runtime, set_up, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
