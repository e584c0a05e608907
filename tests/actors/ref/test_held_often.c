// test_held_often.c: a process can hold one object so many times and no more: a message that would
// make it more is refused where it is sent, and what is sent after it arrives.
#include <places.h>
#include <support.h>

#include <actors/ref/ref.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/store.h>
#include <signal.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { MANY = 30000 }; // Three times that is more than is counted.

TROUPE_STRUCT(pile, (troupe_array_troupe_ref, refs));

typedef struct reader {
    int unused;
} reader;

static troupe_status reader_pid(reader *self, const troupe_none *in, int *out)
{
    (void)self, (void)in;
    *out = getpid();
    return TROUPE_OK;
}

static troupe_status reader_count(reader *self, const pile *in, int *out)
{
    (void)self;
    *out = (int)in->refs.count;
    return TROUPE_OK;
}

static troupe_status reader_take(reader *self, const troupe_bytes *in, troupe_none *out)
{
    (void)self, (void)in, (void)out;
    return TROUPE_OK;
}

// Returns what it was lent.
static troupe_status reader_give(reader *self, const pile *in, pile *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

// Takes all holds of the object that this process can have. Returns how many these are.
static int fill(trp_object object)
{
    int holds = 0;
    while (trp_store_hold(object, trp_process_slot()) == TROUPE_OK)
        holds++;
    return holds;
}

static void empty(trp_object object, int holds)
{
    while (holds-- > 0)
        trp_store_release(object, trp_process_slot());
}

// The same, and then its process can have no more of them.
static troupe_status reader_hoard(reader *self, const pile *in, pile *out)
{
    (void)self;
    *out = *in;
    (void)fill(trp_ref_object(in->refs.items[0]));
    return TROUPE_OK;
}

TROUPE_ACTOR(reader, (reader_pid, troupe_none, int), (reader_count, pile, int),
             (reader_take, troupe_bytes, troupe_none), (reader_give, pile, pile),
             (reader_hoard, pile, pile));

static void test_more_than_is_counted(void **state)
{
    (void)state;
    static troupe_ref same[MANY];
    double value = 0.5;
    int pid, again, count;
    troupe_must(troupe_start(0, NULL, .workers = 1, .threads = 1));
    reader_actor there = troupe_spawn(reader, .place = TROUPE_PLACE_WORKER);
    troupe_must(troupe_get(int, troupe_call(there, reader_pid), &pid));
    troupe_ref ref = troupe_put(double, &value);
    for (int i = 0; i < MANY; i++)
        same[i] = ref;
    const pile all = {.refs = {same, MANY}};

    assert_int_equal(kill(pid, SIGSTOP), 0); // It holds what it was sent.
    troupe_ref first = troupe_call_from(there, reader_count, &all);
    troupe_ref second = troupe_call_from(there, reader_count, &all);
    troupe_ref third = troupe_call_from(there, reader_count, &all);
    troupe_ref fourth = troupe_call(there, reader_pid);
    assert_int_equal(troupe_get(int, third, &count, SUPPORT_SOON_MS), TROUPE_NO_MEMORY);
    assert_non_null(strstr(troupe_last_error()->text, "holds one object 65535 times"));

    assert_int_equal(kill(pid, SIGCONT), 0);
    troupe_must(troupe_get(int, fourth, &again, SUPPORT_SOON_MS));
    assert_int_equal(again, pid);
    troupe_must(troupe_get(int, troupe_call_from(there, reader_count, &all), &count));
    assert_int_equal(count, MANY);
    const troupe_ref sent[] = {first, second}; // Their holds are the method's: it needs no others.
    for (int i = 0; i < 2; i++) {
        troupe_must(troupe_get(int, sent[i], &count));
        assert_int_equal(count, MANY);
    }
    troupe_ref_drop(ref);
    troupe_must(troupe_actor_stop(there));
    assert_int_equal(troupe_stop(), 0);
}

static void assert_held_too_often(troupe_status status)
{
    assert_int_equal(status, TROUPE_NO_MEMORY);
    assert_non_null(strstr(troupe_last_error()->text, "holds one object 65535 times"));
}

// Within a process a message's references are holds of their own.
static void test_within_a_process(void **state)
{
    (void)state;
    double value = 0.5;
    int count;
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .threads = 1));
    reader_actor here = troupe_spawn(reader, .place = TROUPE_PLACE_HERE);
    troupe_ref ref = troupe_put(double, &value);
    const pile one = {.refs = {&ref, 1}};
    int holds = fill(ref.id);
    assert_held_too_often(troupe_get(int, troupe_call_from(here, reader_count, &one), &count));
    assert_int_equal(troupe_ref_keep(ref).id, 0);
    assert_held_too_often(troupe_last_error()->status);
    empty(ref.id, holds);
    troupe_must(troupe_get(int, troupe_call_from(here, reader_count, &one), &count));
    troupe_ref_drop(ref);
    troupe_must(troupe_actor_stop(here));
    assert_int_equal(troupe_stop(), 0);
}

// Who reads a result that another one reads too takes holds of what is in it.
static void test_results(void **state)
{
    (void)state;
    double value = 0.5, read;
    pile got;
    troupe_bytes packed;
    troupe_must(troupe_start(0, NULL, .workers = 1, .threads = 1));
    for (int p = 0; p < PLACES; p++) {
        reader_actor actor = troupe_spawn(reader, .place = places[p]);
        troupe_ref ref = troupe_put(double, &value);
        const pile one = {.refs = {&ref, 1}};
        troupe_ref result = troupe_call_from(actor, reader_give, &one);
        troupe_must(troupe_wait(&result, 1, 1, SUPPORT_SOON_MS, NULL, NULL));
        int holds = fill(ref.id);
        assert_held_too_often(troupe_get(pile, troupe_ref_keep(result), &got));
        assert_held_too_often(troupe_get_packed(troupe_ref_keep(result), &packed));
        empty(ref.id, holds);
        troupe_must(troupe_get_packed(troupe_ref_keep(result), &packed));
        troupe_must(troupe_unpack(pile, packed.data, packed.size, &got));
        troupe_must(troupe_get(double, got.refs.items[0], &read));
        assert_true(read == value);
        troupe_must(troupe_get(pile, result, &got));
        troupe_must(troupe_get(double, got.refs.items[0], &read));
        assert_true(read == value);
        troupe_ref_drop(ref);
        troupe_must(troupe_actor_stop(actor));
        assert_store_empty();
    }
    assert_int_equal(troupe_stop(), 0);
}

// Nor can a method keep for its caller what its process holds too often.
static void test_kept_results(void **state)
{
    (void)state;
    double value = 0.5;
    pile got;
    troupe_must(troupe_start(0, NULL, .workers = 1, .threads = 1));
    for (int p = 0; p < PLACES; p++) {
        reader_actor actor = troupe_spawn(reader, .place = places[p]);
        troupe_ref ref = troupe_put(double, &value);
        const pile one = {.refs = {&ref, 1}};
        troupe_ref again = troupe_call_from(actor, reader_hoard, &one);
        troupe_must(troupe_wait(&again, 1, 1, SUPPORT_SOON_MS, NULL, NULL));
        assert_held_too_often(troupe_get(pile, again, &got));
        troupe_ref_drop(ref);
        troupe_must(troupe_actor_stop(actor));
    }
    assert_int_equal(troupe_stop(), 0);
}

// It is known no sooner than when a message that waits for room is to go.
static void test_behind_a_full_ring(void **state)
{
    (void)state;
    enum { FILLING = 1000 };
    static char bytes[2000];
    double value = 0.5;
    int pid, again, count, holds = 0;
    troupe_must(troupe_start(0, NULL, .workers = 1, .threads = 1));
    reader_actor there = troupe_spawn(reader, .place = TROUPE_PLACE_WORKER);
    troupe_must(troupe_get(int, troupe_call(there, reader_pid), &pid));
    troupe_ref ref = troupe_put(double, &value);
    const pile one = {.refs = {&ref, 1}};
    while (trp_store_hold(ref.id, there.address.process) == TROUPE_OK)
        holds++;

    assert_int_equal(kill(pid, SIGSTOP), 0);
    for (int i = 0; i < FILLING; i++)
        troupe_ref_drop(troupe_call(there, reader_take, bytes, sizeof bytes));
    troupe_ref refused = troupe_call_from(there, reader_count, &one);
    troupe_ref next = troupe_call(there, reader_pid);
    assert_int_equal(kill(pid, SIGCONT), 0);
    troupe_must(troupe_get(int, next, &again, SUPPORT_SOON_MS));
    assert_int_equal(again, pid);
    assert_int_equal(troupe_get(int, refused, &count, SUPPORT_SOON_MS), TROUPE_NO_MEMORY);

    while (holds-- > 0)
        trp_store_release(ref.id, there.address.process);
    troupe_must(troupe_get(int, troupe_call_from(there, reader_count, &one), &count));
    assert_int_equal(count, 1);
    troupe_ref_drop(ref);
    troupe_must(troupe_actor_stop(there));
    assert_int_equal(troupe_stop(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_is_counted),
        cmocka_unit_test(test_within_a_process),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_kept_results),
        cmocka_unit_test(test_behind_a_full_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
