// test_gather.c: waiting for many references, reading many, and taking them as they become ready.
// label: local
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <string.h>
#include <troupe/actor.h>
#include <unistd.h>

typedef struct gate {
    int64_t passed;
} gate;

// Answers its argument; a negative one fails.
static troupe_status gate_pass(gate *self, const int64_t *number, int64_t *same)
{
    self->passed++;
    *same = *number;
    return *number < 0 ? troupe_fail(TROUPE_FAILED, "number %lld", (long long)*number) : TROUPE_OK;
}

// Waits until its reference is ready.
static troupe_status gate_hold(gate *self, const troupe_ref *until, troupe_none *nothing)
{
    bool ready;
    (void)self, (void)nothing;
    return troupe_wait(until, 1, 1, 20000, &ready, NULL);
}

// Waits for a call to itself.
static troupe_status gate_ask_itself(gate *self, const troupe_none *nothing, int64_t *sum)
{
    (void)self, (void)nothing;
    troupe_ref refs[] = {troupe_call_named(troupe_self(), "gate_pass", (troupe_bytes){"\1", 1})};
    return troupe_get_all(int64_t, refs, 1, sum);
}

TROUPE_ACTOR(gate, (gate_pass, int64_t, int64_t), (gate_hold, troupe_ref, troupe_none),
             (gate_ask_itself, troupe_none, int64_t));

enum { MANY = 300 };
static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 1, .threads = 2) == TROUPE_OK ? 0 : -1;
}

// A call that keeps an actor busy until the buffer is sealed.
static troupe_ref shut(gate_actor actor, troupe_buffer *buffer, troupe_ref *opened)
{
    troupe_must(troupe_buffer_create(8, buffer));
    *opened = (troupe_ref){.id = buffer->id_};
    return troupe_call_from(actor, gate_hold, opened);
}

static void test_get_all(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        gate_actor actor = troupe_spawn(gate, .place = places[p]);
        troupe_ref refs[MANY];
        int64_t values[MANY];
        for (int64_t i = 0; i < MANY; i++)
            refs[i] = troupe_call(actor, gate_pass, i);
        troupe_must(troupe_get_all(int64_t, refs, MANY, values));
        for (int i = 0; i < MANY; i++)
            assert_int_equal(values[i], i);
        for (int i = 0; i < MANY; i++) // They are consumed.
            assert_int_equal(troupe_get(int64_t, refs[i], &values[0]), TROUPE_INVALID);
        troupe_actor_kill(actor);
    }
    troupe_must(troupe_get_all(int64_t, NULL, 0, NULL));
}

static void test_get_all_with_failures(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        gate_actor actor = troupe_spawn(gate, .place = places[p]);
        int64_t numbers[] = {1, -2, 3, -4, 5}, values[5] = {9, 9, 9, 9, 9};
        troupe_ref refs[5];
        for (int i = 0; i < 5; i++)
            refs[i] = troupe_call(actor, gate_pass, numbers[i]);
        assert_int_equal(troupe_get_all(int64_t, refs, 5, values), TROUPE_FAILED);
        assert_string_equal(troupe_last_error()->text, "number -2");
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_FAILED);
        int64_t expected[] = {1, 0, 3, 0, 5};
        assert_memory_equal(values, expected, sizeof values);
        troupe_actor_kill(actor);
    }
}

static void test_get_all_in_time_or_not_at_all(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        gate_actor actor = troupe_spawn(gate, .place = places[p]);
        troupe_buffer buffer;
        troupe_ref opened, refs[3];
        int64_t values[3];
        refs[0] = troupe_call(actor, gate_pass, 1);
        troupe_ref held = shut(actor, &buffer, &opened);
        refs[1] = troupe_call(actor, gate_pass, 2);
        refs[2] = troupe_call(actor, gate_pass, 3);
        assert_int_equal(troupe_get_all(int64_t, refs, 3, values, 20), TROUPE_TIMED_OUT);
        assert_int_equal(troupe_get_all(int64_t, refs, 3, values, TROUPE_POLL), TROUPE_TIMED_OUT);
        troupe_must(troupe_buffer_seal(&buffer, &opened));
        troupe_must(troupe_get_all(int64_t, refs, 3, values, 10000));
        assert_true(values[0] == 1 && values[1] == 2 && values[2] == 3);
        troupe_none none;
        troupe_must(troupe_get(troupe_none, held, &none));
        troupe_ref_drop(opened);
        troupe_actor_kill(actor);
    }
}

static void test_get_all_of_oneself(void **state)
{
    (void)state;
    gate_actor actor = troupe_spawn(gate, .place = TROUPE_PLACE_HERE);
    int64_t sum;
    assert_int_equal(troupe_get(int64_t, troupe_call(actor, gate_ask_itself), &sum),
                     TROUPE_DEADLOCK);
    troupe_actor_kill(actor);
}

// The waiter is woken by the last of those that are missing, also where some are ready before.
static void test_wait_counts(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        gate_actor early = troupe_spawn(gate, .place = places[p]);
        gate_actor late = troupe_spawn(gate, .place = places[p]);
        troupe_buffer buffer;
        troupe_ref opened, refs[MANY];
        bool ready[MANY];
        size_t count;
        troupe_ref held = shut(late, &buffer, &opened);
        for (int64_t i = 0; i < MANY; i++)
            refs[i] = troupe_call(i % 3 == 0 ? late : early, gate_pass, i);
        refs[MANY - 1] = troupe_ref_keep(refs[1]); // An alias; the call of its own is dropped.
        for (size_t needed = 1; needed < MANY / 3 * 2; needed += 17) {
            troupe_must(troupe_wait(refs, MANY - 1, needed, 10000, ready, &count));
            assert_in_range(count, needed, MANY);
        }
        troupe_must(troupe_wait(refs, MANY, MANY - MANY / 3, 10000, ready, &count));
        for (int i = 0; i < MANY; i++)
            assert_int_equal(ready[i], i % 3 != 0);
        assert_int_equal(troupe_wait(refs, MANY, MANY, 10, ready, &count), TROUPE_TIMED_OUT);
        assert_int_equal(count, MANY - MANY / 3);
        troupe_must(troupe_buffer_seal(&buffer, &opened));
        troupe_must(troupe_wait(refs, MANY, MANY, 10000, ready, &count));
        assert_int_equal(count, MANY);
        int64_t values[MANY];
        troupe_must(troupe_get_all(int64_t, refs, MANY, values));
        troupe_ref_drop(held);
        troupe_ref_drop(opened);
        troupe_actor_kill(early);
        troupe_actor_kill(late);
    }
}

static void test_set_in_the_order_of_readiness(void **state)
{
    (void)state;
    for (int p = 0; p < LIGHT_PLACES; p++) {
        gate_actor early = troupe_spawn(gate, .place = places[p]);
        gate_actor late = troupe_spawn(gate, .place = places[p]);
        troupe_buffer buffer;
        troupe_ref opened, ref;
        troupe_ref_set *set;
        int tags[MANY];
        void *tag;
        troupe_must(troupe_ref_set_open(&set));
        assert_int_equal(troupe_ref_set_next(set, -1, &ref, NULL), TROUPE_NOT_FOUND);
        troupe_ref held = shut(late, &buffer, &opened);
        for (int64_t i = 0; i < MANY; i++)
            troupe_must(troupe_ref_set_add(
                set, troupe_call(i % 2 == 0 ? late : early, gate_pass, i), &tags[i]));
        int64_t value;
        for (int i = 0; i < MANY / 2; i++) {
            troupe_must(troupe_ref_set_next(set, 10000, &ref, &tag));
            troupe_must(troupe_get(int64_t, ref, &value, TROUPE_POLL));
            assert_int_equal(value, 2 * i + 1);
            assert_ptr_equal(tag, &tags[value]);
        }
        assert_int_equal(troupe_ref_set_next(set, 10, &ref, &tag), TROUPE_TIMED_OUT);
        troupe_must(troupe_buffer_seal(&buffer, &opened));
        for (int i = 0; i < MANY / 2; i++) {
            troupe_must(troupe_ref_set_next(set, 10000, &ref, NULL));
            troupe_must(troupe_get(int64_t, ref, &value, TROUPE_POLL));
            assert_int_equal(value, 2 * i);
        }
        assert_int_equal(troupe_ref_set_next(set, 0, &ref, &tag), TROUPE_NOT_FOUND);
        troupe_ref_set_close(set);
        troupe_ref_drop(held);
        troupe_ref_drop(opened);
        troupe_actor_kill(early);
        troupe_actor_kill(late);
    }
}

// A set that is closed while calls are pending, and one of them is dropped.
static void test_set_closed_early(void **state)
{
    (void)state;
    gate_actor actor = troupe_spawn(gate, .place = TROUPE_PLACE_HERE);
    troupe_buffer buffer;
    troupe_ref opened, refs[3];
    troupe_ref_set *set;
    double put = 2;
    troupe_must(troupe_ref_set_open(&set));
    troupe_ref held = shut(actor, &buffer, &opened);
    for (int i = 0; i < 3; i++) {
        refs[i] = i == 2 ? troupe_put(double, &put) : troupe_call(actor, gate_pass, i);
        troupe_must(troupe_ref_set_add(set, refs[i], NULL));
    }
    troupe_ref_set_close(set);
    troupe_ref_drop(refs[0]);
    troupe_must(troupe_buffer_seal(&buffer, &opened));
    int64_t value;
    troupe_must(troupe_get(int64_t, refs[1], &value));
    troupe_ref_drop(refs[2]);
    troupe_ref_drop(held);
    troupe_ref_drop(opened);
    troupe_actor_kill(actor);
    troupe_ref_set_close(NULL);
}

typedef struct taker {
    troupe_ref_set *set;
    int64_t sum;
    int count;
} taker;

static void *take_some(void *user)
{
    taker *mine = user;
    troupe_ref ref;
    int64_t value;
    while (troupe_ref_set_next(mine->set, 10000, &ref, NULL) == TROUPE_OK) {
        troupe_must(troupe_get(int64_t, ref, &value));
        mine->sum += value;
        mine->count++;
    }
    return NULL;
}

static void test_set_with_several_takers(void **state)
{
    (void)state;
    enum { TAKERS = 3 };
    gate_actor actor = troupe_spawn(gate, .place = TROUPE_PLACE_WORKER);
    troupe_ref_set *set;
    pthread_t threads[TAKERS];
    taker takers[TAKERS];
    troupe_must(troupe_ref_set_open(&set));
    for (int64_t i = 0; i < MANY; i++)
        troupe_must(troupe_ref_set_add(set, troupe_call(actor, gate_pass, i), NULL));
    int64_t sum = 0;
    int count = 0;
    for (int i = 0; i < TAKERS; i++) {
        takers[i] = (taker){.set = set};
        assert_int_equal(pthread_create(&threads[i], NULL, take_some, &takers[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++) {
        pthread_join(threads[i], NULL);
        sum += takers[i].sum;
        count += takers[i].count;
    }
    assert_int_equal(count, MANY);
    assert_int_equal(sum, MANY * (MANY - 1) / 2);
    troupe_ref_set_close(set);
    troupe_actor_kill(actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_all),
        cmocka_unit_test(test_get_all_with_failures),
        cmocka_unit_test(test_get_all_in_time_or_not_at_all),
        cmocka_unit_test(test_get_all_of_oneself),
        cmocka_unit_test(test_wait_counts),
        cmocka_unit_test(test_set_in_the_order_of_readiness),
        cmocka_unit_test(test_set_closed_early),
        cmocka_unit_test(test_set_with_several_takers),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
