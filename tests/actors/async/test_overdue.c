// test_overdue.c: a deadline that passes while its call is being sent.
// label: faults
#include <places.h>
#include <support.h>

#include <runtime/base/fault.h>
#include <stdatomic.h>
#include <troupe/actor.h>
#include <unistd.h>

typedef struct sitter {
    int nothing;
} sitter;

static _Atomic int *open_; // Seen by all processes: who sits may rise.

static troupe_status sitter_sit(sitter *self, const troupe_none *nothing, int *out)
{
    (void)self, (void)nothing, (void)out;
    while (!atomic_load(open_))
        usleep(200);
    return TROUPE_OK;
}

static troupe_status sitter_pid(sitter *self, const troupe_none *nothing, int *pid)
{
    (void)self, (void)nothing;
    *pid = getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR(sitter, (sitter_sit, troupe_none, int), (sitter_pid, troupe_none, int));

static sitter_actor busy; // An actor of this process that sits.
static uint32_t deadline_ms;
static bool passed;

// Where the call has been sent, and its sender has not said so yet: the deadlines of two calls
// pass, this one's and one that is later, so the timer has seen both.
static void let_deadlines_pass(void)
{
    int value;
    troupe_ref later = troupe_call(troupe_with(busy, .deadline_ms = 2 * deadline_ms), sitter_pid);
    assert_int_equal(troupe_get(int, later, &value), TROUPE_DEADLINE_EXCEEDED);
    passed = true;
}

static void test_the_deadline_kills_all_the_same(void **state)
{
    (void)state;
    busy = troupe_spawn(sitter, .place = TROUPE_PLACE_HERE);
    sitter_actor own = troupe_spawn(sitter, .place = TROUPE_PLACE_ISOLATED);
    int pid, value;
    troupe_must(troupe_get(int, troupe_call(own, sitter_pid), &pid));
    troupe_ref sits = troupe_call(busy, sitter_sit);
    troupe_status next = TROUPE_OK; // Where it has not begun by then, it is not run.
    for (deadline_ms = 400; next == TROUPE_OK && deadline_ms < SUPPORT_SOON_MS; deadline_ms *= 2) {
        passed = false;
        trp_fault_call_at("call sent", 1, let_deadlines_pass);
        troupe_ref call = troupe_call(
            troupe_with(own, .deadline_ms = deadline_ms, .force_at_deadline = true), sitter_sit);
        assert_true(passed);
        assert_int_equal(troupe_get(int, call, &value), TROUPE_DEADLINE_EXCEEDED);
        troupe_executed executed = troupe_last_error()->executed;
        next = troupe_get(int, troupe_call(own, sitter_pid), &value, SUPPORT_SOON_MS);
        assert_true(next == TROUPE_OK || executed == TROUPE_EXECUTED_MAYBE);
    }
    assert_true(support_processes_end(&pid, 1, SUPPORT_SOON_MS));
    atomic_store(open_, 1);
    troupe_must(troupe_get(int, sits, &value));
}

int main(int argc, char **argv)
{
    open_ = support_share(sizeof *open_);
    troupe_must(troupe_start(argc, argv, .workers = TROUPE_NONE, .threads = 2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_deadline_kills_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, stop_runtime);
}
