// test_urgent.c: methods that are served while their actor is busy.
// label: local
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
#include <unistd.h>

// Seen by all processes.
typedef struct board {
    _Atomic int running, open, beside, deinit_beside, ended;
} board;
static board *shared;

typedef struct digger {
    _Atomic int depth;
    _Atomic bool stop;
    _Atomic bool made;
} digger;

static troupe_status digger_init(digger *self, const int *depth)
{
    atomic_store(&self->depth, *depth);
    atomic_store(&self->made, true);
    return TROUPE_OK;
}

static void digger_deinit(digger *self)
{
    (void)self;
    atomic_fetch_add(&shared->deinit_beside, atomic_load(&shared->beside));
    atomic_fetch_add(&shared->ended, 1);
}

// Digs until it is told to stop.
static troupe_status digger_dig(digger *self, const troupe_none *nothing, int *depth)
{
    (void)nothing;
    atomic_store(&shared->running, 1);
    while (!atomic_load(&self->stop)) {
        atomic_fetch_add(&self->depth, 1);
        usleep(100);
    }
    atomic_store(&self->stop, false);
    *depth = atomic_load(&self->depth);
    return TROUPE_OK;
}

static troupe_status digger_depth(digger *self, const troupe_none *nothing, int *depth)
{
    (void)nothing;
    if (!atomic_load(&self->made))
        return troupe_fail(TROUPE_FAILED, "it was asked before its init");
    *depth = atomic_load(&self->depth);
    return TROUPE_OK;
}

static troupe_status digger_stop(digger *self, const troupe_none *nothing, troupe_none *out)
{
    (void)nothing, (void)out;
    atomic_store(&self->stop, true);
    return TROUPE_OK;
}

static troupe_status digger_pause(digger *self, const int *listens, int *status)
{
    (void)self;
    atomic_fetch_add(&shared->beside, 1);
    while (!atomic_load(&shared->open) && !(*listens && troupe_cancelled()))
        usleep(200);
    atomic_fetch_sub(&shared->beside, 1);
    *status = troupe_cancelled();
    return TROUPE_OK;
}

static troupe_status digger_fail(digger *self, const troupe_none *nothing, int *out)
{
    (void)self, (void)nothing, (void)out;
    return troupe_fail(TROUPE_NO_SPACE, "urgently wrong");
}

static troupe_status digger_text(digger *self, const troupe_text *in, troupe_text *out)
{
    (void)self;
    char *text = troupe_arena_alloc(64);
    snprintf(text, 64, "urgent %s", *in);
    *out = text;
    return TROUPE_OK;
}

static troupe_status digger_ask(digger *self, const troupe_none *nothing, int *depth);
static troupe_status digger_lean(digger *self, const troupe_actor *on, int *depth);
static troupe_status digger_consult(digger *self, const troupe_actor *whom, int *depth);

TROUPE_ACTOR_INIT(digger, (digger_init, int), digger_deinit, (digger_dig, troupe_none, int),
                  (digger_depth, troupe_none, int,
                   .options = TROUPE_METHOD_URGENT | TROUPE_METHOD_REPEATABLE),
                  (digger_stop, troupe_none, troupe_none, .options = TROUPE_METHOD_URGENT),
                  (digger_pause, int, int, .options = TROUPE_METHOD_URGENT),
                  (digger_fail, troupe_none, int, .options = TROUPE_METHOD_URGENT),
                  (digger_text, troupe_text, troupe_text, .options = TROUPE_METHOD_URGENT),
                  (digger_ask, troupe_none, int), (digger_lean, troupe_actor, int),
                  (digger_consult, troupe_actor, int));

// An actor may ask itself urgently: nothing waits for its own method then.
static troupe_status digger_ask(digger *self, const troupe_none *nothing, int *depth)
{
    (void)self, (void)nothing;
    digger_actor me = {troupe_self()};
    return troupe_get(int, troupe_call(me, digger_depth), depth);
}

// Waits for another one that asks this one urgently: no ring, sent again or not.
static troupe_status digger_lean(digger *self, const troupe_actor *on, int *depth)
{
    (void)self;
    troupe_actor me = troupe_self();
    return troupe_get(int, troupe_call_from((digger_actor){*on}, digger_consult, &me), depth);
}

static troupe_status digger_consult(digger *self, const troupe_actor *whom, int *depth)
{
    (void)self;
    digger_actor other = {*whom};
    TROUPE_TRY(troupe_get(int, troupe_call(other, digger_depth), depth));
    return troupe_get(int, troupe_call(troupe_with(other, .retries = 2), digger_depth), depth);
}

static digger_actor make(troupe_place place)
{
    memset(shared, 0, sizeof *shared);
    int depth = 100;
    digger_actor actor = troupe_spawn_from(digger, &depth, .place = place);
    assert_int_equal(troupe_actor_status(actor.address), TROUPE_OK);
    return actor;
}

static bool ends(void *counter)
{
    return atomic_load((_Atomic int *)counter) == 0;
}

static int get(troupe_ref ref)
{
    int value = -1;
    assert_int_equal(troupe_get(int, ref, &value, SUPPORT_SOON_MS), TROUPE_OK);
    return value;
}

static void test_a_busy_actor_can_be_asked(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        digger_actor actor = make(places[i]);
        troupe_none nothing;
        int value;
        troupe_ref dig = troupe_call(actor, digger_dig);
        support_await_counter(&shared->running, 1);
        troupe_ref queued = troupe_call(actor, digger_ask);
        int first = get(troupe_call(actor, digger_depth)), second;
        assert_true(first >= 100);
        do
            second = get(troupe_call(actor, digger_depth));
        while (second <= first); // It goes on meanwhile.
        assert_int_equal(troupe_get(int, dig, &value, TROUPE_POLL), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_get(int, queued, &value, TROUPE_POLL), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_get(troupe_none, troupe_call(actor, digger_stop), &nothing),
                         TROUPE_OK);
        assert_true(get(dig) >= second);
        assert_true(get(queued) >= second);
        troupe_actor_kill(actor);
    }
}

// A thread that has read the call which it waited for leaves what came behind it, if that is much,
// to be read by others while it runs the call; and the method goes on for as long as they do not.
static void test_what_lies_behind_much_is_read(void **state)
{
    (void)state;
    enum { ROUNDS = 3, BEHIND = 2000 };
    for (int i = 0; i < PLACES; i++) {
        digger_actor actor = make(places[i]);
        for (int round = 0; round < ROUNDS; round++) {
            troupe_ref dig = troupe_call(actor, digger_dig);
            for (int k = 0; k < BEHIND; k++)
                assert_int_equal(troupe_tell(actor, digger_ask), TROUPE_OK);
            assert_int_equal(troupe_tell(actor, digger_stop), TROUPE_OK);
            assert_true(get(dig) >= 100);
        }
        troupe_actor_kill(actor);
    }
}

static void test_an_idle_actor_too(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        digger_actor actor = make(places[i]);
        int value;
        troupe_text text;
        assert_int_equal(get(troupe_call(actor, digger_depth)), 100);
        assert_int_equal(get(troupe_call(actor, digger_ask)), 100);
        assert_int_equal(troupe_get(int, troupe_call(actor, digger_fail), &value), TROUPE_NO_SPACE);
        assert_string_equal(troupe_last_error()->text, "urgently wrong");
        assert_non_null(strstr(troupe_last_error()->actor, "digger"));
        assert_int_equal(troupe_get(troupe_text, troupe_call(actor, digger_text, "news"), &text),
                         TROUPE_OK);
        assert_string_equal(text, "urgent news");
        troupe_arena_reset();
        assert_int_equal(troupe_tell(actor, digger_stop), TROUPE_OK);
        assert_int_equal(get(troupe_call(actor, digger_dig)) >= 100, 1); // It is told already.
        troupe_actor_kill(actor);
    }
}

static void test_a_waiting_actor_can_be_asked(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        digger_actor asker = make(places[i]), other = make(places[i]);
        assert_int_equal(get(troupe_call_from(asker, digger_lean, &other.address)), 100);
        troupe_actor_kill(asker);
        troupe_actor_kill(other);
    }
}

static void test_urgent_calls_can_be_cancelled(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        digger_actor actor = make(places[i]);
        int value;
        troupe_ref call = troupe_call(actor, digger_pause, 1);
        support_await_counter(&shared->beside, 1);
        assert_int_equal(troupe_cancel(call), TROUPE_OK);
        assert_int_equal(troupe_get(int, call, &value, SUPPORT_SOON_MS), TROUPE_CANCELLED);
        assert_true(support_wait_until(ends, &shared->beside, SUPPORT_SOON_MS));
        call = troupe_call(troupe_with(actor, .deadline_ms = 30), digger_pause, 1);
        troupe_status status = troupe_get(int, call, &value);
        assert_true(status == TROUPE_DEADLINE_EXCEEDED || status == TROUPE_OK);
        assert_true(support_wait_until(ends, &shared->beside, SUPPORT_SOON_MS));
        troupe_actor_kill(actor);
    }
}

static void test_the_end_waits_for_what_runs_beside(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        digger_actor actor = make(places[i]);
        int value;
        troupe_ref call = troupe_call(actor, digger_pause, 0);
        support_await_counter(&shared->beside, 1);
        assert_int_equal(troupe_actor_end(actor), TROUPE_OK);
        // Once it is closed, urgent calls are refused like others.
        troupe_status status = TROUPE_OK;
        while (status == TROUPE_OK)
            status = troupe_get(int, troupe_call(actor, digger_depth), &value);
        assert_int_equal(status, TROUPE_NOT_EXECUTED);
        assert_int_equal(atomic_load(&shared->ended), 0);
        atomic_store(&shared->open, 1);
        status = troupe_get(int, call, &value, SUPPORT_SOON_MS);
        assert_int_equal(status, TROUPE_OK);
        support_await_counter(&shared->ended, 1);
        assert_int_equal(atomic_load(&shared->deinit_beside), 0);
    }
}

static void test_many_at_once(void **state)
{
    (void)state;
    enum { CALLS = 40 };
    for (int i = 0; i < PLACES; i++) {
        digger_actor actor = make(places[i]);
        troupe_ref calls[CALLS];
        for (int k = 0; k < CALLS; k++)
            calls[k] = troupe_call(actor, digger_pause, 0);
        while (atomic_load(&shared->beside) < CALLS) // All of them run, and none blocks another.
            usleep(200);
        assert_int_equal(get(troupe_call(actor, digger_depth)), 100);
        atomic_store(&shared->open, 1);
        for (int k = 0; k < CALLS; k++)
            assert_int_equal(get(calls[k]), 0);
        troupe_actor_kill(actor);
    }
}

static void test_killed_while_they_run(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        for (int round = 0; round < 20; round++) {
            digger_actor actor = make(places[i == 2 && round > 0 ? 0 : i]);
            troupe_ref calls[8];
            int value;
            for (int k = 0; k < 8; k++)
                calls[k] = troupe_call(actor, digger_depth);
            assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
            for (int k = 0; k < 8; k++) {
                troupe_status status = troupe_get(int, calls[k], &value, SUPPORT_SOON_MS);
                assert_true(status == TROUPE_OK || status == TROUPE_NOT_EXECUTED ||
                            status == TROUPE_MAYBE_EXECUTED);
            }
        }
    }
}

int main(int argc, char **argv)
{
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = 2, .threads = 1));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_busy_actor_can_be_asked),
        cmocka_unit_test(test_what_lies_behind_much_is_read),
        cmocka_unit_test(test_an_idle_actor_too),
        cmocka_unit_test(test_a_waiting_actor_can_be_asked),
        cmocka_unit_test(test_urgent_calls_can_be_cancelled),
        cmocka_unit_test(test_the_end_waits_for_what_runs_beside),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_killed_while_they_run),
    };
    return cmocka_run_group_tests(tests, NULL, stop_runtime);
}
