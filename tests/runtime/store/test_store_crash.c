// test_store_crash.c: a process may die between any two writes to the store: after the sweep
// nothing leaks and everything works. Every point of every operation is tried, with a sanitizer
// every fourth (runtime/base/fault.h), then random instants under load.
// timeout: 120
// cost: 8
// label: faults
#include "stores.h"

#include <errno.h>
#include <runtime/base/fault.h>
#include <runtime/shm/segment.h>
#include <runtime/store/nested.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/row.h>
#include <runtime/store/store.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, VICTIM = 7, BYSTANDER = 8, CAPACITY = 4 << 20, SMALL = 1 << 20 };

// All of the space can still be had.
static void expect_whole(size_t capacity)
{
    trp_object ids[CAPACITY / (1 << 16) + 1];
    size_t count = 0;
    void *data;
    while (count < sizeof ids / sizeof *ids &&
           trp_store_create(1 << 16, 0, TRP_ENCODING_BYTES, &ids[count], &data) == TROUPE_OK)
        count++;
    assert_int_equal(count, capacity / (1 << 16));
    while (count > 0)
        trp_store_discard(ids[--count]);
}

// ---- the operations, as the victim runs them

static void create(size_t size, trp_object *id)
{
    void *data;
    *id = 0;
    if (trp_store_create(size, 1, TRP_ENCODING_BYTES, id, &data) == TROUPE_OK && size > 0)
        memset(data, 1, size);
}

static void put_and_release(size_t size)
{
    trp_object id;
    create(size, &id);
    (void)trp_store_seal(id);
    trp_store_release(id, VICTIM);
}

static void view(size_t size)
{
    trp_object id;
    create(size, &id);
    (void)trp_store_seal(id);
    (void)trp_store_pin(id);
    trp_store_release(id, VICTIM);
    trp_store_unpin(id);
}

static void put_and_die_holding(size_t size)
{
    trp_object id;
    create(size, &id);
    (void)trp_store_seal(id);
}

static void discard(size_t size)
{
    trp_object id;
    create(size, &id);
    trp_store_discard(id);
}

static void promise(size_t size)
{
    static char value[300000];
    trp_object id;
    (void)trp_store_promise(1, &id);
    (void)trp_store_fulfil(id, TRP_ENCODING_PACKED, value, size, false);
    trp_store_release(id, VICTIM);
}

static void share(size_t size)
{
    trp_object id;
    void *data;
    (void)trp_store_share(size, &id, &data);
    trp_store_release(id, VICTIM);
}

// The receiver is alive and gives its hold back when it hears of the death (see below).
static trp_object *given; // In memory that parent and child share.
static void give_to_bystander(size_t size)
{
    trp_object id;
    create(size, &id);
    (void)trp_store_seal(id);
    if (trp_store_hold(id, BYSTANDER) == TROUPE_OK)
        *given = id;
    trp_store_release(id, VICTIM);
}

static void release_all(const trp_object *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        trp_store_release(ids[i], trp_store_self);
}

// Something that names what this process holds, which it has then; 0: there was no room for it, or
// for a part.
static trp_object make_naming(const trp_object *inside, uint32_t count, trp_encoding encoding)
{
    trp_object id;
    void *data;
    bool all = true;
    for (uint32_t i = 0; i < count; i++)
        all = all && inside[i] != 0;
    if (all && trp_store_create((count + 1) * sizeof id, 1, encoding, &id, &data) == TROUPE_OK) {
        memcpy(data, inside, count * sizeof id);
        if (trp_store_contain(id, count) == TROUPE_OK && trp_store_seal(id) == TROUPE_OK)
            return id;
        trp_store_discard(id);
    }
    release_all(inside, count);
    return 0;
}

static trp_object make_list(const trp_object *inside, uint32_t count)
{
    return make_naming(inside, count, TRP_ENCODING_PACKED);
}

// The same with the ids apart.
static trp_object make_apart(const trp_object *inside, uint32_t count)
{
    trp_object id, list = make_naming(inside, count, TRP_ENCODING_INNER);
    void *data;
    if (list == 0)
        return 0;
    if (trp_store_create(100, 1, TRP_ENCODING_PACKED, &id, &data) == TROUPE_OK) {
        if (trp_store_contain_list(id, list) == TROUPE_OK && trp_store_seal(id) == TROUPE_OK)
            return id;
        trp_store_discard(id);
    }
    trp_store_release(list, trp_store_self);
    return 0;
}

// A list of two, one of them twice.
static trp_object make_three(size_t size, trp_object (*make)(const trp_object *, uint32_t))
{
    trp_object inside[3];
    create(size, &inside[0]);
    create(100, &inside[1]);
    (void)trp_store_seal(inside[0]);
    (void)trp_store_seal(inside[1]);
    (void)trp_store_hold(inside[1], trp_store_self);
    inside[2] = inside[1];
    return make(inside, 3);
}

// One in another.
static trp_object make_nested(size_t size, trp_object (*make)(const trp_object *, uint32_t))
{
    trp_object list = make_three(size, make);
    return make(&list, 1);
}

static trp_object make_lists(size_t size)
{
    return make_nested(size, make_list);
}

// Whether a list that is held, or is inside of what is, has all that it names.
static bool is_list_whole(trp_object list)
{
    trp_object_info info = trp_store_pin(list);
    bool whole = info.state == TRP_OBJECT_SEALED && info.inside_count == 3;
    for (int i = 0; i < 3 && whole; i++)
        whole = trp_store_look(info.inside[i]).state == TRP_OBJECT_SEALED;
    if (info.state == TRP_OBJECT_SEALED)
        trp_store_unpin(list);
    return whole;
}

static bool are_lists_whole(trp_object outer)
{
    trp_object_info info = trp_store_pin(outer);
    bool whole =
        info.state == TRP_OBJECT_SEALED && info.inside_count == 1 && is_list_whole(info.inside[0]);
    if (info.state == TRP_OBJECT_SEALED)
        trp_store_unpin(outer);
    return whole;
}

static void lists_and_release(size_t size)
{
    trp_store_release(make_lists(size), VICTIM);
}

static void lists_and_die_holding(size_t size)
{
    (void)make_lists(size);
}

static void list_given_up(size_t size)
{
    trp_object inside, list;
    void *data;
    create(size, &inside);
    (void)trp_store_seal(inside);
    assert_int_equal(trp_store_create(100, 1, TRP_ENCODING_PACKED, &list, &data), TROUPE_OK);
    memcpy(data, &inside, sizeof inside);
    (void)trp_store_contain(list, 1);
    trp_store_discard(list);
    trp_store_release(inside, VICTIM); // It was not the list's in the end.
}

static void lists_to_bystander(size_t size)
{
    trp_object outer = make_lists(size);
    if (trp_store_hold(outer, BYSTANDER) == TROUPE_OK)
        *given = outer;
    trp_store_release(outer, VICTIM);
}

static void apart_and_release(size_t size)
{
    trp_store_release(make_nested(size, make_apart), VICTIM);
}

static void apart_and_die_holding(size_t size)
{
    (void)make_nested(size, make_apart);
}

static void apart_to_bystander(size_t size)
{
    trp_object outer = make_nested(size, make_apart);
    if (trp_store_hold(outer, BYSTANDER) == TROUPE_OK)
        *given = outer;
    trp_store_release(outer, VICTIM);
}

static void apart_given_up(size_t size)
{
    trp_object inside = make_lists(size), list = make_naming(&inside, 1, TRP_ENCODING_INNER), id;
    void *data;
    assert_int_equal(trp_store_create(100, 1, TRP_ENCODING_PACKED, &id, &data), TROUPE_OK);
    (void)trp_store_contain_list(id, list);
    trp_store_discard(id);
    trp_store_release(list, VICTIM); // It was not the object's in the end.
}

static void keep_promise(size_t size, bool give)
{
    trp_object id, inside = make_three(size, make_list);
    trp_object list = make_naming(&inside, 1, TRP_ENCODING_INNER);
    (void)trp_store_promise(1, &id);
    if (give && trp_store_hold(id, BYSTANDER) == TROUPE_OK)
        *given = id;
    (void)trp_store_contain_list(id, list);
    (void)trp_store_fulfil(id, TRP_ENCODING_PACKED, "value", 5, false);
    trp_store_release(id, VICTIM);
}

static void promised_to_bystander(size_t size)
{
    keep_promise(size, true);
}

static void promised_to_nobody(size_t size)
{
    keep_promise(size, false);
}

// It would name itself: it fails, and the list is freed as others are.
static void promised_ring(size_t size)
{
    (void)size;
    trp_object id, box;
    (void)trp_store_promise(1, &id);
    (void)trp_store_hold(id, VICTIM);
    box = make_list(&id, 1);
    trp_object list = make_naming(&box, 1, TRP_ENCODING_INNER);
    if (trp_store_contain_list(id, list) == TROUPE_OK)
        _exit(1);
    (void)trp_store_fulfil(id, TRP_ENCODING_PACKED, "no", 2, true);
    trp_store_release(list, VICTIM);
    trp_store_release(id, VICTIM);
}

// The keeper is another process, so nothing of it is freed by the victim.
static void release_lists_of_another(size_t size)
{
    (void)size;
    trp_store_release(*given, VICTIM);
}

static void give_to_victim(trp_object id)
{
    *given = id;
    assert_int_equal(trp_store_hold(*given, VICTIM), TROUPE_OK);
    trp_store_release(*given, ME);
}

// Two processes: the victim releases what the parent holds too.
static void reclaim_slabs(size_t size)
{
    trp_object ids[64];
    for (size_t i = 0; i < 64; i++)
        create(1000, &ids[i]);
    for (size_t i = 0; i < 64; i++)
        trp_store_discard(ids[i]);
    put_and_release(SMALL - (1 << 17) + size % 2); // Needs the slabs' pages.
}

static void run_killed_at(void (*operation)(size_t), size_t size, long point, int *status)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        trp_store_open(VICTIM);
        trp_segment_process(VICTIM)->state = TRP_PROCESS_READY;
        trp_fault_kill_at("store", point);
        operation(size);
        _exit(0);
    }
    while (waitpid(child, status, 0) < 0 && errno == EINTR)
        continue;
    trp_segment_process(VICTIM)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(VICTIM);
}

// What the bystander was given is whole; it lets go of it.
static void check_given(void (*operation)(size_t))
{
    if (*given == 0) { // It may have died between the hold and the note of it.
        trp_store_sweep(BYSTANDER);
        trp_store_admit(BYSTANDER);
        return;
    }
    if (operation == release_lists_of_another)
        return;
    trp_object_info info = trp_store_look(*given);
    bool failed = info.state == TRP_OBJECT_FAILED && operation == promised_to_bystander;
    if (!failed)
        assert_int_equal(info.state, TRP_OBJECT_SEALED);
    if (!failed && operation != give_to_bystander)
        assert_true(are_lists_whole(*given));
    trp_store_release(*given, BYSTANDER);
}

// Kills the operation at its first, second, ... point until it comes through alive. The store has
// just the room that the operations need: all of it is taken after each.
static void check(const char *name, void (*operation)(size_t), size_t size)
{
    long point = 1 - SUPPORT_SLOWER;
    int status;
    do {
        point += SUPPORT_SLOWER;
        assert_int_equal(trp_segment_create(SMALL), TROUPE_OK);
        trp_store_open(ME);
        trp_segment_process(BYSTANDER)->state = TRP_PROCESS_READY;
        *given = 0;
        if (operation == release_lists_of_another)
            give_to_victim(size > 0 ? make_nested(100, make_apart) : make_lists(100));
        run_killed_at(operation, size, point, &status);
        check_given(operation);
        trp_store_drain();
        expect_empty_after(name, point);
        expect_whole(SMALL);
        trp_segment_close();
    } while (support_was_killed(status));
    assert_true(point > 3); // Else no point was met at all.
}

static void test_every_point(void **state)
{
    (void)state;
    static const size_t sizes[] = {100, 0, 70000, 300000};
    static const struct {
        const char *name;
        void (*operation)(size_t);
        size_t sizes; // How many of these.
    } operations[] = {
        {"put and release", put_and_release, 4},
        {"view", view, 4},
        {"put", put_and_die_holding, 4},
        {"discard", discard, 4},
        {"promise", promise, 4},
        {"share", share, 4},
        {"give", give_to_bystander, 4},
        {"lists and release", lists_and_release, 1},
        {"lists", lists_and_die_holding, 1},
        {"a list given up", list_given_up, 1},
        {"lists passed on", lists_to_bystander, 1},
        {"lists of another", release_lists_of_another, 2},
        {"lists apart and release", apart_and_release, 1},
        {"lists apart", apart_and_die_holding, 1},
        {"lists apart given up", apart_given_up, 1},
        {"lists apart passed on", apart_to_bystander, 1},
        {"a promised list passed on", promised_to_bystander, 1},
        {"a promised list", promised_to_nobody, 1},
        {"a promise that names itself", promised_ring, 1},
        {"reclaim", reclaim_slabs, 1},
    };
    assert_int_equal(trp_segment_create(SMALL), TROUPE_OK);
    trp_segment_close();
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        for (size_t k = 0; k < operations[i].sizes; k++)
            check(operations[i].name, operations[i].operation, sizes[k]);
}

// ---- interleavings

static trp_object passed;

// What process 5 does while another reads the column: it gives 3, which was read already, a hold,
// and drops its own.
static void pass_behind_the_reader(void)
{
    assert_int_equal(trp_store_hold(passed, 3), TROUPE_OK);
    trp_store_release(passed, 5);
}

static void test_a_hold_passed_behind_the_reader(void **state)
{
    (void)state;
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_store_open(ME);
    trp_segment_process(3)->state = trp_segment_process(5)->state = TRP_PROCESS_READY;
    // Point 4 is between the reading of process 3's ledger and that of 5's.
    for (long point = 1; point <= 6; point++) {
        create(100, &passed);
        assert_int_equal(trp_store_seal(passed), TROUPE_OK);
        assert_int_equal(trp_store_hold(passed, 5), TROUPE_OK);
        trp_fault_call_at("store column", point, pass_behind_the_reader);
        trp_store_release(passed, ME);
        trp_fault_kill_at("store column", 0);
        if (trp_store_look(passed).state != TRP_OBJECT_SEALED)
            print_error("freed while it was held, point %ld\n", point);
        assert_int_equal(trp_store_look(passed).state, TRP_OBJECT_SEALED);
        trp_store_release(passed, 3);
        trp_store_release(passed, 5); // Where the reader stopped before the point.
    }
    expect_empty_after("passed", 0);
    trp_segment_close();
}

// ---- random instants

// What lies in the mailbox of a place is held by the process there; who takes it out must release
// it. A place is used once: mail to a dead process then never reaches its successor, which does not
// hold it (between real processes the incarnation in each frame sees to that).
enum { PROCESSES = 4, DEATHS = 150, FIRST = 10 };
struct post {
    _Atomic uint32_t place[PROCESSES]; // Of those that live now.
    _Atomic trp_object mail[FIRST + PROCESSES + DEATHS];
};

// Makes, holds for its neighbours, and releases, for ever.
static void load(uint32_t slot, unsigned seed, struct post *office)
{
    trp_store_open(slot);
    for (;;) {
        size_t size = (size_t)rand_r(&seed) % (rand_r(&seed) % 8 == 0 ? 150000 : 2000);
        uint32_t neighbour = office->place[(uint32_t)rand_r(&seed) % PROCESSES];
        trp_object id = 0;
        void *data;
        if (rand_r(&seed) % 4 == 0) {
            id = make_nested(size, rand_r(&seed) % 2 == 0 ? make_list : make_apart);
        } else if (trp_store_create(size, 1, TRP_ENCODING_BYTES, &id, &data) == TROUPE_OK) {
            memset(data, 1, size);
            (void)trp_store_seal(id);
        }
        if (id != 0) {
            if (trp_store_hold(id, neighbour) == TROUPE_OK) {
                trp_object old = atomic_exchange(&office->mail[neighbour], id);
                if (old != 0)
                    trp_store_release(old, neighbour);
            }
            trp_store_release(id, slot);
        }
        trp_object got = atomic_exchange(&office->mail[slot], 0);
        if (got != 0) {
            trp_object_info info = trp_store_pin(got);
            if (info.state != TRP_OBJECT_SEALED) // Freed while it was held.
                _exit(4);
            if (info.inside_count == 0 && info.size > 0 && *(const char *)info.data != 1)
                _exit(3);
            if (info.inside_count > 0 && !is_list_whole(info.inside[0]))
                _exit(5);
            trp_store_unpin(got);
            trp_store_release(got, slot);
        }
    }
}

static pid_t start_load(uint32_t slot, unsigned seed, struct post *office)
{
    trp_segment_process(slot)->state = TRP_PROCESS_READY;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // A failed test leaves nobody running.
        load(slot, seed, office);
    }
    return child;
}

static void test_random_instants(void **state)
{
    (void)state;
    unsigned seed = 20260101;
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_store_open(ME);
    trp_object shared;
    void *memory;
    assert_int_equal(trp_store_share(sizeof(struct post), &shared, &memory), TROUPE_OK);
    struct post *office = memory;
    pid_t pids[PROCESSES];
    uint32_t next = FIRST;
    int status;
    for (uint32_t i = 0; i < PROCESSES; i++)
        office->place[i] = next++;
    for (uint32_t i = 0; i < PROCESSES; i++)
        pids[i] = start_load(office->place[i], i + 1, office);
    for (int deaths = 0; deaths < DEATHS; deaths++) {
        usleep((unsigned)rand_r(&seed) % 5000);
        uint32_t i = (uint32_t)rand_r(&seed) % PROCESSES, slot = office->place[i];
        assert_int_equal(kill(pids[i], SIGKILL), 0);
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(support_was_killed(status)); // Else it saw another's bytes.
        trp_segment_process(slot)->state = TRP_PROCESS_DEAD;
        trp_store_drain();
        trp_store_sweep(slot);
        pids[i] = start_load(next, (unsigned)deaths + 100, office);
        office->place[i] = next++;
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        assert_int_equal(kill(pids[i], SIGKILL), 0);
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(support_was_killed(status));
        trp_segment_process(office->place[i])->state = TRP_PROCESS_DEAD;
    }
    for (uint32_t i = 0; i < PROCESSES; i++)
        trp_store_sweep(office->place[i]);
    trp_store_drain();
    trp_store_release(shared, ME);
    expect_empty_after("random instants", 0);
    expect_whole(CAPACITY);
    trp_segment_close();
}

int main(void)
{
    given = mmap(NULL, sizeof *given, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (given == MAP_FAILED)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_point),
        cmocka_unit_test(test_a_hold_passed_behind_the_reader),
        cmocka_unit_test(test_random_instants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
