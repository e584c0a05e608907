// test_store_deaths.c: eight processes put, seal, view, promise, list, pass on, receive, spill and
// drop objects of a store that is too small for them, and are killed: by a signal at random
// instants, or at a random one of their own steps. Whatever is left names the living alone, and
// when all are dead nothing is left. The plan follows from TROUPE_SEED, which is printed.
// timeout: 120
// label: faults
// again: full slow 1200 12000
#include "store_deaths.h"
#include "stores.h"

#include <errno.h>
#include <runtime/shm/reclaim.h>
#include <runtime/store/read.h>
#include <runtime/store/reap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum {
    STOP_EVERY = 50,   // Deaths after which all that live are stopped, and the tables are read;
    END_EVERY = 1000,  // and those after which all are killed, and nothing may be left.
    POINTS_MAX = 6000, // One half of the victims die at a step of their own among so many.
    PAUSE_US = 3000,
    GROWTH_MAX = 1 << 20, // Of this process's own memory, in bytes.
    // Of the segment: when there are more objects at a time than ever before, the ledger of each
    // place gets a further part, of 16 KiB, when it is next used.
    TABLES_MAX = PLACES * (16 << 10) + (1 << 20),
};

static int deaths_wanted;
static uint64_t dice;
static char *base; // Below it is the folder of the node.

static struct {
    pid_t pid[VICTIMS];
    uint32_t next; // The place of who comes next, counted for ever.
    uint32_t deaths, by_themselves;
} crew;

static uint32_t at_place(uint32_t count)
{
    return FIRST + count % PLACES;
}

// ---- births

static void start_victim(uint32_t i)
{
    uint32_t place = at_place(crew.next++);
    uint64_t seed = roll(&dice);
    long point = roll(&dice) % 2 == 0 ? 1 + (long)(roll(&dice) % POINTS_MAX) : 0;
    atomic_store(&office->mail[place], 0); // What was there was for the dead one, and is swept.
    trp_store_admit(place);
    trp_segment_process(place)->state = TRP_PROCESS_READY;
    atomic_store(&office->place[i], place);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // A failed test leaves nobody running.
        be_victim(place, seed, point);
    }
    crew.pid[i] = child;
}

// ---- deaths

// Waits for one that was killed, or looks whether one has died.
static bool is_dead(uint32_t i, bool wait)
{
    int status;
    pid_t got;
    do
        got = waitpid(crew.pid[i], &status, wait ? 0 : WNOHANG);
    while (got < 0 && errno == EINTR);
    assert_true(got >= 0);
    if (got == 0)
        return false;
    assert_true(support_was_killed(status)); // Else it says what is wrong.
    return true;
}

// Takes back what all that have died held; `killed` has a bit for each that was killed.
static void bury(uint32_t killed)
{
    uint32_t dead[VICTIMS], slots[VICTIMS], count = 0;
    for (uint32_t i = 0; i < VICTIMS; i++) {
        bool was_killed = (killed >> i & 1) != 0;
        if (!is_dead(i, was_killed))
            continue;
        crew.by_themselves += !was_killed;
        slots[count] = office->place[i];
        trp_segment_process(slots[count])->state = TRP_PROCESS_DEAD;
        dead[count++] = i;
    }
    if (roll(&dice) % 2 == 0)
        trp_store_drain();
    trp_store_sweep_soon(slots, count);
    trp_store_sweep_rest();
    if (roll(&dice) % 4 == 0)
        (void)trp_pages_give(ME, TRP_PAGES_KEEP);
    crew.deaths += count;
    for (uint32_t i = 0; i < count; i++)
        crew.pid[dead[i]] = 0;
}

static void start_missing(void)
{
    for (uint32_t i = 0; i < VICTIMS; i++)
        if (crew.pid[i] == 0)
            start_victim(i);
}

static void kill_some(void)
{
    uint32_t killed = 0, count = roll(&dice) % 16 == 0 ? 1 + (uint32_t)(roll(&dice) % VICTIMS) : 1;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = (uint32_t)(roll(&dice) % VICTIMS);
        killed |= 1u << i;
        assert_int_equal(kill(crew.pid[i], SIGKILL), 0);
    }
    bury(killed);
}

// ---- looking

// Stops all that live wherever they are, reads the tables, and lets them go on.
static void stop_and_check(void)
{
    for (uint32_t i = 0; i < VICTIMS; i++) {
        siginfo_t about;
        int status;
        assert_int_equal(kill(crew.pid[i], SIGSTOP), 0);
        do // Not reaped: one may have died by itself, and is buried later.
            status = waitid(P_PID, (id_t)crew.pid[i], &about, WSTOPPED | WEXITED | WNOWAIT);
        while (status != 0 && errno == EINTR);
        assert_int_equal(status, 0);
    }
    bury(0);
    trp_store_drain();
    check_tables(crew.deaths);
    for (uint32_t i = 0; i < VICTIMS; i++)
        if (crew.pid[i] != 0)
            assert_int_equal(kill(crew.pid[i], SIGCONT), 0);
}

static void begin_all(void)
{
    void *memory;
    assert_int_equal(trp_store_share(sizeof *office, &office_object, &memory), TROUPE_OK);
    office = memory;
    for (uint32_t i = 0; i < VICTIMS; i++) // Of the first ones, before any of them is there.
        office->place[i] = at_place(crew.next + i);
    for (uint64_t i = 0; i < COMMON; i++)
        assert_true(put_words(8 * (1 + i * i * 40), i, &office->common[i]));
    start_missing();
}

static void end_all(void)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < VICTIMS; i++)
        if (crew.pid[i] != 0) {
            all |= 1u << i;
            assert_int_equal(kill(crew.pid[i], SIGKILL), 0);
        }
    bury(all);
    trp_store_drain();
    for (uint32_t i = 0; i < COMMON; i++) {
        trp_object_info info = trp_store_pin(office->common[i]);
        if (!is_whole(&info))
            fail_msg("what this process holds itself has changed: object %u", i);
        trp_store_unpin(office->common[i]);
        trp_store_release(office->common[i], ME);
    }
    trp_store_release(office_object, ME);
    check_empty(crew.deaths);
}

// ---- memory

typedef struct sizes {
    uint64_t anonymous, backed; // Of this process, and of the segment.
} sizes;

static sizes measure(void)
{
    troupe_store_usage usage;
    sizes now = {0};
    char *text = support_read_file("/proc/self/status");
    const char *line = text != NULL ? strstr(text, "RssAnon:") : NULL;
    assert_non_null(line);
    now.anonymous = strtoull(line + strlen("RssAnon:"), NULL, 10) * 1024;
    free(text);
    assert_int_equal(trp_store_usage(&usage), TROUPE_OK);
    now.backed = usage.bytes_backed;
    return now;
}

static void expect_flat(const sizes *before, const sizes *now)
{
    print_message("own memory %llu, then %llu KiB; segment %llu, then %llu KiB\n",
                  (unsigned long long)before->anonymous >> 10,
                  (unsigned long long)now->anonymous >> 10,
                  (unsigned long long)before->backed >> 10, (unsigned long long)now->backed >> 10);
    assert_true(now->backed <= before->backed + TABLES_MAX);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // They have books of their own.
    assert_true(now->anonymous <= before->anonymous + GROWTH_MAX);
#endif
}

// ----

static void test_deaths_at_random_instants(void **state)
{
    (void)state;
    sizes early = {0}, late;
    uint32_t checked = 0, ended = 0;
    begin_all();
    while (crew.deaths < (uint32_t)deaths_wanted) {
        const struct timespec pause = {.tv_nsec = (long)(roll(&dice) % PAUSE_US) * 1000};
        (void)nanosleep(&pause, NULL);
        kill_some();
        start_missing();
        if (crew.deaths - checked >= STOP_EVERY) {
            checked = crew.deaths;
            stop_and_check();
            start_missing();
        }
        if (crew.deaths - ended >= END_EVERY) {
            ended = crew.deaths;
            end_all();
            if (early.backed == 0)
                early = measure();
            begin_all();
        }
    }
    end_all();
    late = measure();
    if (early.backed != 0)
        expect_flat(&early, &late);
    print_message("%u deaths, %u of them at a step of their own\n", crew.deaths,
                  crew.by_themselves);
    assert_true(crew.by_themselves > 0 && crew.by_themselves < crew.deaths);
}

static int set_up(void **state)
{
    (void)state;
    base = support_directory_make();
    return open_spilling(CAPACITY, ME, base);
}

static int tear_down(void **state)
{
    (void)state;
    trp_segment_close();
    support_directory_remove(base);
    return 0;
}

int main(int argc, char **argv)
{
    const char *given = getenv("TROUPE_SEED");
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    dice = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)now.tv_nsec ^ (uint64_t)getpid();
    deaths_wanted = argc > 1 ? atoi(argv[1]) : 200;
    printf("TROUPE_SEED=%llu\n", (unsigned long long)dice);
    fflush(stdout);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_deaths_at_random_instants, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
