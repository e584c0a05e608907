// test_timeouts.c: a deadline ends an operation, a time-out ends a wait and nothing else, whatever
// is waited for, and no call fails as if its caller's wait had ended.
#include <support.h>

#include <stdio.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
#include <troupe/life.h>
#include <troupe/pool.h>
#include <troupe/queue.h>

typedef struct slow {
    troupe_deferred later;
} slow;

// Hands on that a wait of its own has timed out.
static troupe_status give_up(void)
{
    return troupe_fail(TROUPE_TIMED_OUT, "the lamp was not lit in time");
}

static troupe_status slow_give_up(slow *self, const troupe_none *none, int *out)
{
    (void)self, (void)none, (void)out;
    return give_up();
}

static troupe_status slow_refuse(slow *self, const troupe_none *none, int *out)
{
    (void)none, (void)out;
    self->later = troupe_defer();
    return troupe_deferred_refuse(&self->later, TROUPE_TIMED_OUT, "the lamp was not lit in time");
}

static troupe_status slow_stream(slow *self, const troupe_none *none, int *out)
{
    (void)self, (void)none, (void)out;
    TROUPE_TRY(troupe_yield(int, &(int){7}));
    return give_up();
}

// Answers when it is told to.
static troupe_status slow_wait(slow *self, const troupe_none *none, int *out)
{
    (void)none, (void)out;
    self->later = troupe_defer();
    return TROUPE_OK;
}

static troupe_status slow_answer(slow *self, const int *value, troupe_none *none)
{
    (void)none;
    return troupe_deferred_fulfil(int, &self->later, value);
}

TROUPE_ACTOR(slow, (slow_give_up, troupe_none, int), (slow_refuse, troupe_none, int),
             (slow_stream, troupe_none, int, .options = TROUPE_METHOD_STREAM),
             (slow_wait, troupe_none, int), (slow_answer, int, troupe_none));

typedef struct stillborn {
    int unused;
} stillborn;

static troupe_status stillborn_init(stillborn *self, const troupe_none *none)
{
    (void)self, (void)none;
    return give_up();
}

static void stillborn_deinit(stillborn *self)
{
    (void)self;
}

static troupe_status stillborn_live(stillborn *self, const troupe_none *none, troupe_none *out)
{
    (void)self, (void)none, (void)out;
    return TROUPE_OK;
}
TROUPE_ACTOR_INIT(stillborn, (stillborn_init, troupe_none), stillborn_deinit,
                  (stillborn_live, troupe_none, troupe_none));

static troupe_status tired(const int *in, int *out)
{
    (void)in, (void)out;
    return give_up();
}
TROUPE_TASK(tired, int, int);

static const troupe_place places[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER,
                                      TROUPE_PLACE_ISOLATED};
enum { PLACES = 3 };

// What a call ended with: the name of what its method gave up is in the sentence.
static void expect_failed(troupe_status status)
{
    const char *text = troupe_last_error()->text;
    if (status != TROUPE_FAILED || strstr(text, "TROUPE_TIMED_OUT") == NULL ||
        strstr(text, "the lamp was not lit in time") == NULL)
        fail_msg("%s: %s", troupe_status_name(status), text);
}

static void test_no_call_fails_as_timed_out(void **state)
{
    (void)state;
    int value;
    for (int i = 0; i < PLACES; i++) {
        slow_actor actor = troupe_spawn(slow, .place = places[i]);
        expect_failed(troupe_get(int, troupe_call(actor, slow_give_up), &value));
        expect_failed(troupe_get(int, troupe_call(actor, slow_refuse), &value));
        troupe_stream values = troupe_stream_open(actor, slow_stream);
        troupe_must(troupe_next(int, values, &value, SUPPORT_SOON_MS));
        assert_int_equal(value, 7);
        expect_failed(troupe_next(int, values, &value, SUPPORT_SOON_MS));
        assert_int_equal(troupe_next(int, values, &value), TROUPE_INVALID); // It is gone.
        troupe_must(troupe_actor_stop(actor));
        stillborn_actor none = troupe_spawn(stillborn, .place = places[i]);
        expect_failed(troupe_actor_status(none));
    }
    expect_failed(troupe_get(int, troupe_run(tired, 1), &value));
}

// Each way of waiting for one call: polled, for a time, and at last for ever.
static void test_a_wait_that_ends_loses_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        int value = 0, values[1] = {0};
        slow_actor actor = troupe_spawn(slow, .place = places[i]);
        troupe_ref ref = troupe_call(actor, slow_wait);
        troupe_bytes packed;
        troupe_down down;
        assert_int_equal(troupe_get(int, ref, &value, TROUPE_POLL), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_get(int, ref, &value, 10), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_get_packed(ref, &packed, TROUPE_POLL), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_get_all(int, &ref, 1, values, 10), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_wait(&ref, 1, 1, TROUPE_POLL, NULL, NULL), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_actor_await_end(actor, 10, &down), TROUPE_TIMED_OUT);
        troupe_must(troupe_tell(actor, slow_answer, 5));
        troupe_must(troupe_get(int, ref, &value, i == 0 ? -7 : TROUPE_FOREVER));
        assert_int_equal(value, 5);
        troupe_must(troupe_actor_stop(actor));
    }
}

static void test_a_deadline_ends_its_operation(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        int value;
        slow_actor actor = troupe_spawn(slow, .place = places[i]);
        troupe_ref ref = troupe_call(troupe_with(actor, .deadline_ms = 20), slow_wait);
        assert_int_equal(troupe_get(int, ref, &value), TROUPE_DEADLINE_EXCEEDED);
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_DEADLINE_EXCEEDED);
        assert_int_equal(troupe_get(int, ref, &value), TROUPE_INVALID); // It is gone.
        troupe_must(troupe_actor_stop(actor));
    }
}

static void test_a_queue_and_a_map_keep_what_was_waited_for(void **state)
{
    (void)state;
    int value = 1, more[2] = {2, 3};
    size_t put, got, index;
    troupe_queue queue = troupe_queue_open(int, .capacity = 1);
    assert_int_equal(troupe_queue_try_get(int, queue, &value), TROUPE_TIMED_OUT);
    assert_int_equal(troupe_queue_get(int, queue, &value, 10), TROUPE_TIMED_OUT);
    assert_int_equal(troupe_queue_put_many(int, queue, more, 2, &put, 10), TROUPE_TIMED_OUT);
    assert_int_equal(put, 1);
    assert_int_equal(troupe_queue_try_put(int, queue, &value), TROUPE_TIMED_OUT);
    troupe_must(troupe_queue_get_many(int, queue, more, 2, &got));
    assert_int_equal(got, 1);
    assert_int_equal(more[0], 2);
    troupe_must(troupe_actor_stop(queue, 0) == TROUPE_DEADLINE_EXCEEDED ? TROUPE_OK
                                                                        : TROUPE_FAILED);
    for (int unordered = 0; unordered < 2; unordered++) {
        troupe_pool *pool;
        const troupe_none args[1] = {{0}};
        slow_actor actor = troupe_spawn(slow, .place = TROUPE_PLACE_HERE);
        troupe_must(troupe_pool_open(slow, &pool, .actors = &actor.address, .actor_count = 1));
        troupe_map *map = troupe_pool_map(pool, slow_wait, args, 1, .unordered = unordered != 0);
        assert_int_equal(troupe_map_next(int, map, &value, NULL, TROUPE_POLL), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_map_next(int, map, &value, &index, 10), TROUPE_TIMED_OUT);
        troupe_must(troupe_tell(actor, slow_answer, 6));
        troupe_must(troupe_map_next(int, map, &value, &index));
        assert_true(value == 6 && index == 0);
        assert_int_equal(troupe_map_next(int, map, &value, NULL), TROUPE_END);
        troupe_map_close(map);
        troupe_pool_close(pool);
        troupe_must(troupe_actor_stop(actor));
    }
}

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 1, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return troupe_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_call_fails_as_timed_out),
        cmocka_unit_test(test_a_wait_that_ends_loses_nothing),
        cmocka_unit_test(test_a_deadline_ends_its_operation),
        cmocka_unit_test(test_a_queue_and_a_map_keep_what_was_waited_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
