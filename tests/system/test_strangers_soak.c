// test_strangers_soak.c: a node that listens, two honest nodes that use it, and attackers of it
// meanwhile, with at most a tenth of a CPU: every call comes back, nothing crashes, memory and
// descriptors stay below what node.h says, and what was refused is counted.
// timeout: 180
// cost: 20
// again: full slow 1500 600 7 strict
//
// test_strangers_soak [SECONDS [SEED [strict | PHASE]]]: strict compares how long the calls took,
// too; with a phase's name, that one alone.
#include "strangers.h"
#include <support.h>

#include <errno.h>
#include <runtime/link/zmq.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[PHASES] = {
    [QUIET] = "quiet",   [GARBAGE] = "garbage", [HALF] = "half",        [SILENT] = "silent",
    [CLAIMS] = "claims", [HOLDER] = "holder",   [IMPOSTOR] = "impostor"};

static struct {
    int seconds;
    uint64_t seed;
    bool strict;
    phase only; // QUIET: every one.
    siege *board;
    pid_t nodes[1 + GUESTS];
    uint64_t memory_before[DOORS], descriptors_before[DOORS], dropped;
    uint64_t memory_began[DOORS]; // At the beginning of a phase.
} test = {.seconds = 10, .seed = 1};

void board_trouble(siege *it, const char *format, ...)
{
    if (!atomic_compare_exchange_strong(&it->troubled, &(int){0}, 1))
        return;
    va_list arguments;
    va_start(arguments, format);
    int size =
        snprintf(it->trouble, sizeof it->trouble, "while %s: ", names[atomic_load(&it->phase)]);
    vsnprintf(it->trouble + size, sizeof it->trouble - (size_t)size, format, arguments);
    va_end(arguments);
    atomic_store(&it->troubled, 2);
}

// ---- looking at the attacked node from outside

// Memory of its own, in bytes: not what it shares with others.
static uint64_t memory_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    char *text = support_read_file(path);
    const char *line = text != NULL ? strstr(text, "RssAnon:") : NULL;
    uint64_t kib = line != NULL ? strtoull(line + strlen("RssAnon:"), NULL, 10) : 0;
    free(text);
    return kib << 10;
}

static uint64_t descriptors_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return (uint64_t)support_count_files(path);
}

// Connections that the system took for this machine's programs, and gave to none of them: they did
// not come for them quickly enough.
static uint64_t connections_dropped(void)
{
    char *text = support_read_file("/proc/net/netstat");
    char *names_at = text != NULL ? strstr(text, "TcpExt:") : NULL;
    char *values = names_at != NULL ? strstr(names_at + 1, "TcpExt:") : NULL;
    char *name = names_at, *value = values, *rest_names = NULL, *rest_values = NULL;
    uint64_t dropped = 0;
    if (values != NULL) {
        values[-1] = '\0';
        name = strtok_r(name, " ", &rest_names);
        value = strtok_r(value, " \n", &rest_values);
    }
    while (values != NULL && name != NULL && value != NULL) {
        if (strcmp(name, "ListenOverflows") == 0 || strcmp(name, "ListenDrops") == 0)
            dropped += strtoull(value, NULL, 10);
        name = strtok_r(NULL, " ", &rest_names);
        value = strtok_r(NULL, " \n", &rest_values);
    }
    free(text);
    return dropped;
}

static void look(score *tally)
{
    siege *board = test.board;
    for (int i = 0; i < DOORS; i++) {
        pid_t pid = board->doors[i].pid;
        uint64_t memory = memory_of(pid), descriptors = descriptors_of(pid);
        uint64_t began = test.memory_began[i], grown = memory > began ? memory - began : 0;
        tally->memory_bytes = memory > tally->memory_bytes ? memory : tally->memory_bytes;
        tally->grown_bytes = grown > tally->grown_bytes ? grown : tally->grown_bytes;
        tally->descriptors = descriptors > tally->descriptors ? descriptors : tally->descriptors;
        if (memory == 0 && !support_process_lives(pid))
            board_trouble(board, "process %d of the attacked node has ended", i);
    }
    for (int i = 0; i < 1 + GUESTS; i++)
        if (waitpid(test.nodes[i], NULL, WNOHANG) != 0)
            board_trouble(board, "node %d has ended", i);
}

// False: something is wrong.
static bool spend(int64_t ms, score *tally)
{
    enum { LOOK_MS = 50 };
    for (int64_t until = support_now_ms() + ms; support_now_ms() < until;) {
        look(tally);
        if (atomic_load(&test.board->troubled) == 2)
            return false;
        usleep(LOOK_MS * 1000);
    }
    return true;
}

// ---- phases

static pid_t begin_attack(phase what, uint64_t seed)
{
    pid_t attacker = fork();
    if (attacker != 0)
        return attacker;
    stranger_budget budget;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    stranger_budget_begin(&budget, 0.1);
    if (what == HOLDER || what == IMPOSTOR)
        strangers_hold(test.board, what == IMPOSTOR, seed, &budget);
    else
        strangers_attack(test.board, what, seed, &budget);
    _exit(0);
}

static uint64_t us_of(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

// The attackers have `used` of a CPU what they may, by the system's account.
static void end_attack(phase what, pid_t attacker, int64_t began_ms)
{
    score *tally = &test.board->tallies[what];
    struct rusage used;
    int status = 0;
    atomic_store(&test.board->attack_over, 1);
    if (wait4(attacker, &status, 0, &used) != attacker || status != 0)
        board_trouble(test.board, "the attacker has ended with status %d", status);
    tally->cpu_us += us_of(used.ru_utime) + us_of(used.ru_stime);
    tally->wall_us += (uint64_t)(support_now_ms() - began_ms) * 1000;
    tally->turns++;
}

// All connections of the attackers have ended: each process has about as many descriptors as
// without.
static void await_gone(void)
{
    enum { SOME = 24 };
    int64_t until = support_now_ms() + HUNG_MS;
    for (int i = 0; i < DOORS; i++)
        while (descriptors_of(test.board->doors[i].pid) > test.descriptors_before[i] + SOME &&
               atomic_load(&test.board->troubled) == 0) {
            usleep(10000);
            if (support_now_ms() > until)
                board_trouble(test.board, "process %d keeps what strangers have left", i);
        }
}

static bool run_phase(phase what, int64_t ms, uint64_t seed)
{
    siege *board = test.board;
    int64_t began_ms = support_now_ms();
    atomic_store(&board->attack_over, 0);
    atomic_store(&board->phase, what);
    for (int i = 0; i < DOORS; i++)
        test.memory_began[i] = memory_of(board->doors[i].pid);
    pid_t attacker = what != QUIET ? begin_attack(what, seed) : 0;
    bool good = spend(ms, &board->tallies[what]);
    measure_window(what, &board->tallies[what]);
    if (attacker > 0)
        end_attack(what, attacker, began_ms);
    if (attacker > 0)
        await_gone();
    return good;
}

// Every kind in turn, between times without any.
static void test_attack(void **state)
{
    (void)state;
    siege *board = test.board;
    int64_t until = support_now_ms() + (int64_t)test.seconds * 1000;
    enum { HOLDERS = 3 }; // The one with the keys takes so much longer, having more to say.
    int64_t share = (int64_t)test.seconds * 1000 / (2 * (PHASES - 1) + HOLDERS - 1);
    enum { WINDOW_MS = 4000, FIRST_MS = 500 };
    share = share < WINDOW_MS ? share : WINDOW_MS;
    for (int i = 0; i < DOORS; i++)
        test.memory_began[i] = memory_of(board->doors[i].pid);
    bool good = spend(FIRST_MS, &board->tallies[QUIET]);
    test.dropped = connections_dropped();
    for (int i = 0; i < DOORS; i++) {
        test.memory_before[i] = memory_of(board->doors[i].pid);
        test.descriptors_before[i] = descriptors_of(board->doors[i].pid);
    }
    for (uint64_t round = 0; good && support_now_ms() < until; round++)
        for (phase what = QUIET + 1; what < PHASES && good; what++)
            good = (test.only != QUIET && test.only != what) ||
                   (run_phase(QUIET, share, 0) &&
                    run_phase(what, what == HOLDER ? HOLDERS * share : share,
                              test.seed + round * PHASES + what));
    good = good && run_phase(QUIET, share, 0);
    if (atomic_load(&board->troubled) == 2)
        fail_msg("%s", board->trouble);
    assert_int_equal(atomic_load(&board->troubled), 0);
    for (phase what = QUIET; what < PHASES && test.only == QUIET; what++)
        assert_true(board->tallies[what].calls > 0);
}

// ---- what came of it

static void test_print_all(void **state)
{
    (void)state;
    for (phase what = QUIET; what < PHASES; what++) {
        const score *it = &test.board->tallies[what];
        int windows;
        double ratio = measure_ratio(what, &windows);
        print_message("%-8s %7llu calls, p50 %.0f p99 %.0f us (in %d windows %.2f times that "
                      "without), slowest %.1f ms; %llu fresh (%llu refused), %llu joined\n",
                      names[what], (unsigned long long)it->calls,
                      measure_percentile_us(it->bins, 0.5), measure_percentile_us(it->bins, 0.99),
                      windows, ratio, (double)it->slowest_ns / 1e6, (unsigned long long)it->fresh,
                      (unsigned long long)it->fresh_refused, (unsigned long long)it->joined);
        print_message("         %llu connections (%llu seen shut), %llu with the keys, %llu frames "
                      "(%llu sure), %.2f s CPU in %.2f s; %.1f MiB (%.1f more), %llu descriptors\n",
                      (unsigned long long)it->opened, (unsigned long long)it->shut,
                      (unsigned long long)it->knocks, (unsigned long long)it->frames,
                      (unsigned long long)it->sure, (double)it->cpu_us / 1e6,
                      (double)it->wall_us / 1e6, (double)it->memory_bytes / (1 << 20),
                      (double)it->grown_bytes / (1 << 20), (unsigned long long)it->descriptors);
    }
}

// What node.h and docs/internals/runtime/zeromq.md allow the attackers to take of a process.
static void test_memory_and_descriptors(void **state)
{
    (void)state;
    enum {
        CLAIM = 68 << 10, // Of who is not let in yet,
        OWN = 32 << 10,   // and what libzmq has for each connection.
        ACTORS = 5,       // That somebody could ask for.
        // With the keys: for 128 connections a second to say something outside of sessions, which
        // end a second later, or half of one more where libzmq's thread has to wait for a CPU; and
        // for those of who has the keys, and honest ones.
        ANSWERS = 256 * 3 / 2,
        FEW = 64,
        // With the keys: processes, actors that are paused, watchers, and calls that are given up.
        // What comes in a window is taken at once here, and does not count.
        // Two descriptors are a connection over which something is said.
        LISTS =
            TRP_PROCESSES_MAX * 1024 + 4096 * 64 + ACTORS * (1024 + 4096) * 128 + ANSWERS / 2 * OWN,
        REST = 4 << 20, // Pages that are in use in part.
    };
    uint64_t own = 0, own_descriptors = 0, most_beyond = 0;
    bool keeps = false; // What was given up, for long.
#if defined(__SANITIZE_ADDRESS__)
    keeps = true;
#endif
    for (int i = 0; i < DOORS; i++) {
        uint64_t memory = test.memory_before[i], descriptors = test.descriptors_before[i];
        own = memory > own ? memory : own;
        own_descriptors = descriptors > own_descriptors ? descriptors : own_descriptors;
    }
    uint64_t some = own_descriptors + STRANGERS;
    for (phase what = GARBAGE; what <= CLAIMS; what++) {
        uint64_t most = test.board->tallies[what].descriptors;
        most_beyond = most > some + most_beyond ? most - some : most_beyond;
    }
    for (phase what = QUIET; what < PHASES; what++) {
        const score *it = &test.board->tallies[what];
        uint64_t beyond = it->descriptors > some ? it->descriptors - some : 0;
        uint64_t strangers = STRANGERS * (uint64_t)CLAIM + (STRANGERS + beyond) * OWN;
        // What was given up stays with the process, for the next.
        uint64_t ever = STRANGERS * (uint64_t)CLAIM + (STRANGERS + most_beyond) * OWN;
        if (it->memory_bytes > own + ever + LISTS + REST && !keeps)
            fail_msg("%s: a process had %llu bytes, %llu before", names[what],
                     (unsigned long long)it->memory_bytes, (unsigned long long)own);
        uint64_t most = REST + (what == HOLDER || what == IMPOSTOR ? (uint64_t)LISTS : strangers);
        if (it->grown_bytes > most && !keeps)
            fail_msg("%s: a process took %llu bytes more, of at most %llu", names[what],
                     (unsigned long long)it->grown_bytes, (unsigned long long)most);
        // Some are beyond the limit for as long as the doorman has not heard of them.
        uint64_t descriptors = what == HOLDER || what == IMPOSTOR ? own_descriptors + ANSWERS + FEW
                                                                  : some + TRP_CONNECTIONS_LATE;
        if (it->descriptors > descriptors)
            fail_msg("%s: a process had %llu of %d descriptors, %llu before", names[what],
                     (unsigned long long)it->descriptors, DESCRIPTORS,
                     (unsigned long long)own_descriptors);
    }
}

// By the system's account, and with what it costs to end.
static void test_attackers_had_little(void **state)
{
    (void)state;
    for (phase what = QUIET + 1; what < PHASES; what++) {
        const score *it = &test.board->tallies[what];
        uint64_t most = it->wall_us / 10 + it->turns * 20000;
        if (it->cpu_us > most)
            fail_msg("%s: %llu us of a CPU in %llu us", names[what], (unsigned long long)it->cpu_us,
                     (unsigned long long)it->wall_us);
        if (it->turns > 0)
            assert_true(it->opened + it->frames > 0);
    }
}

static uint64_t frames_refused(void)
{
    uint64_t refused = 0;
    for (int i = 0; i < DOORS; i++)
        refused += atomic_load(&test.board->doors[i].refused);
    return refused;
}

typedef struct sums {
    uint64_t sure, frames; // So many frames are refused at least, and at most;
    uint64_t least, most;  // and so many connections.
} sums;

static bool are_counted(void *expected)
{
    const sums *it = expected;
    return frames_refused() >= it->sure && atomic_load(&test.board->strangers) >= it->least;
}

// A connection is refused once for each that a stranger has made, unless the system has given it to
// nobody. Of the others those count too that ended before they were let in: who has the keys says
// something and goes, honest processes end and leave. While the guests have gone and nobody new is
// there, no connection is on its way.
static void test_all_is_counted(void **state)
{
    (void)state;
    sums all = {0};
    uint64_t dropped = connections_dropped() - test.dropped;
    for (phase what = QUIET; what < PHASES; what++) {
        const score *it = &test.board->tallies[what];
        all.sure += it->sure;
        all.frames += it->frames;
        all.least += it->opened;
        all.most += it->opened + it->knocks + it->fresh + it->joined;
    }
    all.least -= dropped < all.least ? dropped : all.least;
    (void)support_wait_until(are_counted, &all, SUPPORT_SOON_MS);
    uint64_t refused = frames_refused(), strangers = atomic_load(&test.board->strangers);
    print_message("%llu frames refused, %llu to %llu expected; %llu strangers, %llu to %llu\n",
                  (unsigned long long)refused, (unsigned long long)all.sure,
                  (unsigned long long)all.frames, (unsigned long long)strangers,
                  (unsigned long long)all.least, (unsigned long long)all.most);
    assert_in_range(refused, all.sure, all.frames);
    assert_in_range(strangers, all.least, all.most);
}

// Each attacker beside the quiet times on both sides of it.
static void test_how_long_calls_took(void **state)
{
    (void)state;
    for (phase what = QUIET + 1; what < PHASES && test.strict; what++) {
        int windows;
        double ratio = measure_ratio(what, &windows);
        if (ratio > 3)
            fail_msg(
                "%s: 99 of 100 calls took at most %.2f times as long as without (the median of %d)",
                names[what], ratio, windows);
    }
}

// What it wrote has nothing in it that a terminal would obey, and no sanitizer's report.
static void test_what_was_logged(void **state)
{
    (void)state;
    char *log = support_read_file(test.board->log);
    assert_non_null(log);
    for (const char *at = log; *at != '\0'; at++)
        if ((*at >= 0 && *at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f)
            fail_msg("byte %d is %d in the log: %.60s", (int)(at - log), *at, at + 1);
    static const char *const never[] = {"Sanitizer", "runtime error", "Assertion", "assert"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(log, never[i]) != NULL)
            support_fail_output(log, "it says '%s'", never[i]);
    free(log);
}

static void expect_end(int first, int count)
{
    assert_true(support_processes_end(test.nodes + first, count, SUPPORT_SOON_MS));
    for (int i = first; i < first + count; i++) {
        int status = -1;
        assert_int_equal(waitpid(test.nodes[i], &status, 0), test.nodes[i]);
        assert_int_equal(status, 0);
    }
}

// All three nodes end in order.
static void test_guests_leave(void **state)
{
    (void)state;
    atomic_store(&test.board->over, 1);
    expect_end(1, GUESTS);
}

static void test_ends(void **state)
{
    (void)state;
    atomic_store(&test.board->over, 2);
    expect_end(0, 1);
}

static void start_nodes(void)
{
    siege *board = test.board;
    for (int i = 0; i < 1 + GUESTS; i++) {
        test.nodes[i] = fork();
        if (test.nodes[i] == 0 && i == 0)
            strangers_host(board);
        if (test.nodes[i] == 0)
            strangers_guest(board, i - 1);
        for (int64_t until = support_now_ms() + 2 * SUPPORT_SOON_MS;
             atomic_load(&board->ready) <= i && support_now_ms() < until &&
             atomic_load(&board->troubled) == 0;)
            usleep(1000);
        if (atomic_load(&board->ready) <= i)
            fail_msg("node %d does not start: %s", i, board->trouble);
    }
}

static int begin(void **state)
{
    (void)state;
    start_nodes();
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 1 + GUESTS; i++)
        if (test.nodes[i] > 0 && support_process_lives(test.nodes[i]))
            (void)kill(test.nodes[i], SIGKILL);
    return 0;
}

int main(int argc, char **argv)
{
#if defined(__SANITIZE_THREAD__)
    return 0; // libzmq, which all of this goes through, is not built for it.
#endif
    if (argc > 1)
        test.seconds = (int)strtol(argv[1], NULL, 10);
    if (argc > 2)
        test.seed = strtoull(argv[2], NULL, 10);
    test.strict = argc > 3 && strcmp(argv[3], "strict") == 0;
    for (phase what = QUIET; what < PHASES && argc > 3; what++)
        test.only = strcmp(argv[3], names[what]) == 0 ? what : test.only;
    char *folder = support_directory_make();
    char *keys = support_path(folder, "cluster.keys"), *log = support_path(folder, "log");
    test.board = support_share(sizeof *test.board);
    test.board->keys = keys;
    snprintf(test.board->log, sizeof test.board->log, "%s", log);
    troupe_must(troupe_keys_make(keys));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attack),
        cmocka_unit_test(test_print_all),
        cmocka_unit_test(test_guests_leave),
        cmocka_unit_test(test_all_is_counted),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_memory_and_descriptors),
        cmocka_unit_test(test_attackers_had_little),
        cmocka_unit_test(test_how_long_calls_took),
        cmocka_unit_test(test_what_was_logged),
    };
    int failed = cmocka_run_group_tests(tests, begin, end);
    if (failed != 0) {
        char *text = support_read_file(log);
        if (text != NULL)
            support_print(text);
        free(text);
    }
    support_directory_remove(folder);
    free(keys);
    free(log);
    return failed;
}
