// test_store_ring.c: a promise that names others never comes to name itself, near or far, whichever
// process fulfils which promise at the same time, and whichever dies meanwhile: so all that was
// dropped is free in the end.
// timeout: 120
// label: faults
// label: nosan
#include "stores.h"

#include <runtime/base/fault.h>
#include <runtime/shm/layout.h>
#include <runtime/store/nested.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/row.h>
#include <runtime/store/store.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, OTHER = 40, THIRD = 41, CAPACITY = 1 << 20 };

static void open_store(void)
{
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_segment_process(ME)->state = TRP_PROCESS_READY;
    trp_segment_process(OTHER)->state = TRP_PROCESS_READY;
    trp_segment_process(THIRD)->state = TRP_PROCESS_READY;
    trp_store_open(ME);
}

// Nothing is left, lists included: the whole space can be had.
static void expect_whole(void)
{
    trp_object all;
    void *data;
    trp_store_drain();
    expect_empty();
    assert_int_equal(trp_store_create(CAPACITY, 1, TRP_ENCODING_BYTES, &all, &data), TROUPE_OK);
    trp_store_discard(all);
}

static int set_up(void **state)
{
    (void)state;
    open_store();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    expect_whole();
    trp_segment_close();
    return 0;
}

static void must(troupe_status status)
{
    if (status != TROUPE_OK) {
        print_error("%s\n", troupe_last_error()->text);
        abort();
    }
}

static trp_object promise(void)
{
    trp_object id;
    must(trp_store_promise(1, &id));
    return id;
}

// An object that names others, which its maker still holds after.
static trp_object put(const trp_object *named, uint32_t count, trp_encoding encoding)
{
    trp_object id;
    void *data;
    must(trp_store_create((count + 1) * sizeof id, 1, encoding, &id, &data));
    for (uint32_t i = 0; i < count; i++)
        must(trp_store_hold(named[i], trp_store_self));
    if (count > 0)
        memcpy(data, named, count * sizeof id);
    must(trp_store_contain(id, count));
    must(trp_store_seal(id));
    return id;
}

static trp_object put_one(trp_object named)
{
    return put(&named, 1, TRP_ENCODING_PACKED);
}

// One that has its ids apart.
static trp_object put_apart(trp_object named)
{
    trp_object id, list = put(&named, 1, TRP_ENCODING_INNER);
    void *data;
    must(trp_store_create(8, 1, TRP_ENCODING_PACKED, &id, &data));
    must(trp_store_contain_list(id, list));
    must(trp_store_seal(id));
    return id;
}

// Whether the promise got that value; else it got a failure.
static bool keep_all(trp_object promised, const trp_object *named, uint32_t count)
{
    trp_object list = put(named, count, TRP_ENCODING_INNER);
    troupe_status status = trp_store_contain_list(promised, list);
    if (status == TROUPE_OK) {
        must(trp_store_fulfil(promised, TRP_ENCODING_PACKED, "value", 5, false));
        return true;
    }
    trp_store_release(list, trp_store_self);
    must(trp_store_fulfil(promised, TRP_ENCODING_PACKED, "no", 2, true));
    return false;
}

static bool keep(trp_object promised, trp_object named)
{
    return keep_all(promised, &named, 1);
}

static void let_go(const trp_object *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        trp_store_release(ids[i], trp_store_self);
}

// ---- alone

static void test_itself(void **state)
{
    (void)state;
    trp_object one = promise();
    assert_false(keep(one, one));
    assert_non_null(strstr(troupe_last_error()->text, "refers back to"));
    assert_int_equal(trp_store_look(one).state, TRP_OBJECT_FAILED);
    trp_store_release(one, ME);
}

static void test_through_others(void **state)
{
    (void)state;
    trp_object one = promise();
    trp_object inner = put_one(one), middle = put_apart(inner), outer = put_one(middle);
    assert_false(keep(one, outer));
    trp_object leaf = put(NULL, 0, TRP_ENCODING_PACKED), two = promise();
    assert_true(keep(two, leaf));
    trp_object three = promise(); // One has failed by now.
    assert_true(keep_all(three, (trp_object[]){leaf, outer, two}, 3));
    let_go((trp_object[]){one, inner, middle, outer, leaf, two, three}, 7);
}

static void test_through_promises(void **state)
{
    (void)state;
    trp_object p[4] = {promise(), promise(), promise(), promise()};
    trp_object box = put_apart(p[1]);
    assert_true(keep(p[0], box));
    assert_true(keep(p[1], p[2]));
    assert_true(keep(p[2], p[3]));
    assert_false(keep_all(p[3], (trp_object[]){box, p[1]}, 2));
    trp_store_release(box, ME);
    let_go(p, 4);
}

// The same thing named on many ways is no ring, and is not walked along on each of them.
static void test_many_ways(void **state)
{
    (void)state;
    enum { LAYERS = 40 };
    trp_object first = promise(), last = promise(), layer = put_one(first);
    for (int i = 0; i < LAYERS; i++) {
        trp_object next = put((trp_object[]){layer, layer, layer}, 3, TRP_ENCODING_PACKED);
        trp_store_release(layer, ME);
        layer = next;
    }
    assert_true(keep(last, layer));
    assert_false(keep(first, last));
    let_go((trp_object[]){first, last, layer}, 3);
}

static bool is_open(trp_object id)
{
    return atomic_load(&trp_object_row_at(trp_row_slot(id))->open) != 0;
}

// What leads to nothing that is to come is not walked along again.
static void test_settled(void **state)
{
    (void)state;
    trp_object leaf = put(NULL, 0, TRP_ENCODING_PACKED), closed = put_one(leaf), p = promise();
    assert_false(is_open(closed));
    trp_object open = put((trp_object[]){closed, p}, 2, TRP_ENCODING_PACKED),
               apart = put_apart(open);
    assert_true(is_open(open) && is_open(apart));
    assert_true(keep(p, closed));
    assert_false(is_open(p));
    assert_true(is_open(open)); // Nobody has looked since.
    trp_object other = promise(), next = promise();
    assert_true(keep_all(next, (trp_object[]){apart, other}, 2));
    assert_false(is_open(open) || is_open(apart));
    assert_true(is_open(next));
    assert_true(keep(other, apart));
    let_go((trp_object[]){leaf, closed, p, open, apart, other, next}, 7);
}

// A chain as long as there are places: no stack is used up, neither by the walk nor by the freeing.
static void test_long(void **state)
{
    (void)state;
    enum { LENGTH = 8000 }; // A block of 64 bytes each.
    trp_object first = promise(), at = put_one(first);
    for (int i = 1; i < LENGTH; i++) {
        trp_object next = put_one(at);
        trp_store_release(at, ME);
        at = next;
    }
    assert_false(keep(first, at));
    let_go((trp_object[]){first, at}, 2);
}

// ---- two at once

// Between two steps of OTHER, which makes one half of a ring, this process makes the other half; or
// begins to, and takes it back.
typedef struct scene {
    const char *name;
    void (*stopped)(void);
    void (*between)(void);
} scene;

static trp_object theirs, mine, box; // Both hold the promises; `box` names `theirs`.

static void keep_theirs(void)
{
    (void)keep(theirs, mine);
}

static void keep_theirs_twice_apart(void)
{
    trp_object own = put_apart(mine), outer = put_one(own);
    (void)keep_all(theirs, (trp_object[]){outer, own}, 2);
    trp_store_release(own, OTHER);
    trp_store_release(outer, OTHER);
}

static void keep_mine(void)
{
    (void)keep(mine, theirs);
}

static void keep_mine_with_the_box(void)
{
    (void)keep(mine, box);
}

// What was withdrawn is free, and its place may be another's.
static void fail_mine_and_make_others(void)
{
    trp_object list = put(&box, 1, TRP_ENCODING_INNER);
    (void)trp_store_contain_list(mine, list);
    must(trp_store_fulfil(mine, TRP_ENCODING_PACKED, "no", 2, true));
    trp_store_release(list, ME);
    trp_store_release(put_one(theirs), ME);
}

static void stop(void)
{
    (void)kill(getpid(), SIGSTOP);
}

static bool names_each_other(void)
{
    trp_object_info one = trp_store_look(theirs), other = trp_store_look(mine);
    return one.state == TRP_OBJECT_SEALED && other.state == TRP_OBJECT_SEALED;
}

static void give_up(trp_object id)
{
    trp_store_release(id, ME);
    trp_store_release(id, OTHER); // If it has died, that was taken back.
}

static bool run(const scene *the, long point, bool dies)
{
    int status;
    open_store();
    mine = promise();
    must(trp_store_hold(mine, OTHER));
    trp_store_open(OTHER); // Its promise, made by its own hand.
    theirs = promise();
    must(trp_store_hold(theirs, ME));
    trp_store_open(ME);
    box = put_one(theirs);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        trp_store_open(OTHER);
        trp_fault_call_at("store", point, stop);
        the->stopped();
        trp_fault_kill_at("store", 0);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    bool stopped = WIFSTOPPED(status);
    if (stopped) {
        the->between();
        assert_int_equal(kill(child, dies ? SIGKILL : SIGCONT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    assert_int_equal(support_was_killed(status), stopped && dies);
    if (names_each_other())
        fail_msg("%s, point %ld%s: a ring was made", the->name, point, dies ? ", killed" : "");
    trp_segment_process(OTHER)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(OTHER);
    trp_store_discard(mine); // Where it was not fulfilled, and else nothing.
    give_up(box);
    give_up(mine);
    give_up(theirs);
    expect_whole();
    trp_segment_close();
    return stopped;
}

static void test_two_at_once(void **state)
{
    (void)state;
    static const scene scenes[] = {
        {"each other", keep_theirs, keep_mine},
        {"each other, through a box", keep_theirs, keep_mine_with_the_box},
        {"each other, through several", keep_theirs_twice_apart, keep_mine_with_the_box},
        {"one that fails", keep_theirs, fail_mine_and_make_others},
        {"one that fails, through several", keep_theirs_twice_apart, fail_mine_and_make_others},
    };
    expect_whole();
    trp_segment_close();
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        long points = 0;
        for (int dies = 0; dies < 2; dies++) {
            long point = 1;
            while (run(&scenes[i], point, dies != 0))
                point++;
            points += point - 1;
        }
        print_message("%s: %ld points\n", scenes[i].name, points);
        assert_true(points > 10);
    }
    open_store();
}

// ---- three at once, as fast as they can

enum { ROUNDS = 2000, PROCESSES = 3 };
static const uint32_t processes[PROCESSES] = {ME, OTHER, THIRD};

static struct table {
    _Atomic trp_object promised[PROCESSES];
    _Atomic int arrived;
    _Atomic int kept[ROUNDS];
} * table;

static void await_all(int phase)
{
    table->arrived++;
    while (table->arrived < PROCESSES * phase)
        sched_yield();
}

// Each names the next one's promise.
static void take_part(uint32_t number)
{
    trp_store_open(processes[number]);
    for (int round = 0; round < ROUNDS; round++) {
        trp_object all[PROCESSES], own = promise();
        for (int i = 0; i < PROCESSES; i++)
            if (i != (int)number)
                must(trp_store_hold(own, processes[i]));
        table->promised[number] = own;
        await_all(2 * round + 1);
        for (int i = 0; i < PROCESSES; i++)
            all[i] = table->promised[i];
        table->kept[round] += keep(own, all[(number + 1) % PROCESSES]);
        await_all(2 * round + 2);
        let_go(all, PROCESSES);
    }
}

static void test_three_at_once(void **state)
{
    (void)state;
    pid_t children[PROCESSES];
    int status, kept = 0;
    table = support_share(sizeof *table);
    for (uint32_t i = 1; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            take_part(i);
            _exit(0);
        }
    }
    take_part(0);
    for (uint32_t i = 1; i < PROCESSES; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_false(support_was_killed(status));
    }
    for (int round = 0; round < ROUNDS; round++) {
        assert_true(table->kept[round] < PROCESSES);
        kept += table->kept[round];
    }
    print_message("%d of %d were kept\n", kept, ROUNDS * PROCESSES);
    assert_true(kept > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_through_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_through_promises, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_settled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_three_at_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
