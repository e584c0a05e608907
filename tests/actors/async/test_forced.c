// test_forced.c: light actors that are stopped with a deadline while a method runs: its caller is
// told at the deadline, and the method, which goes on, is told that its answer is not wanted any
// more. Isolated ones that are killed have gone at once, also where all is in one process.
// label: local
#include <places.h>
#include <support.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

static struct {
    _Atomic int running, open, cancelled, answered, reason;
} * shared; // With the workers.

typedef struct stone {
    troupe_deferred owed;
} stone;

static troupe_status pass(void)
{
    shared->running++;
    while (!shared->open)
        usleep(200);
    shared->cancelled += troupe_cancelled();
    shared->running--;
    return TROUPE_OK;
}

static troupe_status stone_hold(stone *self, const int *number, int *out)
{
    (void)self;
    *out = *number;
    return pass();
}

static troupe_status stone_drip(stone *self, const troupe_none *nothing, int *unused)
{
    (void)self, (void)nothing, (void)unused;
    int first = 1;
    TROUPE_TRY(troupe_yield(int, &first));
    return pass();
}

// Answers later, which never comes.
static troupe_status stone_owe(stone *self, const troupe_none *nothing, int *unused)
{
    (void)nothing, (void)unused;
    self->owed = troupe_defer();
    return self->owed.id_ != 0 ? TROUPE_OK : TROUPE_FAILED;
}

TROUPE_ACTOR(stone, (stone_hold, int, int),
             (stone_drip, troupe_none, int, .options = TROUPE_METHOD_STREAM),
             (stone_owe, troupe_none, int));

typedef struct mourner {
    char unused;
} mourner;

static troupe_status mourner_told(mourner *self, const troupe_down *down, troupe_none *nothing);
static troupe_status mourner_watch(mourner *self, const troupe_actor *actor, troupe_none *nothing);
static troupe_status mourner_link(mourner *self, const troupe_actor *actor, troupe_none *nothing);

TROUPE_ACTOR(mourner, (mourner_told, troupe_down, troupe_none),
             (mourner_watch, troupe_actor, troupe_none), (mourner_link, troupe_actor, troupe_none));

static troupe_status mourner_told(mourner *self, const troupe_down *down, troupe_none *nothing)
{
    (void)self, (void)nothing;
    shared->reason = down->reason;
    return TROUPE_OK;
}

static troupe_status mourner_watch(mourner *self, const troupe_actor *actor, troupe_none *nothing)
{
    (void)self, (void)nothing;
    uint64_t monitor =
        troupe_monitor_start_as(*actor, &troupe_class_mourner, troupe_method_mourner_told.index);
    return monitor != 0 ? TROUPE_OK : TROUPE_FAILED;
}

static troupe_status mourner_link(mourner *self, const troupe_actor *actor, troupe_none *nothing)
{
    (void)self, (void)nothing;
    return troupe_actor_link(*actor);
}

static int set_up(void **state)
{
    (void)state;
    shared = support_share(sizeof *shared);
    return troupe_start(0, NULL, .workers = 2, .threads = 2, .resources = "chisel=1") == TROUPE_OK
               ? 0
               : -1;
}

static bool so_many_run(void *user)
{
    return shared->running == *(int *)user;
}

static void await_running(int count)
{
    assert_true(support_wait_until(so_many_run, &count, SUPPORT_SOON_MS));
}

static stone_actor make(troupe_place place, uint32_t concurrency)
{
    memset((void *)shared, 0, sizeof *shared);
    stone_actor actor = troupe_spawn(stone, .place = place, .concurrency = concurrency);
    troupe_must(troupe_actor_status(actor.address));
    return actor;
}

static void expect_given_up(troupe_ref ref)
{
    int out;
    assert_int_equal(troupe_get(int, ref, &out, SUPPORT_SOON_MS), TROUPE_MAYBE_EXECUTED);
    assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_MAYBE);
}

// `killed`: with its process, in the middle of a method.
static void await_gone(stone_actor actor, bool killed)
{
    shared->open = !killed;
    troupe_down down;
    assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_KILLED);
    if (!killed)
        await_running(0);
}

static void test_a_running_call_ends_at_the_deadline(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++)
        for (int at_once = 0; at_once < 2; at_once++) {
            stone_actor actor = make(places[p], 1);
            int out;
            troupe_ref owed = troupe_call(actor, stone_owe);
            troupe_ref runs = troupe_call(actor, stone_hold, 1);
            troupe_ref waits = troupe_call(actor, stone_hold, 2);
            await_running(1);
            assert_int_equal(troupe_actor_stop(actor, at_once != 0 ? 0 : 20),
                             TROUPE_DEADLINE_EXCEEDED);
            expect_given_up(runs);
            assert_non_null(strstr(troupe_last_error()->text, "killed before it answered"));
            expect_given_up(owed);
            assert_int_equal(troupe_get(int, waits, &out), TROUPE_NOT_EXECUTED);
            assert_int_equal(shared->running, 1); // All that while it goes on.
            await_gone(actor, false);
            assert_int_equal(shared->cancelled, 1);
        }
}

// Whatever its method does. The best of some tries counts: the machine may have other work.
static void test_a_stop_keeps_its_deadline(void **state)
{
    (void)state;
    enum { TRIES = 8, DEADLINE_MS = 200, SLACK_MS = 50 };
    for (int p = 0; p < PLACES; p++) {
        int64_t best = INT64_MAX;
        for (int i = 0; i < TRIES && best > DEADLINE_MS + SLACK_MS; i++) {
            stone_actor actor = make(places[p], 1);
            troupe_ref runs = troupe_call(actor, stone_hold, 1);
            await_running(1);
            int64_t begin = support_now_ms();
            assert_int_equal(troupe_actor_stop(actor, DEADLINE_MS), TROUPE_DEADLINE_EXCEEDED);
            int64_t took = support_now_ms() - begin;
            best = took < best ? took : best;
            expect_given_up(runs);
            await_gone(actor, places[p] == TROUPE_PLACE_ISOLATED && getenv("TROUPE_LOCAL") == NULL);
        }
        assert_true(best >= DEADLINE_MS);
        assert_true(best <= DEADLINE_MS + SLACK_MS);
    }
}

static void test_so_do_those_that_run_beside_each_other(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        stone_actor actor = make(places[p], 2);
        int out;
        troupe_ref calls[3];
        for (int i = 0; i < 3; i++)
            calls[i] = troupe_call(actor, stone_hold, i);
        await_running(2);
        assert_int_equal(troupe_actor_stop(actor, 20), TROUPE_DEADLINE_EXCEEDED);
        int given_up = 0;
        for (int i = 0; i < 3; i++) { // One of them waits in the lane.
            troupe_status status = troupe_get(int, calls[i], &out, SUPPORT_SOON_MS);
            assert_true(status == TROUPE_MAYBE_EXECUTED || status == TROUPE_NOT_EXECUTED);
            given_up += status == TROUPE_MAYBE_EXECUTED;
        }
        assert_int_equal(given_up, 2);
        assert_int_equal(shared->running, 2);
        await_gone(actor, false);
        assert_int_equal(shared->cancelled, 2);
    }
}

static void test_a_stream_ends_at_the_deadline(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        stone_actor actor = make(places[p], 1);
        int out;
        troupe_stream stream = troupe_stream_open(actor, stone_drip, 0);
        troupe_must(troupe_next(int, stream, &out));
        await_running(1);
        assert_int_equal(troupe_actor_stop(actor, 20), TROUPE_DEADLINE_EXCEEDED);
        assert_int_equal(troupe_next(int, stream, &out, SUPPORT_SOON_MS), TROUPE_MAYBE_EXECUTED);
        assert_int_equal(troupe_next(int, stream, &out), TROUPE_INVALID);
        assert_int_equal(shared->running, 1);
        await_gone(actor, false);
    }
}

// troupe_actor_kill alone lets the method answer.
static void test_killing_lets_it_answer(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        stone_actor actor = make(places[p], 1);
        int out;
        troupe_ref runs = troupe_call(actor, stone_hold, 7);
        await_running(1);
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
        assert_int_equal(troupe_get(int, runs, &out, TROUPE_POLL), TROUPE_TIMED_OUT);
        await_gone(actor, false);
        troupe_must(troupe_get(int, runs, &out));
        assert_int_equal(out, 7);
        assert_int_equal(shared->cancelled, 0);
    }
}

static bool is_told(void *unused)
{
    (void)unused;
    return shared->reason != 0;
}

// Who watches it is told, and its name and resources are free, while the method may still be
// running.
static void test_a_killed_isolated_one_has_gone_at_once(void **state)
{
    (void)state;
    bool local = getenv("TROUPE_LOCAL") != NULL;
    troupe_none none;
    troupe_down down;
    memset((void *)shared, 0, sizeof *shared);
    stone_actor actor = troupe_spawn(stone, .place = TROUPE_PLACE_ISOLATED, .name = "granite",
                                     .resources = "chisel=1");
    troupe_must(troupe_actor_status(actor.address));
    mourner_actor widow = troupe_spawn(mourner), heir = troupe_spawn(mourner);
    troupe_must(
        troupe_get(troupe_none, troupe_call_from(widow, mourner_watch, &actor.address), &none));
    troupe_must(
        troupe_get(troupe_none, troupe_call_from(heir, mourner_link, &actor.address), &none));
    troupe_ref runs = troupe_call(actor, stone_hold, 1);
    await_running(1);
    assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
    expect_given_up(runs);
    assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_KILLED);
    assert_true(support_wait_until(is_told, NULL, SUPPORT_SOON_MS));
    assert_int_equal(shared->reason, TROUPE_DOWN_KILLED);
    assert_int_equal(troupe_actor_await_end(heir.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_KILLED);
    stone_actor next = troupe_spawn(stone, .place = TROUPE_PLACE_ISOLATED, .name = "granite",
                                    .resources = "chisel=1", .resources_wait_ms = SUPPORT_SOON_MS);
    troupe_must(troupe_actor_status(next.address));
    assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_KILLED); // Who asks later learns the same.
    assert_int_equal(shared->running, 1);              // It went on, or died where it was.
    shared->open = 1;
    if (local)
        await_running(0);
    assert_int_equal(shared->cancelled, local);
    stone_actor found;
    troupe_must(troupe_lookup(stone, "granite", &found));
    assert_int_equal(found.address.id, next.address.id); // The end of the method took nothing.
    shared->running = 0;
    assert_int_equal(troupe_actor_kill(next), TROUPE_OK);
    assert_int_equal(troupe_actor_kill(widow), TROUPE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_running_call_ends_at_the_deadline),
        cmocka_unit_test(test_a_stop_keeps_its_deadline),
        cmocka_unit_test(test_so_do_those_that_run_beside_each_other),
        cmocka_unit_test(test_a_stream_ends_at_the_deadline),
        cmocka_unit_test(test_killing_lets_it_answer),
        cmocka_unit_test(test_a_killed_isolated_one_has_gone_at_once),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
