// test_pool.c: pools of actors: which member gets the next call, dead members and their successors,
// and maps in order and as results come.
// timeout: 60
#include <places.h>
#include <support.h>

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

// Shared with the worker processes.
typedef struct board {
    _Atomic int gate, inside, made;
} board;
static board *shared;

typedef struct clerk {
    int64_t base;
} clerk;

static troupe_status clerk_open(clerk *self, const int64_t *base)
{
    self->base = *base;
    shared->made++;
    return *base < 0 ? troupe_fail(TROUPE_INVALID, "no clerk has base %lld", (long long)*base)
                     : TROUPE_OK;
}

static void clerk_close(clerk *self)
{
    (void)self;
}

static troupe_status clerk_add(clerk *self, const int64_t *amount, int64_t *sum)
{
    if (*amount == 13)
        return troupe_fail(TROUPE_INVALID, "no clerk adds 13");
    *sum = self->base + *amount;
    return TROUPE_OK;
}

static troupe_status clerk_me(clerk *self, const troupe_none *nothing, troupe_actor *me)
{
    (void)self, (void)nothing;
    *me = troupe_self();
    return TROUPE_OK;
}

// Waits until the gate is open for at least so many.
static troupe_status clerk_wait(clerk *self, const int *gate, int *pid)
{
    (void)self;
    shared->inside++;
    while (shared->gate < *gate)
        usleep(500);
    *pid = getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(clerk, (clerk_open, int64_t), clerk_close, (clerk_add, int64_t, int64_t),
                  (clerk_me, troupe_none, troupe_actor), (clerk_wait, int, int));

typedef struct other {
    int nothing;
} other;
static troupe_status other_do(other *self, const int64_t *in, int64_t *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}
TROUPE_ACTOR(other, (other_do, int64_t, int64_t));

static troupe_status square(const int64_t *x, int64_t *result)
{
    *result = *x * *x;
    return TROUPE_OK;
}
TROUPE_TASK(square, int64_t, int64_t);

static int set_up_with(int workers)
{
    shared = support_zeros(shared, sizeof *shared);
    return troupe_start(0, NULL, .workers = workers, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(2);
}

static int set_up_alone(void **state)
{
    (void)state;
    return set_up_with(TROUPE_NONE);
}

static void test_calls(void **state)
{
    (void)state;
    troupe_pool *pool;
    int64_t base = 100, sum;
    troupe_must(troupe_pool_open_from(clerk, &base, &pool, .count = 3));
    assert_int_equal(shared->made, 3);
    assert_int_equal(troupe_pool_count(pool), 3);
    for (int64_t i = 0; i < 10; i++) {
        troupe_must(troupe_get(int64_t, troupe_pool_call(pool, clerk_add, i), &sum));
        assert_int_equal(sum, 100 + i);
    }
    troupe_must(troupe_get(int64_t, troupe_pool_call_from(pool, clerk_add, &base), &sum));
    assert_int_equal(sum, 200);
    assert_int_equal(troupe_get(int64_t, troupe_pool_call(pool, clerk_add, 13), &sum),
                     TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "no clerk adds 13");
    assert_int_equal(troupe_pool_count(pool), 3); // An error is no death.
    assert_int_equal(troupe_get(int64_t, troupe_pool_call(pool, other_do, 1), &sum),
                     TROUPE_WRONG_TYPE);
    troupe_ref left = troupe_pool_call(pool, clerk_add, 5);
    troupe_pool_close(pool);
    troupe_must(troupe_get(int64_t, left, &sum)); // It was sent before the end.
    assert_int_equal(sum, 105);
    troupe_pool_close(NULL);
}

static void test_the_idle_one_gets_it(void **state)
{
    (void)state;
    troupe_pool *pool;
    int64_t base = 0;
    int pid;
    troupe_must(troupe_pool_open_from(clerk, &base, &pool, .count = 4));
    troupe_ref busy[4];
    for (int i = 0; i < 4; i++) {
        busy[i] = troupe_pool_call(pool, clerk_wait, 1);
        support_await_counter(&shared->inside, i + 1); // Each got one: none waits behind another.
    }
    shared->gate = 1;
    for (int i = 0; i < 4; i++)
        troupe_must(troupe_get(int, busy[i], &pid));
    troupe_pool_close(pool);
}

static void test_wrong_options(void **state)
{
    (void)state;
    troupe_pool *pool = NULL;
    int64_t base = -1, sum;
    assert_int_equal(troupe_pool_open_from(clerk, &base, &pool, .count = 2), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "no clerk has base -1");
    troupe_spawn_options named = {.size = sizeof named, .name = "all"};
    base = 0;
    assert_int_equal(troupe_pool_open_from(clerk, &base, &pool, .spawn = &named), TROUPE_INVALID);
    troupe_actor nobody = {0};
    assert_int_equal(troupe_pool_open(clerk, &pool, .actors = &nobody, .actor_count = 1),
                     TROUPE_INVALID);
    assert_int_equal(
        troupe_pool_open(clerk, &pool, .actors = &nobody, .actor_count = 1, .count = 3),
        TROUPE_INVALID);
    assert_int_equal(troupe_pool_open(clerk, &pool, .actor_count = 1), TROUPE_INVALID);
    assert_null(pool);
    (void)sum;
}

static void test_dead_members_are_replaced(void **state)
{
    (void)state;
    troupe_pool *pool;
    troupe_spawn_options how = {.size = sizeof how, .place = TROUPE_PLACE_ISOLATED};
    int64_t base = 7, sum;
    int pid;
    troupe_must(troupe_pool_open_from(clerk, &base, &pool, .count = 2, .spawn = &how));
    troupe_ref first = troupe_pool_call(pool, clerk_wait, 1);
    troupe_ref second = troupe_pool_call(pool, clerk_wait, 2);
    support_await_counter(&shared->inside, 2);
    shared->gate = 1;
    troupe_must(troupe_get(int, first, &pid));
    kill(pid, SIGKILL); // It is idle.
    // A call that finds it dead is lost, and says so; those after it are not.
    int lost = 0, made;
    for (int i = 0; i < 200; i++) {
        troupe_status status = troupe_get(int64_t, troupe_pool_call(pool, clerk_add, i), &sum);
        lost += status != TROUPE_OK;
        if (status != TROUPE_OK && troupe_last_error()->outcome == TROUPE_OUTCOME_FAILED)
            assert_int_equal(i, 13);
    }
    made = shared->made;
    assert_in_range(lost, 1, 10); // 13, and what was sent before the death was known.
    assert_int_equal(made, 3);
    assert_int_equal(troupe_pool_count(pool), 2);
    shared->gate = 2;
    troupe_must(troupe_get(int, second, &pid));
    troupe_pool_close(pool);
}

static void test_given_actors(void **state)
{
    (void)state;
    troupe_actor actors[2];
    int64_t base = 1, sum;
    for (int i = 0; i < 2; i++)
        actors[i] = troupe_spawn_from(clerk, &base).address;
    troupe_pool *pool;
    troupe_must(troupe_pool_open(clerk, &pool, .actors = actors, .actor_count = 2));
    troupe_actor_kill(actors[0]);
    int lost = 0;
    for (int i = 0; i < 20; i++)
        lost += troupe_get(int64_t, troupe_pool_call(pool, clerk_add, 20), &sum) != TROUPE_OK;
    assert_in_range(lost, 1, 3);
    assert_int_equal(troupe_pool_count(pool), 1); // Left out, and not replaced.
    troupe_actor_kill(actors[1]);
    for (int i = 0; i < 20 && troupe_pool_count(pool) > 0; i++)
        (void)!troupe_get(int64_t, troupe_pool_call(pool, clerk_add, 20), &sum);
    assert_int_equal(troupe_get(int64_t, troupe_pool_call(pool, clerk_add, 1), &sum),
                     TROUPE_NOT_EXECUTED);
    assert_string_equal(troupe_last_error()->text, "all 2 actors of the pool are dead");
    troupe_pool_close(pool);
}

static void test_map_in_order(void **state)
{
    (void)state;
    enum { MANY = 500 };
    static int64_t amounts[MANY];
    for (int64_t i = 0; i < MANY; i++)
        amounts[i] = i;
    troupe_pool *pool;
    int64_t base = 1000, sum;
    size_t index;
    troupe_must(troupe_pool_open_from(clerk, &base, &pool, .count = 3));
    troupe_map *map = troupe_pool_map(pool, clerk_add, amounts, MANY);
    for (int64_t i = 0; i < MANY; i++) {
        troupe_status status = troupe_map_next(int64_t, map, &sum, &index);
        assert_int_equal(index, i);
        assert_int_equal(status, i == 13 ? TROUPE_INVALID : TROUPE_OK);
        if (i != 13)
            assert_int_equal(sum, 1000 + i);
    }
    assert_int_equal(troupe_map_next(int64_t, map, &sum, NULL), TROUPE_END);
    troupe_map_close(map);
    map = troupe_pool_map(pool, clerk_add, amounts, 0);
    assert_int_equal(troupe_map_next(int64_t, map, &sum, NULL), TROUPE_END);
    troupe_map_close(map);
    map = troupe_pool_map(pool, clerk_add, amounts, MANY, .in_flight = 5);
    troupe_must(troupe_map_next(int64_t, map, &sum, NULL));
    troupe_map_close(map); // Given up halfway.
    troupe_pool_close(pool);
}

// A type that cannot be read is no end of a call: the result stays for the right one.
static void test_map_into_a_foreign_type(void **state)
{
    (void)state;
    int64_t numbers[3] = {3, 4, 5}, value;
    troupe_type foreign = troupe_type_int64_t;
    size_t index;
    foreign.abi = TROUPE_ABI + 1;
    for (int unordered = 0; unordered < 2; unordered++) {
        int64_t sum = 0;
        troupe_map *map = troupe_run_map(square, numbers, 3, .unordered = unordered != 0);
        assert_int_equal(troupe_map_next_as(&foreign, map, &value, NULL, TROUPE_FOREVER),
                         TROUPE_VERSION);
        for (int i = 0; i < 3; i++) {
            troupe_must(troupe_map_next(int64_t, map, &value, &index));
            assert_int_equal(value, numbers[index] * numbers[index]);
            sum += value;
        }
        assert_int_equal(sum, 9 + 16 + 25);
        assert_int_equal(troupe_map_next(int64_t, map, &value, NULL), TROUPE_END);
        troupe_map_close(map);
    }
}

static void test_map_as_they_come(void **state)
{
    (void)state;
    troupe_pool *pool;
    int64_t base = 0;
    // Argument i is let go when the gate is at i: the last one first would never end in order.
    int gates[3] = {3, 2, 1}, pid;
    size_t index;
    troupe_must(troupe_pool_open_from(clerk, &base, &pool, .count = 3));
    troupe_map *map = troupe_pool_map(pool, clerk_wait, gates, 3, .unordered = true);
    assert_int_equal(troupe_map_next(int, map, &pid, NULL, TROUPE_POLL), TROUPE_TIMED_OUT);
    assert_int_equal(troupe_map_next(int, map, &pid, NULL, 5), TROUPE_TIMED_OUT);
    for (int i = 0; i < 3; i++) {
        shared->gate = i + 1;
        troupe_must(troupe_map_next(int, map, &pid, &index));
        assert_int_equal(index, 2 - i);
    }
    assert_int_equal(troupe_map_next(int, map, &pid, NULL), TROUPE_END);
    troupe_map_close(map);
    shared->gate = 0;
    map = troupe_pool_map(pool, clerk_wait, gates, 3, .unordered = true);
    support_await_counter(&shared->inside, 6);
    troupe_map_close(map); // While calls are on their way.
    shared->gate = 3;
    troupe_pool_close(pool);
}

static void test_map_of_tasks(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static int64_t numbers[MANY];
    static bool seen[MANY];
    int64_t value;
    size_t index;
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < MANY; i++)
        numbers[i] = i;
    troupe_map *map = troupe_run_map(square, numbers, MANY, .unordered = true);
    for (int i = 0; i < MANY; i++) {
        troupe_must(troupe_map_next(int64_t, map, &value, &index));
        assert_false(seen[index]);
        seen[index] = true;
        assert_int_equal(value, index * index);
    }
    assert_int_equal(troupe_map_next(int64_t, map, &value, NULL), TROUPE_END);
    troupe_map_close(map);
    map = troupe_run_map(square, numbers, MANY);
    for (int64_t i = 0; i < MANY; i++) {
        troupe_must(troupe_map_next(int64_t, map, &value, NULL));
        assert_int_equal(value, i * i);
    }
    troupe_map_close(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_the_idle_one_gets_it, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_wrong_options, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_dead_members_are_replaced, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_given_actors, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_map_in_order, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_map_into_a_foreign_type, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_map_as_they_come, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_map_of_tasks, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_calls, set_up_alone, stop_runtime),
        cmocka_unit_test_setup_teardown(test_map_in_order, set_up_alone, stop_runtime),
        cmocka_unit_test_setup_teardown(test_map_of_tasks, set_up_alone, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
