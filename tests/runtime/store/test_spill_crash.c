// test_spill_crash.c: a process that brings an object to disk, or back, or frees one that is there,
// is stopped at each of its steps; another reads, moves or frees the same object meanwhile; then
// the first goes on, or is killed. Each holder of the object reads it as it was, and in the end
// neither memory nor a file is left. Then the same at random instants.
// timeout: 240
// cost: 25
// label: faults
// label: nosan
#include "stores.h"

#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/fault.h>
#include <runtime/base/run_folder.h>
#include <runtime/node/keeper.h>
#include <runtime/shm/layout.h>
#include <runtime/store/eviction.h>
#include <runtime/store/nested.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <runtime/store/spill_file.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, OTHER = 40, FIRST = 50, CAPACITY = 1 << 20, PAGE = 1 << 16 };

static char *base;
static trp_spill_sharing sharing; // UNDECIDED: as it is found to be.

static void plan(void)
{
    trp_spill_plan(&(troupe_options){.spill_dir = base, .spill_bytes_max = 1 << 30});
    atomic_store(&trp_segment.header->spill_sharing, sharing);
}

static bool is_good(const trp_object_info *info, uint64_t seed)
{
    return info->state == TRP_OBJECT_SEALED && info->size == PAGE &&
           support_is_filled(info->data, PAGE, seed);
}

// With its folder: each start looks at all that are there.
static void end_node(void)
{
    trp_segment_close();
    trp_folder_remove(trp_spill_folder());
}

static bool naming; // What is made names another object, which is its own.

static troupe_status make_small(trp_object *id, trp_encoding encoding, trp_object named)
{
    void *data;
    TROUPE_TRY(trp_room_create(sizeof named, 1, encoding, id, &data));
    memcpy(data, &named, sizeof named);
    if (named != 0)
        TROUPE_TRY(trp_store_contain(*id, 1));
    return trp_store_seal(*id);
}

static troupe_status make_list(trp_object *list)
{
    trp_object leaf;
    TROUPE_TRY(make_small(&leaf, TRP_ENCODING_BYTES, 0));
    troupe_status status = make_small(list, TRP_ENCODING_INNER, leaf);
    if (status != TROUPE_OK)
        trp_store_release(leaf, trp_store_self);
    return status;
}

static troupe_status make(trp_object *id, uint64_t seed)
{
    void *data;
    trp_object list = 0;
    if (naming)
        TROUPE_TRY(make_list(&list));
    troupe_status status = trp_room_create(PAGE, 1, TRP_ENCODING_BYTES, id, &data);
    if (status != TROUPE_OK) {
        if (naming)
            trp_store_release(list, trp_store_self);
        return status;
    }
    support_fill(data, PAGE, seed);
    if (naming)
        TROUPE_TRY(trp_store_contain_list(*id, list));
    return trp_store_seal(*id);
}

static bool names_well(const trp_object_info *info)
{
    if (!naming)
        return info->inside_count == 0;
    return info->inside_count == 1 && trp_store_look(info->inside[0]).state == TRP_OBJECT_SEALED;
}

static bool reads_well(trp_object id, uint64_t seed)
{
    trp_object_info info = trp_store_pin(id);
    bool good = is_good(&info, seed) && names_well(&info);
    if (info.state == TRP_OBJECT_SEALED)
        trp_store_unpin(id);
    return good;
}

static void expect_whole(const char *what, long point)
{
    expect_empty_after(what, point);
    int files = support_count_files(trp_spill_folder());
    if (files != 0)
        fail_msg("after %s, point %ld: %d files are left", what, point, files);
    void *data; // All of the space can be had.
    trp_object whole;
    assert_int_equal(trp_store_create(CAPACITY, 1, TRP_ENCODING_BYTES, &whole, &data), TROUPE_OK);
    trp_store_discard(whole);
}

// ---- what is done with the object, by OTHER or by this process

static uint32_t doer = ME;
static trp_object_info kept; // Pinned by this process.

static int spill(trp_object id)
{
    (void)id;
    (void)trp_room_make(1);
    return 0;
}

static int read_it(trp_object id)
{
    return reads_well(id, 1) ? 0 : 1;
}

static int read_and_keep(trp_object id)
{
    kept = trp_store_pin(id);
    return is_good(&kept, 1) ? 0 : 1;
}

static int let_go(trp_object id)
{
    trp_store_release(id, doer);
    return 0;
}

static int let_go_and_make_another(trp_object id)
{
    trp_object next;
    trp_store_release(id, doer);
    if (make(&next, 9) != TROUPE_OK)
        return 2;
    (void)trp_room_make(1);
    bool good = reads_well(next, 9);
    trp_store_release(next, doer);
    return good ? 0 : 3;
}

static int do_all_with_ones_own(trp_object id)
{
    (void)id;
    trp_object mine;
    if (make(&mine, 5) != TROUPE_OK)
        return 4;
    (void)trp_room_make(PAGE);
    bool good = reads_well(mine, 5);
    (void)trp_room_make(PAGE);
    trp_store_release(mine, doer);
    return good ? 0 : 5;
}

static int nothing(trp_object id)
{
    (void)id;
    return 0;
}

typedef struct scene {
    const char *name;
    bool away; // It is on disk to begin with.
    bool both; // OTHER holds it too.
    int (*stopped)(trp_object id);
    int (*between)(trp_object id);
    bool twice; // Also with what names another.
} scene;

// ---- playing a scene

static void stop(void)
{
    (void)kill(getpid(), SIGSTOP);
}

typedef struct meanwhile {
    int (*act)(trp_object id);
    trp_object id;
    int result;
    _Atomic bool done;
} meanwhile;

static void *act(void *of)
{
    meanwhile *it = of;
    it->result = it->act(it->id);
    it->done = true;
    return NULL;
}

// It is done, or waits for the process that is stopped.
static bool went_far(void *of)
{
    const meanwhile *it = of;
    uint32_t where = atomic_load(&trp_object_row_at(trp_row_slot(it->id))->where);
    trp_where state = trp_where_state(where);
    return it->done || ((state == TRP_WHERE_GOING || state == TRP_WHERE_COMING) &&
                        trp_where_process(where) == OTHER);
}

static trp_object set_up(const scene *the)
{
    trp_object id;
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_segment_process(ME)->state = trp_segment_process(OTHER)->state = TRP_PROCESS_READY;
    trp_store_open(ME);
    plan();
    assert_int_equal(make(&id, 1), TROUPE_OK);
    if (the->both)
        assert_int_equal(trp_store_hold(id, OTHER), TROUPE_OK);
    assert_int_equal(the->away, the->away && trp_room_make(1));
    kept = (trp_object_info){0};
    return id;
}

static pid_t start_other(const scene *the, trp_object id, long point)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        doer = OTHER;
        trp_store_open(OTHER);
        trp_fault_call_at("store", point, stop);
        _exit(the->stopped(id));
    }
    return child;
}

// Writes over all that is free: what is read there by mistake is not what it was.
static void scribble(void)
{
    trp_object ids[CAPACITY / PAGE];
    size_t count = 0;
    void *data;
    while (count < CAPACITY / PAGE &&
           trp_store_create(PAGE, 1, TRP_ENCODING_PARCEL, &ids[count], &data) == TROUPE_OK) {
        memset(data, 0xee, PAGE);
        count++;
    }
    while (count > 0)
        trp_store_discard(ids[--count]);
}

// What this process still holds of it.
static void check_and_release(const scene *the, trp_object id, long point)
{
    if (kept.data != NULL) {
        scribble();
        if (!is_good(&kept, 1))
            fail_msg("%s, point %ld: the bytes of a view have changed", the->name, point);
        trp_store_unpin(id);
    }
    if (the->between == let_go || the->between == let_go_and_make_another)
        return;
    if (!reads_well(id, 1))
        fail_msg("%s, point %ld: it cannot be read: %s", the->name, point,
                 troupe_last_error()->text);
    trp_store_release(id, ME);
}

// Whether OTHER was stopped at that point, and not through before.
static bool run(const scene *the, long point, bool dies)
{
    int status;
    trp_object id = set_up(the);
    pid_t child = start_other(the, id, point);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    bool stopped = WIFSTOPPED(status);
    meanwhile work = {.act = the->between, .id = id};
    pthread_t thread;
    if (stopped) {
        assert_int_equal(pthread_create(&thread, NULL, act, &work), 0);
        assert_true(support_wait_until(went_far, &work, SUPPORT_SOON_MS));
        assert_int_equal(kill(child, dies ? SIGKILL : SIGCONT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (support_was_killed(status) != (stopped && dies))
        fail_msg("%s, point %ld: the other ended with %x", the->name, point, (unsigned)status);
    trp_segment_process(OTHER)->state = TRP_PROCESS_DEAD;
    trp_store_drain();
    trp_store_sweep(OTHER);
    if (stopped) {
        pthread_join(thread, NULL);
        if (work.result != 0)
            fail_msg("%s, point %ld%s: what was done meanwhile ended with %d: %s", the->name, point,
                     dies ? ", killed" : "", work.result, troupe_last_error()->text);
        check_and_release(the, id, point);
    } else {
        trp_store_release(id, ME);
    }
    trp_store_drain();
    expect_whole(the->name, point);
    end_node();
    return stopped;
}

static void play_all(void)
{
    static const scene scenes[] = {
        {"it goes, alone", false, false, spill, nothing, true},
        {"it goes, while it is read", false, false, spill, read_it, false},
        {"it goes, while a view is taken", false, false, spill, read_and_keep, false},
        {"it goes, while others are to go", false, false, spill, spill, false},
        {"it goes, while it is let go", false, false, spill, let_go, true},
        {"it goes, and its row is used again", false, false, spill, let_go_and_make_another, true},
        {"it comes, alone", true, true, read_it, nothing, true},
        {"it comes, while it is read", true, true, read_it, read_it, false},
        {"it comes, while a view is taken", true, true, read_it, read_and_keep, false},
        {"it comes, while others are to go", true, true, read_it, spill, false},
        {"it comes, while it is let go", true, true, read_it, let_go, true},
        {"it is let go", true, true, let_go, let_go, true},
        {"it is let go, while it is read", true, true, let_go, read_it, false},
        {"it is let go, and its row is used again", true, true, let_go, let_go_and_make_another,
         true},
        {"all that there is", false, false, do_all_with_ones_own, nothing, false},
        {"all that there is, while it is read", true, false, do_all_with_ones_own, read_it, false},
        {"all that there is, while others are to go", false, false, do_all_with_ones_own, spill,
         false},
        {"all that there is, twice", false, false, do_all_with_ones_own, do_all_with_ones_own,
         false},
    };
    enum { SCENES = sizeof scenes / sizeof *scenes };
    for (size_t k = 0; k < 2 * SCENES; k++) {
        size_t i = k % SCENES;
        long points = 0;
        naming = k >= SCENES;
        if (naming && !scenes[i].twice)
            continue;
        for (int dies = 0; dies < 2; dies++) {
            long point = 1;
            while (run(&scenes[i], point, dies != 0))
                point++;
            points += point - 1;
        }
        print_message("%s%s: %ld points\n", scenes[i].name, naming ? ", with references" : "",
                      points);
        assert_true(points > 1);
    }
}

static void test_every_step(void **state)
{
    (void)state;
    sharing = TRP_SPILL_UNDECIDED;
    play_all();
}

static void test_every_step_with_files_of_their_own(void **state)
{
    (void)state;
    sharing = TRP_SPILL_APART;
    play_all();
    sharing = TRP_SPILL_UNDECIDED;
}

// ---- who moves it is stopped, and does not die

static void expect_named(troupe_status status, pid_t who, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "by worker %d (pid %d)", OTHER, (int)who);
    assert_int_equal(troupe_last_error()->status, status);
    assert_non_null(strstr(troupe_last_error()->text, name));
    assert_non_null(strstr(troupe_last_error()->text, what));
}

// Whether OTHER was stopped at that point; *moving: a reader had to wait for it there.
static bool stop_mover(const scene *the, long point, bool *moving)
{
    int status;
    trp_object id = set_up(the);
    pid_t child = start_other(the, id, point);
    trp_segment_process(OTHER)->pid = child;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    bool stopped = WIFSTOPPED(status);
    *moving = stopped && trp_store_is_moved(id);
    if (*moving) {
        int64_t began_ms = support_now_ms();
        assert_int_equal(trp_store_pin_within(id, 100).state, TRP_OBJECT_ABSENT);
        expect_named(TROUPE_TIMED_OUT, child, "which is stopped");
        assert_true(support_now_ms() - began_ms >= 100);
        assert_int_equal(trp_store_await_move(id, trp_clock_deadline(20)), TROUPE_TIMED_OUT);
        expect_named(TROUPE_TIMED_OUT, child, "stays valid");
    } else if (stopped) {
        assert_int_equal(trp_store_await_move(id, trp_clock_deadline(20)), TROUPE_OK);
    }
    if (stopped) {
        assert_int_equal(kill(child, SIGCONT), 0);
        assert_int_equal(trp_store_await_move(id, trp_clock_deadline(SUPPORT_SOON_MS)), TROUPE_OK);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    trp_segment_process(OTHER)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(OTHER);
    assert_true(reads_well(id, 1));
    trp_store_release(id, ME);
    expect_whole(the->name, point);
    end_node();
    return stopped;
}

static void test_a_mover_that_is_stopped(void **state)
{
    (void)state;
    static const scene going = {"it goes", false, false, spill, nothing, false};
    static const scene coming = {"it comes", true, true, read_it, nothing, false};
    for (int i = 0; i < 2; i++) {
        int waits = 0;
        bool moving;
        for (long point = 1; stop_mover(i == 0 ? &going : &coming, point, &moving); point++)
            waits += moving;
        assert_true(waits > 2);
    }
}

// ---- random instants

enum { PROCESSES = 3, DEATHS = 60, COUNT = 3 * CAPACITY / PAGE, OWN = 6 };
static trp_object common[COUNT]; // Held by all.

typedef struct own_object {
    trp_object id; // 0: none.
    uint64_t seed;
} own_object;

static void check_own(own_object *own, unsigned seed, uint32_t slot)
{
    if (own->id == 0) {
        own->seed = seed;
        if (make(&own->id, own->seed) != TROUPE_OK)
            own->id = 0;
        return;
    }
    trp_object_info info = trp_store_pin(own->id);
    if (info.state == TRP_OBJECT_ABSENT && troupe_last_error()->status == TROUPE_NO_MEMORY)
        return;
    if (!is_good(&info, own->seed) || !names_well(&info))
        _exit(3);
    trp_store_unpin(own->id);
    trp_store_release(own->id, slot);
    own->id = 0;
}

static void load(uint32_t slot, unsigned seed)
{
    own_object own[OWN] = {0};
    trp_store_open(slot);
    for (;;) {
        size_t k = (size_t)rand_r(&seed) % COUNT;
        trp_object_info info = trp_store_pin(common[k]);
        if (info.state == TRP_OBJECT_ABSENT && troupe_last_error()->status != TROUPE_NO_MEMORY)
            _exit(2);
        if (info.state == TRP_OBJECT_SEALED) {
            if (!is_good(&info, k) || !names_well(&info))
                _exit(1);
            trp_store_unpin(common[k]);
        }
        check_own(&own[(size_t)rand_r(&seed) % OWN], seed, slot);
    }
}

static pid_t start_load(uint32_t slot, unsigned seed)
{
    trp_segment_process(slot)->state = TRP_PROCESS_READY;
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(trp_store_hold(common[i], slot), TROUPE_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        load(slot, seed);
    }
    return child;
}

static void end_load(pid_t child, uint32_t slot)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(support_was_killed(status));
    trp_segment_process(slot)->state = TRP_PROCESS_DEAD;
    trp_store_drain();
    trp_store_sweep(slot);
}

static void test_random_instants(void **state)
{
    (void)state;
    unsigned seed = 20260202;
    naming = true;
    pid_t pids[PROCESSES];
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_segment_process(ME)->state = TRP_PROCESS_READY;
    trp_store_open(ME);
    plan();
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(make(&common[i], i), TROUPE_OK);
    for (uint32_t i = 0; i < PROCESSES; i++)
        pids[i] = start_load(FIRST + i, i + 1);
    for (uint32_t deaths = 0; deaths < DEATHS; deaths++) {
        usleep((unsigned)rand_r(&seed) % 20000);
        uint32_t i = deaths % PROCESSES;
        end_load(pids[i], FIRST + deaths);
        pids[i] = start_load(FIRST + deaths + PROCESSES, deaths + 100);
    }
    for (uint32_t deaths = DEATHS; deaths < DEATHS + PROCESSES; deaths++)
        end_load(pids[deaths % PROCESSES], FIRST + deaths);
    for (size_t i = 0; i < COUNT; i++) {
        if (!reads_well(common[i], i))
            fail_msg("object %zu: %s", i, troupe_last_error()->text);
        trp_store_release(common[i], ME);
    }
    trp_store_drain();
    expect_whole("random instants", 0);
    end_node();
}

static int make_base(void **state)
{
    (void)state;
    base = support_directory_make();
    return 0;
}

static int remove_base(void **state)
{
    (void)state;
    support_directory_remove(base);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_step),
        cmocka_unit_test(test_every_step_with_files_of_their_own),
        cmocka_unit_test(test_a_mover_that_is_stopped),
        cmocka_unit_test(test_random_instants),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
