// test_store_steps.c: one process is stopped at each of its steps in turn, another one works in
// between, then the first goes on, or dies and is swept: every interleaving of two processes in
// which one of them is not interrupted.
// label: faults
// label: nosan
#include "stores.h"

#include <runtime/base/fault.h>
#include <runtime/shm/segment.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/store.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NEAR = 5, OTHER = 40, ME = 50, FAR = 1500, CAPACITY = 1 << 19 };
enum { OLD = 1, NEW = 2 }; // Incarnations of FAR.

static void stop(void)
{
    (void)kill(getpid(), SIGSTOP);
}

static trp_object make(size_t size)
{
    return make_object(size, 1, 1);
}

// What two processes do. `id` is one object of 100 bytes, sealed, that both hold.
typedef struct scene {
    const char *name;
    void (*stopped)(trp_object id); // By OTHER, stopped at each step.
    void (*between)(trp_object id); // By this process, while OTHER is stopped.
    void (*after)(trp_object id);   // By this process, when OTHER has ended.
} scene;

static void set_up(trp_object *id)
{
    static const uint32_t slots[] = {ME, NEAR, OTHER, FAR};
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        trp_segment_process(slots[i])->state = TRP_PROCESS_READY;
    trp_segment_process(FAR)->incarnation = OLD;
    trp_store_open(ME);
    *id = make(100);
    assert_int_equal(trp_store_hold(*id, OTHER), TROUPE_OK);
}

// Whether OTHER was stopped at that point, and not through before.
static bool run(const scene *the, long point, bool dies)
{
    trp_object id;
    int status;
    set_up(&id);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        trp_store_open(OTHER);
        trp_fault_call_at("store", point, stop);
        the->stopped(id);
        trp_fault_kill_at("store", 0);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    bool stopped = WIFSTOPPED(status);
    if (stopped) {
        the->between(id);
        assert_int_equal(kill(child, dies ? SIGKILL : SIGCONT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    assert_int_equal(support_was_killed(status), stopped && dies);
    trp_segment_process(OTHER)->state = TRP_PROCESS_DEAD;
    if (dies)
        trp_store_sweep(OTHER);
    if (stopped)
        the->after(id);
    trp_store_sweep(OTHER);
    trp_segment_process(NEAR)->state = trp_segment_process(FAR)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(NEAR);
    trp_store_sweep(FAR);
    trp_store_sweep(ME);
    trp_store_drain();
    trp_store_admit(ME);
    expect_empty();
    trp_store_release(make(CAPACITY), ME); // All of the space can be had.
    expect_empty();
    trp_segment_close();
    return stopped;
}

static void play(const scene *the)
{
    long points = 0;
    for (int dies = 0; dies < 2; dies++) {
        long point = 1;
        while (run(the, point, dies != 0))
            point++;
        points += point - 1;
    }
    print_message("%s: %ld points\n", the->name, points);
    assert_true(points > 1);
}

// ---- what they do

static void release(trp_object id)
{
    trp_store_release(id, OTHER);
}

static void give_to_far_and_release(trp_object id)
{
    (void)trp_store_hold(id, FAR);
    trp_store_release(id, OTHER);
}

static void give_to_the_dead_and_release(trp_object id)
{
    trp_segment_process(FAR)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(FAR);
    give_to_far_and_release(id);
}

static void give_to_near_and_release(trp_object id)
{
    assert_int_equal(trp_store_hold(id, NEAR), TROUPE_OK);
    trp_store_release(id, ME);
}

static void release_mine(trp_object id)
{
    trp_store_release(id, ME);
}

static void expect_held_by_near(trp_object id)
{
    trp_object_info info = trp_store_pin(id);
    assert_int_equal(info.state, TRP_OBJECT_SEALED);
    assert_int_equal(((const char *)info.data)[99], 1);
    trp_store_unpin(id);
    trp_store_release(id, NEAR);
    // OTHER, where it lived on, may have given it to FAR.
    trp_store_release(id, FAR);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_GONE);
}

// Nobody of those that live holds it, unless FAR was given it.
static void expect_gone_or_held_by_far(trp_object id)
{
    trp_store_release(id, FAR);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_GONE);
}

static void release_and_make_anew(trp_object id)
{
    trp_store_release(id, ME);
    trp_object next = make(100);
    assert_int_not_equal(next, id);
    assert_int_equal(trp_store_hold(next, NEAR), TROUPE_OK);
    trp_store_release(next, ME);
    assert_int_equal(trp_store_look(next).state, TRP_OBJECT_SEALED);
}

static void nothing(trp_object id)
{
    (void)id;
}

// What was lent to FAR is taken back, since it could not be sent.
static void lend_to_far_and_take_back(trp_object id)
{
    (void)trp_store_lend(id, FAR, OLD);
    trp_store_take_back(id, FAR, OLD);
    trp_store_release(id, OTHER);
}

static bool replaced; // Somebody else has FAR's place, and holds the object.

static void receiver_is_replaced(trp_object id)
{
    trp_segment_process(FAR)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(FAR);
    replaced = !trp_store_is_taken_from(FAR);
    if (!replaced)
        return;
    trp_segment_process(FAR)->incarnation = NEW;
    trp_store_admit(FAR);
    trp_segment_process(FAR)->state = TRP_PROCESS_READY;
    assert_int_equal(trp_store_lend(id, FAR, NEW), TROUPE_OK);
}

static void expect_held_by_the_successor(trp_object id)
{
    trp_store_release(id, ME);
    if (replaced) {
        assert_int_equal(trp_store_look(id).state, TRP_OBJECT_SEALED);
        trp_store_take_back(id, FAR, NEW);
        // Who was stopped between its look at the place and its hold leaves that to the successor.
        trp_store_take_back(id, FAR, NEW);
    }
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_GONE);
}

static void receiver_dies(trp_object id)
{
    (void)id;
    trp_segment_process(FAR)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(FAR);
}

static void expect_mine_alone(trp_object id)
{
    trp_store_release(id, ME);
    assert_int_equal(trp_store_look(id).state, TRP_OBJECT_GONE);
}

// Who has the place of a dead process next holds nothing yet, whatever was written for that one,
// and when.
static void expect_an_empty_place(trp_object id)
{
    expect_mine_alone(id);
    trp_segment_process(FAR)->incarnation = NEW;
    trp_store_admit(FAR);
    trp_segment_process(FAR)->state = TRP_PROCESS_READY;
    trp_object other = make(100), next = make(100), passed[] = {other, next};
    for (size_t i = 0; i < 2; i++) { // One of them has the row of `id`.
        assert_int_equal(trp_store_lend(passed[i], FAR, NEW), TROUPE_OK);
        trp_store_release(passed[i], ME);
    }
    trp_store_take_back(other, FAR, NEW);
    assert_int_equal(trp_store_look(other).state, TRP_OBJECT_GONE);
    trp_store_take_back(next, FAR, NEW);
    assert_int_equal(trp_store_look(next).state, TRP_OBJECT_GONE);
}

static void put_small_ones(trp_object id)
{
    (void)id;
    static const size_t sizes[] = {1, 64, 300, 5000, 30000, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        trp_object made;
        void *data;
        if (trp_store_create(sizes[i], 1, TRP_ENCODING_BYTES, &made, &data) != TROUPE_OK)
            continue;
        memset(data, 5, sizes[i]);
        if (trp_store_seal(made) == TROUPE_OK)
            trp_store_release(made, OTHER);
    }
}

static void put_large_ones(trp_object id)
{
    (void)id;
    static const size_t sizes[] = {40000, 150000, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        trp_object made;
        void *data;
        if (trp_store_create(sizes[i], 1, TRP_ENCODING_BYTES, &made, &data) != TROUPE_OK)
            continue;
        memset(data, 5, sizes[i]);
        trp_store_discard(made);
    }
}

// All that there is, in objects of one page; each is written whole.
static trp_object taken[CAPACITY / 65536];
static unsigned char *taken_data[CAPACITY / 65536];

static void take_all(trp_object id)
{
    trp_store_release(id, ME);
    memset(taken, 0, sizeof taken);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        void *data;
        if (trp_store_create(65536, 1, TRP_ENCODING_BYTES, &taken[i], &data) != TROUPE_OK)
            break;
        taken_data[i] = data;
        memset(data, (int)i * 2, 65536); // The first one is zeroes, as a free block's owner is.
    }
}

static void expect_all_untouched(trp_object id)
{
    (void)id;
    for (size_t i = 0; i < sizeof taken / sizeof *taken && taken[i] != 0; i++) {
        assert_int_equal(taken_data[i][0], i * 2);
        assert_memory_equal(taken_data[i], taken_data[i] + 1, 65535);
        trp_store_discard(taken[i]);
    }
}

static void take_all_from_slabs(trp_object id)
{
    // The slabs are empty then, but for what OTHER is at.
    take_all(id);
    if (taken[0] != 0)
        return;
    fail_msg("nothing was to be had");
}

static void fill_up_and_release(trp_object id)
{
    (void)id;
    trp_object all[32];
    size_t count = 0;
    void *data;
    while (count < 32 &&
           trp_store_create(65536, 1, TRP_ENCODING_BYTES, &all[count], &data) == TROUPE_OK)
        count++;
    while (count > 0)
        trp_store_discard(all[--count]);
}

static trp_object small[40];

static void make_small_ones(trp_object id)
{
    (void)id;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        void *data;
        if (trp_store_create(i * 37, 1, TRP_ENCODING_BYTES, &small[i], &data) == TROUPE_OK)
            memset(data, (int)i, i * 37);
        else
            small[i] = 0;
    }
}

static void expect_small_ones(trp_object id)
{
    (void)id;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        if (small[i] == 0)
            continue;
        assert_int_equal(trp_store_seal(small[i]), TROUPE_OK);
        trp_object_info info = trp_store_pin(small[i]);
        assert_int_equal(info.size, i * 37);
        for (size_t k = 0; k < info.size; k++)
            assert_int_equal(((const unsigned char *)info.data)[k], i);
        trp_store_unpin(small[i]);
        trp_store_release(small[i], ME);
    }
}

// ---- scenes

static void test_every_step(void **state)
{
    (void)state;
    static const scene scenes[] = {
        {"a drop, while a hold wanders", release, give_to_near_and_release, expect_held_by_near},
        {"two drops", release, release_mine, expect_gone_or_held_by_far},
        {"a drop, and the place is used again", release, release_and_make_anew, nothing},
        {"a gift, while a hold wanders", give_to_far_and_release, give_to_near_and_release,
         expect_held_by_near},
        {"a gift, and a drop", give_to_far_and_release, release_mine, expect_gone_or_held_by_far},
        {"a gift to one who dies", give_to_far_and_release, receiver_dies, expect_mine_alone},
        {"a gift to one who dies, and whose place is used again", give_to_far_and_release,
         receiver_dies, expect_an_empty_place},
        {"a gift to one who is dead", give_to_the_dead_and_release, nothing, expect_mine_alone},
        {"taken back from one whose place is used again", lend_to_far_and_take_back,
         receiver_is_replaced, expect_held_by_the_successor},
        {"small ones, while all is taken", put_small_ones, take_all_from_slabs,
         expect_all_untouched},
        {"large ones, while all is taken", put_large_ones, take_all, expect_all_untouched},
        {"small ones, while others are made", put_small_ones, make_small_ones, expect_small_ones},
        {"all is taken, while small ones are made", fill_up_and_release, make_small_ones,
         expect_small_ones},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        play(&scenes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
