// test_spill_crash.c: a process that brings an object to disk, or back, or frees one that is there,
// is stopped at each of its steps; another reads, moves or frees the same object meanwhile; then
// the first goes on, or is killed. Whoever holds the object reads it as it was, and in the end
// neither memory nor a file is left. Then the same at random instants.
// timeout: 120
// label: faults
// label: nosan
#include <support.h>

#include <dirent.h>
#include <pthread.h>
#include <runtime/fault.h>
#include <runtime/layout.h>
#include <runtime/spill.h>
#include <runtime/store_room.h>
#include <runtime/store_row.h>
#include <runtime/store_where.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ME = TRP_PROCESS_DRIVER, OTHER = 40, FIRST = 50, CAPACITY = 1 << 20, PAGE = 1 << 16 };

static char *base;

static void fill(void *data, uint64_t seed)
{
    for (uint64_t i = 0; i < PAGE / 8; i++)
        ((uint64_t *)data)[i] = seed * 1000003 + i;
}

static bool is_good(const trp_object_info *info, uint64_t seed)
{
    if (info->state != TRP_OBJECT_SEALED || info->size != PAGE)
        return false;
    for (uint64_t i = 0; i < PAGE / 8; i++)
        if (((const uint64_t *)info->data)[i] != seed * 1000003 + i)
            return false;
    return true;
}

static troupe_status make(trp_object *id, uint64_t seed)
{
    void *data;
    TROUPE_TRY(trp_room_create(PAGE, 1, TRP_ENCODING_BYTES, id, &data));
    fill(data, seed);
    return trp_store_seal(*id);
}

static bool reads_well(trp_object id, uint64_t seed)
{
    trp_object_info info = trp_store_pin(id);
    bool good = is_good(&info, seed);
    if (info.state == TRP_OBJECT_SEALED)
        trp_store_unpin(id);
    return good;
}

static int count_files(void)
{
    int count = 0;
    DIR *all = opendir(trp_spill_folder());
    for (struct dirent *it; all != NULL && (it = readdir(all)) != NULL;)
        count += it->d_name[0] != '.';
    if (all != NULL)
        closedir(all);
    return count;
}

static void expect_empty(const char *when, long point)
{
    troupe_store_usage now;
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    int files = count_files();
    if (now.objects != 0 || now.bytes_used != 0 || files != 0)
        fail_msg("%s, point %ld: %llu objects, %llu bytes and %d files are left", when, point,
                 (unsigned long long)now.objects, (unsigned long long)now.bytes_used, files);
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
    trp_spill_plan(&(troupe_options){.spill_dir = base, .spill_bytes_max = 1 << 30}, "");
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
    if (!dies && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        fail_msg("%s, point %ld: what went on ended with %x", the->name, point, status);
    trp_segment_process(OTHER)->state = TRP_PROCESS_DEAD;
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
    expect_empty(the->name, point);
    trp_segment_close();
    return stopped;
}

static void test_every_step(void **state)
{
    (void)state;
    static const scene scenes[] = {
        {"it goes, alone", false, false, spill, nothing},
        {"it goes, while it is read", false, false, spill, read_it},
        {"it goes, while a view is taken", false, false, spill, read_and_keep},
        {"it goes, while others are to go", false, false, spill, spill},
        {"it goes, while it is let go", false, false, spill, let_go},
        {"it goes, and its row is used again", false, false, spill, let_go_and_make_another},
        {"it comes, alone", true, true, read_it, nothing},
        {"it comes, while it is read", true, true, read_it, read_it},
        {"it comes, while a view is taken", true, true, read_it, read_and_keep},
        {"it comes, while others are to go", true, true, read_it, spill},
        {"it comes, while it is let go", true, true, read_it, let_go},
        {"it is let go", true, true, let_go, let_go},
        {"it is let go, while it is read", true, true, let_go, read_it},
        {"it is let go, and its row is used again", true, true, let_go, let_go_and_make_another},
        {"all that there is", false, false, do_all_with_ones_own, nothing},
        {"all that there is, while it is read", true, false, do_all_with_ones_own, read_it},
        {"all that there is, while others are to go", false, false, do_all_with_ones_own, spill},
        {"all that there is, twice", false, false, do_all_with_ones_own, do_all_with_ones_own},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        long points = 0;
        for (int dies = 0; dies < 2; dies++) {
            long point = 1;
            while (run(&scenes[i], point, dies != 0))
                point++;
            points += point - 1;
        }
        print_message("%s: %ld points\n", scenes[i].name, points);
        assert_true(points > 1);
    }
}

// ---- random instants

enum { PROCESSES = 3, DEATHS = 60, COUNT = 3 * CAPACITY / PAGE, OWN = 6 };
static trp_object common[COUNT]; // Held by all.

static void check_own(trp_object *own, unsigned seed, uint32_t slot)
{
    if (*own == 0) {
        if (make(own, seed) != TROUPE_OK)
            *own = 0;
        return;
    }
    trp_object_info info = trp_store_pin(*own);
    if (info.state == TRP_OBJECT_ABSENT && troupe_last_error()->status == TROUPE_NO_MEMORY)
        return;
    if (!is_good(&info, *(const uint64_t *)info.data / 1000003))
        _exit(3);
    trp_store_unpin(*own);
    trp_store_release(*own, slot);
    *own = 0;
}

static void load(uint32_t slot, unsigned seed)
{
    trp_object own[OWN] = {0};
    trp_store_open(slot);
    for (;;) {
        size_t k = (size_t)rand_r(&seed) % COUNT;
        trp_object_info info = trp_store_pin(common[k]);
        if (info.state == TRP_OBJECT_ABSENT && troupe_last_error()->status != TROUPE_NO_MEMORY)
            _exit(2);
        if (info.state == TRP_OBJECT_SEALED) {
            if (!is_good(&info, k))
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
    if (!WIFSIGNALED(status))
        fail_msg("the process at place %u ended with %d", slot, WEXITSTATUS(status));
    trp_segment_process(slot)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(slot);
}

static void test_random_instants(void **state)
{
    (void)state;
    unsigned seed = 20260202;
    pid_t pids[PROCESSES];
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_segment_process(ME)->state = TRP_PROCESS_READY;
    trp_store_open(ME);
    trp_spill_plan(&(troupe_options){.spill_dir = base, .spill_bytes_max = 1 << 30}, "");
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
    expect_empty("random instants", 0);
    trp_segment_close();
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
        cmocka_unit_test(test_random_instants),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
