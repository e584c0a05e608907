// test_split.c: several results of one call, each behind a reference of its own.
// timeout: 60
// label: local
#include <places.h>
#include <support.h>

#include <stdatomic.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

static _Atomic int *gate; // Shared with the worker processes.

TROUPE_STRUCT(range, (int64_t, first), (int64_t, count));
TROUPE_STRUCT(pieces, (int64_t, sum), (troupe_text, words), (troupe_array_int64_t, numbers));
TROUPE_STRUCT(kept, (troupe_ref, object), (int64_t, number));
TROUPE_STRUCT(fixed, (int64_t, number), (int64_t, row, 3));
TROUPE_STRUCT(heavy, (troupe_bytes, low), (troupe_bytes, high));

typedef struct maker {
    int unused;
} maker;

// Answers once the gate is open.
static troupe_status maker_make(maker *self, const range *of, pieces *out)
{
    (void)self;
    while (*gate == 0 && !troupe_cancelled())
        usleep(500);
    if (of->count < 0)
        return troupe_fail(TROUPE_INVALID, "a range of %lld", (long long)of->count);
    int64_t *numbers = troupe_arena_alloc((size_t)of->count * sizeof *numbers + 1);
    for (int64_t i = 0; i < of->count; i++)
        out->sum += numbers[i] = of->first + i;
    out->words = troupe_arena_text("three words here");
    out->numbers = (troupe_array_int64_t){numbers, (size_t)of->count};
    return TROUPE_OK;
}

static troupe_status maker_keep(maker *self, const int64_t *number, kept *out)
{
    (void)self;
    out->object = troupe_put(int64_t, number);
    out->number = *number;
    return TROUPE_OK;
}

static troupe_status maker_fix(maker *self, const troupe_none *none, fixed *out)
{
    (void)self, (void)none;
    out->number = 1;
    return TROUPE_OK;
}

static troupe_status maker_load(maker *self, const int64_t *size, heavy *out)
{
    (void)self;
    void *data = troupe_arena_alloc((size_t)*size);
    memset(data, 7, (size_t)*size);
    out->low = out->high = (troupe_bytes){data, (size_t)*size};
    return TROUPE_OK;
}

static troupe_status maker_wait_for_itself(maker *self, const troupe_actor *me, int64_t *out);

TROUPE_ACTOR(maker, (maker_make, range, pieces), (maker_keep, int64_t, kept),
             (maker_fix, troupe_none, fixed), (maker_load, int64_t, heavy),
             (maker_wait_for_itself, troupe_actor, int64_t));

// A part of what only this method could make.
static troupe_status maker_wait_for_itself(maker *self, const troupe_actor *me, int64_t *out)
{
    (void)self;
    troupe_ref sum;
    troupe_ref_split(pieces, troupe_call((maker_actor){*me}, maker_make, .count = 1), &sum, NULL,
                     NULL);
    return troupe_get(int64_t, sum, out);
}

typedef struct reader {
    int unused;
} reader;

static troupe_status reader_sum(reader *self, const troupe_ref *ref, int64_t *out)
{
    (void)self;
    return troupe_get(int64_t, *ref, out);
}

static troupe_status reader_words(reader *self, const troupe_ref *ref, int64_t *out)
{
    (void)self;
    troupe_text words;
    TROUPE_TRY(troupe_get(troupe_text, *ref, &words));
    *out = (int64_t)strlen(words);
    return TROUPE_OK;
}

static troupe_status reader_numbers(reader *self, const troupe_ref *ref, int64_t *out)
{
    (void)self;
    troupe_array_int64_t numbers;
    TROUPE_TRY(troupe_get(troupe_array_int64_t, *ref, &numbers));
    *out = numbers.count > 0 ? numbers.items[numbers.count - 1] : 0;
    return TROUPE_OK;
}

TROUPE_ACTOR(reader, (reader_sum, troupe_ref, int64_t), (reader_words, troupe_ref, int64_t),
             (reader_numbers, troupe_ref, int64_t));

static troupe_status halve(const range *whole, pieces *out)
{
    out->sum = whole->first * 2;
    return whole->count == 0 ? TROUPE_OK : troupe_fail(TROUPE_INVALID, "not halved");
}
TROUPE_TASK(halve, range, pieces);

static int set_up(void **state)
{
    (void)state;
    if (gate == NULL)
        gate = support_share(sizeof *gate);
    *gate = 0;
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static void expect_no_objects(void)
{
    troupe_store_usage usage = {.objects = 1};
    for (int i = 0; i < SUPPORT_SOON_MS && usage.objects > 0; i++) {
        troupe_must(troupe_store_usage_get(&usage));
        usleep(1000);
    }
    assert_int_equal(usage.objects, 0);
}

// One call, three references, passed to three actors before there is a value, wherever they live.
static void test_three_readers(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        *gate = 0;
        maker_actor source = troupe_spawn(maker, .place = places[p]);
        reader_actor readers[3];
        for (int i = 0; i < 3; i++)
            readers[i] = troupe_spawn(reader, .place = places[i]);
        troupe_ref sum, words, numbers, answers[3];
        troupe_ref_split(pieces, troupe_call(source, maker_make, .first = 10, .count = 5), &sum,
                         &words, &numbers);
        answers[0] = troupe_call_from(readers[0], reader_sum, &sum);
        answers[1] = troupe_call_from(readers[1], reader_words, &words);
        answers[2] = troupe_call_from(readers[2], reader_numbers, &numbers);
        troupe_ref_drop(sum); // The messages hold what they name.
        troupe_ref_drop(words);
        troupe_ref_drop(numbers);
        *gate = 1;
        int64_t values[3];
        troupe_must(troupe_get_all(int64_t, answers, 3, values));
        assert_int_equal(values[0], 60);
        assert_int_equal(values[1], strlen("three words here"));
        assert_int_equal(values[2], 14);
        troupe_actor_kill(source);
        for (int i = 0; i < 3; i++)
            troupe_actor_kill(readers[i]);
    }
    expect_no_objects();
}

static void test_each_by_itself(void **state)
{
    (void)state;
    *gate = 1;
    maker_actor source = troupe_spawn(maker, .place = TROUPE_PLACE_WORKER);
    troupe_ref sum, words, numbers;
    int64_t value;
    troupe_text text;
    troupe_ref_split(pieces, troupe_call(source, maker_make, .first = 1, .count = 3), &sum, NULL,
                     &numbers);
    troupe_ref_drop(numbers); // Before there is a value, or after: nobody else minds.
    troupe_must(troupe_get(int64_t, sum, &value));
    assert_int_equal(value, 6);
    // Of what is there already.
    troupe_ref whole = troupe_call(source, maker_make, .first = 1, .count = 3);
    troupe_must(troupe_wait(&whole, 1, 1, SUPPORT_SOON_MS, NULL, NULL));
    troupe_ref other = troupe_ref_keep(whole);
    troupe_ref_split(pieces, whole, &sum, &words, NULL);
    troupe_must(troupe_get(troupe_text, words, &text));
    assert_string_equal(text, "three words here");
    troupe_must(troupe_get(int64_t, sum, &value));
    pieces all;
    assert_int_equal(troupe_get(pieces, whole, &all), TROUPE_INVALID); // Consumed,
    troupe_must(troupe_get(pieces, other, &all));                      // unlike another one to it.
    assert_int_equal(all.numbers.items[2], 3);
    // Of an object of the store, and of a task.
    troupe_ref_split(pieces, troupe_put(pieces, &all), &sum, &words, &numbers);
    troupe_must(troupe_get(int64_t, sum, &value));
    assert_int_equal(value, 6);
    troupe_ref_drop(words);
    troupe_ref_drop(numbers);
    troupe_ref_split(pieces, troupe_run(halve, .first = 21), &sum, NULL, NULL);
    troupe_must(troupe_get(int64_t, sum, &value));
    assert_int_equal(value, 42);
    troupe_arena_reset();
    expect_no_objects();
}

static void test_references_and_large_fields(void **state)
{
    (void)state;
    enum { LARGE = 200000 };
    maker_actor source = troupe_spawn(maker, .place = TROUPE_PLACE_WORKER);
    troupe_ref object, number, low, high, inner;
    int64_t value;
    troupe_ref_split(kept, troupe_call(source, maker_keep, 5), &object, &number);
    troupe_must(troupe_get(troupe_ref, object, &inner));
    troupe_must(troupe_get(int64_t, inner, &value));
    assert_int_equal(value, 5);
    troupe_must(troupe_get(int64_t, number, &value));
    troupe_ref_split(kept, troupe_call(source, maker_keep, 6), NULL, &number);
    troupe_must(troupe_get(int64_t, number, &value));
    assert_int_equal(value, 6);
    expect_no_objects(); // What nobody wanted was given back.
    troupe_ref_split(heavy, troupe_call(source, maker_load, LARGE), &low, &high);
    troupe_view view;
    troupe_must(troupe_view_bytes(low, &view, SUPPORT_SOON_MS));
    assert_int_equal(view.size, LARGE);
    troupe_view_end(&view);
    troupe_ref_drop(low);
    troupe_bytes bytes;
    troupe_must(troupe_get(troupe_bytes, high, &bytes));
    assert_int_equal(((const unsigned char *)bytes.data)[LARGE - 1], 7);
    troupe_arena_reset();
    expect_no_objects();
}

static void test_failures(void **state)
{
    (void)state;
    *gate = 1;
    maker_actor source = troupe_spawn(maker, .place = TROUPE_PLACE_WORKER);
    troupe_ref sum, words, numbers, number, row;
    int64_t value;
    troupe_text text;
    troupe_ref_split(pieces, troupe_call(source, maker_make, .count = -1), &sum, &words, &numbers);
    assert_int_equal(troupe_get(int64_t, sum, &value), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "a range of -1");
    assert_int_equal(troupe_get(troupe_text, words, &text), TROUPE_INVALID);
    troupe_ref_drop(numbers);
    // A part is of its field's type alone.
    troupe_ref_split(pieces, troupe_call(source, maker_make, .count = 1), &sum, NULL, NULL);
    assert_int_equal(troupe_get(troupe_text, sum, &text), TROUPE_WRONG_TYPE);
    // A result of another type.
    troupe_ref_split(pieces, troupe_call(source, maker_keep, 1), &sum, &words, NULL);
    assert_int_equal(troupe_get(int64_t, sum, &value), TROUPE_WRONG_TYPE);
    assert_non_null(strstr(troupe_last_error()->text, "kept"));
    troupe_ref_drop(words);
    // Nothing to be split, and a field that cannot be.
    troupe_ref gone = troupe_call(source, maker_make, .count = 1);
    troupe_ref_drop(gone);
    troupe_ref_split(pieces, gone, &sum, NULL, NULL);
    assert_int_equal(troupe_get(int64_t, sum, &value), TROUPE_INVALID);
    troupe_ref_split(fixed, troupe_call(source, maker_fix), &number, &row);
    assert_int_equal(troupe_get(int64_t, number, &value), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "'row'"));
    troupe_ref_drop(row);
    fixed last; // What was dropped is run all the same, before the gate closes.
    troupe_must(troupe_get(fixed, troupe_call(source, maker_fix), &last));
    // The maker's death.
    *gate = 0;
    maker_actor mortal = troupe_spawn(maker, .place = TROUPE_PLACE_ISOLATED);
    troupe_ref_split(pieces, troupe_call(mortal, maker_make, .count = 1), &sum, &words, NULL);
    assert_int_equal(troupe_get(int64_t, sum, &value, 20), TROUPE_TIMED_OUT);
    troupe_actor_kill(mortal);
    troupe_status status = troupe_get(int64_t, sum, &value, SUPPORT_SOON_MS);
    assert_true(status == TROUPE_MAYBE_EXECUTED || status == TROUPE_NOT_EXECUTED);
    assert_int_equal(troupe_get(troupe_text, words, &text), status);
    expect_no_objects();
}

static void test_cancelling_and_deadlock(void **state)
{
    (void)state;
    maker_actor source = troupe_spawn(maker, .place = TROUPE_PLACE_WORKER);
    troupe_ref sum, words;
    int64_t value;
    troupe_text text;
    troupe_ref_split(pieces, troupe_call(source, maker_make, .count = 1), &sum, &words, NULL);
    troupe_must(troupe_cancel(words)); // That is the call, and so all of it.
    assert_int_equal(troupe_get(int64_t, sum, &value, SUPPORT_SOON_MS), TROUPE_CANCELLED);
    assert_int_equal(troupe_get(troupe_text, words, &text), TROUPE_CANCELLED);
    *gate = 1;
    troupe_ref_split(pieces, troupe_call(source, maker_make, .count = 1), &sum, NULL, NULL);
    troupe_must(troupe_wait(&sum, 1, 1, SUPPORT_SOON_MS, NULL, NULL));
    assert_int_equal(troupe_cancel(sum), TROUPE_NOT_FOUND);
    troupe_ref_drop(sum);
    assert_int_equal(troupe_get(int64_t,
                                troupe_call_from(source, maker_wait_for_itself, &source.address),
                                &value),
                     TROUPE_DEADLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_three_readers, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_each_by_itself, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_references_and_large_fields, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_failures, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_cancelling_and_deadlock, set_up, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
