// test_concurrency.c: actors that run several of their methods at a time, in groups.
// label: local
#include <places.h>
#include <support.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
#include <troupe/life.h>
#include <unistd.h>

// Seen by all processes.
typedef struct board {
    _Atomic int running, most, open, done, ended, running_at_end;
    _Atomic int disk_running, disk_most;
} board;
static board *shared;

typedef struct desk {
    _Atomic int64_t total;
} desk;

static troupe_status desk_init(desk *self, const troupe_none *nothing)
{
    (void)self, (void)nothing;
    return TROUPE_OK;
}

static void desk_deinit(desk *self)
{
    (void)self;
    atomic_store(&shared->running_at_end, atomic_load(&shared->running));
    atomic_fetch_add(&shared->ended, 1);
}

static void raise(_Atomic int *most, int now)
{
    int seen = atomic_load(most);
    while (now > seen && !atomic_compare_exchange_weak(most, &seen, now))
        continue;
}

static troupe_status pass(_Atomic int *running, _Atomic int *most)
{
    raise(most, atomic_fetch_add(running, 1) + 1);
    while (!atomic_load(&shared->open) && !troupe_cancelled())
        usleep(200);
    atomic_fetch_sub(running, 1);
    atomic_fetch_add(&shared->done, 1);
    return TROUPE_OK;
}

static troupe_status desk_wait(desk *self, const int *number, int *out)
{
    (void)self;
    *out = *number;
    return pass(&shared->running, &shared->most);
}

static troupe_status desk_read(desk *self, const int *number, int *out)
{
    (void)self;
    *out = *number;
    return pass(&shared->disk_running, &shared->disk_most);
}

static troupe_status desk_add(desk *self, const int64_t *amount, int64_t *total)
{
    *total = atomic_fetch_add(&self->total, *amount) + *amount;
    return TROUPE_OK;
}

static troupe_status desk_call_self(desk *self, const int64_t *amount, int64_t *total);

TROUPE_ACTOR_INIT(desk, (desk_init, troupe_none), desk_deinit, (desk_wait, int, int),
                  (desk_read, int, int, .group = "disk"),
                  (desk_add, int64_t, int64_t, .group = "fast"),
                  (desk_call_self, int64_t, int64_t));

// No deadlock where others run beside it.
static troupe_status desk_call_self(desk *self, const int64_t *amount, int64_t *total)
{
    (void)self;
    desk_actor me = {troupe_self()};
    return troupe_get(int64_t, troupe_call(me, desk_add, *amount), total);
}

enum { CALLS = 12 };

static void clear(void)
{
    memset(shared, 0, sizeof *shared);
}

static void check(desk_actor actor)
{
    assert_int_equal(troupe_actor_status(actor.address), TROUPE_OK);
}

static int get(troupe_ref ref)
{
    int value = -1;
    assert_int_equal(troupe_get(int, ref, &value, SUPPORT_SOON_MS), TROUPE_OK);
    return value;
}

static void test_so_many_at_a_time_and_no_more(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clear();
        desk_actor actor = troupe_spawn(desk, .place = places[i], .concurrency = 3);
        check(actor);
        troupe_ref calls[CALLS];
        for (int k = 0; k < CALLS; k++)
            calls[k] = troupe_call(actor, desk_wait, k);
        support_await_counter(&shared->running, 3);
        atomic_store(&shared->open, 1);
        for (int k = 0; k < CALLS; k++)
            assert_int_equal(get(calls[k]), k);
        assert_int_equal(atomic_load(&shared->most), 3);
        assert_int_equal(atomic_load(&shared->done), CALLS);
        troupe_actor_kill(actor);
    }
}

static void test_groups_have_limits_of_their_own(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clear();
        desk_actor actor = troupe_spawn(desk, .place = places[i], .groups = "disk=2,fast=1");
        check(actor);
        troupe_ref waits[CALLS], reads[CALLS];
        for (int k = 0; k < CALLS; k++) {
            waits[k] = troupe_call(actor, desk_wait, k);
            reads[k] = troupe_call(actor, desk_read, k);
        }
        support_await_counter(&shared->running, 1);
        support_await_counter(&shared->disk_running, 2);
        int64_t total = 0; // A third group is not kept by the two that are full.
        assert_int_equal(
            troupe_get(int64_t, troupe_call(actor, desk_add, 7), &total, SUPPORT_SOON_MS),
            TROUPE_OK);
        assert_int_equal(total, 7);
        atomic_store(&shared->open, 1);
        for (int k = 0; k < CALLS; k++) {
            assert_int_equal(get(waits[k]), k);
            assert_int_equal(get(reads[k]), k);
        }
        assert_int_equal(atomic_load(&shared->most), 1);
        assert_int_equal(atomic_load(&shared->disk_most), 2);
        troupe_actor_kill(actor);
    }
}

static void test_cancelling_in_every_place(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clear();
        desk_actor actor = troupe_spawn(desk, .place = places[i], .concurrency = 2);
        check(actor);
        troupe_ref calls[CALLS];
        int value;
        for (int k = 0; k < CALLS; k++)
            calls[k] = troupe_call(actor, desk_wait, k);
        support_await_counter(&shared->running, 2);
        for (int k = CALLS - 1; k >= 0; k -= 2) // Waiting ones, and the second of those that run.
            assert_int_equal(troupe_cancel(calls[k]), TROUPE_OK);
        int never = 0;
        for (int k = CALLS - 1; k >= 0; k -= 2) {
            assert_int_equal(troupe_get(int, calls[k], &value, SUPPORT_SOON_MS), TROUPE_CANCELLED);
            never += troupe_last_error()->executed == TROUPE_EXECUTED_NO;
        }
        atomic_store(&shared->open, 1);
        for (int k = 0; k < CALLS; k += 2)
            assert_int_equal(get(calls[k]), k);
        support_await_counter(&shared->done, CALLS - never);
        assert_true(never >= CALLS / 2 - 2);
        assert_int_equal(get(troupe_call(actor, desk_wait, 5)), 5);
        assert_int_equal(atomic_load(&shared->done), CALLS - never + 1);
        troupe_actor_kill(actor);
    }
}

static void test_the_end_comes_after_what_was_sent(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clear();
        desk_actor actor = troupe_spawn(desk, .place = places[i], .concurrency = 2);
        check(actor);
        troupe_ref calls[CALLS];
        for (int k = 0; k < CALLS; k++)
            calls[k] = troupe_call(actor, desk_wait, k);
        assert_int_equal(troupe_actor_end(actor), TROUPE_OK);
        support_await_counter(&shared->running, 2);
        atomic_store(&shared->open, 1);
        for (int k = 0; k < CALLS; k++)
            assert_int_equal(get(calls[k]), k);
        support_await_counter(&shared->ended, 1);
        assert_int_equal(atomic_load(&shared->running_at_end), 0);
        int value;
        troupe_status status = troupe_get(int, troupe_call(actor, desk_wait, 1), &value);
        // Its own process may just be ending.
        assert_true(status == TROUPE_NOT_EXECUTED ||
                    (status == TROUPE_MAYBE_EXECUTED && places[i] == TROUPE_PLACE_ISOLATED));
    }
}

static void test_killing_ends_what_waits(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        clear();
        desk_actor actor = troupe_spawn(desk, .place = places[i], .concurrency = 2);
        check(actor);
        troupe_ref calls[CALLS];
        int value, ran = 0;
        for (int k = 0; k < CALLS; k++)
            calls[k] = troupe_call(actor, desk_wait, k);
        support_await_counter(&shared->running, 2);
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
        for (int k = CALLS - 1; k >= 0; k--) {
            if (k == 1) // Those that wait have ended; now those that run may.
                atomic_store(&shared->open, 1);
            troupe_status status = troupe_get(int, calls[k], &value, SUPPORT_SOON_MS);
            assert_true(status == TROUPE_OK || status == TROUPE_NOT_EXECUTED ||
                        status == TROUPE_MAYBE_EXECUTED);
            ran += status == TROUPE_OK;
        }
        assert_in_range(ran, 0, 2);
        assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, NULL), TROUPE_OK);
        // With one process for all they go on though an isolated actor has ended.
        if (places[i] != TROUPE_PLACE_ISOLATED || getenv("TROUPE_LOCAL") != NULL)
            support_await_counter(&shared->done, 2);
    }
}

static void test_deadlocks_are_only_where_they_are(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        int64_t total;
        desk_actor one = troupe_spawn(desk, .place = places[i]);
        assert_int_equal(troupe_get(int64_t, troupe_call(one, desk_call_self, 1), &total),
                         TROUPE_DEADLOCK);
        desk_actor two = troupe_spawn(desk, .place = places[i], .groups = "fast=1");
        assert_int_equal(
            troupe_get(int64_t, troupe_call(two, desk_call_self, 4), &total, SUPPORT_SOON_MS),
            TROUPE_OK);
        assert_int_equal(total, 4);
        troupe_actor_kill(one);
        troupe_actor_kill(two);
    }
}

static void test_the_mailbox_is_bounded_still(void **state)
{
    (void)state;
    clear();
    desk_actor actor =
        troupe_spawn(desk, .place = TROUPE_PLACE_HERE, .concurrency = 2, .mailbox_max = 4);
    check(actor);
    desk_actor hasty = troupe_with(actor, .flags = TROUPE_CALL_NO_WAIT);
    int sent = 0;
    while (troupe_tell(hasty, desk_wait, 1) == TROUPE_OK && sent < 100)
        sent++;
    assert_int_equal(troupe_last_error()->status, TROUPE_BUSY);
    assert_in_range(sent, 4, 2 + 4 + 2); // Two run; what waits in a lane keeps its room.
    support_await_counter(&shared->running, 2);
    atomic_store(&shared->open, 1);
    support_await_counter(&shared->done, sent);
    troupe_actor_kill(actor);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "disk",      "disk=",   "disk=0",        "disk=x",         "=3", "disk=1,,",
        "nothing=2", "disk=1,", "disk=1,disk=2", "disk=1,fast=1,", ",",  "disk=100000"};
    for (int i = 0; i < PLACES; i++) {
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            desk_actor actor = troupe_spawn(desk, .place = places[i], .groups = wrong[k]);
            assert_int_equal(troupe_actor_status(actor.address), TROUPE_INVALID);
            assert_non_null(strstr(troupe_last_error()->text, ".groups"));
        }
        char many[128]; // Bytes, of which 112 are allowed.
        snprintf(many, sizeof many, "disk=%0108d", 1);
        assert_int_equal(strlen(many), 113);
        desk_actor actor = troupe_spawn(desk, .place = places[i], .groups = many);
        assert_int_equal(troupe_actor_status(actor.address), TROUPE_INVALID);
        assert_non_null(strstr(troupe_last_error()->text, "113 bytes, the limit is 112"));
        snprintf(many, sizeof many, "disk=%0107d", 1);
        actor = troupe_spawn(desk, .place = places[i], .groups = many);
        assert_int_equal(troupe_actor_status(actor.address), TROUPE_OK);
        troupe_actor_kill(actor);
        actor = troupe_spawn(desk, .place = places[i], .concurrency = 100000);
        assert_int_equal(troupe_actor_status(actor.address), TROUPE_INVALID);
    }
}

int main(int argc, char **argv)
{
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = 2, .threads = 1));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_so_many_at_a_time_and_no_more),
        cmocka_unit_test(test_groups_have_limits_of_their_own),
        cmocka_unit_test(test_cancelling_in_every_place),
        cmocka_unit_test(test_the_end_comes_after_what_was_sent),
        cmocka_unit_test(test_killing_ends_what_waits),
        cmocka_unit_test(test_deadlocks_are_only_where_they_are),
        cmocka_unit_test(test_the_mailbox_is_bounded_still),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, stop_runtime);
}
