// test_stream.c: methods that answer in many values.
#include <places.h>
#include <support.h>

#include <actors/class/call_error.h>
#include <actors/ref/call_table.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
#include <troupe/life.h>
#include <unistd.h>

TROUPE_STRUCT(line, (int64_t, number), (troupe_text, text), (troupe_array_int, digits));
TROUPE_STRUCT(order, (int64_t, from), (int64_t, to), (int, then));

// Seen by all processes.
typedef struct board {
    _Atomic int64_t made; // Values that have been handed over.
    _Atomic int status;   // What the last method ended with, plus one.
} board;
static board *shared;

typedef struct source {
    troupe_stream stream;
} source;

static troupe_status source_count(source *self, const order *in, int64_t *unused)
{
    (void)self, (void)unused;
    troupe_status status = TROUPE_OK;
    for (int64_t i = in->from; i < in->to && status == TROUPE_OK; i++) {
        status = troupe_yield(int64_t, &i);
        atomic_fetch_add(&shared->made, status == TROUPE_OK);
    }
    atomic_store(&shared->status, (int)status + 1);
    if (status == TROUPE_OK && in->then != TROUPE_OK)
        return troupe_fail((troupe_status)in->then, "it broke after %lld", (long long)in->to);
    return status;
}

static troupe_status source_lines(source *self, const int *count, line *unused)
{
    (void)self, (void)unused;
    for (int i = 0; i < *count; i++) {
        char text[32];
        int digits[3] = {i, i + 1, i + 2};
        snprintf(text, sizeof text, "line %d", i);
        line next = {.number = i, .text = text, .digits = {digits, 3}};
        TROUPE_TRY(troupe_yield(line, &next));
    }
    return TROUPE_OK;
}

static troupe_status source_refs(source *self, const int *count, troupe_ref *unused)
{
    (void)self, (void)unused;
    for (int64_t i = 0; i < *count; i++) {
        troupe_ref next = troupe_put(int64_t, &i);
        TROUPE_TRY(troupe_yield(troupe_ref, &next));
    }
    return TROUPE_OK;
}

static troupe_status source_die(source *self, const order *in, int64_t *unused)
{
    TROUPE_TRY(source_count(self, in, unused));
    usleep(20000); // What was made is on its way: that much is lost with a process is no matter.
    _exit(3);
}

static troupe_status source_wrong(source *self, const troupe_none *nothing, int64_t *unused)
{
    (void)self, (void)nothing, (void)unused;
    double wrong = 1;
    if (troupe_yield(double, &wrong) != TROUPE_WRONG_TYPE)
        return troupe_fail(TROUPE_FAILED, "it took a wrong type");
    return troupe_defer().id_ == 0 ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "it was deferred");
}

static troupe_status source_plain(source *self, const troupe_none *nothing, int64_t *value)
{
    (void)self, (void)nothing;
    *value = 1;
    return troupe_yield(int64_t, value); // It is no stream.
}

static troupe_status source_sum(source *self, const order *in, int64_t *sum);

TROUPE_ACTOR(source, (source_count, order, int64_t, .options = TROUPE_METHOD_STREAM),
             (source_lines, int, line, .options = TROUPE_METHOD_STREAM),
             (source_refs, int, troupe_ref, .options = TROUPE_METHOD_STREAM),
             (source_die, order, int64_t, .options = TROUPE_METHOD_STREAM),
             (source_wrong, troupe_none, int64_t, .options = TROUPE_METHOD_STREAM),
             (source_plain, troupe_none, int64_t), (source_sum, order, int64_t));

// Reads another's stream within a method.
static troupe_status source_sum(source *self, const order *in, int64_t *sum)
{
    (void)self;
    source_actor other = troupe_spawn(source, .place = TROUPE_PLACE_HERE);
    troupe_stream stream = troupe_stream_open(other, source_count, in->from, in->to, in->then);
    troupe_status status;
    int64_t next;
    while ((status = troupe_next(int64_t, stream, &next)) == TROUPE_OK)
        *sum += next;
    troupe_actor_kill(other);
    return status == TROUPE_END ? TROUPE_OK : status;
}

static source_actor make(troupe_place place)
{
    memset(shared, 0, sizeof *shared);
    source_actor actor = troupe_spawn(source, .place = place);
    assert_int_equal(troupe_actor_status(actor.address), TROUPE_OK);
    return actor;
}

static void assert_next(troupe_stream stream, int64_t expected)
{
    int64_t value = -1;
    assert_int_equal(troupe_next(int64_t, stream, &value, SUPPORT_SOON_MS), TROUPE_OK);
    assert_int_equal(value, expected);
}

static void assert_end(troupe_stream stream, troupe_status expected)
{
    int64_t value;
    assert_int_equal(troupe_next(int64_t, stream, &value, SUPPORT_SOON_MS), expected);
    assert_int_equal(troupe_next(int64_t, stream, &value), TROUPE_INVALID); // It is gone.
}

static bool has_ended(void *user)
{
    (void)user;
    return atomic_load(&shared->status) != 0;
}

static void assert_made_to_end(troupe_status expected)
{
    assert_true(support_wait_until(has_ended, NULL, SUPPORT_SOON_MS));
    assert_int_equal(atomic_load(&shared->status) - 1, expected);
}

static void test_values_come_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        source_actor actor = make(places[i]);
        troupe_stream stream = troupe_stream_open(actor, source_count, 0, 1000, 0);
        for (int64_t k = 0; k < 1000; k++)
            assert_next(stream, k);
        assert_end(stream, TROUPE_END);
        stream = troupe_stream_open(actor, source_count); // None at all.
        assert_end(stream, TROUPE_END);
        troupe_actor_kill(actor);
    }
}

static void test_values_of_every_shape(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        source_actor actor = make(places[i]);
        troupe_stream stream = troupe_stream_open(actor, source_lines, 40);
        for (int k = 0; k < 40; k++) {
            char expected[32];
            line next;
            snprintf(expected, sizeof expected, "line %d", k);
            assert_int_equal(troupe_next(line, stream, &next), TROUPE_OK);
            assert_string_equal(next.text, expected);
            assert_int_equal(next.digits.count, 3);
            assert_int_equal(next.digits.items[2], k + 2);
        }
        assert_end(stream, TROUPE_END);
        troupe_arena_reset();
        stream = troupe_stream_open(actor, source_refs, 20);
        for (int64_t k = 0; k < 20; k++) {
            troupe_ref ref;
            int64_t value;
            assert_int_equal(troupe_next(troupe_ref, stream, &ref), TROUPE_OK);
            assert_int_equal(troupe_get(int64_t, ref, &value), TROUPE_OK);
            assert_int_equal(value, k);
        }
        assert_end(stream, TROUPE_END);
        troupe_actor_kill(actor);
    }
}

static bool has_made(void *user)
{
    return atomic_load(&shared->made) >= *(int64_t *)user;
}

static void test_the_maker_waits_for_the_reader(void **state)
{
    (void)state;
    const uint32_t windows[] = {0, 1, 5};
    for (int i = 0; i < PLACES * 3; i++) {
        source_actor actor = make(places[i / 3]);
        uint32_t window = windows[i % 3];
        int64_t ahead = window == 0 ? 16 : window;
        troupe_stream stream =
            troupe_stream_open(troupe_with(actor, .window = window), source_count, 0, 100, 0);
        for (int64_t k = 0; k < 100; k++) {
            int64_t least = k; // With nothing read yet it fills the window.
            if (k == 0)
                least = ahead;
            assert_true(support_wait_until(has_made, &least, SUPPORT_SOON_MS));
            assert_true(atomic_load(&shared->made) <= k + ahead);
            assert_next(stream, k);
        }
        assert_end(stream, TROUPE_END);
        troupe_actor_kill(actor);
    }
}

static void test_the_failure_comes_after_the_values(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        source_actor actor = make(places[i]);
        troupe_stream stream = troupe_stream_open(actor, source_count, 5, 8, TROUPE_CORRUPT);
        for (int64_t k = 5; k < 8; k++)
            assert_next(stream, k);
        int64_t value;
        assert_int_equal(troupe_next(int64_t, stream, &value), TROUPE_CORRUPT);
        assert_string_equal(troupe_last_error()->text, "it broke after 8");
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_FAILED);
        assert_end(stream, TROUPE_INVALID);
        troupe_actor_kill(actor);
    }
}

static void test_a_dropped_stream_ends_its_maker(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        source_actor actor = make(places[i]);
        troupe_stream stream = troupe_stream_open(actor, source_count, 0, INT64_MAX, 0);
        assert_next(stream, 0);
        troupe_stream_drop(stream);
        assert_made_to_end(TROUPE_CANCELLED);
        troupe_stream_drop(stream);                                // Harmless.
        stream = troupe_stream_open(actor, source_count, 0, 3, 0); // The actor goes on.
        for (int64_t k = 0; k < 3; k++)
            assert_next(stream, k);
        assert_end(stream, TROUPE_END);
        troupe_actor_kill(actor);
    }
}

// False: it has passed before there was a value, as it may where the machine has other work.
static bool ends_at_its_deadline(source_actor actor, uint32_t deadline_ms)
{
    int64_t value;
    int count = 1;
    troupe_stream stream = troupe_stream_open(troupe_with(actor, .deadline_ms = deadline_ms),
                                              source_count, 0, INT64_MAX, 0);
    troupe_status status = troupe_next(int64_t, stream, &value, SUPPORT_SOON_MS);
    if (status == TROUPE_DEADLINE_EXCEEDED)
        return false;
    assert_int_equal(status, TROUPE_OK);
    assert_int_equal(value, 0);
    assert_made_to_end(TROUPE_CANCELLED); // It waited for room meanwhile.
    while ((status = troupe_next(int64_t, stream, &value)) == TROUPE_OK)
        count++;
    assert_true(status == TROUPE_DEADLINE_EXCEEDED || status == TROUPE_CANCELLED);
    assert_in_range(count, 1, 17 + 8);
    return true;
}

static void test_a_deadline_ends_both(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++)
        for (uint32_t ms = 400, ended = 0; ended == 0; ms *= 2) {
            assert_true(ms < SUPPORT_SOON_MS);
            source_actor actor = make(places[i]);
            ended = ends_at_its_deadline(actor, ms);
            assert_int_equal(troupe_actor_stop(actor), TROUPE_OK); // Its method is over.
        }
}

static void test_the_reader_may_not_want_to_wait(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        source_actor actor = make(places[i]), other = make(places[i]);
        int64_t value;
        // The second waits in the mailbox until the first has been read.
        troupe_stream first = troupe_stream_open(actor, source_count, 0, 40, 0);
        troupe_stream second = troupe_stream_open(actor, source_count, 100, 101, 0);
        assert_int_equal(troupe_next(int64_t, second, &value, TROUPE_POLL), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_next(int64_t, second, &value, 10), TROUPE_TIMED_OUT);
        for (int64_t k = 0; k < 40; k++)
            assert_next(first, k);
        assert_end(first, TROUPE_END);
        assert_next(second, 100);
        assert_end(second, TROUPE_END);
        troupe_actor_kill(actor);
        troupe_actor_kill(other);
    }
}

static void test_a_method_reads_a_stream(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        source_actor actor = make(places[i]);
        int64_t sum;
        troupe_ref call = troupe_call(actor, source_sum, 0, 200, TROUPE_OK);
        assert_int_equal(troupe_get(int64_t, call, &sum, SUPPORT_SOON_MS), TROUPE_OK);
        assert_int_equal(sum, 199 * 100);
        call = troupe_call(actor, source_sum, 0, 20, TROUPE_NO_SPACE);
        assert_int_equal(troupe_get(int64_t, call, &sum), TROUPE_NO_SPACE);
        troupe_actor_kill(actor);
    }
}

static void test_the_death_of_the_maker_ends_the_stream(void **state)
{
    (void)state;
    source_actor actor = make(TROUPE_PLACE_ISOLATED);
    troupe_stream stream = troupe_stream_open(actor, source_die, 0, 3, 0);
    int64_t value;
    troupe_status status;
    while ((status = troupe_next(int64_t, stream, &value, SUPPORT_SOON_MS)) == TROUPE_OK)
        continue;
    assert_int_equal(status, TROUPE_MAYBE_EXECUTED);
    assert_end(stream, TROUPE_INVALID);
    stream = troupe_stream_open(actor, source_count, 0, 3, 0);
    assert_end(stream, TROUPE_NOT_EXECUTED);
    for (int i = 0; i < PLACES; i++) { // A light one's method is let finish.
        actor = make(places[i]);
        stream = troupe_stream_open(actor, source_count, 0, INT64_MAX, 0);
        assert_next(stream, 0);
        troupe_stream waits = troupe_stream_open(actor, source_count, 0, 1, 0);
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
        status = troupe_next(int64_t, waits, &value, SUPPORT_SOON_MS);
        assert_true(status == TROUPE_NOT_EXECUTED || status == TROUPE_MAYBE_EXECUTED);
        troupe_stream_drop(stream);
    }
}

// Seen by the threads that read one stream.
typedef struct reading {
    troupe_stream stream;
    _Atomic int *seen; // How often each value came.
    int64_t count;
    _Atomic int ends, stale, others;
} reading;

static void *read_to_the_end(void *user)
{
    reading *all = user;
    troupe_status status;
    int64_t value;
    while ((status = troupe_next(int64_t, all->stream, &value, SUPPORT_SOON_MS)) == TROUPE_OK)
        if (value >= 0 && value < all->count)
            atomic_fetch_add(&all->seen[value], 1);
    atomic_fetch_add(status == TROUPE_END       ? &all->ends
                     : status == TROUPE_INVALID ? &all->stale
                                                : &all->others,
                     1);
    return NULL;
}

// None of them takes a value that another one was faster at for the end.
static void test_several_threads_read_one_stream(void **state)
{
    (void)state;
    enum { READERS = 4, VALUES = 10000 };
    static _Atomic int seen[VALUES];
    for (int i = 0; i < 2; i++) {
        source_actor actor = make(places[i]);
        memset((void *)seen, 0, sizeof seen);
        reading all = {.seen = seen, .count = VALUES};
        all.stream = troupe_stream_open(actor, source_count, 0, VALUES, 0);
        pthread_t threads[READERS];
        for (int t = 0; t < READERS; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, read_to_the_end, &all), 0);
        for (int t = 0; t < READERS; t++)
            pthread_join(threads[t], NULL);
        assert_int_equal(all.others, 0);
        assert_int_equal(all.ends, 1);
        assert_int_equal(all.stale, READERS - 1);
        for (int k = 0; k < VALUES; k++)
            assert_int_equal(seen[k], 1);
        assert_made_to_end(TROUPE_OK);
        troupe_actor_kill(actor);
    }
}

static void test_what_is_no_stream(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        source_actor actor = make(places[i]);
        order in = {0, 1, TROUPE_OK};
        int64_t value;
        troupe_bytes packed = {"\x93\x00\x01\x00", 4};
        assert_int_equal(troupe_get(int64_t, troupe_call_from(actor, source_count, &in), &value),
                         TROUPE_INVALID);
        assert_non_null(strstr(troupe_last_error()->text, "troupe_stream"));
        assert_int_equal(
            troupe_get(int64_t, troupe_call_named(actor.address, "source_count", packed), &value),
            TROUPE_INVALID);
        troupe_stream stream = troupe_stream_open(actor, source_plain);
        assert_end(stream, TROUPE_INVALID);
        assert_int_equal(troupe_get(int64_t, troupe_call(actor, source_plain), &value),
                         TROUPE_INVALID);
        stream = troupe_stream_open(actor, source_wrong);
        assert_end(stream, TROUPE_END);
        stream = troupe_stream_open(actor, source_count, 0, 2, 0);
        double wrong;
        assert_int_equal(troupe_next(double, stream, &wrong), TROUPE_WRONG_TYPE);
        assert_next(stream, 1);
        assert_end(stream, TROUPE_END);
        troupe_actor_kill(actor);
    }
    int64_t value = 1;
    assert_int_equal(troupe_yield(int64_t, &value), TROUPE_INVALID);
    assert_int_equal(troupe_next(int64_t, (troupe_stream){0}, &value), TROUPE_INVALID);
    troupe_stream_drop((troupe_stream){0});
}

// However the row of its call has ended: who makes the values is told that nobody wants them.
static void test_a_stream_that_others_ended(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++)
        for (int drops = 0; drops < 2; drops++) {
            source_actor actor = troupe_spawn(source, .place = places[p]);
            troupe_must(troupe_actor_status(actor.address));
            atomic_store(&shared->status, 0);
            int64_t value;
            troupe_stream stream =
                troupe_stream_open(troupe_with(actor, .window = 1), source_count, 0, 100, 0);
            assert_next(stream, 0);
            troupe_error failure = trp_failure(TROUPE_FAILED, TROUPE_OUTCOME_FAILED,
                                               TROUPE_EXECUTED_YES, "somebody else said so");
            assert_true(trp_entry_fail(stream.id_, &failure));
            // Read to its end, it is over in this process; elsewhere whoever drops it says so.
            while (drops == 0 && places[p] == TROUPE_PLACE_HERE &&
                   troupe_next(int64_t, stream, &value) == TROUPE_OK)
                continue;
            troupe_stream_drop(stream);
            troupe_stream again = troupe_stream_open(actor, source_count, 7, 8, 0);
            assert_int_equal(troupe_next(int64_t, again, &value, SUPPORT_SOON_MS), TROUPE_OK);
            assert_int_equal(value, 7);
            assert_end(again, TROUPE_END);
            troupe_actor_kill(actor);
        }
}

int main(int argc, char **argv)
{
    shared = support_share(sizeof *shared);
    troupe_must(troupe_start(argc, argv, .workers = 2, .threads = 2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_come_in_order),
        cmocka_unit_test(test_values_of_every_shape),
        cmocka_unit_test(test_the_maker_waits_for_the_reader),
        cmocka_unit_test(test_the_failure_comes_after_the_values),
        cmocka_unit_test(test_a_dropped_stream_ends_its_maker),
        cmocka_unit_test(test_a_deadline_ends_both),
        cmocka_unit_test(test_the_reader_may_not_want_to_wait),
        cmocka_unit_test(test_a_method_reads_a_stream),
        cmocka_unit_test(test_the_death_of_the_maker_ends_the_stream),
        cmocka_unit_test(test_several_threads_read_one_stream),
        cmocka_unit_test(test_what_is_no_stream),
        cmocka_unit_test(test_a_stream_that_others_ended),
    };
    return cmocka_run_group_tests(tests, NULL, stop_runtime);
}
