// bench_start.c: how long from starting a program to the answer of its first call, and to its end?
//
//     bench_start [--quick]
//     bench_start --round     prints one round of start.first_call, in us, for bench_actors
//
// start.first_call: from before fork and exec of a program like examples/01_counter.c until its
// first call is answered. Peer, for scale: a bare C program, until its main. start.whole: the same
// until that program has ended. Peer: the bare program, until it has ended. start.in.*: inside that
// program: troupe_start, the first spawn (until it is known to have worked), the first call,
// troupe_stop. No peer. Not pinned: a start uses what there is.
#include "harness.h"

#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

extern char **environ;

typedef struct counter {
    int64_t total;
} counter;

static troupe_status counter_add(counter *self, const int64_t *amount, int64_t *total)
{
    self->total += *amount;
    *total = self->total;
    return TROUPE_OK;
}

TROUPE_ACTOR(counter, (counter_add, int64_t, int64_t));

enum { STAGES = 4 };
static const char *const stages[STAGES] = {"troupe_start", "first_spawn", "first_call",
                                           "troupe_stop"};

// The program that is measured: a byte when its first call is answered, its stages at its end.
static int be_measured(int argc, char **argv)
{
    int64_t times[STAGES + 1];
    times[0] = bench_now_ns();
    troupe_must(troupe_start(argc, argv, .workers = 2));
    times[1] = bench_now_ns();
    counter_actor tally = troupe_spawn(counter, .name = "tally");
    troupe_must(troupe_actor_status(tally.address));
    times[2] = bench_now_ns();
    int64_t total = 0;
    troupe_must(troupe_get(int64_t, troupe_call(tally, counter_add, 10), &total));
    times[3] = bench_now_ns();
    if (total != 10 || write(STDOUT_FILENO, "!", 1) != 1)
        return EXIT_FAILURE;
    int status = troupe_stop();
    times[4] = bench_now_ns();
    for (int i = 0; i < STAGES; i++)
        printf("%.6f ", (double)(times[i + 1] - times[i]) / 1e6);
    fflush(stdout);
    return status;
}

typedef struct run {
    double first_ms, whole_ms; // To the first byte, and to the end.
    char text[256];            // What it wrote.
} run;

static bool run_program(const char *const *arguments, run *result)
{
    char path[512];
    int ends[2];
    if (!bench_path(arguments[0], path, sizeof path) || pipe(ends) != 0)
        return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    pid_t pid;
    int64_t start = bench_now_ns();
    bool good = posix_spawn(&pid, path, &actions, NULL, (char *const *)arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got = 1; good && got > 0 && used < sizeof result->text - 1; used += (size_t)got) {
        got = read(ends[0], result->text + used, sizeof result->text - 1 - used);
        if (used == 0)
            result->first_ms = (double)(bench_now_ns() - start) / 1e6;
        good = got >= 0;
    }
    result->text[used] = 0;
    int status = 0;
    good = good && waitpid(pid, &status, 0) == pid && status == 0 && result->text[0] == '!';
    result->whole_ms = (double)(bench_now_ns() - start) / 1e6;
    close(ends[0]);
    return good;
}

static bool print(const char *name, const bench_rounds *ours, const char *peer,
                  const bench_rounds *peers)
{
    return bench_print(&(bench_line){.name = name,
                                     .unit = "ms",
                                     .placement = "not pinned",
                                     .better = BENCH_LOWER,
                                     .ours = ours,
                                     .peer = peer,
                                     .peers = peers});
}

static int print_round(const char *const *measured)
{
    run mine = {0};
    for (int i = 0; i < 2; i++) // The first brings the files into memory.
        if (!run_program(measured, &mine))
            bench_die("bench_start: the program did not end well");
    bench_round_print(bench_round_plain(mine.first_ms * 1e3));
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--measured") == 0)
        return be_measured(argc, argv);
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    static const char *const measured[] = {"bench_start", "--measured", NULL};
    static const char *const bare[] = {"compare/peer_process", "start", NULL};
    if (argc > 1 && strcmp(argv[1], "--round") == 0)
        return print_round(measured);
    static bench_rounds first, whole, bare_first, bare_whole, inside[STAGES];
    for (int i = 0; bench_goes_on(i, quick ? 2 : 21, 10); i++) {
        run mine = {0}, peer = {0};
        double ms[STAGES];
        if (!run_program(measured, &mine) ||
            sscanf(mine.text, "!%lf %lf %lf %lf", &ms[0], &ms[1], &ms[2], &ms[3]) != STAGES) {
            bench_rounds_fail(&first, "the program did not end well");
            bench_rounds_fail(&whole, "the program did not end well");
            break;
        }
        if (!run_program(bare, &peer))
            bench_rounds_fail(&bare_first, "the bare program did not run");
        if (i == 0)
            continue; // The first brings the files into memory.
        bench_rounds_add(&first, bench_round_plain(mine.first_ms));
        bench_rounds_add(&whole, bench_round_plain(mine.whole_ms));
        bench_rounds_add(&bare_first, bench_round_plain(peer.first_ms));
        bench_rounds_add(&bare_whole, bench_round_plain(peer.whole_ms));
        for (int k = 0; k < STAGES; k++)
            bench_rounds_add(&inside[k], bench_round_plain(ms[k]));
    }
    bool good = print("start.first_call", &first, "bare C program, to main", &bare_first);
    good &= print("start.whole", &whole, "bare C program, to its end", &bare_whole);
    for (int k = 0; k < STAGES; k++) {
        char name[64];
        snprintf(name, sizeof name, "start.in.%s", stages[k]);
        good &= print(name, &inside[k], NULL, NULL);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
