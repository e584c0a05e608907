// test_strangers_soak.c: a node that listens, two honest nodes that use it, and all who attack it
// meanwhile, with at most a tenth of a CPU: every call comes back, nothing crashes, memory and
// descriptors stay below what node.h says, and what was refused is counted.
// timeout: 180
// cost: 20
// again: full slow 1500 600 7 strict
//
// test_strangers_soak [SECONDS [SEED [strict | PHASE]]]: strict compares how long the calls took,
// and how many descriptors, too; with a phase's name, that one alone.
#include "strangers.h"
#include <support.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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
    uint64_t memory_before[DOORS], memory_after[DOORS], descriptors_after[DOORS];
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

static void look(score *tally)
{
    siege *board = test.board;
    for (int i = 0; i < DOORS; i++) {
        pid_t pid = board->doors[i].pid;
        uint64_t memory = memory_of(pid), descriptors = descriptors_of(pid);
        tally->memory_bytes = memory > tally->memory_bytes ? memory : tally->memory_bytes;
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
    atomic_fetch_add(&test.board->tallies[what].cpu_us, (uint64_t)(stranger_used(&budget) * 1e6));
    _exit(0);
}

// What an impostor has cut is made again before others come: each node asks again, and is answered.
static void await_mended(void)
{
    siege *board = test.board;
    uint64_t before[1 + GUESTS];
    int64_t until = support_now_ms() + HUNG_MS;
    for (int i = 0; i < 1 + GUESTS; i++)
        before[i] = atomic_load(&board->served[i]);
    for (int i = 0; i < 1 + GUESTS; i++)
        while (atomic_load(&board->served[i]) < before[i] + 2 &&
               atomic_load(&board->troubled) == 0) {
            usleep(1000);
            if (support_now_ms() > until)
                board_trouble(board, "node %d does not come back after the impostor", i);
        }
    atomic_store(&board->lenient, 0);
}

static bool run_phase(phase what, int64_t ms, uint64_t seed)
{
    siege *board = test.board;
    int status = 0;
    atomic_store(&board->attack_over, 0);
    atomic_store(&board->lenient, what == IMPOSTOR);
    atomic_store(&board->phase, what);
    pid_t attacker = what != QUIET ? begin_attack(what, seed) : 0;
    bool good = spend(ms, &board->tallies[what]);
    atomic_store(&board->attack_over, 1);
    if (attacker > 0) {
        pid_t ended = waitpid(attacker, &status, 0);
        if (ended != attacker || status != 0)
            board_trouble(board, "the attacker has ended with status %d", status);
    }
    if (what == IMPOSTOR)
        await_mended();
    return good;
}

// Every kind in turn, each after a time without any.
static void attack(void **state)
{
    (void)state;
    int64_t until = support_now_ms() + (int64_t)test.seconds * 1000;
    enum { HOLDERS = 3 }; // The one with the keys takes so much longer, having more to say.
    int64_t share = (int64_t)test.seconds * 1000 / (2 * (PHASES - 1) + HOLDERS - 1);
    enum { ROUND_MS = 12000, FIRST_MS = 500 };
    share = share < ROUND_MS ? share : ROUND_MS;
    bool good = spend(FIRST_MS, &test.board->tallies[QUIET]);
    for (int i = 0; i < DOORS; i++)
        test.memory_before[i] = memory_of(test.board->doors[i].pid);
    for (uint64_t round = 0; good && support_now_ms() < until; round++)
        for (phase what = QUIET + 1; what < PHASES && good; what++)
            good = (test.only != QUIET && test.only != what) ||
                   (run_phase(QUIET, share, 0) &&
                    run_phase(what, what == HOLDER ? HOLDERS * share : share,
                              test.seed + round * PHASES + what));
    if (atomic_load(&test.board->troubled) == 2)
        fail_msg("%s", test.board->trouble);
    assert_int_equal(atomic_load(&test.board->troubled), 0);
    for (phase what = QUIET; what < PHASES && test.only == QUIET; what++)
        assert_true(test.board->tallies[what].calls > 0);
}

// ---- what came of it

static double percentile_us(const score *tally, double share)
{
    uint64_t all = 0, seen = 0;
    for (int i = 0; i < BINS; i++)
        all += tally->bins[i];
    for (int i = 0; i < BINS; i++) {
        seen += tally->bins[i];
        if (seen > 0 && (double)seen >= share * (double)all)
            return ldexp(8.5 + i % 8, i / 8 - 3) / 1000;
    }
    return 0;
}

static void print_all(void **state)
{
    (void)state;
    for (phase what = QUIET; what < PHASES; what++) {
        const score *it = &test.board->tallies[what];
        print_message(
            "%-16s %7llu calls, p50 %.0f p99 %.0f us, slowest %.1f ms; %llu fresh (%llu refused), "
            "%llu joined, %llu cut; %llu connections (%llu shut), %llu frames (%llu bad), "
            "%.2f s CPU; %.1f MiB, %llu descriptors\n",
            names[what], (unsigned long long)it->calls, percentile_us(it, 0.5),
            percentile_us(it, 0.99), (double)it->slowest_ns / 1e6, (unsigned long long)it->fresh,
            (unsigned long long)it->fresh_refused, (unsigned long long)it->joined,
            (unsigned long long)it->cut, (unsigned long long)it->opened,
            (unsigned long long)it->shut, (unsigned long long)it->frames,
            (unsigned long long)it->bad, (double)it->cpu_us / 1e6,
            (double)it->memory_bytes / (1 << 20), (unsigned long long)it->descriptors);
    }
}

static void memory_and_descriptors(void **state)
{
    (void)state;
    enum { EACH = 128 << 10, REST = 16 << 20, MEMORY_MAX = STRANGERS * EACH + REST };
    uint64_t most = 0;
    bool keeps = false; // What was given up, for long.
#if defined(__SANITIZE_ADDRESS__)
    keeps = true;
#endif
    for (int i = 0; i < DOORS; i++)
        most = test.memory_before[i] > most ? test.memory_before[i] : most;
    for (phase what = QUIET; what < PHASES; what++) {
        const score *it = &test.board->tallies[what];
        if (it->memory_bytes > most + MEMORY_MAX && !keeps)
            fail_msg("%s: a process had %llu bytes, %llu before", names[what],
                     (unsigned long long)it->memory_bytes, (unsigned long long)most);
        if (it->descriptors > DESCRIPTORS * 8 / 10 && test.strict)
            fail_msg("%s: a process had %llu of %d descriptors", names[what],
                     (unsigned long long)it->descriptors, DESCRIPTORS);
    }
}

static void all_is_counted(void **state)
{
    (void)state;
    uint64_t refused = 0;
    const siege *it = test.board;
    for (int i = 0; i < DOORS; i++)
        refused += it->doors[i].refused;
    uint64_t bad = it->tallies[HOLDER].bad + it->tallies[IMPOSTOR].bad;
    print_message("%llu frames refused, %llu strangers\n", (unsigned long long)refused,
                  (unsigned long long)it->strangers);
    assert_true(bad > 0 || test.only != QUIET);
    assert_true(refused >= bad);
    assert_true(it->strangers > 0 || test.only != QUIET);
}

// Not beside the impostor, which may end sessions, and with them what is on its way.
static void how_long_calls_took(void **state)
{
    (void)state;
    double quiet = percentile_us(&test.board->tallies[QUIET], 0.99);
    for (phase what = QUIET + 1; what < IMPOSTOR && test.strict; what++) {
        double attacked = percentile_us(&test.board->tallies[what], 0.99);
        if (attacked > 3 * quiet)
            fail_msg("%s: 99 of 100 calls took at most %.0f us, and %.0f us without", names[what],
                     attacked, quiet);
    }
}

// What it wrote has nothing in it that a terminal would obey, and no sanitizer's report.
static void what_was_logged(void **state)
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

// All three nodes end in order.
static void ends(void **state)
{
    (void)state;
    atomic_store(&test.board->over, 1);
    assert_true(support_processes_end(test.nodes, 1 + GUESTS, SUPPORT_SOON_MS));
    for (int i = 0; i < 1 + GUESTS; i++) {
        int status = -1;
        assert_int_equal(waitpid(test.nodes[i], &status, 0), test.nodes[i]);
        assert_int_equal(status, 0);
    }
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
        cmocka_unit_test(attack),
        cmocka_unit_test(print_all),
        cmocka_unit_test(ends),
        cmocka_unit_test(memory_and_descriptors),
        cmocka_unit_test(all_is_counted),
        cmocka_unit_test(how_long_calls_took),
        cmocka_unit_test(what_was_logged),
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
