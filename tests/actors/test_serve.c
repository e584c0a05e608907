// test_serve.c: what becomes of calls when processes die, and of frames that are not as they should
// be.
#include <places.h>
#include <support.h>

#include <runtime/process.h>
#include <runtime/store.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <troupe/actor.h>
#include <unistd.h>

typedef struct guard {
    troupe_ref kept;
} guard;

static _Atomic int *begun; // Shared with the workers.

static troupe_status guard_process(guard *self, const troupe_none *nothing, int *process)
{
    (void)self, (void)nothing;
    *process = getpid();
    return TROUPE_OK;
}

static troupe_status guard_hang(guard *self, const troupe_none *nothing, int *out)
{
    (void)self, (void)nothing;
    ++*begun;
    *out = pause(); // Until the process is killed.
    return TROUPE_FAILED;
}

static troupe_status guard_crash(guard *self, const int *number, int *out)
{
    (void)self;
    *out = 0;
    ++*begun;
    if (*number >= 0)
        *out = kill(getpid(), *number) + pause(); // Another thread may be the one that gets it.
    else
        _exit(-*number);
    return TROUPE_OK;
}

static troupe_status guard_double(guard *self, const int *in, int *out)
{
    (void)self;
    *out = *in * 2;
    return TROUPE_OK;
}

static troupe_status guard_keep(guard *self, const troupe_ref *in, troupe_none *out)
{
    (void)out;
    self->kept = troupe_keep(*in);
    return TROUPE_OK;
}

static troupe_status guard_read(guard *self, const troupe_ref *in, int *out)
{
    (void)self;
    return troupe_get(int, *in, out);
}

static troupe_status guard_make(guard *self, const troupe_none *nothing, troupe_ref *out)
{
    (void)self, (void)nothing;
    *out = troupe_put_bytes("left behind", 11);
    return TROUPE_OK;
}

static troupe_status guard_ask(guard *self, const troupe_actor *other, int *out);

TROUPE_ACTOR(guard, (guard_process, troupe_none, int), (guard_hang, troupe_none, int),
             (guard_crash, int, int), (guard_double, int, int),
             (guard_keep, troupe_ref, troupe_none), (guard_read, troupe_ref, int),
             (guard_make, troupe_none, troupe_ref), (guard_ask, troupe_actor, int));

static troupe_status guard_ask(guard *self, const troupe_actor *other, int *out)
{
    (void)self;
    guard_actor target = {*other};
    return troupe_get(int, troupe_call(target, guard_hang), out);
}

static const troupe_place elsewhere[] = {TROUPE_PLACE_WORKER, TROUPE_PLACE_ISOLATED};
enum { ELSEWHERE = 2 };

static int set_up(void **state)
{
    (void)state;
    if (begun == NULL)
        begun = support_share(sizeof *begun);
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static bool has_begun(void *user)
{
    return *begun >= *(int *)user;
}

static void await_begun(int wanted)
{
    assert_true(support_wait_until(has_begun, &wanted, SUPPORT_SOON_MS));
}

static void test_killed_process(void **state)
{
    (void)state;
    enum { PENDING = 20 };
    for (int p = 0; p < ELSEWHERE; p++) {
        guard_actor actor = troupe_spawn(guard, .place = elsewhere[p]);
        troupe_ref refs[PENDING];
        int process, out;
        char pid[32];
        troupe_must(troupe_get(int, troupe_call(actor, guard_process), &process));
        snprintf(pid, sizeof pid, "(pid %d)", process);
        int wanted = *begun + 1;
        for (int i = 0; i < PENDING; i++)
            refs[i] = troupe_call(actor, guard_hang);
        await_begun(wanted);
        assert_int_equal(kill(process, SIGKILL), 0);
        int64_t killed = support_now_ms();
        for (int i = 0; i < PENDING; i++) {
            assert_int_equal(troupe_get(int, refs[i], &out), TROUPE_MAYBE_EXECUTED);
            const troupe_error *error = troupe_last_error();
            assert_int_equal(error->outcome, TROUPE_OUTCOME_MAYBE_EXECUTED);
            assert_int_equal(error->executed, TROUPE_EXECUTED_MAYBE);
            assert_non_null(strstr(error->text, "signal 9 (Killed)"));
            assert_non_null(strstr(error->text, pid));
            assert_int_equal(error->process, process);
            assert_int_equal(strncmp(error->actor, "guard#", 6), 0);
        }
        assert_true(support_now_ms() - killed < 2000);
        // From now on it is known.
        assert_int_equal(troupe_get(int, troupe_call(actor, guard_process), &process),
                         TROUPE_NOT_EXECUTED);
        assert_non_null(strstr(troupe_last_error()->text, "signal 9 (Killed)"));
        assert_int_equal(troupe_tell(actor, guard_double, 1), TROUPE_NOT_EXECUTED);
        assert_int_equal(troupe_kill(actor), TROUPE_OK);
        assert_int_equal(troupe_end(actor), TROUPE_OK);
    }
}

static void test_other_deaths(void **state)
{
    (void)state;
    for (int p = 0; p < ELSEWHERE; p++) {
        int out;
        guard_actor actor = troupe_spawn(guard, .place = elsewhere[p]);
        assert_int_equal(troupe_get(int, troupe_call(actor, guard_crash, SIGABRT), &out),
                         TROUPE_MAYBE_EXECUTED);
        assert_non_null(strstr(troupe_last_error()->text, "signal 6"));
        actor = troupe_spawn(guard, .place = elsewhere[p]);
        assert_int_equal(troupe_get(int, troupe_call(actor, guard_crash, -3), &out),
                         TROUPE_MAYBE_EXECUTED);
        assert_non_null(strstr(troupe_last_error()->text, "exited with status 3"));
        // The pool makes a new worker.
        actor = troupe_spawn(guard, .place = elsewhere[p]);
        troupe_must(troupe_get(int, troupe_call(actor, guard_double, 4), &out));
        assert_int_equal(out, 8);
    }
}

// A waits for B, which dies: A's caller gets B's failure, from A.
static void test_death_further_down(void **state)
{
    (void)state;
    guard_actor a = troupe_spawn(guard, .place = TROUPE_PLACE_WORKER);
    guard_actor b = troupe_spawn(guard, .place = TROUPE_PLACE_ISOLATED);
    int process, out;
    troupe_must(troupe_get(int, troupe_call(b, guard_process), &process));
    int wanted = *begun + 1;
    troupe_ref ref = troupe_call_from(a, guard_ask, &b.address);
    await_begun(wanted);
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(troupe_get(int, ref, &out), TROUPE_MAYBE_EXECUTED);
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_FAILED); // A's method did.
    assert_non_null(strstr(troupe_last_error()->text, "signal 9"));
}

// What a dead process held is given back; what it made lives on.
static void test_objects_of_the_dead(void **state)
{
    (void)state;
    guard_actor actor = troupe_spawn(guard, .place = TROUPE_PLACE_ISOLATED);
    int value = 5, out;
    troupe_none none;
    troupe_ref ref = troupe_put(int, &value);
    troupe_must(troupe_get(troupe_none, troupe_call_from(actor, guard_keep, &ref), &none));
    troupe_drop(ref);
    assert_int_equal(troupe_get(int, troupe_call(actor, guard_crash, SIGKILL), &out),
                     TROUPE_MAYBE_EXECUTED);
    assert_store_empty();
}

// A call's reference was passed on, and the process that would have told its value dies.
static void test_an_object_outlives_its_maker(void **state)
{
    (void)state;
    for (int p = 0; p < ELSEWHERE; p++) {
        guard_actor actor = troupe_spawn(guard, .place = elsewhere[p]);
        troupe_ref ref;
        troupe_view before, after;
        int out;
        troupe_must(troupe_get(troupe_ref, troupe_call(actor, guard_make), &ref));
        troupe_must(troupe_view_bytes(ref, &before, -1));
        assert_int_equal(troupe_get(int, troupe_call(actor, guard_crash, SIGKILL), &out),
                         TROUPE_MAYBE_EXECUTED);
        assert_int_equal(before.size, 11);
        assert_memory_equal(before.data, "left behind", 11);
        troupe_must(troupe_view_bytes(ref, &after, 0)); // The reference is as good as it was.
        troupe_drop(ref);
        troupe_view_end(&before);
        assert_memory_equal(after.data, "left behind", 11); // One view is enough to hold it.
        assert_false(store_is_empty(NULL));
        troupe_view_end(&after);
        assert_store_empty();
    }
}

static void test_promise_of_the_dead(void **state)
{
    (void)state;
    guard_actor reader = troupe_spawn(guard, .place = TROUPE_PLACE_WORKER);
    guard_actor doomed = troupe_spawn(guard, .place = TROUPE_PLACE_ISOLATED);
    int process, out;
    troupe_must(troupe_get(int, troupe_call(doomed, guard_process), &process));
    int wanted = *begun + 1;
    troupe_ref hanging = troupe_call(doomed, guard_hang);
    await_begun(wanted);
    troupe_ref result = troupe_call_from(reader, guard_read, &hanging);
    assert_int_equal(troupe_get(int, result, &out, .timeout_ms = 50), TROUPE_PENDING);
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(troupe_get(int, result, &out), TROUPE_MAYBE_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "signal 9"));
    assert_int_equal(troupe_get(int, hanging, &out), TROUPE_MAYBE_EXECUTED);
    assert_store_empty();
}

// Sends a frame to the actor's process that no caller here would make, and waits until it has been
// served.
static void send_odd(guard_actor actor, trp_frame frame)
{
    int out;
    frame.target = frame.target != 0 ? frame.target : actor.address.id;
    assert_int_equal(trp_process_send(actor.address.process, actor.address.incarnation, &frame, 0),
                     TROUPE_OK);
    troupe_must(troupe_get(int, troupe_call(actor, guard_double, 21), &out));
    assert_int_equal(out, 42);
}

static void test_odd_frames(void **state)
{
    (void)state;
    static const char junk[] = "\xc1\xff\x93\x01\xcf\xff\xff\xff\xff\xff\xff\xff\xff";
    for (int p = 0; p < ELSEWHERE; p++) {
        guard_actor actor = troupe_spawn(guard, .place = elsewhere[p]);
        static const trp_frame_kind kinds[] = {TRP_FRAME_CALL,  TRP_FRAME_TELL, TRP_FRAME_REPLY,
                                               TRP_FRAME_SPAWN, TRP_FRAME_KILL, TRP_FRAME_FINISH};
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            for (uint32_t flags = 0; flags < 4; flags++)
                for (size_t size = 0; size < sizeof junk; size++) {
                    trp_frame frame = {.kind = kinds[k],
                                       .flags = flags,
                                       .method = 3,
                                       .call = 4711,
                                       .target = kinds[k] >= TRP_FRAME_KILL ? 999999 : 0,
                                       .status = size % 2,
                                       .body = junk,
                                       .body_size = size};
                    send_odd(actor, frame);
                }
        troupe_kill(actor);
    }
    assert_store_empty();
}

// A killer that dies before it could have the process killed: the process sees to it itself.
static void test_half_a_kill(void **state)
{
    (void)state;
    guard_actor actor = troupe_spawn(guard, .place = TROUPE_PLACE_ISOLATED);
    int process, out;
    troupe_must(troupe_get(int, troupe_call(actor, guard_process), &process));
    int wanted = *begun + 1;
    troupe_ref running = troupe_call(actor, guard_hang);
    await_begun(wanted);
    troupe_ref queued = troupe_call(actor, guard_process);
    trp_frame kill_frame = {.kind = TRP_FRAME_KILL, .target = actor.address.id};
    assert_int_equal(
        trp_process_send(actor.address.process, actor.address.incarnation, &kill_frame, 0),
        TROUPE_OK);
    assert_int_equal(troupe_get(int, queued, &out), TROUPE_NOT_EXECUTED);
    assert_int_equal(troupe_get(int, running, &out), TROUPE_MAYBE_EXECUTED);
    assert_true(support_processes_end(&(pid_t){process}, 1, SUPPORT_SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_process),
        cmocka_unit_test(test_other_deaths),
        cmocka_unit_test(test_death_further_down),
        cmocka_unit_test(test_objects_of_the_dead),
        cmocka_unit_test(test_an_object_outlives_its_maker),
        cmocka_unit_test(test_promise_of_the_dead),
        cmocka_unit_test(test_odd_frames),
        cmocka_unit_test(test_half_a_kill),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
