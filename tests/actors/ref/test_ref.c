// test_ref.c: references: getting, waiting, dropping, keeping, and passing them on.
// label: local
#include <places.h>
#include <support.h>

#include <actors/ref/ref.h>
#include <stdio.h>
#include <string.h>
#include <troupe/actor.h>
#include <unistd.h>

TROUPE_STRUCT(pair, (double, first), (double, second));
TROUPE_STRUCT(bag, (troupe_text, label), (troupe_ref, one), (troupe_array_troupe_ref, more));

typedef struct clerk {
    troupe_ref kept;
} clerk;

static troupe_status clerk_half(clerk *self, const double *in, double *out)
{
    (void)self;
    *out = *in / 2;
    return TROUPE_OK;
}

static _Atomic int *gate; // Shared by all processes.

// Until the gate has been opened as often as that.
static troupe_status clerk_wait(clerk *self, const int *times, int *out)
{
    (void)self;
    while (*gate < *times)
        usleep(500);
    *out = *times;
    return TROUPE_OK;
}

static troupe_status clerk_rest(clerk *self, const int *milliseconds, int *out)
{
    (void)self;
    usleep((unsigned)*milliseconds * 1000);
    *out = *milliseconds;
    return TROUPE_OK;
}

static troupe_status clerk_fail(clerk *self, const int *in, double *out)
{
    (void)self, (void)out;
    return troupe_fail((troupe_status)*in, "on purpose");
}

// The sum of what its references stand for, each read twice: they are borrowed.
static troupe_status clerk_sum(clerk *self, const bag *in, double *sum)
{
    (void)self;
    for (int round = 0; round < 2; round++) {
        double value;
        *sum = 0;
        if (in->one.id != 0) {
            TROUPE_TRY(troupe_get(double, in->one, &value));
            *sum += value;
        }
        for (size_t i = 0; i < in->more.count; i++) {
            TROUPE_TRY(troupe_get(double, in->more.items[i], &value));
            *sum += value;
        }
    }
    troupe_ref_drop(in->one); // Changes nothing.
    return TROUPE_OK;
}

// Stores a reference beyond the call / reads it.
static troupe_status clerk_keep(clerk *self, const troupe_ref *in, troupe_none *nothing)
{
    (void)nothing;
    self->kept = troupe_ref_keep(*in);
    return self->kept.id != 0 ? TROUPE_OK : TROUPE_INVALID;
}

static troupe_status clerk_forget(clerk *self, const troupe_ref *in, troupe_none *nothing)
{
    (void)nothing;
    self->kept = *in; // Wrong: it is borrowed.
    return TROUPE_OK;
}

static troupe_status clerk_kept(clerk *self, const troupe_none *nothing, double *value)
{
    (void)nothing;
    return troupe_get(double, self->kept, value);
}

// Returns references: a new object, and the first argument handed back.
static troupe_status clerk_make(clerk *self, const bag *in, bag *out)
{
    (void)self;
    double value = 40;
    troupe_ref *more = troupe_arena_alloc(2 * sizeof *more);
    more[0] = troupe_put(double, &value);
    value = 2;
    more[1] = troupe_put(double, &value);
    out->label = "made";
    out->one = in->one;
    out->more = (troupe_array_troupe_ref){more, 2};
    return TROUPE_OK;
}

static troupe_status clerk_echo(clerk *self, const troupe_bytes *in, troupe_bytes *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

static troupe_status clerk_call(clerk *self, const troupe_actor *whom, double *out);

TROUPE_ACTOR(clerk, (clerk_half, double, double), (clerk_rest, int, int), (clerk_wait, int, int),
             (clerk_fail, int, double), (clerk_sum, bag, double),
             (clerk_keep, troupe_ref, troupe_none), (clerk_forget, troupe_ref, troupe_none),
             (clerk_kept, troupe_none, double), (clerk_make, bag, bag),
             (clerk_echo, troupe_bytes, troupe_bytes), (clerk_call, troupe_actor, double));

// Calls an actor whose address came in a message.
static troupe_status clerk_call(clerk *self, const troupe_actor *whom, double *out)
{
    (void)self;
    clerk_actor other = {*whom};
    return troupe_get(double, troupe_call(other, clerk_half, 42), out);
}

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static void test_put_and_get(void **state)
{
    (void)state;
    pair in = {1, 2}, out = {0};
    troupe_ref ref = troupe_put(pair, &in);
    in.first = 99;
    troupe_must(troupe_get(pair, ref, &out));
    assert_true(out.first == 1 && out.second == 2);
    assert_int_equal(troupe_get(pair, ref, &out), TROUPE_INVALID); // It was consumed.

    double value;
    ref = troupe_put(pair, &in);
    assert_int_equal(troupe_get(double, ref, &value), TROUPE_WRONG_TYPE);
    assert_non_null(strstr(troupe_last_error()->text, "'pair'"));
    assert_non_null(strstr(troupe_last_error()->text, "'double'"));

    troupe_text text = "not flat", read;
    troupe_must(troupe_get(troupe_text, troupe_put(troupe_text, &text), &read));
    assert_string_equal(read, text);

    bag holder = {.one = {.id = 5}};
    assert_int_equal(troupe_get(bag, troupe_put(bag, &holder), &holder), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "stale"));
    assert_store_empty();
}

static void test_buffers_and_views(void **state)
{
    (void)state;
    troupe_buffer buffer;
    troupe_ref ref;
    troupe_view view, other;
    troupe_must(troupe_buffer_create(1000, &buffer));
    assert_int_equal((uintptr_t)buffer.data % 64, 0);
    memset(buffer.data, 'b', 1000);
    troupe_must(troupe_buffer_seal(&buffer, &ref));
    assert_null(buffer.data);
    assert_int_equal(troupe_buffer_seal(&buffer, &ref), TROUPE_INVALID);
    troupe_buffer_discard(&buffer);

    troupe_must(troupe_view_bytes(ref, &view, -1));
    troupe_must(troupe_view_bytes(ref, &other, 0));
    assert_ptr_equal(view.data, other.data);
    troupe_view_end(&other);
    troupe_ref_drop(ref);
    assert_int_equal(view.size, 1000);
    assert_int_equal(((const char *)view.data)[999], 'b');
    troupe_view_end(&view);
    troupe_view_end(&view);
    assert_int_equal(troupe_view_bytes(ref, &view, -1), TROUPE_INVALID);

    troupe_must(troupe_buffer_create(10, &buffer));
    troupe_buffer_discard(&buffer);
    double number = 1;
    ref = troupe_put(double, &number);
    assert_int_equal(troupe_view_bytes(ref, &view, -1), TROUPE_WRONG_TYPE);
    troupe_ref_drop(ref);
    troupe_must(troupe_get(troupe_bytes, troupe_put_bytes("", 0), &(troupe_bytes){0}));
    assert_store_empty();
}

static void test_views_of_results(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
        troupe_view view;
        troupe_ref ref = troupe_call(actor, clerk_echo, "result", 7);
        troupe_must(troupe_view_bytes(ref, &view, -1));
        assert_int_equal((uintptr_t)view.data % 64, 0);
        troupe_ref_drop(ref);
        assert_int_equal(view.size, 7);
        assert_string_equal(view.data, "result");
        troupe_view_end(&view);

        ref = troupe_call(actor, clerk_wait, *gate + 1);
        assert_int_equal(troupe_view_bytes(ref, &view, 1), TROUPE_TIMED_OUT);
        ++*gate;
        assert_int_equal(troupe_view_bytes(ref, &view, -1), TROUPE_WRONG_TYPE);
        troupe_ref_drop(ref);
        troupe_actor_kill(actor);
    }
    assert_store_empty();
}

static void test_timeouts_keep_the_reference(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
        int value = 0, times = *gate + 1;
        troupe_ref ref = troupe_call(actor, clerk_wait, times);
        assert_int_equal(troupe_get(int, ref, &value, TROUPE_POLL), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_get(int, ref, &value, 5), TROUPE_TIMED_OUT);
        ++*gate;
        troupe_must(troupe_get(int, ref, &value));
        assert_int_equal(value, times);
        assert_int_equal(troupe_get(int, ref, &value), TROUPE_INVALID);
        troupe_ref_drop(ref);
        troupe_actor_kill(actor);
    }
    int value;
    assert_int_equal(troupe_get(int, (troupe_ref){0}, &value), TROUPE_INVALID);
    assert_int_equal(troupe_get(int, ((troupe_ref){.id = 12345678}), &value), TROUPE_INVALID);
    troupe_ref_drop((troupe_ref){0});
}

static void test_wait_for_some(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    for (int p = 0; p < PLACES; p++) {
        clerk_actor slow = troupe_spawn(clerk, .place = places[p]);
        clerk_actor fast = troupe_spawn(clerk, .place = places[(p + 1) % PLACES]);
        double number = 3;
        troupe_ref refs[COUNT] = {troupe_call(slow, clerk_wait, *gate + 1),
                                  troupe_call(fast, clerk_half, 1),
                                  troupe_put(double, &number),
                                  troupe_call(slow, clerk_half, 1),
                                  troupe_call(fast, clerk_half, 2),
                                  {0}};
        bool ready[COUNT];
        size_t count;
        troupe_must(troupe_wait(refs, COUNT, 4, -1, ready, &count));
        assert_true(count >= 4);
        assert_true(ready[1] && ready[2] && ready[4] && ready[5]);
        assert_false(ready[0] || ready[3]);
        assert_int_equal(troupe_wait(refs, COUNT, 5, 10, ready, NULL), TROUPE_TIMED_OUT);
        assert_true(ready[2]);
        assert_int_equal(troupe_wait(refs, COUNT, COUNT + 1, 0, ready, NULL), TROUPE_INVALID);
        ++*gate;
        troupe_must(troupe_wait(refs, COUNT, COUNT, SUPPORT_SOON_MS, ready, &count));
        assert_int_equal(count, COUNT);
        int rested;
        troupe_must(troupe_get(int, refs[0], &rested, TROUPE_POLL));
        for (int i = 1; i < 5; i++)
            troupe_must(troupe_get(double, refs[i], &number, TROUPE_POLL));
        troupe_actor_kill(slow);
        troupe_actor_kill(fast);
    }
    troupe_must(troupe_wait(NULL, 0, 0, -1, NULL, NULL));
    assert_store_empty();
}

static void test_results_of_other_types(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
        int value;
        assert_int_equal(troupe_get(int, troupe_call(actor, clerk_half, 1), &value),
                         TROUPE_WRONG_TYPE);
        assert_non_null(strstr(troupe_last_error()->text, "'double'"));
        assert_non_null(strstr(troupe_last_error()->text, "'int'"));
        troupe_actor_kill(actor);
    }
}

static void test_references_in_arguments(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
        clerk_actor other = troupe_spawn(clerk, .place = places[(p + 1) % PLACES]);
        double value = 5, sum;
        int rest = 30;
        // An object, a call that is done, one that is pending, one elsewhere.
        troupe_ref more[] = {troupe_put(double, &value), troupe_call(other, clerk_half, 8)};
        troupe_must(troupe_wait(&more[1], 1, 1, -1, NULL, NULL));
        troupe_must(troupe_tell_from(other, clerk_rest, &rest));
        bag in = {.one = troupe_call(other, clerk_half, 6), .more = {more, 2}};
        troupe_ref result = troupe_call_from(actor, clerk_sum, &in);
        troupe_ref_drop(more[0]); // The message has a hold of its own.
        troupe_must(troupe_get(double, result, &sum));
        assert_true(sum == 3 + 5 + 4);
        // The caller's references are its own still.
        troupe_must(troupe_get(double, in.one, &value));
        assert_true(value == 3);
        troupe_must(troupe_get(double, more[1], &value));
        assert_true(value == 4);
        // A stale one is refused.
        assert_int_equal(troupe_get(double, troupe_call_from(actor, clerk_sum, &in), &sum),
                         TROUPE_INVALID);
        assert_non_null(strstr(troupe_last_error()->text, "stale"));
        troupe_actor_kill(actor);
        troupe_actor_kill(other);
    }
    assert_store_empty();
}

static void test_failures_through_references(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
        clerk_actor other = troupe_spawn(clerk, .place = places[(p + 1) % PLACES]);
        double sum;
        bag in = {.one = troupe_call(other, clerk_fail, TROUPE_NO_SPACE)};
        assert_int_equal(troupe_get(double, troupe_call_from(actor, clerk_sum, &in), &sum),
                         TROUPE_NO_SPACE);
        assert_string_equal(troupe_last_error()->text, "on purpose");
        troupe_ref_drop(in.one);
        troupe_actor_kill(actor);
        troupe_actor_kill(other);
    }
    assert_store_empty();
}

static void test_keeping(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
        double value = 7;
        troupe_none none;
        troupe_ref refs[2] = {troupe_put(double, &value), troupe_call(actor, clerk_half, 14)};
        for (int i = 0; i < 2; i++) {
            troupe_must(
                troupe_get(troupe_none, troupe_call_from(actor, clerk_keep, &refs[i]), &none));
            troupe_ref_drop(refs[i]);
            troupe_must(troupe_get(double, troupe_call(actor, clerk_kept), &value));
            assert_true(value == 7);
            assert_int_equal(troupe_get(double, troupe_call(actor, clerk_kept), &value),
                             TROUPE_INVALID);
        }
        // What is only borrowed ends with the method.
        troupe_ref ref = troupe_put(double, &value);
        troupe_must(troupe_get(troupe_none, troupe_call_from(actor, clerk_forget, &ref), &none));
        assert_int_equal(troupe_get(double, troupe_call(actor, clerk_kept), &value),
                         TROUPE_INVALID);
        // Two owners in one process.
        troupe_ref again = troupe_ref_keep(ref);
        troupe_ref_drop(ref);
        troupe_must(troupe_get(double, again, &value));
        assert_int_equal(troupe_ref_keep(again).id, 0);
        troupe_actor_kill(actor);
    }
    assert_store_empty();
}

static void test_references_in_results(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
        double value = 9;
        bag in = {.one = troupe_put(double, &value)}, out;
        troupe_ref ref = troupe_call_from(actor, clerk_make, &in);
        troupe_ref_drop(in.one);
        troupe_must(troupe_get(bag, ref, &out));
        assert_string_equal(out.label, "made");
        assert_int_equal(out.more.count, 2);
        troupe_must(troupe_get(double, out.one, &value));
        assert_true(value == 9);
        troupe_must(troupe_get(double, out.more.items[0], &value));
        assert_true(value == 40);
        troupe_ref_drop(out.more.items[1]);
        // Results that nobody reads, and tells, give theirs back.
        in.one = troupe_put(double, &value);
        ref = troupe_call_from(actor, clerk_make, &in);
        troupe_must(troupe_wait(&ref, 1, 1, -1, NULL, NULL));
        troupe_ref_drop(ref);
        troupe_ref_drop(troupe_call_from(actor, clerk_make, &in));
        troupe_must(troupe_tell_from(actor, clerk_make, &in));
        troupe_must(troupe_get(double, troupe_call(actor, clerk_half, 1), &value));
        troupe_ref_drop(in.one);
        troupe_actor_kill(actor);
        troupe_arena_reset();
    }
    assert_store_empty();
}

static void test_handles_in_arguments(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++)
        for (int q = 0; q < PLACES; q++) {
            clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
            clerk_actor other = troupe_spawn(clerk, .place = places[q]);
            double half;
            troupe_must(
                troupe_get(double, troupe_call_from(actor, clerk_call, &other.address), &half));
            assert_true(half == 21);
            troupe_actor_kill(actor);
            troupe_actor_kill(other);
        }
}

static void note_ready(void *user, troupe_ref ref)
{
    (void)ref;
    (*(_Atomic int *)user)++;
}

static bool is_two(void *user)
{
    return *(_Atomic int *)user >= 2;
}

static void test_callbacks(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
        _Atomic int told = 0;
        double value;
        int rested;
        troupe_ref ref = troupe_call(actor, clerk_half, 1);
        troupe_must(troupe_wait(&ref, 1, 1, -1, NULL, NULL));
        trp_ref_when(ref, note_ready, &told);
        assert_int_equal(told, 1);
        troupe_must(troupe_get(double, ref, &value));
        ref = troupe_call(actor, clerk_rest, 50);
        trp_ref_when(ref, note_ready, &told);
        troupe_ref dropped = troupe_ref_keep(ref);
        troupe_ref_drop(ref);
        assert_true(support_wait_until(is_two, &told, SUPPORT_SOON_MS));
        troupe_must(troupe_get(int, dropped, &rested));
        trp_ref_when(dropped, note_ready, &told); // Stale: nothing to wait for.
        assert_int_equal(told, 3);
        troupe_actor_kill(actor);
    }
}

int main(void)
{
    gate = support_share(sizeof *gate);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_get),
        cmocka_unit_test(test_buffers_and_views),
        cmocka_unit_test(test_views_of_results),
        cmocka_unit_test(test_timeouts_keep_the_reference),
        cmocka_unit_test(test_wait_for_some),
        cmocka_unit_test(test_results_of_other_types),
        cmocka_unit_test(test_references_in_arguments),
        cmocka_unit_test(test_failures_through_references),
        cmocka_unit_test(test_keeping),
        cmocka_unit_test(test_references_in_results),
        cmocka_unit_test(test_handles_in_arguments),
        cmocka_unit_test(test_callbacks),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
