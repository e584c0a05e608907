// test_pages_idle_crash.c: a process that gives memory back, and one that takes it again, may die
// between any two writes, or be stopped there while another does something: nothing is lost,
// nothing is used twice, and the system has exactly what it was given. Every point is tried,
// with a sanitizer every fourth (runtime/base/fault.h).
// timeout: 240
// cost: 10
// label: faults
#include <support.h>

#include <errno.h>
#include <runtime/base/fault.h>
#include <runtime/shm/pages_internal.h>
#include <runtime/shm/reclaim.h>
#include <runtime/shm/segment.h>
#include <runtime/store/reap.h>
#include <runtime/store/store.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ME = TRP_PROCESS_DRIVER,
    VICTIM = 7,
    PAGES = 48,
    CAPACITY = PAGES * TRP_PAGE_SIZE,
};

static uint64_t base; // Bytes of the tables.
static bool huge;     // Memory is asked for, and goes, in pages of 2 MiB.

static uint32_t kept(void)
{
    return huge ? TRP_STRETCH : 16;
}

static uint64_t bytes_backed(void)
{
    troupe_store_usage now;
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    return now.bytes_backed;
}

static uint32_t count_holes(void)
{
    uint32_t holes = 0;
    for (uint32_t page = 0; page < PAGES; page++)
        holes += atomic_load(trp_page_owner(page)) == TRP_OWNER_HOLE;
    return holes;
}

// What is no hole has memory, and nothing else has.
static void expect_exact(const char *when, long point)
{
    uint64_t pages = bytes_backed() - base;
    uint64_t expected = (uint64_t)(PAGES - count_holes()) * TRP_PAGE_SIZE;
    if (pages != expected)
        print_error("%s, point %ld: %llu bytes of pages, not %llu\n", when, point,
                    (unsigned long long)pages, (unsigned long long)expected);
    assert_int_equal(pages, expected);
}

static void expect_empty(void)
{
    troupe_store_usage now;
    assert_int_equal(trp_store_usage(&now), TROUPE_OK);
    assert_int_equal(now.objects, 0);
    assert_int_equal(now.bytes_used, 0);
}

// Memory comes and goes in whole pages: a byte at each end of each shows whose it is, and costs the
// system two of its own pages instead of sixteen.
static void fill(unsigned char *data, size_t size, unsigned char value)
{
    for (size_t at = 0; at < size; at += TRP_PAGE_SIZE)
        data[at] = data[(at + TRP_PAGE_SIZE < size ? at + TRP_PAGE_SIZE : size) - 1] = value;
}

static bool all_are(const unsigned char *data, size_t size, unsigned char value)
{
    bool all = true;
    for (size_t at = 0; at < size; at += TRP_PAGE_SIZE)
        all &= data[at] == value &&
               data[(at + TRP_PAGE_SIZE < size ? at + TRP_PAGE_SIZE : size) - 1] == value;
    return all;
}

// ---- objects of this process: all that can be had

static struct {
    trp_object ids[PAGES];
    unsigned char *data[PAGES];
    size_t count;
} taken;

static void take_all(void)
{
    void *data;
    for (taken.count = 0; taken.count < PAGES; taken.count++) {
        size_t i = taken.count;
        if (trp_store_create(TRP_PAGE_SIZE, 0, TRP_ENCODING_BYTES, &taken.ids[i], &data) !=
            TROUPE_OK)
            return;
        taken.data[i] = data;
        fill(data, TRP_PAGE_SIZE, (unsigned char)(i + 1));
    }
}

static void drop_all(void)
{
    while (taken.count > 0) {
        size_t i = --taken.count;
        assert_true(all_are(taken.data[i], TRP_PAGE_SIZE, (unsigned char)(i + 1)));
        trp_store_discard(taken.ids[i]);
    }
}

static void expect_whole(void)
{
    take_all();
    assert_int_equal(taken.count, PAGES);
    drop_all();
}

// ---- what is done

static void give(void)
{
    for (int i = 0; i < 3; i++)
        (void)trp_pages_give(trp_pages_self(), TRP_PAGES_KEEP);
}

static void put(size_t size)
{
    trp_object id;
    void *data;
    if (trp_store_create(size, 1, TRP_ENCODING_BYTES, &id, &data) != TROUPE_OK)
        return;
    fill(data, size, 200);
    if (!all_are(data, size, 200))
        _exit(1);
    (void)trp_store_seal(id);
    trp_store_release(id, VICTIM);
}

static void put_page(void)
{
    put(TRP_PAGE_SIZE);
}

static void put_run(void)
{
    put(12 * TRP_PAGE_SIZE);
}

static void put_most(void)
{
    put((PAGES - 2) * TRP_PAGE_SIZE);
}

static void put_small(void)
{
    put(5000);
}

static void put_and_die_holding(void)
{
    trp_object id;
    void *data;
    if (trp_store_create(30 * TRP_PAGE_SIZE, 1, TRP_ENCODING_BYTES, &id, &data) == TROUPE_OK)
        (void)trp_store_seal(id);
}

static void nothing(void)
{
}

// The victim finds all of it free: with memory, or given back but for the keep.
static void prepare(bool given)
{
    assert_int_equal(trp_segment_create(CAPACITY), TROUPE_OK);
    trp_store_open(ME);
    trp_segment.header->huge = huge;
    trp_segment_process(VICTIM)->state = TRP_PROCESS_READY;
    trp_object id;
    void *data;
    // All block tables, and the victim's ledger, so that the tables stay as they are.
    assert_int_equal(
        trp_segment_back(trp_segment.header->blocks_at, PAGES * TRP_PAGE_BLOCKS * sizeof(uint32_t)),
        TROUPE_OK);
    assert_int_equal(trp_store_create(100, 0, TRP_ENCODING_BYTES, &id, &data), TROUPE_OK);
    assert_int_equal(trp_store_hold(id, VICTIM), TROUPE_OK);
    trp_store_release(id, VICTIM);
    trp_store_discard(id);
    expect_whole();
    base = bytes_backed() - (uint64_t)PAGES * TRP_PAGE_SIZE;
    if (given) {
        give();
        assert_int_equal(count_holes(), PAGES - kept());
    }
    expect_exact("before", 0);
}

static pid_t start(void (*operation)(void), long point, void (*act)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    trp_store_open(VICTIM);
    trp_fault_call_at("store", point, act);
    operation();
    trp_fault_kill_at("store", 0);
    _exit(0);
}

static int await(pid_t child, int options)
{
    int status;
    while (waitpid(child, &status, options) < 0)
        assert_int_equal(errno, EINTR);
    return status;
}

static void bury(void)
{
    trp_segment_process(VICTIM)->state = TRP_PROCESS_DEAD;
    trp_store_sweep(VICTIM);
    trp_store_drain();
}

static void finish(const char *name, long point)
{
    expect_empty();
    expect_exact(name, point);
    expect_whole();
    give();
    expect_exact(name, point);
    assert_int_equal(count_holes(), PAGES - kept());
    expect_whole();
    trp_segment_close();
}

static const struct {
    const char *name;
    void (*operation)(void);
    bool given;
} operations[] = {
    {"giving", give, false},          {"a page", put_page, true},
    {"a run", put_run, true},         {"nearly all", put_most, true},
    {"a small one", put_small, true}, {"a run that is left behind", put_and_die_holding, true},
};

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
}

static void die_at_every_point(void)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        int status;
        long point = 1 - SUPPORT_SLOWER;
        do {
            prepare(operations[i].given);
            status = await(start(operations[i].operation, point += SUPPORT_SLOWER, die), 0);
            bury();
            finish(operations[i].name, point);
        } while (WIFSIGNALED(status));
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        print_message("%s: fewer than %ld points\n", operations[i].name, point);
        assert_true(point > 4);
    }
}

static void test_every_point(void **state)
{
    (void)state;
    die_at_every_point();
}

static void test_every_point_with_huge_pages(void **state)
{
    (void)state;
    huge = true;
    die_at_every_point();
    huge = false;
}

// ---- one is stopped, and another comes between

static void stop(void)
{
    (void)kill(getpid(), SIGSTOP);
}

// Whether the victim was stopped at that point, and not through before.
static bool run(size_t which, void (*between)(void), long point, bool dies)
{
    prepare(operations[which].given);
    pid_t child = start(operations[which].operation, point, stop);
    bool stopped = WIFSTOPPED(await(child, WUNTRACED));
    if (stopped) {
        between();
        assert_int_equal(kill(child, dies ? SIGKILL : SIGCONT), 0);
        int status = await(child, 0);
        assert_true(dies ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    bury();
    drop_all(); // Nobody else wrote there.
    finish(operations[which].name, point);
    return stopped;
}

static void give_and_take_all(void)
{
    give();
    take_all();
}

static void take_and_give(void)
{
    take_all();
    drop_all();
    give();
}

static void test_every_step(void **state)
{
    (void)state;
    static void (*const betweens[])(void) = {nothing, take_all, give, give_and_take_all,
                                             take_and_give};
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        for (size_t k = 0; k < sizeof betweens / sizeof *betweens; k++)
            for (int dies = 0; dies < 2; dies++) {
                long point = 1;
                // The points of long runs are alike: after the first ones, some of them.
                while (run(i, betweens[k], point, dies != 0))
                    point += point * SUPPORT_SLOWER < 10 ? 1 : 11 * SUPPORT_SLOWER;
                assert_true(point > 4);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_point),
        cmocka_unit_test(test_every_point_with_huge_pages),
        cmocka_unit_test(test_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
