// test_spare.c: how many workers the keeper forks ahead, and when it says that many begin at once:
// its counters alone, with processes that are but numbers. Those that wait are in
// system/test_spares.
#include <support.h>

#include <poll.h>
#include <runtime/node/prefork.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; // Page tables are large then, and the stock smaller.
#else
enum { SANITIZED = 0 };
#endif

enum { BURST = 20, FIRST_PID = 5000000 }; // Above all that the kernel gives.

static int made;
static bool fails, has_failed;

static pid_t make(const int ends[2], int socket)
{
    (void)ends, (void)socket;
    has_failed = fails;
    return fails ? -1 : FIRST_PID + made++;
}

static void ask(int count)
{
    for (int i = 0; i < count; i++)
        (void)trp_spare_asked();
}

// Until as many wait as are wanted, or none could be made.
static void tend(void)
{
    enum { NOTHING_TO_DO_MS = 1500 }; // What is waited for is the end of a quiet time.
    int ms = 0;
    while (ms >= 0 && ms < NOTHING_TO_DO_MS && !has_failed) {
        (void)poll(NULL, 0, ms);
        ms = trp_spare_tend(-1, make);
    }
}

// How many there were: all end.
static int end_stock(void)
{
    int count = 0;
    for (int i = 0; i < made; i++)
        count += trp_spare_ended(FIRST_PID + i);
    return count;
}

// The books are those of one keeper: each case has a process of its own, and says a small number.
static int run_apart(int (*what)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(30);
        _exit(what());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// ---- how many

static int stock_of_a_burst(void)
{
    ask(BURST);
    tend();
    return end_stock();
}

// In tenths of a second: when it is looked whether they are too many, with nothing set.
static int quiet_after_a_burst(void)
{
    ask(BURST);
    tend();
    int ms = trp_spare_tend(-1, make);
    return end_stock() == BURST && ms >= 0 && ms < 20000 ? ms / 100 : 255;
}

static void test_a_burst_is_soon_forgotten(void **state)
{
    (void)state;
    assert_in_range(run_apart(quiet_after_a_burst), 0, 30); // And once more after that.
}

static void test_as_many_as_were_asked_for(void **state)
{
    (void)state;
    assert_int_equal(run_apart(stock_of_a_burst), BURST);
}

static int stock_with_few_processes(void)
{
    struct rlimit few;
    if (getrlimit(RLIMIT_NPROC, &few) != 0)
        return 255;
    few.rlim_cur = 80;
    if (setrlimit(RLIMIT_NPROC, &few) != 0)
        return 255;
    return stock_of_a_burst();
}

static void test_a_share_of_the_processes(void **state)
{
    (void)state;
    assert_int_equal(run_apart(stock_with_few_processes), 10); // A quarter, two each.
}

enum { TABLES = 1024 }; // Of 4 KiB each: 4 MiB in all, which each spare has as well.

static int stock_with_large_tables(void)
{
    enum { REACH = 2 << 20 }; // Of one.
    size_t size = (size_t)TABLES * REACH;
    char *much = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (much == MAP_FAILED || madvise(much, size, MADV_NOHUGEPAGE) != 0)
        return 255;
    for (size_t at = 0; at < size; at += REACH)
        much[at] = 1;
    return stock_of_a_burst();
}

static void test_a_share_of_the_memory(void **state)
{
    (void)state;
    int count = run_apart(stock_with_large_tables);
    assert_in_range(count, TRP_SPARES_MIN, 40 * 1024 / (TABLES * 4));
    assert_true(SANITIZED || count > TRP_SPARES_MIN);
}

// One is wanted, and cannot be made: half of the others go, without a further look.
static int stock_when_none_can_be_made(void)
{
    ask(BURST);
    tend();
    if (made != BURST || !trp_spare_ended(FIRST_PID))
        return 255;
    fails = true;
    for (int64_t give_up = support_now_ms() + SUPPORT_SOON_MS;
         !has_failed && support_now_ms() < give_up;)
        (void)trp_spare_tend(-1, make);
    return end_stock();
}

static void test_half_go_where_none_can_be_made(void **state)
{
    (void)state;
    assert_int_equal(run_apart(stock_when_none_can_be_made), (BURST - 1) / 2);
}

// ---- crowds

enum { ALONE_MS = 5 }; // After so long what is asked for begins alone.

static int see_crowds(void)
{
    bool crowded = true;
    int before = 0;
    while (before < 10000 && !trp_spare_asked())
        before++;
    if (before < 4 || before == 10000) // It was said of the first, or of none.
        return 1;
    for (int i = 0; i < 16; i++) { // One by one: each halves what was counted.
        (void)poll(NULL, 0, ALONE_MS);
        crowded = trp_spare_asked();
    }
    return crowded ? 2 : 0;
}

// One after the other, without a pause in between.
static int see_a_stream(void)
{
    bool crowded = false;
    int before = -1;
    for (int64_t give_up = support_now_ms() + SUPPORT_SOON_MS;
         !crowded && support_now_ms() < give_up; before++) {
        (void)poll(NULL, 0, 1);
        crowded = trp_spare_asked();
    }
    if (!crowded || before < 15) // None was seen, or too soon.
        return 1;
    (void)poll(NULL, 0, ALONE_MS);
    return trp_spare_asked() ? 2 : 0; // It has ended.
}

static void test_a_crowd_is_seen(void **state)
{
    (void)state;
    assert_int_equal(run_apart(see_crowds), 0);
}

static void test_a_stream_is_a_crowd(void **state)
{
    (void)state;
    assert_int_equal(run_apart(see_a_stream), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_many_as_were_asked_for),
        cmocka_unit_test(test_a_burst_is_soon_forgotten),
        cmocka_unit_test(test_a_share_of_the_processes),
        cmocka_unit_test(test_a_share_of_the_memory),
        cmocka_unit_test(test_half_go_where_none_can_be_made),
        cmocka_unit_test(test_a_crowd_is_seen),
        cmocka_unit_test(test_a_stream_is_a_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
