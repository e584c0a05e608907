// test_cancel.c: calls that are given up: in the mailbox, running, done; by force; at a deadline.
#include <places.h>
#include <support.h>

#include <actors/actor/invoke.h>
#include <actors/async/async.h>
#include <actors/async/cancel.h>
#include <pthread.h>
#include <runtime/shm/segment.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
#include <unistd.h>

// Seen by all processes: mapped before the first of them is forked.
typedef struct board {
    _Atomic int running; // Methods that have begun to wait.
    _Atomic int open;    // They may go on.
    _Atomic int saw;     // Methods that were told of their end.
    _Atomic int added;
} board;
static board *shared;

typedef struct patient {
    int nothing;
} patient;

static troupe_status patient_wait(patient *self, const int *listens, int *result)
{
    (void)self;
    atomic_fetch_add(&shared->running, 1);
    while (!atomic_load(&shared->open) && !(*listens && troupe_cancelled()))
        usleep(200);
    atomic_fetch_add(&shared->saw, troupe_cancelled());
    *result = 1;
    return TROUPE_OK;
}

static troupe_status patient_add(patient *self, const int *amount, int *total)
{
    (void)self;
    *total = atomic_fetch_add(&shared->added, *amount) + *amount;
    return TROUPE_OK;
}

static troupe_status patient_pid(patient *self, const troupe_none *nothing, int *pid)
{
    (void)self, (void)nothing;
    *pid = getpid();
    return TROUPE_OK;
}

// So many callers of another node give up calls which wait, and at last one does so by force.
static troupe_status patient_bury(patient *self, const int *count, int *result)
{
    (void)self;
    trp_actor *actor = trp_run_actor();
    trp_caller caller = {.remote = true, .process = TRP_PROCESSES_MAX, .incarnation = 1};
    for (int i = 0; i <= *count; i++) {
        caller.call = (uint64_t)i + 1;
        trp_cancel_call(actor, trp_actor_id(actor), &caller, i == *count);
    }
    usleep(20000); // For who would end the process.
    *result = *count;
    return TROUPE_OK;
}

TROUPE_ACTOR(patient, (patient_wait, int, int, .options = TROUPE_METHOD_REPEATABLE),
             (patient_add, int, int, .options = TROUPE_METHOD_REPEATABLE),
             (patient_pid, troupe_none, int), (patient_bury, int, int));

static patient_actor make(troupe_place place)
{
    memset(shared, 0, sizeof *shared);
    patient_actor actor = troupe_spawn(patient, .place = place);
    assert_int_equal(troupe_actor_status(actor.address), TROUPE_OK);
    return actor;
}

static void assert_cancelled(troupe_ref call, troupe_executed executed)
{
    int value = -1;
    assert_int_equal(troupe_get(int, call, &value, SUPPORT_SOON_MS), TROUPE_CANCELLED);
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_CANCELLED);
    assert_int_equal(troupe_last_error()->executed, executed);
    assert_non_null(strstr(troupe_last_error()->actor, "patient"));
    assert_int_equal(value, -1);
}

static void assert_value(troupe_ref call, int expected)
{
    int value = -1;
    assert_int_equal(troupe_get(int, call, &value, SUPPORT_SOON_MS), TROUPE_OK);
    assert_int_equal(value, expected);
}

static void test_a_call_in_the_mailbox_is_not_run(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        patient_actor actor = make(places[i]);
        troupe_ref first = troupe_call(actor, patient_wait, 0);
        support_await_counter(&shared->running, 1);
        troupe_ref second = troupe_call(actor, patient_add, 1);
        troupe_ref third = troupe_call(actor, patient_add, 10);
        assert_int_equal(troupe_cancel(second), TROUPE_OK);
        assert_cancelled(second, TROUPE_EXECUTED_NO); // While the first still runs.
        atomic_store(&shared->open, 1);
        assert_value(first, 1);
        assert_value(third, 10);
        assert_value(troupe_call(actor, patient_add, 100), 110);
        troupe_actor_kill(actor);
    }
}

static void test_a_running_method_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        patient_actor actor = make(places[i]);
        troupe_ref call = troupe_call(actor, patient_wait, 1);
        support_await_counter(&shared->running, 1);
        assert_int_equal(troupe_cancel(call), TROUPE_OK);
        assert_cancelled(call, TROUPE_EXECUTED_MAYBE);
        support_await_counter(&shared->saw, 1);
        assert_value(troupe_call(actor, patient_add, 1), 1); // The next is not told.
        assert_false(troupe_cancelled());
        troupe_actor_kill(actor);
    }
}

static void test_a_cancelled_call_ends_once(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        patient_actor actor = make(places[i]);
        troupe_ref call = troupe_call(actor, patient_wait, 0);
        support_await_counter(&shared->running, 1);
        assert_int_equal(troupe_cancel(call), TROUPE_OK);
        troupe_status again = troupe_cancel(call);
        assert_true(again == TROUPE_OK || again == TROUPE_NOT_FOUND);
        assert_cancelled(call, TROUPE_EXECUTED_MAYBE);
        atomic_store(&shared->open, 1); // Now it answers, and nobody listens.
        assert_value(troupe_call(actor, patient_add, 2), 2);
        assert_int_equal(troupe_cancel(call), TROUPE_INVALID);
        troupe_actor_kill(actor);
    }
}

static void test_what_has_ended_is_left_alone(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        patient_actor actor = make(places[i]);
        bool ready;
        troupe_ref call = troupe_call(actor, patient_add, 3);
        assert_int_equal(troupe_wait(&call, 1, 1, SUPPORT_SOON_MS, &ready, NULL), TROUPE_OK);
        assert_int_equal(troupe_cancel(call), TROUPE_NOT_FOUND);
        assert_value(call, 3);
        assert_int_equal(troupe_cancel(call), TROUPE_INVALID);
        assert_int_equal(troupe_cancel((troupe_ref){0}), TROUPE_INVALID);
        troupe_ref object = troupe_put_bytes("x", 1);
        assert_int_equal(troupe_cancel(object), TROUPE_INVALID);
        troupe_ref_drop(object);
        troupe_actor_kill(actor);
    }
}

static void test_force_needs_a_process_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        patient_actor actor = make(places[i]);
        troupe_ref call = troupe_call(actor, patient_wait, 1);
        support_await_counter(&shared->running, 1);
        assert_int_equal(troupe_cancel(call, .force = true), TROUPE_UNSUPPORTED);
        assert_non_null(strstr(troupe_last_error()->text, "patient"));
        atomic_store(&shared->open, 1);
        assert_value(call, 1); // It went on.
        int value;
        for (uint32_t retries = 0; retries < 2; retries++)
            assert_int_equal(
                troupe_get(int,
                           troupe_call(troupe_with(actor, .deadline_ms = 5000,
                                                   .force_at_deadline = true, .retries = retries),
                                       patient_add, 1),
                           &value),
                TROUPE_UNSUPPORTED);
        troupe_actor_kill(actor);
    }
}

static void test_force_ends_the_process(void **state)
{
    (void)state;
    patient_actor actor = make(TROUPE_PLACE_ISOLATED);
    int pid;
    troupe_must(troupe_get(int, troupe_call(actor, patient_pid), &pid));
    troupe_ref call = troupe_call(actor, patient_wait, 0); // It does not listen.
    support_await_counter(&shared->running, 1);
    troupe_ref queued = troupe_call(actor, patient_add, 1), other = troupe_call(actor, patient_pid);
    assert_int_equal(troupe_cancel(queued, .force = true), TROUPE_OK);
    assert_cancelled(queued, TROUPE_EXECUTED_NO);
    assert_true(support_process_lives(pid)); // That one was not running.
    assert_int_equal(troupe_cancel(call, .force = true), TROUPE_OK);
    assert_cancelled(call, TROUPE_EXECUTED_MAYBE);
    int value;
    assert_int_equal(troupe_get(int, other, &value), TROUPE_MAYBE_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "by force"));
    assert_true(support_processes_end(&pid, 1, SUPPORT_SOON_MS));
    assert_int_equal(troupe_get(int, troupe_call(actor, patient_pid), &value), TROUPE_NOT_EXECUTED);
}

// Whoever has heard that a call was given up by force finds the actor's next start: what is called
// then is not lost with the process.
static void test_a_call_after_force_is_run(void **state)
{
    (void)state;
    memset(shared, 0, sizeof *shared);
    patient_actor actor = troupe_spawn(patient, .place = TROUPE_PLACE_ISOLATED,
                                       .restarts = TROUPE_FOREVER, .backoff_ms = 1);
    for (int round = 1; round <= 10; round++) {
        int total;
        troupe_ref call = troupe_call(actor, patient_wait, 0);
        support_await_counter(&shared->running, round);
        assert_int_equal(troupe_cancel(call, .force = true), TROUPE_OK);
        assert_cancelled(call, TROUPE_EXECUTED_MAYBE);
        troupe_must(troupe_get(int, troupe_call(actor, patient_add, 1), &total));
        assert_int_equal(total, round);
    }
    troupe_actor_kill(actor);
}

static void test_a_deadline_can_end_the_process(void **state)
{
    (void)state;
    for (uint32_t retries = 0; retries < 2; retries++) {
        patient_actor actor = make(TROUPE_PLACE_ISOLATED);
        int pid, value;
        troupe_must(troupe_get(int, troupe_call(actor, patient_pid), &pid));
        // What has not begun by then is not run, and its process lives on: so it may be where the
        // machine has other work.
        troupe_status next = TROUPE_OK;
        for (uint32_t ms = 50; next == TROUPE_OK && ms < SUPPORT_SOON_MS; ms *= 2) {
            patient_actor hasty = troupe_with(actor, .deadline_ms = ms, .force_at_deadline = true,
                                              .retries = retries);
            assert_int_equal(troupe_get(int, troupe_call(hasty, patient_wait, 0), &value),
                             TROUPE_DEADLINE_EXCEEDED);
            next = troupe_get(int, troupe_call(actor, patient_pid), &value, SUPPORT_SOON_MS);
            assert_true(next != TROUPE_OK || atomic_load(&shared->running) == 0);
        }
        assert_true(support_processes_end(&pid, 1, SUPPORT_SOON_MS));
        patient_actor forced = troupe_with(actor, .force_at_deadline = true, .retries = retries);
        troupe_ref call = troupe_call(forced, patient_wait, 0);
        assert_int_equal(troupe_get(int, call, &value), TROUPE_INVALID); // Without a deadline.
    }
}

// What is refused before it is sent is refused for that, though its target dies meanwhile.
static void test_a_refusal_is_no_death(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        patient_actor actor = make(TROUPE_PLACE_ISOLATED);
        patient_actor forced = troupe_with(actor, .force_at_deadline = true);
        int pid, value;
        troupe_must(troupe_get(int, troupe_call(actor, patient_pid), &pid));
        assert_int_equal(kill(pid, SIGKILL), 0);
        // The news of the death come within that time.
        for (int64_t until = support_now_ms() + 30; support_now_ms() < until;) {
            troupe_ref refused = troupe_call(forced, patient_wait, 0);
            assert_int_equal(troupe_get(int, refused, &value), TROUPE_INVALID);
        }
    }
}

// Once a call has found its target dead, none may have been executed, though the news of the death
// come only then.
static void test_a_call_to_the_dead_is_not_executed(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        patient_actor actor = make(TROUPE_PLACE_ISOLATED);
        int pid, value;
        troupe_must(troupe_get(int, troupe_call(actor, patient_pid), &pid));
        assert_int_equal(kill(pid, SIGKILL), 0);
        troupe_status status = TROUPE_OK;
        while (status != TROUPE_NOT_EXECUTED)
            status = troupe_get(int, troupe_call(actor, patient_pid), &value);
        for (int64_t until = support_now_ms() + 30; support_now_ms() < until;) {
            status = troupe_get(int, troupe_call(actor, patient_pid), &value);
            assert_int_equal(status, TROUPE_NOT_EXECUTED);
        }
    }
}

static void test_a_method_sees_that_its_deadline_has_passed(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        patient_actor actor = make(places[i]);
        int value;
        troupe_ref call = troupe_call(troupe_with(actor, .deadline_ms = 30), patient_wait, 1);
        troupe_status status = troupe_get(int, call, &value);
        assert_true(status == TROUPE_DEADLINE_EXCEEDED ||
                    status == TROUPE_OK);      // It answers just then.
        if (atomic_load(&shared->running) > 0) // Else it was late to begin with.
            support_await_counter(&shared->saw, 1);
        troupe_actor_kill(actor);
    }
}

typedef struct race {
    troupe_ref *calls;
    int count;
} race;

static void *cancel_all(void *user)
{
    race *it = user;
    for (int i = 0; i < it->count; i += 2)
        (void)troupe_cancel(it->calls[i]);
    return NULL;
}

// Each call ends once, and what is said of its execution is true.
static void test_cancelling_races_with_running(void **state)
{
    (void)state;
    enum { CALLS = 2000 };
    static troupe_ref calls[CALLS];
    for (int i = 0; i < PLACES; i++) {
        patient_actor actor = make(places[i]);
        int ran = 0, maybe = 0, value;
        pthread_t thread;
        race it = {calls, CALLS};
        for (int k = 0; k < CALLS; k++)
            calls[k] = troupe_call(actor, patient_add, 1);
        assert_int_equal(pthread_create(&thread, NULL, cancel_all, &it), 0);
        pthread_join(thread, NULL);
        for (int k = 0; k < CALLS; k++) {
            troupe_status status = troupe_get(int, calls[k], &value, SUPPORT_SOON_MS);
            assert_true(status == TROUPE_OK || (status == TROUPE_CANCELLED && k % 2 == 0));
            ran += status == TROUPE_OK;
            maybe += status == TROUPE_CANCELLED &&
                     troupe_last_error()->executed == TROUPE_EXECUTED_MAYBE;
        }
        assert_value(troupe_call(actor, patient_add, 0), atomic_load(&shared->added));
        assert_in_range(atomic_load(&shared->added), ran, ran + maybe);
        troupe_actor_kill(actor);
    }
}

static void test_the_dead_and_the_waiting(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        patient_actor actor = make(places[i]);
        int value;
        troupe_ref first = troupe_call(actor, patient_wait, 1);
        support_await_counter(&shared->running, 1);
        troupe_ref second = troupe_call(actor, patient_add, 1);
        assert_int_equal(troupe_cancel(second), TROUPE_OK);
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK); // With a tombstone and its marker.
        atomic_store(&shared->open, 1);
        troupe_status status = troupe_get(int, first, &value);
        assert_true(status == TROUPE_OK || status == TROUPE_MAYBE_EXECUTED);
        assert_cancelled(second, TROUPE_EXECUTED_NO);
    }
}

// Where no more calls that wait can be noted as given up, another one's end by force is no end of
// the process: its method does not run.
static void test_more_than_can_be_buried(void **state)
{
    (void)state;
    enum { TOMBSTONES = 4096 };
    patient_actor actor = make(TROUPE_PLACE_ISOLATED);
    assert_value(troupe_call(actor, patient_bury, TOMBSTONES), TOMBSTONES);
    assert_value(troupe_call(actor, patient_bury, 1), 1); // Their markers have come.
}

int main(int argc, char **argv)
{
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = 2, .threads = 2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_in_the_mailbox_is_not_run),
        cmocka_unit_test(test_a_running_method_is_told),
        cmocka_unit_test(test_a_cancelled_call_ends_once),
        cmocka_unit_test(test_what_has_ended_is_left_alone),
        cmocka_unit_test(test_force_needs_a_process_of_its_own),
        cmocka_unit_test(test_force_ends_the_process),
        cmocka_unit_test(test_a_call_after_force_is_run),
        cmocka_unit_test(test_a_deadline_can_end_the_process),
        cmocka_unit_test(test_a_refusal_is_no_death),
        cmocka_unit_test(test_a_call_to_the_dead_is_not_executed),
        cmocka_unit_test(test_a_method_sees_that_its_deadline_has_passed),
        cmocka_unit_test(test_cancelling_races_with_running),
        cmocka_unit_test(test_the_dead_and_the_waiting),
        cmocka_unit_test(test_more_than_can_be_buried),
    };
    return cmocka_run_group_tests(tests, NULL, stop_runtime);
}
