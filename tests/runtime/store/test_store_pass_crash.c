// test_store_pass_crash.c: a process that passes objects to another one, or receives them, is
// killed at each of its writes to the store: with receivers that live, that have died, and whose
// place has another process by then. In the end no process holds what it was not told of.
// timeout: 120
// label: faults
#include "stores.h"

#include <errno.h>
#include <runtime/base/fault.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, VICTIM = 7, RECEIVER = 8, CAPACITY = 4 << 20 };

static trp_object *given; // On its way to a receiver that lives. Both processes see it.

static uint64_t incarnation(void)
{
    return trp_segment_process(RECEIVER)->incarnation;
}

// ---- by the victim

static void put(size_t size, trp_object *id)
{
    void *data;
    *id = 0;
    if (trp_store_create(size, 1, TRP_ENCODING_BYTES, id, &data) == TROUPE_OK && size > 0)
        memset(data, 1, size);
    (void)trp_store_seal(*id);
}

static void give(size_t size)
{
    trp_object id;
    put(size, &id);
    if (trp_store_lend(id, RECEIVER, incarnation()) == TROUPE_OK)
        *given = id;
    trp_store_release(id, VICTIM);
}

static void give_promise(size_t size)
{
    static char value[300000];
    trp_object id;
    (void)trp_store_promise(1, &id);
    if (trp_store_lend(id, RECEIVER, incarnation()) == TROUPE_OK)
        *given = id;
    (void)trp_store_fulfil(id, TRP_ENCODING_PACKED, value, size, size == 0);
    trp_store_release(id, VICTIM);
}

// It could not be sent.
static void give_in_vain(size_t size)
{
    trp_object id;
    put(size, &id);
    (void)trp_store_lend(id, RECEIVER, incarnation());
    trp_store_take_back(id, RECEIVER, incarnation());
    trp_store_release(id, VICTIM);
}

// It has died, and this process had looked just before.
static void give_to_the_dead(size_t size)
{
    (void)size;
    (void)trp_store_hold(*given, RECEIVER);
}

static void lend_to_the_dead(size_t size)
{
    (void)size;
    (void)trp_store_lend(*given, RECEIVER, incarnation());
    trp_store_take_back(*given, RECEIVER, incarnation());
}

// What another made, and holds no more: kept once more, read, and let go of.
static void receive(size_t size)
{
    (void)size;
    (void)trp_store_hold(*given, VICTIM);
    (void)trp_store_pin(*given);
    trp_store_release(*given, VICTIM);
    trp_store_release(*given, VICTIM);
    trp_store_unpin(*given);
}

static void receive_and_give_on(size_t size)
{
    trp_object id = *given;
    (void)size;
    *given = 0;
    if (trp_store_lend(id, RECEIVER, incarnation()) == TROUPE_OK)
        *given = id;
    trp_store_release(id, VICTIM);
}

// ---- before, by this process

static void make_for_victim(size_t size)
{
    *given = make_object(size, 1, 1);
    assert_int_equal(trp_store_hold(*given, VICTIM), TROUPE_OK);
}

static void give_to_victim(size_t size)
{
    make_for_victim(size);
    trp_store_release(*given, ME);
}

static void end_receiver(size_t size)
{
    make_for_victim(size);
    trp_segment_process(RECEIVER)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(RECEIVER);
}

// ---- after

// The victim may have died between the hold and the note of it: that ends with the receiver.
static void receiver_ends(bool killed)
{
    trp_object_state state = trp_store_look(*given).state;
    if (*given != 0) {
        assert_true(state == TRP_OBJECT_SEALED || state == TRP_OBJECT_FAILED);
        trp_store_release(*given, RECEIVER);
    } else if (killed) {
        trp_store_sweep(RECEIVER);
    }
}

// The next process at that place knows nothing of what the one before was sent.
static void another_receiver(bool killed)
{
    (void)killed;
    trp_segment_process(RECEIVER)->incarnation = incarnation() + 1;
    trp_store_admit(RECEIVER);
    assert_int_equal(trp_store_look(*given).state, TRP_OBJECT_SEALED);
    trp_store_release(*given, ME);
}

// ----

typedef struct scene {
    const char *name;
    void (*operation)(size_t size);
    void (*before)(size_t size);
    void (*after)(bool killed);
} scene;

// Whether the victim was killed at that point, and not through before.
static bool run(const scene *the, size_t size, long point)
{
    int status;
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_store_open(ME);
    trp_segment_process(RECEIVER)->state = TRP_PROCESS_READY;
    trp_segment_process(RECEIVER)->incarnation = 77;
    *given = 0;
    if (the->before != NULL)
        the->before(size);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        trp_store_open(VICTIM);
        trp_segment_process(VICTIM)->state = TRP_PROCESS_READY;
        trp_fault_kill_at("store", point);
        the->operation(size);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    bool killed = support_was_killed(status);
    trp_segment_process(VICTIM)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(VICTIM);
    if (the->after != NULL)
        the->after(killed);
    trp_store_drain();
    expect_empty_after(the->name, point);
    trp_segment_close();
    return killed;
}

static void test_every_point(void **state)
{
    (void)state;
    static const size_t sizes[] = {100, 0, 70000, 300000};
    static const scene scenes[] = {
        {"give", give, NULL, receiver_ends},
        {"give a promise", give_promise, NULL, receiver_ends},
        {"give in vain", give_in_vain, NULL, receiver_ends},
        {"give to the dead", give_to_the_dead, end_receiver, another_receiver},
        {"lend to the dead", lend_to_the_dead, end_receiver, another_receiver},
        {"receive", receive, give_to_victim, NULL},
        {"receive and give on", receive_and_give_on, give_to_victim, receiver_ends},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            long point = 1;
            while (run(&scenes[i], sizes[k], point))
                point++;
            assert_true(point > 2); // Else no point was met at all.
        }
}

int main(void)
{
    given = support_share(sizeof *given);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_point)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
