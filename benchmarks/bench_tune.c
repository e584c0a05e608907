// bench_tune.c: what does a search cost beside what it searches?
//
//     bench_tune [quick] [ROW...]
//
// tune.suggest.<sampler>.<d>.<n>: the time that asking for a trial and telling its value take, with
// n trials and d real dimensions, nothing being written, and the program being warm.
// tune.record: the same for a random trial whose end is on disk before the call returns.
// tune.record.memory: the same with the file in memory.
// tune.reopen.80000: from a file with 80,000 trials to one more.
// The peer is Optuna (measure/tune, compare/peer_optuna.py).
//
// tune.results, tune.results.files: reports a second that a sweep takes in from two trials which
// do nothing else, its files in memory, and on a disk.
// tune.trials, tune.trials.10000: trials a second that report once, each in a process of its own.
// The peer is Ray Tune (measure/sweep, compare/peer_ray_tune.py).
#include "harness_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 3,
    SECONDS_MAX = 1200,
    PEER_SECONDS_MAX = 600, // For one round of a side.
    OUT_MAX = 8192,
};

// Rows that are measured together by one program of each side, since starting Python takes seconds.
typedef enum group_name { SUGGEST, DISK, MEMORY, SWEEP, SWEEP_MEMORY, GROUPS } group_name;

static const struct group {
    const char *ours, *theirs, *mode; // `mode`: the first argument of the peer; NULL: none.
    const char *peer, *placement;
    bool in_memory;
    int cpus; // 0: wherever it likes.
} groups[GROUPS] = {
    {"measure/tune", "compare/peer_optuna", "tune", "Optuna", "CPU 0", false, 1},
    {"measure/tune", "compare/peer_optuna", "tune", "Optuna", "not pinned, a disk", false, 0},
    {"measure/tune", "compare/peer_optuna", "tune", "Optuna", "not pinned, in memory", true, 0},
    {"measure/sweep", "compare/peer_ray_tune", NULL, "Ray Tune", "not pinned, a disk", false, 0},
    {"measure/sweep", "compare/peer_ray_tune", NULL, "Ray Tune", "not pinned, in memory", true, 0},
};

typedef struct row {
    const char *name, *unit;
    double ratio, least; // Floors, of the ratio and of ours; 0: none.
    group_name in;
    bool slow; // A quick run leaves it out.
} row;

#define SUGGEST_ROWS(sampler, ratio)                                                               \
    {"tune.suggest." sampler ".5.100", "us", 0, 0, SUGGEST, false},                                \
        {"tune.suggest." sampler ".5.1000", "us", ratio, 0, SUGGEST, true},                        \
        {"tune.suggest." sampler ".20.100", "us", 0, 0, SUGGEST, true},                            \
    {                                                                                              \
        "tune.suggest." sampler ".20.1000", "us", 0, 0, SUGGEST, true                              \
    }

static const row rows[] = {
    SUGGEST_ROWS("random", 20),
    {"tune.suggest.random.5.10000", "us", 0, 0, SUGGEST, true},
    {"tune.suggest.random.20.10000", "us", 0, 0, SUGGEST, true},
    SUGGEST_ROWS("sobol", 20),
    SUGGEST_ROWS("tpe", 20),
    {"tune.suggest.tpe.5.10000", "us", 0, 0, SUGGEST, true},
    {"tune.suggest.tpe.20.10000", "us", 0, 0, SUGGEST, true},
    SUGGEST_ROWS("cmaes", 20),
    SUGGEST_ROWS("gp", 20),
    SUGGEST_ROWS("nsga2", 20),
    {"tune.record", "us", 10, 0, DISK, false},
    {"tune.reopen.80000", "ms", 0, 0, DISK, false},
    {"tune.record.memory", "us", 10, 0, MEMORY, false},
    {"tune.results.files", "1/s", 100, 0, SWEEP, false},
    {"tune.trials", "1/s", 0, 1000, SWEEP, false},
    {"tune.trials.10000", "1/s", 0, 0, SWEEP, true},
    {"tune.results", "1/s", 100, 0, SWEEP_MEMORY, false},
    {"tune.trials.memory", "1/s", 0, 1000, SWEEP_MEMORY, false},
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool is_wanted(const row *what)
{
    return bench_rows_wanted(what->name) && !(what->slow && bench_rows_quick());
}

static void add_round(const struct group *by, const char *const *command, size_t first,
                      size_t count, const bool *in_group, bench_rounds *rounds)
{
    static char out[OUT_MAX];
    char reason[BENCH_REASON] = "it printed no such row";
    if (count == first)
        return;
    if (by->cpus > 0)
        bench_pin_first(0, by->cpus);
    // What it printed before it failed counts.
    bench_run(command, PEER_SECONDS_MAX, out, sizeof out, reason);
    if (by->cpus > 0)
        bench_pin(0, BENCH_ANY_CPU);
    for (size_t i = 0; i < ROWS; i++)
        if (in_group[i])
            bench_rows_read(rows[i].name, out, reason, &rounds[i]);
}

// A round of both sides.
static void measure(group_name name, const char *folder, bench_rounds *ours, bench_rounds *theirs)
{
    const struct group *by = &groups[name];
    const char *command[ROWS + 4] = {by->ours, folder, bench_rows_quick() ? "quick" : "full"};
    const char *peer[ROWS + 4] = {by->theirs};
    size_t used = 3, first = 1;
    bool in_group[ROWS];
    if (by->mode != NULL)
        peer[first++] = by->mode;
    peer[first++] = folder;
    size_t peer_used = first;
    for (size_t i = 0; i < ROWS; i++) {
        in_group[i] = rows[i].in == name && is_wanted(&rows[i]);
        if (in_group[i])
            command[used++] = peer[peer_used++] = rows[i].name;
    }
    add_round(by, command, 3, used, in_group, ours);
    if (!bench_rows_quick())
        add_round(by, peer, first, peer_used, in_group, theirs);
}

static void print(const row *what, const bench_rounds *ours, const bench_rounds *theirs)
{
    const struct group *by = &groups[what->in];
    bench_better better = strcmp(what->unit, "1/s") == 0 ? BENCH_HIGHER : BENCH_LOWER;
    char note[128] = "no floor";
    bench_line line = {.name = what->name,
                       .unit = what->unit,
                       .placement = by->placement,
                       .better = better,
                       .ours = ours,
                       .peer = bench_rows_quick() ? NULL : by->peer,
                       .peers = theirs,
                       .note = note};
    if (what->ratio > 0 && line.peer != NULL)
        snprintf(note, sizeof note, "floor: at least %g times the peer's, which %s", what->ratio,
                 bench_ratio(&line) >= what->ratio ? "holds" : "does not hold");
    else if (what->least > 0)
        snprintf(note, sizeof note, "floor: at least %g %s, which %s", what->least, what->unit,
                 bench_rounds_value(ours) >= what->least ? "holds" : "does not hold");
    bench_rows_print(&line);
}

int main(int argc, char **argv)
{
    static bench_rounds ours[ROWS], theirs[ROWS];
    char disk[1024], memory[] = "/dev/shm/troupe-bench-XXXXXX";
    bench_rows_open(argc, argv);
    // Beside the program, and not in /tmp, which may lie in memory.
    if (!bench_path("tune-XXXXXX", disk, sizeof disk) || !mkdtemp(disk) || !mkdtemp(memory))
        bench_die("bench_tune: cannot make a folder beside the program, or in /dev/shm");
    for (int k = 0; bench_goes_on(k, bench_rows_quick() ? 1 : ROUNDS, SECONDS_MAX); k++)
        for (group_name name = 0; name < GROUPS; name++)
            measure(name, groups[name].in_memory ? memory : disk, ours, theirs);
    for (size_t i = 0; i < ROWS; i++)
        if (is_wanted(&rows[i]))
            print(&rows[i], &ours[i], &theirs[i]);
    bench_remove(disk);
    bench_remove(memory);
    return bench_rows_close();
}
