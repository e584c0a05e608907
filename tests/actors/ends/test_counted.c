// test_counted.c: how long actors live: counted ones until the last retain, owned ones until their
// owner ends; and calls that are sent again to one that was restarted.
#include <places.h>
#include <support.h>

#include <actors/ends/retain.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

static struct {
    _Atomic int runs, left; // Runs of node_try; crashes or failures that it still makes.
} * shared;                 // With the workers.

typedef struct node {
    troupe_actor child;
} node;

TROUPE_STRUCT(wish, (int, place), (bool, owned));

static troupe_status node_spawn(node *self, const wish *how, troupe_actor *child);

static troupe_status node_retain(node *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    return troupe_actor_retain(*other);
}

static troupe_status node_release(node *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    return troupe_actor_release(*other);
}

static troupe_status node_leave(node *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    return troupe_actor_exit();
}

static troupe_status node_crash(node *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    (void)kill(getpid(), SIGKILL);
    (void)pause();
    return TROUPE_OK;
}

// Crashes or fails until it was run often enough.
static troupe_status node_try(node *self, const int *crashes, int *runs)
{
    (void)self;
    *runs = ++shared->runs;
    if (atomic_fetch_sub(&shared->left, 1) <= 0)
        return TROUPE_OK;
    if (*crashes == 0)
        return troupe_fail(TROUPE_IO, "not yet");
    (void)kill(getpid(), SIGKILL);
    (void)pause();
    return TROUPE_OK;
}

static troupe_status node_ping(node *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    return TROUPE_OK;
}

TROUPE_ACTOR(node, (node_spawn, wish, troupe_actor), (node_retain, troupe_actor, troupe_none),
             (node_release, troupe_actor, troupe_none), (node_leave, troupe_none, troupe_none),
             (node_crash, troupe_none, troupe_none),
             (node_try, int, int, .options = TROUPE_METHOD_REPEATABLE),
             (node_ping, troupe_none, troupe_none));

static troupe_status node_spawn(node *self, const wish *how, troupe_actor *child)
{
    node_actor made = troupe_spawn(node, .place = (troupe_place)how->place,
                                   .lifetime = how->owned ? TROUPE_OWNED : TROUPE_DETACHED);
    self->child = *child = made.address;
    return troupe_actor_status(made.address);
}

static int set_up(void **state)
{
    (void)state;
    shared = support_share(sizeof *shared);
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static void await_reason(troupe_actor actor, int reason)
{
    troupe_down down;
    assert_int_equal(troupe_actor_await_end(actor, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_string_equal(troupe_down_reason_name(down.reason), troupe_down_reason_name(reason));
}

static void test_counted(void **state)
{
    (void)state;
    troupe_none none;
    for (int p = 0; p < PLACES; p++) {
        node_actor actor = troupe_spawn(node, .place = places[p], .counted = true);
        troupe_must(troupe_actor_status(actor.address));
        troupe_must(troupe_actor_retain(actor.address));
        assert_int_equal(troupe_actor_release(actor.address), TROUPE_OK);
        // Another process keeps it alive.
        node_actor other = troupe_spawn(node, .place = TROUPE_PLACE_ISOLATED);
        const troupe_actor *address = &actor.address;
        troupe_must(troupe_get(troupe_none, troupe_call_from(other, node_retain, address), &none));
        troupe_must(troupe_get(troupe_none, troupe_call_from(other, node_retain, address), &none));
        assert_int_equal(troupe_actor_release(actor.address), TROUPE_OK);
        assert_int_equal(troupe_actor_release(actor.address), TROUPE_INVALID);
        troupe_must(troupe_get(troupe_none, troupe_call_from(other, node_release, address), &none));
        troupe_must(troupe_get(troupe_none, troupe_call(actor, node_ping), &none));
        troupe_must(troupe_get(troupe_none, troupe_call_from(other, node_release, address), &none));
        await_reason(actor.address, TROUPE_DOWN_NORMAL);
        assert_int_equal(troupe_actor_retain(actor.address), TROUPE_NOT_EXECUTED);
        troupe_actor_kill(other);
    }
    node_actor plain = troupe_spawn(node);
    assert_int_equal(troupe_actor_retain(plain.address), TROUPE_NOT_EXECUTED);
    assert_int_equal(troupe_actor_retain((troupe_actor){0}), TROUPE_NOT_EXECUTED);
    troupe_actor_kill(plain);
}

// What a dead process retained is given back.
static void test_dead_holder(void **state)
{
    (void)state;
    troupe_none none;
    for (int p = 0; p < PLACES; p++) {
        node_actor actor = troupe_spawn(node, .place = places[p], .counted = true);
        node_actor other = troupe_spawn(node, .place = TROUPE_PLACE_ISOLATED);
        troupe_must(
            troupe_get(troupe_none, troupe_call_from(other, node_retain, &actor.address), &none));
        assert_int_equal(troupe_actor_release(actor.address), TROUPE_OK);
        troupe_must(troupe_get(troupe_none, troupe_call(actor, node_ping), &none));
        assert_int_equal(troupe_get(troupe_none, troupe_call(other, node_crash), &none),
                         TROUPE_MAYBE_EXECUTED);
        await_reason(actor.address, TROUPE_DOWN_NORMAL);
    }
}

// One whose threads retained at once holds twice, until its release of the second, or its death.
static void test_dead_holder_of_two(void **state)
{
    (void)state;
    enum { DEAD = 1, OTHER };
    node_actor actor = troupe_spawn(node, .place = TROUPE_PLACE_HERE, .counted = true);
    static const uint64_t holders[] = {DEAD, DEAD, OTHER};
    trp_frame frame = {
        .kind = TRP_FRAME_COUNT, .target = actor.address.id, .schema = actor.address.incarnation};
    for (size_t i = 0; i < sizeof holders / sizeof holders[0]; i++) {
        frame.method = TRP_COUNT_RETAIN;
        frame.from_incarnation = holders[i];
        trp_count_serve(&frame);
    }
    trp_count_death(DEAD);
    assert_int_equal(troupe_actor_release(actor.address), TROUPE_OK);
    assert_int_equal(troupe_actor_await_end(actor.address, 0, NULL), TROUPE_TIMED_OUT);
    frame.method = TRP_COUNT_RELEASE;
    frame.from_incarnation = OTHER;
    trp_count_serve(&frame);
    await_reason(actor.address, TROUPE_DOWN_NORMAL);
}

static void test_owned(void **state)
{
    (void)state;
    troupe_none none;
    for (int o = 0; o < PLACES; o++)
        for (int p = 0; p < PLACES; p++)
            for (int how = 0; how < 3; how++) {
                if (how == 2 && places[o] == TROUPE_PLACE_HERE)
                    continue; // The driver itself.
                node_actor owner = troupe_spawn(node, .place = places[o]), child, free_one;
                wish owned = {places[p], true}, detached = {TROUPE_PLACE_ISOLATED, false};
                troupe_must(troupe_get(troupe_actor, troupe_call_from(owner, node_spawn, &owned),
                                       &child.address));
                troupe_must(troupe_get(troupe_actor, troupe_call_from(owner, node_spawn, &detached),
                                       &free_one.address));
                troupe_must(troupe_get(troupe_none, troupe_call(child, node_ping), &none));
                if (how == 0)
                    troupe_must(troupe_get(troupe_none, troupe_call(owner, node_leave), &none));
                else if (how == 1)
                    assert_int_equal(troupe_actor_kill(owner), TROUPE_OK);
                else
                    assert_int_equal(troupe_get(troupe_none, troupe_call(owner, node_crash), &none),
                                     TROUPE_MAYBE_EXECUTED);
                assert_int_equal(troupe_actor_await_end(child.address, SUPPORT_SOON_MS, NULL),
                                 TROUPE_OK);
                troupe_must(troupe_get(troupe_none, troupe_call(free_one, node_ping), &none));
                troupe_actor_kill(free_one);
            }
    // Outside methods nothing owns it.
    node_actor mine = troupe_spawn(node, .lifetime = TROUPE_OWNED);
    troupe_must(troupe_get(troupe_none, troupe_call(mine, node_ping), &none));
    troupe_actor_kill(mine);
}

static void prepare(int failures)
{
    shared->runs = 0;
    shared->left = failures;
}

static void test_retries(void **state)
{
    (void)state;
    int runs;
    for (int p = 1; p < PLACES; p++) {
        node_actor actor =
            troupe_spawn(node, .place = places[p], .backoff_ms = 1, .restarts = TROUPE_FOREVER);
        prepare(3);
        troupe_must(
            troupe_get(int, troupe_call(troupe_with(actor, .retries = 3), node_try, 1), &runs));
        assert_int_equal(runs, 4);
        prepare(3);
        assert_int_equal(
            troupe_get(int, troupe_call(troupe_with(actor, .retries = 2), node_try, 1), &runs),
            TROUPE_MAYBE_EXECUTED);
        assert_int_equal(shared->runs, 3);
        // Its own failures are final, unless it is said.
        prepare(2);
        assert_int_equal(
            troupe_get(int, troupe_call(troupe_with(actor, .retries = 5), node_try, 0), &runs),
            TROUPE_IO);
        assert_int_equal(shared->runs, 1);
        prepare(2);
        troupe_must(troupe_get(
            int, troupe_call(troupe_with(actor, .retries = 5, .retry_errors = true), node_try, 0),
            &runs));
        assert_int_equal(runs, 3);
        // The deadline ends it, whatever is left.
        prepare(1000000);
        assert_int_equal(
            troupe_get(int,
                       troupe_call(troupe_with(actor, .retries = 255, .retry_errors = true,
                                               .deadline_ms = 60),
                                   node_try, 0),
                       &runs),
            TROUPE_DEADLINE_EXCEEDED);
        prepare(0);
        troupe_actor_kill(actor);
    }
}

static void test_retries_refused(void **state)
{
    (void)state;
    troupe_none none;
    int runs;
    node_actor actor = troupe_spawn(node, .place = TROUPE_PLACE_WORKER);
    assert_int_equal(
        troupe_get(troupe_none, troupe_call(troupe_with(actor, .retries = 1), node_ping), &none),
        TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "TROUPE_METHOD_REPEATABLE"));
    // One that is not restarted: the last failure is the call's.
    troupe_actor_kill(actor);
    assert_int_equal(
        troupe_get(int, troupe_call(troupe_with(actor, .retries = 2), node_try, 0), &runs),
        TROUPE_NOT_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "was killed"));
}

// It may have run the first time, though nobody could be reached any more after that.
static void test_an_earlier_attempt_counts(void **state)
{
    (void)state;
    int runs;
    node_actor actor = troupe_spawn(node, .place = TROUPE_PLACE_ISOLATED);
    prepare(1);
    assert_int_equal(
        troupe_get(int, troupe_call(troupe_with(actor, .retries = 2), node_try, 1), &runs),
        TROUPE_MAYBE_EXECUTED);
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_MAYBE_EXECUTED);
    assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_MAYBE);
    assert_int_equal(shared->runs, 1);
}

// The runtime stops while a call waits to be sent again.
static void test_stop_meanwhile(void **state)
{
    int runs;
    node_actor actor = troupe_spawn(node, .place = TROUPE_PLACE_HERE);
    prepare(1000000);
    troupe_ref ref =
        troupe_call(troupe_with(actor, .retries = 255, .retry_errors = true), node_try, 0);
    assert_int_equal(troupe_get(int, ref, &runs, 30), TROUPE_TIMED_OUT);
    assert_int_equal(stop_runtime(state), 0);
    assert_int_equal(troupe_get(int, ref, &runs), TROUPE_INVALID); // It went with the runtime.
    assert_int_equal(set_up(state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted),
        cmocka_unit_test(test_dead_holder),
        cmocka_unit_test(test_dead_holder_of_two),
        cmocka_unit_test(test_owned),
        cmocka_unit_test(test_retries),
        cmocka_unit_test(test_an_earlier_attempt_counts),
        cmocka_unit_test(test_retries_refused),
        cmocka_unit_test(test_stop_meanwhile),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
