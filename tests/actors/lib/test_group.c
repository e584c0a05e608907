// test_group.c: one message to many actors, one to each, and all their answers, as an array and as
// one reference.
// timeout: 60
// label: local
#include <places.h>
#include <support.h>

#include <stdatomic.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

static _Atomic int *gate; // Shared with the worker processes.

typedef struct singer {
    int64_t total;
} singer;

TROUPE_STRUCT(line, (troupe_text, text), (int64_t, number));

static troupe_status singer_add(singer *self, const int64_t *amount, int64_t *total)
{
    if (*amount < 0)
        return troupe_fail(TROUPE_INVALID, "no singer adds %lld", (long long)*amount);
    *total = self->total += *amount;
    return TROUPE_OK;
}

static troupe_status singer_sing(singer *self, const line *words, line *out)
{
    out->text = troupe_arena_text(words->text);
    out->number = words->number + self->total;
    return TROUPE_OK;
}

static troupe_status singer_wait(singer *self, const int *least, int *out)
{
    (void)self;
    while (*gate < *least)
        usleep(500);
    *out = *least;
    return TROUPE_OK;
}

static troupe_status singer_store(singer *self, const int64_t *number, troupe_ref *object)
{
    (void)self;
    if (*number < 0)
        return troupe_fail(TROUPE_INVALID, "nothing to store");
    *object = troupe_put(int64_t, number);
    return TROUPE_OK;
}

TROUPE_ACTOR(singer, (singer_add, int64_t, int64_t), (singer_sing, line, line),
             (singer_wait, int, int), (singer_store, int64_t, troupe_ref));

enum { SINGERS = 5 };
static singer_actor choir[SINGERS];

static int set_up(void **state)
{
    (void)state;
    if (gate == NULL)
        gate = support_share(sizeof *gate);
    *gate = 0;
    if (troupe_start(0, NULL, .workers = 2, .threads = 2) != TROUPE_OK)
        return -1;
    static const troupe_place wanted_places[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER};
    for (int i = 0; i < SINGERS; i++)
        choir[i] = troupe_spawn(singer, .place = wanted_places[i % 2]);
    return 0;
}

static void test_tell_and_get_all(void **state)
{
    (void)state;
    troupe_ref refs[SINGERS];
    int64_t totals[SINGERS], amounts[SINGERS] = {1, 2, 3, 4, 5};
    troupe_must(troupe_group_tell(choir, SINGERS, singer_add, 10));
    troupe_group_scatter(choir, SINGERS, refs, singer_add, amounts);
    troupe_must(troupe_get_all(int64_t, refs, SINGERS, totals));
    for (int i = 0; i < SINGERS; i++)
        assert_int_equal(totals[i], 11 + i);
    troupe_group_call(choir, SINGERS, refs, singer_add, 100);
    troupe_must(troupe_get_all(int64_t, refs, SINGERS, totals, 20000));
    for (int i = 0; i < SINGERS; i++)
        assert_int_equal(totals[i], 111 + i);
    line out[SINGERS];
    troupe_group_call(choir, SINGERS, refs, singer_sing, .text = "la", .number = 1);
    troupe_must(troupe_get_all(line, refs, SINGERS, out));
    for (int i = 0; i < SINGERS; i++) {
        assert_string_equal(out[i].text, "la");
        assert_int_equal(out[i].number, 112 + i);
    }
    troupe_must(troupe_get_all(int64_t, refs, 0, totals)); // Nobody's answers are there at once.
    troupe_arena_reset();
}

static void test_arguments_by_pointer(void **state)
{
    (void)state;
    int64_t five = 5, totals[SINGERS];
    troupe_ref refs[SINGERS];
    troupe_must(troupe_group_tell_from(choir, SINGERS, singer_add, &five));
    troupe_group_call_from(choir, SINGERS, refs, singer_add, &five);
    troupe_must(troupe_get_all(int64_t, refs, SINGERS, totals));
    for (int i = 0; i < SINGERS; i++)
        assert_int_equal(totals[i], 10);
}

static void test_failures(void **state)
{
    (void)state;
    troupe_ref refs[SINGERS];
    int64_t totals[SINGERS], amounts[SINGERS] = {1, -2, 3, -4, 5};
    troupe_group_scatter(choir, SINGERS, refs, singer_add, amounts);
    assert_int_equal(troupe_get_all(int64_t, refs, SINGERS, totals), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "no singer adds -2");
    assert_int_equal(strncmp(troupe_last_error()->actor, "singer", 6), 0);
    for (int i = 0; i < SINGERS; i++) {
        if (i % 2 == 0)
            assert_int_equal(totals[i], i + 1);
        assert_int_equal(troupe_get(int64_t, refs[i], totals), TROUPE_INVALID); // Consumed.
    }
    troupe_actor_kill(choir[2]);
    assert_int_equal(troupe_group_tell(choir, SINGERS, singer_add, 1), TROUPE_NOT_EXECUTED);
    assert_int_equal(strncmp(troupe_last_error()->text, "actor 2 of 5: ", 14), 0);
    troupe_group_call(choir, SINGERS, refs, singer_add, 0); // The others were told all the same.
    assert_int_equal(troupe_get_all(int64_t, refs, SINGERS, totals), TROUPE_NOT_EXECUTED);
    assert_int_equal(totals[4], 6);
}

static void test_get_all_in_time(void **state)
{
    (void)state;
    troupe_ref refs[SINGERS];
    int out[SINGERS], least[SINGERS] = {0, 0, 0, 1, 0};
    troupe_group_scatter(choir, SINGERS, refs, singer_wait, least);
    assert_int_equal(troupe_get_all(int, refs, SINGERS, out, 20), TROUPE_TIMED_OUT);
    assert_int_equal(troupe_get_all(int, refs, SINGERS, out, TROUPE_POLL), TROUPE_TIMED_OUT);
    *gate = 1;
    troupe_must(troupe_get_all(int, refs, SINGERS, out)); // Nothing was lost.
    assert_int_equal(out[3], 1);
    // A deadline of the handles is one of each call.
    singer_actor hurried[2] = {troupe_with(choir[0], .deadline_ms = 30), choir[1]};
    int waits[2] = {2, 0};
    troupe_group_scatter(hurried, 2, refs, singer_wait, waits);
    assert_int_equal(troupe_get_all(int, refs, 2, out), TROUPE_DEADLINE_EXCEEDED);
    *gate = 2;
}

static void test_join(void **state)
{
    (void)state;
    troupe_ref refs[SINGERS];
    troupe_array_int64_t totals;
    troupe_array_line lines;
    troupe_array_int numbers;
    int64_t amounts[SINGERS] = {1, 2, 3, 4, 5};
    troupe_group_scatter(choir, SINGERS, refs, singer_add, amounts);
    troupe_must(troupe_get(troupe_array_int64_t, troupe_ref_join(int64_t, refs, SINGERS), &totals));
    assert_int_equal(totals.count, SINGERS);
    for (int i = 0; i < SINGERS; i++)
        assert_int_equal(totals.items[i], i + 1);
    troupe_group_call(choir, SINGERS, refs, singer_sing, .text = "fa", .number = 0);
    troupe_must(troupe_get(troupe_array_line, troupe_ref_join(line, refs, SINGERS), &lines));
    assert_string_equal(lines.items[4].text, "fa");
    assert_int_equal(lines.items[4].number, 5);
    troupe_must(troupe_get(troupe_array_int64_t, troupe_ref_join(int64_t, refs, 0), &totals));
    assert_int_equal(totals.count, 0);
    troupe_group_call(choir, SINGERS, refs, singer_wait, 1);
    troupe_ref all = troupe_ref_join(int, refs, SINGERS);
    assert_int_equal(troupe_get(troupe_array_int, all, &numbers, 5), TROUPE_TIMED_OUT);
    *gate = 1;
    troupe_must(troupe_get(troupe_array_int, all, &numbers));
    assert_int_equal(numbers.items[2], 1);
    amounts[3] = amounts[4] = -1;
    troupe_group_scatter(choir, SINGERS, refs, singer_add, amounts);
    assert_int_equal(
        troupe_get(troupe_array_int64_t, troupe_ref_join(int64_t, refs, SINGERS), &totals),
        TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "no singer adds -1");
    troupe_arena_reset();
}

static void test_cancelling_a_join(void **state)
{
    (void)state;
    troupe_ref refs[SINGERS];
    troupe_array_int numbers;
    int waits[SINGERS] = {0, 1, 1, 1, 1}; // The first one ends by itself.
    troupe_group_scatter(choir, SINGERS, refs, singer_wait, waits);
    troupe_must(troupe_wait(refs, 1, 1, SUPPORT_SOON_MS, NULL, NULL));
    troupe_ref all = troupe_ref_join(int, refs, SINGERS);
    assert_int_equal(troupe_cancel(all, .force = true), TROUPE_UNSUPPORTED);
    assert_int_equal(troupe_get(troupe_array_int, all, &numbers, 5), TROUPE_TIMED_OUT);
    troupe_must(troupe_cancel(all));
    assert_int_equal(troupe_get(troupe_array_int, all, &numbers, SUPPORT_SOON_MS),
                     TROUPE_CANCELLED); // Though their methods still run.
    assert_int_equal(troupe_cancel(all), TROUPE_INVALID);
    *gate = 1;
    troupe_group_call(choir, SINGERS, refs, singer_wait, 1);
    all = troupe_ref_join(int, refs, SINGERS);
    troupe_must(troupe_wait(&all, 1, 1, SUPPORT_SOON_MS, NULL, NULL));
    assert_int_equal(troupe_cancel(all), TROUPE_NOT_FOUND); // It has ended.
    troupe_must(troupe_get(troupe_array_int, all, &numbers));
    troupe_arena_reset();
}

static void test_join_of_references(void **state)
{
    (void)state;
    troupe_ref refs[SINGERS];
    troupe_array_troupe_ref objects;
    int64_t numbers[SINGERS] = {1, 2, 3, 4, 5}, value;
    troupe_group_scatter(choir, SINGERS, refs, singer_store, numbers);
    troupe_must(
        troupe_get(troupe_array_troupe_ref, troupe_ref_join(troupe_ref, refs, SINGERS), &objects));
    for (int i = 0; i < SINGERS; i++) {
        troupe_must(troupe_get(int64_t, objects.items[i], &value));
        assert_int_equal(value, i + 1);
    }
    numbers[2] = -1;
    troupe_group_scatter(choir, SINGERS, refs, singer_store, numbers);
    assert_int_equal(
        troupe_get(troupe_array_troupe_ref, troupe_ref_join(troupe_ref, refs, SINGERS), &objects),
        TROUPE_INVALID);
    troupe_store_usage usage = {.objects = 1};
    for (int i = 0; i < 20000 && usage.objects > 0; i++) {
        troupe_must(troupe_store_usage_get(&usage));
        usleep(500);
    }
    assert_int_equal(usage.objects, 0); // Those that did not fail were given back.
    troupe_arena_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tell_and_get_all, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_arguments_by_pointer, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_failures, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_get_all_in_time, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_join, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_cancelling_a_join, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_join_of_references, set_up, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
