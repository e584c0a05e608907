// test_restart_edges.c: restarts at their edges: what is asked of actors that cannot be restarted,
// what happens to one between deinit and init, what it knows of itself after a move, and what is
// left in the driver's table.
#include <actors/actor/registrar_client.h>
#include <actors/restart/registrar.h>
#include <places.h>
#include <support.h>

#include <actors/actor/restart_in_place.h>
#include <runtime/base/memory.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

static struct {
    _Atomic int inits, deinits;
} * shared; // With the workers.

TROUPE_STRUCT(kindling, (bool, fails_later), (bool, goes_out));
TROUPE_STRUCT(selfish, (int, waits), (int, links));

typedef struct ember {
    bool lit;
} ember;

static troupe_status ember_init(ember *self, const kindling *from)
{
    shared->inits++;
    self->lit = true;
    if (from->fails_later && troupe_actor_restarts() > 0)
        return troupe_fail(TROUPE_IO, "the second start fails");
    return from->goes_out ? troupe_actor_exit() : TROUPE_OK;
}

static void ember_deinit(ember *self)
{
    if (self->lit)
        shared->deinits++;
    else
        shared->deinits += 1000; // Nothing was made that it could end.
}

static troupe_status ember_restarts(ember *self, const troupe_none *nothing, int *out)
{
    (void)self, (void)nothing;
    *out = (int)troupe_actor_restarts();
    return TROUPE_OK;
}

static troupe_status ember_fail(ember *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    return troupe_actor_fail(TROUPE_IO, "the wind is gone");
}

static troupe_status ember_crash(ember *self, const int *number, troupe_none *out)
{
    (void)self, (void)out;
    (void)kill(getpid(), *number);
    (void)pause();
    return TROUPE_OK;
}

// What it is told when it would wait for its own end, or be linked with itself.
static troupe_status ember_own_end(ember *self, const troupe_none *nothing, selfish *out)
{
    (void)self, (void)nothing;
    *out = (selfish){.waits = troupe_actor_await_end(troupe_self(), 1, NULL),
                     .links = troupe_actor_link(troupe_self())};
    return TROUPE_OK;
}

static troupe_status ember_link(ember *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    return troupe_actor_link(*other);
}

static troupe_status ember_watch(ember *self, const troupe_actor *other, troupe_none *out);

static troupe_status ember_lost(ember *self, const troupe_down *down, troupe_none *out)
{
    (void)self, (void)down, (void)out;
    return TROUPE_OK;
}

static troupe_status ember_restart(ember *self, const troupe_actor *other, int *status)
{
    (void)self;
    *status = troupe_actor_restart_with(*other, NULL);
    return TROUPE_OK;
}

static troupe_status ember_await(ember *self, const troupe_actor *other, int *status)
{
    (void)self;
    *status = troupe_actor_await_end(*other, 1, NULL);
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(ember, (ember_init, kindling), ember_deinit, (ember_restarts, troupe_none, int),
                  (ember_fail, troupe_none, troupe_none), (ember_crash, int, troupe_none),
                  (ember_own_end, troupe_none, selfish), (ember_link, troupe_actor, troupe_none),
                  (ember_restart, troupe_actor, int), (ember_await, troupe_actor, int),
                  (ember_lost, troupe_down, troupe_none), (ember_watch, troupe_actor, troupe_none));

static troupe_status ember_watch(ember *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    ember_actor target = {.address = *other};
    return troupe_monitor_start(target, ember_lost) != 0 ? TROUPE_OK : troupe_last_error()->status;
}

static int set_up(void **state)
{
    (void)state;
    shared = support_share(sizeof *shared);
    return troupe_start(0, NULL, .workers = 1, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static int restarts_of(ember_actor actor)
{
    int count = -1;
    troupe_must(troupe_get(int, troupe_call(actor, ember_restarts), &count));
    return count;
}

static void crash(ember_actor actor, int number)
{
    troupe_none none;
    assert_int_equal(troupe_get(troupe_none, troupe_call(actor, ember_crash, number), &none),
                     TROUPE_MAYBE_EXECUTED);
}

static bool was_restarted(void *user)
{
    ember_actor *actor = user;
    int count = 0;
    if (troupe_get(int, troupe_call(*actor, ember_restarts), &count) != TROUPE_OK)
        assert_int_equal(troupe_last_error()->status, TROUPE_MAYBE_EXECUTED);
    return count > 0;
}

static int ask_to_restart(ember_actor who, troupe_actor actor)
{
    int status = -1;
    const troupe_actor *address = &actor;
    troupe_must(troupe_get(int, troupe_call_from(who, ember_restart, address), &status));
    return status;
}

// Whoever asks, and wherever: one without a policy cannot be restarted, nor one that has ended.
static void test_requests_refused(void **state)
{
    (void)state;
    for (int c = 0; c < PLACES; c++) {
        ember_actor who = troupe_spawn(ember, .place = places[c]);
        for (int p = 0; p < PLACES; p++) {
            ember_actor mortal = troupe_spawn(ember, .place = places[p]);
            troupe_must(troupe_actor_status(mortal.address));
            assert_int_equal(troupe_actor_restart(mortal), TROUPE_UNSUPPORTED);
            assert_int_equal(ask_to_restart(who, mortal.address), TROUPE_UNSUPPORTED);
            assert_int_equal(troupe_actor_stop(mortal), TROUPE_OK);
            assert_int_equal(troupe_actor_restart(mortal), TROUPE_NOT_EXECUTED);
            assert_int_equal(ask_to_restart(who, mortal.address), TROUPE_NOT_EXECUTED);
            ember_actor actor = troupe_spawn(ember, .place = places[p], .restarts = 1);
            assert_int_equal(ask_to_restart(who, actor.address), TROUPE_OK);
            assert_true(support_wait_until(was_restarted, &actor, SUPPORT_SOON_MS));
            assert_int_equal(troupe_actor_stop(actor), TROUPE_OK);
            assert_int_equal(troupe_actor_restart(actor), TROUPE_NOT_EXECUTED);
            assert_int_equal(ask_to_restart(who, actor.address), TROUPE_NOT_EXECUTED);
        }
        troupe_actor_kill(who);
    }
}

static bool have_ended(void *user)
{
    return shared->deinits >= *(int *)user;
}

// One that is ended between deinit and init owes no second deinit.
static void test_ended_meanwhile(void **state)
{
    (void)state;
    int deinits = shared->deinits + 2;
    troupe_none none;
    ember_actor actor =
        troupe_spawn(ember, .place = TROUPE_PLACE_HERE, .restarts = 2, .backoff_ms = 60000);
    ember_actor other = troupe_spawn(ember, .place = TROUPE_PLACE_HERE);
    const troupe_actor *address = &other.address;
    troupe_must(troupe_get(troupe_none, troupe_call_from(actor, ember_link, address), &none));
    for (int i = 0; i < 2; i++) // The first restart is at once.
        assert_int_equal(troupe_get(troupe_none, troupe_call(actor, ember_fail), &none), TROUPE_IO);
    assert_true(support_wait_until(have_ended, &deinits, SUPPORT_SOON_MS));
    assert_int_equal(troupe_actor_kill(other), TROUPE_OK);
    troupe_down down;
    assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_KILLED);
    assert_int_equal(shared->deinits, deinits);
}

static bool has_begun(void *user)
{
    return shared->inits >= *(int *)user;
}

// Requests that come while one is carried out: the failure that is told is the last start's.
static void test_asked_meanwhile(void **state)
{
    (void)state;
    enum { RESTARTS = 6 };
    int inits = shared->inits + 1;
    troupe_none none;
    kindling from = {.fails_later = true};
    ember_actor actor = troupe_spawn_from(ember, &from, .place = TROUPE_PLACE_HERE,
                                          .restarts = RESTARTS, .backoff_ms = 1);
    assert_int_equal(troupe_get(troupe_none, troupe_call(actor, ember_fail), &none), TROUPE_IO);
    for (int i = 0; i < RESTARTS; i++) {
        inits++;
        assert_true(support_wait_until(has_begun, &inits, SUPPORT_SOON_MS));
        (void)troupe_actor_restart(actor); // It may have ended.
    }
    troupe_down down;
    assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_ERROR);
    assert_non_null(strstr(down.text, "the second start fails"));
    assert_int_equal(shared->inits, inits);
}

// After a move, it is known by its first address and has another one.
static void test_self_after_a_move(void **state)
{
    (void)state;
    for (int p = 1; p < PLACES; p++) {
        selfish told;
        ember_actor actor = troupe_spawn(ember, .place = places[p], .restarts = 1);
        for (int moved = 0; moved < 2; moved++) {
            assert_int_equal(restarts_of(actor), moved);
            troupe_must(troupe_get(selfish, troupe_call(actor, ember_own_end), &told));
            assert_int_equal(told.waits, TROUPE_DEADLOCK);
            assert_int_equal(told.links, TROUPE_INVALID);
            if (!moved)
                crash(actor, SIGABRT);
        }
        troupe_actor_kill(actor);
    }
}

static bool is_unwatched(void *user)
{
    ember_actor *actor = user;
    return trp_adopted_watchers(actor->address) == 0;
}

// A watch that the driver's table has is taken back from there, whoever's it is.
static void test_waits_after_a_move(void **state)
{
    (void)state;
    enum { WAITS = 20 };
    for (int c = 0; c < PLACES; c += 2) {
        int out;
        ember_actor actor = troupe_spawn(ember, .place = TROUPE_PLACE_WORKER, .restarts = 1);
        ember_actor who = troupe_spawn(ember, .place = places[c]);
        crash(actor, SIGABRT);
        assert_int_equal(restarts_of(actor), 1);
        const troupe_actor *address = &actor.address;
        for (int i = 0; i < WAITS; i++) {
            troupe_must(troupe_get(int, troupe_call_from(who, ember_await, address), &out));
            assert_int_equal(out, TROUPE_TIMED_OUT);
        }
        assert_true(support_wait_until(is_unwatched, &actor, SUPPORT_SOON_MS));
        troupe_actor_kill(actor);
        troupe_actor_kill(who);
    }
}

static bool is_watched(void *user)
{
    ember_actor *actor = user;
    return trp_adopted_watchers(actor->address) == 1;
}

// A watch that the driver's table has goes with the process that watches.
static void test_dead_watcher(void **state)
{
    (void)state;
    ember_actor actor = troupe_spawn(ember, .place = TROUPE_PLACE_WORKER, .restarts = 1);
    ember_actor who = troupe_spawn(ember, .place = TROUPE_PLACE_ISOLATED);
    const troupe_actor *address = &actor.address;
    troupe_none none;
    troupe_must(troupe_get(troupe_none, troupe_call_from(who, ember_watch, address), &none));
    crash(actor, SIGABRT);
    assert_int_equal(restarts_of(actor), 1);
    assert_true(support_wait_until(is_watched, &actor, SUPPORT_SOON_MS));
    crash(who, SIGABRT);
    assert_true(support_wait_until(is_unwatched, &actor, SUPPORT_SOON_MS));
    troupe_actor_kill(actor);
}

static bool is_known_ended(void *user)
{
    ember_actor *actor = user;
    return trp_adopted_find(actor->address, false).where == TRP_WHERE_ENDED;
}

// One that ends in its init has ended, though its spawn succeeds: nobody starts it again, neither
// at once nor when a process of its place dies later.
static void test_ended_at_once(void **state)
{
    (void)state;
    enum { TIMES = 10 };
    for (int p = 1; p < PLACES; p++) {
        kindling from = {.goes_out = true};
        int inits = shared->inits + TIMES;
        ember_actor one = {0};
        for (int i = 0; i < TIMES; i++) {
            one =
                troupe_spawn_from(ember, &from, .place = places[p], .restarts = 3, .backoff_ms = 1);
            troupe_down down;
            assert_int_equal(troupe_actor_await_end(one.address, SUPPORT_SOON_MS, &down),
                             TROUPE_OK);
            // Who asks while it ends may be told before the driver's table.
            assert_true(support_wait_until(is_known_ended, &one, SUPPORT_SOON_MS));
            assert_int_equal(troupe_actor_restart(one), TROUPE_NOT_EXECUTED);
        }
        ember_actor other = troupe_spawn(ember, .place = places[p], .restarts = 1);
        crash(other, SIGABRT);
        assert_int_equal(restarts_of(other), 1);
        for (int i = 0; i < 2; i++) // With it they would be started again.
            assert_int_equal(restarts_of(troupe_spawn(ember, .place = places[p])), 0);
        assert_int_equal(shared->inits, inits + 4);
        troupe_actor_kill(other);
    }
}

// Whatever allocation fails: one that was started is adopted.
static void test_shortage(void **state)
{
    (void)state;
    bool enough = false;
    for (long allowed = 0; !enough; allowed++) {
        trp_memory_fail_after(allowed);
        ember_actor actor = troupe_spawn(ember, .place = TROUPE_PLACE_WORKER, .restarts = 1);
        enough = !trp_memory_refuses();
        trp_memory_fail_after(-1);
        troupe_status status = troupe_actor_status(actor.address);
        if (status != TROUPE_OK) {
            assert_int_equal(status, TROUPE_NO_MEMORY);
            assert_false(enough);
            continue;
        }
        crash(actor, SIGABRT);
        assert_int_equal(restarts_of(actor), 1);
        assert_int_equal(troupe_actor_stop(actor), TROUPE_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_refused),   cmocka_unit_test(test_ended_meanwhile),
        cmocka_unit_test(test_asked_meanwhile),    cmocka_unit_test(test_self_after_a_move),
        cmocka_unit_test(test_waits_after_a_move), cmocka_unit_test(test_ended_at_once),
        cmocka_unit_test(test_dead_watcher),       cmocka_unit_test(test_shortage),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
