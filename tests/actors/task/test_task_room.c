// test_task_room.c: how many tasks may be unfinished, which callers wait for room, and tasks that
// are run at once within another because there is none.
// timeout: 60
#include <places.h>
#include <support.h>

#include <actors/actor/invoke.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { UNFINISHED_MAX = 4096 }; // As task.h says.

// Shared with the worker processes.
typedef struct board {
    _Atomic int runs, gate;
} board;
static board *shared;

static troupe_status fail_first(const int *failures, int *runs)
{
    *runs = ++shared->runs;
    if (*runs <= *failures)
        return troupe_fail(TROUPE_IO, "run %d found no disk", *runs);
    return TROUPE_OK;
}
TROUPE_TASK(fail_first, int, int);

// Waits until the test lets it go.
static _Thread_local bool opens_gate; // By what this thread runs further out.

static troupe_status wait_gate(const int *number, int *out)
{
    while (shared->gate == 0 && !opens_gate)
        usleep(500);
    *out = *number;
    return TROUPE_OK;
}
TROUPE_TASK(wait_gate, int, int);

static troupe_status rest(const troupe_none *in, troupe_none *out)
{
    (void)in, (void)out;
    return TROUPE_OK;
}
TROUPE_TASK(rest, troupe_none, troupe_none);

typedef struct starter {
    char unused;
} starter;

static troupe_status starter_start(starter *self, const troupe_none *nothing, int *status)
{
    troupe_none out;
    (void)self, (void)nothing;
    *status = troupe_get(troupe_none, troupe_run(rest), &out);
    return TROUPE_OK;
}

TROUPE_ACTOR(starter, (starter_start, troupe_none, int));

// A light actor's method is let finish.
static troupe_status end_itself(const int *number, int *out)
{
    *out = *number;
    return troupe_actor_kill(troupe_self());
}
TROUPE_TASK(end_itself, int, int);

// Until its deadline, or much longer, and then so long: it may see the deadline before the timer,
// and end before that has told.
static troupe_status dawdle(const int *linger_ms, troupe_none *out)
{
    (void)out;
    for (int64_t begun_ms = support_now_ms();
         !troupe_cancelled() && support_now_ms() - begun_ms < SUPPORT_SOON_MS;)
        usleep(500);
    if (!troupe_cancelled())
        return TROUPE_OK;
    usleep((useconds_t)*linger_ms * 1000);
    return troupe_fail(TROUPE_CANCELLED, "it was late");
}
TROUPE_TASK(dawdle, int, troupe_none);

TROUPE_STRUCT(nested_result, (int, late), (int, failing), (int, runs), (int, hopeless),
              (int, hopeless_runs), (int, killed));

// Leaves no room, and runs some more.
static troupe_status crowd(const int *count, nested_result *got)
{
    troupe_none none = {0};
    int twice = 2, always = 1000, out, number = 7;
    troupe_ref *refs = troupe_arena_alloc((size_t)*count * sizeof *refs);
    opens_gate = true; // Some may be run here: those that sleep hold threads, too.
    for (int i = 0; i < *count; i++)
        refs[i] = troupe_run(wait_gate, i);
    opens_gate = false;
    got->late = TROUPE_CANCELLED;
    for (int ms = 1; got->late == TROUPE_CANCELLED && ms < SUPPORT_SOON_MS / 2; ms *= 2)
        got->late = troupe_get(troupe_none, troupe_run_from(dawdle, &ms, .deadline_ms = 20), &none);
    got->failing =
        troupe_get(int, troupe_run_from(fail_first, &twice, .retry_errors = true), &got->runs);
    shared->runs = 0;
    got->hopeless = troupe_get(
        int, troupe_run_from(fail_first, &always, .retry_errors = true, .retries = 5), &out);
    got->hopeless_runs = shared->runs;
    got->killed = troupe_get(int, troupe_run_from(end_itself, &number), &out);
    shared->gate = 1;
    for (int i = 0; i < *count; i++)
        TROUPE_TRY(troupe_get(int, refs[i], &out));
    return TROUPE_OK;
}
TROUPE_TASK(crowd, int, nested_result);

static int set_up_with(int workers)
{
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

// As many as a process may have unfinished, behind a closed gate.
static void fill_up(troupe_ref *refs, int count, troupe_place place)
{
    for (int i = 0; i < count; i++)
        refs[i] = troupe_run_from(wait_gate, &i, .place = place, .flags = TROUPE_CALL_NO_WAIT);
}

static void open_gate(const troupe_ref *refs, int count)
{
    int out;
    shared->gate = 1;
    for (int i = 0; i < count; i++)
        troupe_must(troupe_get(int, refs[i], &out));
}

static void test_too_many_for_a_sender_that_does_not_wait(void **state)
{
    (void)state;
    static troupe_ref refs[UNFINISHED_MAX];
    int out;
    troupe_ref more;
    fill_up(refs, UNFINISHED_MAX, TROUPE_PLACE_HERE);
    fill_up(&more, 1, TROUPE_PLACE_HERE);
    assert_int_equal(troupe_get(int, more, &out), TROUPE_BUSY);
    assert_non_null(strstr(troupe_last_error()->text, "4096 tasks"));
    open_gate(refs, UNFINISHED_MAX);
}

// In a method that is no task's, the wait for room ends after 10 s: here after half a second.
static void test_too_many_for_a_method(void **state)
{
    (void)state;
    assert_int_equal(trp_run_patience_ms, 10000);
    trp_run_patience_ms = 500;
    static troupe_ref refs[UNFINISHED_MAX];
    int status = -1;
    for (int i = 0; i < UNFINISHED_MAX; i++)
        refs[i] = troupe_run(wait_gate, i);
    starter_actor one = troupe_spawn(starter, .place = TROUPE_PLACE_HERE);
    int64_t begun_ms = support_now_ms();
    troupe_status waited =
        troupe_get(int, troupe_call(one, starter_start), &status, 2 * SUPPORT_SOON_MS);
    int64_t took_ms = support_now_ms() - begun_ms;
    open_gate(refs, UNFINISHED_MAX);
    assert_int_equal(waited, TROUPE_OK);
    assert_int_equal(status, TROUPE_BUSY);
    assert_in_range(took_ms, trp_run_patience_ms - 1, 2 * SUPPORT_SOON_MS);
    trp_run_patience_ms = 10000;
}

// What a task runs that finds no room is run within it, as it would have been elsewhere.
static void test_tasks_that_run_at_once(void **state)
{
    (void)state;
    nested_result got;
    troupe_must(troupe_get(nested_result, troupe_run(crowd, UNFINISHED_MAX - 1), &got));
    assert_int_equal(got.late, TROUPE_DEADLINE_EXCEEDED);
    assert_int_equal(got.failing, TROUPE_OK); // After two failures.
    assert_int_equal(got.runs, 3);
    assert_int_equal(got.hopeless, TROUPE_IO);
    assert_int_equal(got.hopeless_runs, 6);
    assert_int_equal(got.killed, TROUPE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_too_many_for_a_sender_that_does_not_wait, set_up,
                                        stop_runtime),
        cmocka_unit_test_setup_teardown(test_too_many_for_a_method, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_tasks_that_run_at_once, set_up_alone, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
