// test_ref_table.c: rows: ids that never come again, ends that happen once, results that are taken
// once.
#include <support.h>

#include <actors/ref/call_table.h>
#include <actors/ref/result.h>
#include <pthread.h>
#include <troupe/actor.h>

enum { ROUNDS = 20000, ROWS = 5000 };

static uint64_t new_call(void)
{
    trp_target nobody = {0};
    uint64_t id = trp_entry_call(troupe_type_hash(&troupe_type_int64_t), &nobody, 0);
    assert_int_not_equal(id, TRP_REF_NO_MEMORY);
    assert_true((id & (TRP_REF_OBJECT | TRP_REF_ALIAS)) == 0);
    return id;
}

static bool end_with(uint64_t id, int64_t number)
{
    trp_shape shape = trp_shape_of(&troupe_type_int64_t);
    trp_result result;
    trp_result_copy(&result, &shape, &number);
    return trp_entry_resolve(id, &result);
}

static int64_t take(uint64_t id)
{
    trp_result result;
    assert_true(trp_entry_take(id, false, &result));
    assert_int_equal(result.kind, TRP_RESULT_SMALL);
    int64_t number = *(const int64_t *)trp_result_value(&result);
    trp_result_free(&result);
    return number;
}

static void test_ids_never_come_again(void **state)
{
    (void)state;
    uint64_t before = 0;
    trp_result result;
    for (int64_t i = 0; i < ROUNDS; i++) {
        uint64_t id = new_call();
        assert_int_not_equal(id, before);
        assert_null(trp_entry_lock(before));
        assert_true(trp_entry_ready(before)); // To get it would not wait.
        assert_false(trp_entry_ready(id));
        assert_false(trp_entry_take(id, false, &result));
        assert_true(end_with(id, i));
        assert_true(trp_entry_ready(id));
        assert_false(end_with(id, -1));
        assert_int_equal(take(id), i);
        assert_false(trp_entry_take(id, false, &result));
        assert_false(end_with(id, -2));
        before = id;
    }
}

static void test_held_results_stay(void **state)
{
    (void)state;
    trp_result result;
    uint64_t id = new_call();
    uint64_t alias;
    troupe_must(trp_entry_alias((troupe_ref){.id = id}, false, 0, &alias));
    assert_true((alias & TRP_REF_ALIAS) != 0);
    assert_false(trp_entry_ready(alias));
    assert_true(end_with(id, 5));
    assert_true(trp_entry_ready(alias));
    assert_false(trp_entry_take(id, false, &result)); // The alias is to have it too.
    assert_false(trp_entry_take(alias, false, &result));
    troupe_ref_drop((troupe_ref){.id = alias});
    assert_int_equal(take(id), 5);
    assert_true(trp_entry_behind((troupe_ref){.id = alias}) == 0);
}

static void test_a_dropped_call_has_no_end(void **state)
{
    (void)state;
    uint64_t id = new_call();
    troupe_ref_drop((troupe_ref){.id = id});
    assert_false(end_with(id, 1));
    troupe_ref_drop((troupe_ref){.id = id});
}

static void *make_rows(void *ids)
{
    for (int i = 0; i < ROWS; i++)
        ((uint64_t *)ids)[i] = new_call();
    for (int64_t i = 0; i < ROWS; i++)
        assert_true(end_with(((uint64_t *)ids)[i], i));
    return NULL;
}

// One thread makes rows and ends, another frees them, a third gets them again.
static void test_rows_outlive_threads(void **state)
{
    (void)state;
    static uint64_t first[ROWS], second[ROWS];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, make_rows, first), 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(take(first[i]), i);
    assert_int_equal(pthread_create(&thread, NULL, make_rows, second), 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < ROWS; i++) {
        assert_true(trp_entry_lock(first[i]) == NULL);
        assert_int_equal(take(second[i]), i);
    }
}

typedef struct race {
    pthread_barrier_t start;
    _Atomic uint64_t id;
    int won[2];
} race;

typedef struct racer {
    race *in;
    int number;
} racer;

static void *end_calls(void *user)
{
    racer *mine = user;
    for (int i = 0; i < ROUNDS / 10; i++) {
        pthread_barrier_wait(&mine->in->start);
        mine->in->won[mine->number] += end_with(atomic_load(&mine->in->id), mine->number);
        pthread_barrier_wait(&mine->in->start);
    }
    return NULL;
}

static void test_two_ends_at_once(void **state)
{
    (void)state;
    race both = {.won = {0, 0}};
    racer racers[2] = {{&both, 0}, {&both, 1}};
    pthread_t threads[2];
    int won[2] = {0, 0};
    pthread_barrier_init(&both.start, NULL, 3);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, end_calls, &racers[i]), 0);
    for (int i = 0; i < ROUNDS / 10; i++) {
        uint64_t id = new_call();
        atomic_store(&both.id, id);
        pthread_barrier_wait(&both.start);
        pthread_barrier_wait(&both.start);
        won[take(id)]++;
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(both.won[i], won[i]);
    }
    assert_int_equal(won[0] + won[1], ROUNDS / 10);
    pthread_barrier_destroy(&both.start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_never_come_again),
        cmocka_unit_test(test_held_results_stay),
        cmocka_unit_test(test_a_dropped_call_has_no_end),
        cmocka_unit_test(test_rows_outlive_threads),
        cmocka_unit_test(test_two_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
