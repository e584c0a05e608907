// test_serve.c: what becomes of calls when processes die, and of frames that are not as they should
// be.
#include <places.h>
#include <stats.h>
#include <support.h>

#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/store.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
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
    self->kept = troupe_ref_keep(*in);
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

TROUPE_STRUCT(flood, (uint64_t, call), (uint32_t, process), (uint64_t, incarnation), (int, count));

// Sends items of a stream that its process makes, as many as there are, whatever there is room for.
static troupe_status guard_flood(guard *self, const flood *what, int *none)
{
    (void)self;
    *none = 0;
    for (int i = 0; i < what->count; i++) {
        trp_frame frame = {.kind = TRP_FRAME_ITEM,
                           .flags = TRP_FRAME_IMAGE,
                           .call = what->call,
                           .schema = troupe_type_hash(&troupe_type_int),
                           .body = &i,
                           .body_size = sizeof i};
        TROUPE_TRY(trp_process_send(what->process, what->incarnation, &frame, 0));
    }
    return TROUPE_OK;
}

static troupe_status guard_list(guard *self, const int *count, int *none)
{
    (void)self;
    *none = 0;
    for (int i = 0; i < *count; i++)
        TROUPE_TRY(troupe_yield(int, &i));
    return TROUPE_OK;
}

static troupe_status guard_refused(guard *self, const troupe_none *nothing, uint64_t *count)
{
    (void)self, (void)nothing;
    *count = support_stats().frames_refused;
    return TROUPE_OK;
}

static troupe_status guard_ask(guard *self, const troupe_actor *other, int *out);

TROUPE_ACTOR(guard, (guard_process, troupe_none, int), (guard_hang, troupe_none, int),
             (guard_crash, int, int), (guard_double, int, int),
             (guard_keep, troupe_ref, troupe_none), (guard_read, troupe_ref, int),
             (guard_make, troupe_none, troupe_ref), (guard_ask, troupe_actor, int),
             (guard_flood, flood, int), (guard_list, int, int, .options = TROUPE_METHOD_STREAM),
             (guard_refused, troupe_none, uint64_t));

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
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
        assert_int_equal(troupe_actor_end(actor), TROUPE_OK);
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
    assert_int_equal(troupe_get(int, ref, &out), TROUPE_FAILED);
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_FAILED); // A's method did.
    assert_non_null(strstr(troupe_last_error()->text, "MAYBE_EXECUTED"));
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
    troupe_ref_drop(ref);
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
        troupe_ref_drop(ref);
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
    assert_int_equal(troupe_get(int, result, &out, 50), TROUPE_TIMED_OUT);
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(troupe_get(int, result, &out), TROUPE_FAILED);
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
        troupe_actor_kill(actor);
    }
    assert_store_empty();
}

// The driver, which was asked nothing, answers for another process, makes its values and tells
// ends.
static void test_answers_of_others(void **state)
{
    (void)state;
    guard_actor reader = troupe_spawn(guard, .place = TROUPE_PLACE_WORKER);
    guard_actor silent = troupe_spawn(guard, .place = TROUPE_PLACE_ISOLATED);
    int process, out;
    troupe_must(troupe_get(int, troupe_call(silent, guard_process), &process));
    int wanted = *begun + 1;
    troupe_ref asked = troupe_call_from(reader, guard_ask, &silent.address);
    await_begun(wanted);
    uint64_t before = 0, after = 0;
    guard_actor beside = troupe_spawn(guard, .place = TROUPE_PLACE_WORKER);
    while (beside.address.process != reader.address.process)
        beside = troupe_spawn(guard, .place = TROUPE_PLACE_WORKER);
    troupe_must(troupe_get(uint64_t, troupe_call(beside, guard_refused), &before));
    // Its only call that waits has one of the first places, and one of few numbers.
    enum { COUNTS = 8, PLACES_LOOKED_AT = 512, PLACE_BITS = 22 };
    for (uint64_t count = 1; count <= COUNTS; count++)
        for (uint64_t place = 1; place < PLACES_LOOKED_AT; place++) {
            trp_frame frame = {.kind = TRP_FRAME_REPLY,
                               .flags = TRP_FRAME_IMAGE,
                               .call = count << PLACE_BITS | place,
                               .schema = troupe_type_hash(&troupe_type_int),
                               .outcome = TROUPE_OUTCOME_VALUE,
                               .executed = TROUPE_EXECUTED_YES,
                               .body = &wanted,
                               .body_size = sizeof wanted};
            troupe_must(
                trp_process_send(reader.address.process, reader.address.incarnation, &frame, 0));
        }
    troupe_must(troupe_get(uint64_t, troupe_call(beside, guard_refused), &after));
    assert_true(after > before); // It was guessed.
    assert_int_equal(troupe_get(int, asked, &out, TROUPE_POLL), TROUPE_TIMED_OUT);
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_not_equal(troupe_get(int, asked, &out), TROUPE_OK);
    troupe_actor_kill(reader);
}

// Who makes a stream's values sends more than its reader has room for: the stream ends, with what
// there was room for, and its maker is told.
static void test_flooded_stream(void **state)
{
    (void)state;
    enum { WINDOW = 2, MANY = 100 };
    for (int p = 0; p < ELSEWHERE; p++) {
        guard_actor maker = troupe_spawn(guard, .place = elsewhere[p]), beside = maker;
        troupe_must(troupe_actor_status(maker.address));
        troupe_stream stream =
            troupe_stream_open(troupe_with(maker, .window = WINDOW), guard_list, MANY);
        flood what = {.call = stream.id_,
                      .process = trp_process_slot(),
                      .incarnation = trp_process_incarnation(),
                      .count = MANY};
        uint64_t refused = support_stats().frames_refused;
        int value, read = 0, none;
        troupe_ref flooded = {0};
        if (elsewhere[p] == TROUPE_PLACE_WORKER) { // Another one of that process.
            do
                beside = troupe_spawn(guard, .place = TROUPE_PLACE_WORKER);
            while (beside.address.process != maker.address.process);
            flooded = troupe_call_from(beside, guard_flood, &what);
            troupe_must(troupe_get(int, flooded, &none));
        }
        troupe_status status;
        while ((status = troupe_next(int, stream, &value)) == TROUPE_OK)
            read++;
        if (elsewhere[p] == TROUPE_PLACE_WORKER) {
            assert_int_equal(status, TROUPE_MALFORMED);
            assert_true(read <= 2 * WINDOW && support_stats().frames_refused > refused);
        } else {
            assert_int_equal(status, TROUPE_END);
            assert_int_equal(read, MANY);
            assert_int_equal(support_stats().frames_refused, refused);
        }
        int out; // It does not wait for a reader any more.
        troupe_must(troupe_get(int, troupe_call(maker, guard_double, 4), &out, SUPPORT_SOON_MS));
        troupe_actor_kill(maker);
        troupe_actor_kill(beside);
    }
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
        cmocka_unit_test(test_answers_of_others),
        cmocka_unit_test(test_flooded_stream),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
