// test_last_error.c: what a thread's last error says after a call that succeeded in the end, though
// something inside it failed first: what it said before, or nothing; never that inner failure.
#include <support.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { MANY = 70000 }; // More than any mailbox or window holds.

static _Atomic int *shared; // What the workers' methods wait for.

typedef struct busy {
    int count;
} busy;

static troupe_status busy_count(busy *self, const int *in, int *out)
{
    *out = self->count += *in;
    return TROUPE_OK;
}

// Holds its actor up until the test lets it go on.
static troupe_status busy_hold(busy *self, const int *in, int *out)
{
    (void)self, (void)in;
    atomic_fetch_add(&shared[0], 1);
    while (atomic_load(&shared[1]) == 0)
        usleep(1000);
    *out = 1;
    return TROUPE_OK;
}

static troupe_status busy_crash(busy *self, const int *in, int *out)
{
    (void)self, (void)in, (void)out;
    abort();
}

static troupe_status busy_fail(busy *self, const int *in, int *out)
{
    (void)self, (void)in, (void)out;
    return troupe_fail(TROUPE_NOT_FOUND, "on purpose");
}

TROUPE_ACTOR(busy, (busy_count, int, int), (busy_hold, int, int), (busy_crash, int, int),
             (busy_fail, int, int));

static troupe_status odd_ones_fail(const int *in, int *out)
{
    *out = *in;
    return *in % 2 == 0 ? TROUPE_OK : troupe_fail(TROUPE_NOT_FOUND, "%d is odd", *in);
}
TROUPE_TASK(odd_ones_fail, int, int);

// ---- what is expected

static void mark(void)
{
    (void)troupe_fail(TROUPE_STOPPED, "the mark");
}

static void expect_mark(const char *what)
{
    const troupe_error *last = troupe_last_error();
    if (last->status != TROUPE_OK && strcmp(last->text, "the mark") != 0)
        fail_msg("%s succeeded, and left %s: %s", what, troupe_status_name(last->status),
                 last->text);
}

#define SUCCEEDS(expression)                                                                       \
    do {                                                                                           \
        mark();                                                                                    \
        troupe_must(expression);                                                                   \
        expect_mark(#expression);                                                                  \
    } while (0)

static void *release_soon(void *unused)
{
    (void)unused;
    support_await_counter(&shared[0], 1);
    usleep(100000); // Not a wait for a condition: the sender shall be waiting by then, mostly.
    atomic_store(&shared[1], 1);
    return NULL;
}

// ---- the cases

static void test_a_full_window(void **state)
{
    (void)state;
    int out;
    pthread_t other;
    static const troupe_place homes[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER};
    for (int i = 0; i < 2; i++) {
        shared[0] = shared[1] = 0;
        busy_actor actor = troupe_spawn(busy, .place = homes[i], .mailbox_max = 100);
        troupe_ref held = troupe_call(actor, busy_hold, 1);
        assert_int_equal(pthread_create(&other, NULL, release_soon, NULL), 0);
        for (int k = 0; k < MANY; k++) {
            mark();
            troupe_must(troupe_tell(actor, busy_count, 1));
            expect_mark("troupe_tell");
        }
        pthread_join(other, NULL);
        troupe_must(troupe_get(int, held, &out));
        SUCCEEDS(troupe_get(int, troupe_call(actor, busy_count, 0), &out));
        assert_int_equal(out, MANY);
        SUCCEEDS(troupe_actor_kill(actor));
        SUCCEEDS(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, NULL));
        SUCCEEDS(troupe_actor_kill(actor)); // It is dead, which is harmless.
    }
}

static void test_names_and_starts(void **state)
{
    (void)state;
    busy_actor found, one = troupe_spawn(busy, .name = "one", .place = TROUPE_PLACE_WORKER);
    SUCCEEDS(troupe_actor_status(one.address));
    SUCCEEDS(troupe_lookup(busy, "one", &found));
    SUCCEEDS(troupe_actor_status(troupe_spawn(busy, .name = "one", .get_if_exists = true).address));
    SUCCEEDS(troupe_actor_status(
        troupe_spawn(busy, .name = "two", .get_if_exists = true, .restarts = 3).address));
    SUCCEEDS(troupe_actor_status(
        troupe_spawn(busy, .name = "two", .get_if_exists = true, .restarts = 3).address));
    SUCCEEDS(troupe_start(0, NULL)); // Again.
    assert_int_equal(troupe_stop(), 0);
    expect_mark("troupe_stop");
}

static void test_an_actor_that_comes_again(void **state)
{
    (void)state;
    int out;
    busy_actor found, actor = troupe_spawn(busy, .name = "phoenix", .restarts = 10,
                                           .place = TROUPE_PLACE_ISOLATED, .backoff_ms = 200);
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(troupe_get(int, troupe_call(actor, busy_crash, 1), &out), TROUPE_OK);
        SUCCEEDS(troupe_lookup(busy, "phoenix", &found));
        SUCCEEDS(troupe_tell(actor, busy_count, 1));
        SUCCEEDS(troupe_get(int, troupe_call(actor, busy_count, 1), &out));
        assert_int_equal(out, 2);
    }
    SUCCEEDS(troupe_actor_stop(actor));
}

static void test_many(void **state)
{
    (void)state;
    int numbers[64], value;
    troupe_pool *pool;
    for (int i = 0; i < 64; i++)
        numbers[i] = i;
    troupe_map *map = troupe_run_map(odd_ones_fail, numbers, 64, .in_flight = 4);
    for (int i = 0; i < 64; i++) {
        mark();
        if (troupe_map_next(int, map, &value, NULL) == TROUPE_OK)
            expect_mark("troupe_map_next");
    }
    troupe_map_close(map);
    troupe_must(
        troupe_pool_open(busy, &pool, .count = 2,
                         .spawn = &(troupe_spawn_options){.size = sizeof(troupe_spawn_options),
                                                          .place = TROUPE_PLACE_ISOLATED}));
    assert_int_not_equal(troupe_get(int, troupe_pool_call(pool, busy_crash, 1), &value), TROUPE_OK);
    for (int i = 0; i < 4; i++)
        SUCCEEDS(troupe_get(int, troupe_pool_call(pool, busy_count, 1), &value));
    troupe_pool_close(pool);
    expect_mark("troupe_pool_close");
    troupe_ref failed[2] = {troupe_run(odd_ones_fail, 1), troupe_run(odd_ones_fail, 2)};
    SUCCEEDS(troupe_wait(failed, 2, 2, -1, NULL, NULL));
    troupe_ref_drop(failed[0]);
    troupe_ref_drop(failed[1]);
    expect_mark("troupe_ref_drop");
}

static void test_lists(void **state)
{
    (void)state;
    troupe_actor_list actors;
    troupe_resources resources;
    troupe_memory memory;
    troupe_store_usage usage;
    SUCCEEDS(troupe_actors_list(0, &actors));
    SUCCEEDS(troupe_resources_get(&resources));
    SUCCEEDS(troupe_memory_get(&memory));
    SUCCEEDS(troupe_store_usage_get(&usage));
    troupe_arena_reset();
}

// The store is full for a while, or goes to disk.
static void test_room(void **state)
{
    (void)state;
    enum { OBJECTS = 12, BYTES = 1 << 20 };
    static char bytes[BYTES];
    troupe_ref refs[OBJECTS];
    troupe_view view;
    for (int i = 0; i < OBJECTS; i++) {
        mark();
        refs[i] = troupe_put_bytes(bytes, BYTES);
        expect_mark("troupe_put_bytes");
    }
    for (int i = 0; i < OBJECTS; i++) {
        SUCCEEDS(troupe_view_bytes(refs[i], &view, -1));
        troupe_view_end(&view);
        troupe_ref_drop(refs[i]);
    }
    expect_mark("troupe_ref_drop");
}

static int set_up(void **state)
{
    (void)state;
    shared = support_zeros(shared, 2 * sizeof *shared);
    mark();
    troupe_must(troupe_start(0, NULL, .workers = 1, .threads = 2, .store_bytes_max = 8 << 20));
    expect_mark("troupe_start");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mark();
    int stopped = troupe_stop();
    expect_mark("troupe_stop");
    return stopped;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_full_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_and_starts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_actor_that_comes_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lists, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_room, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
