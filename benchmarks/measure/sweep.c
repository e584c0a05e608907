// sweep.c: what a sweep costs beside its trials: rows of bench_tune, whose peer is
// compare/peer_ray_tune.py.
//
//     sweep <folder> <quick|full> ROW...
//
// Prints "<row> <value>" for each of these rows. Trials are jobs of this program, each in a process
// of its own. What the sweep and they write goes below the folder, and stays for the caller to
// remove: a file system without a journal looks, for each new file, at all inodes that were removed
// in the last minutes, so that a row would be slowed down by the one before.
#include <harness.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { REPORTS = 50000, QUICK_REPORTS = 1000, TRIALS = 2000, QUICK_TRIALS = 20, MANY = 10000 };

TROUPE_STRUCT(settings, (double, x), (int64_t, reports));

static troupe_status fit(troupe_rank *me, const settings *how)
{
    for (int64_t i = 0; i < how->reports; i++)
        TROUPE_TRY(troupe_report(me, {"loss", how->x}));
    return TROUPE_OK;
}
TROUPE_TRAINER(fit, settings);

// Prints reports or trials a second.
static void measure(const char *row, const char *folder, int trials, int reports)
{
    const troupe_param space[] = {
        TROUPE_UNIFORM(settings, x, 0, 1),
        TROUPE_FIXED(settings, reports, reports),
    };
    troupe_sweep *sweep;
    int64_t start = bench_now_ns();
    troupe_must(troupe_tune(fit, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                            .trials = trials, .search = TROUPE_SEARCH_RANDOM,
                            .train = TROUPE_OPTIONS(troupe_train_options, .storage = folder)));
    double passed = (double)(bench_now_ns() - start) / 1e9;
    int ended = 0;
    for (size_t i = 0; i < troupe_sweep_count(sweep); i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        ended += trial->state == TROUPE_TRIAL_TERMINATED && trial->reports == reports;
    }
    if (ended != trials)
        bench_die("sweep: %d of %d trials came to their end", ended, trials);
    printf("%s %.9g\n", row, 1.0 * trials * (reports > 1 ? reports : 1) / passed);
    fflush(stdout);
    troupe_sweep_free(&sweep);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));
    if (argc < 4)
        bench_die("usage: sweep <folder> <quick|full> ROW...");
    bool quick = strcmp(argv[2], "quick") == 0;
    for (int i = 3; i < argc; i++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/sweep-XXXXXX", argv[1]);
        if (mkdtemp(folder) == NULL)
            bench_die("sweep: cannot make a folder in %s", argv[1]);
        if (strncmp(argv[i], "tune.results", 12) == 0)
            measure(argv[i], folder, 2, quick ? QUICK_REPORTS : REPORTS);
        else if (strncmp(argv[i], "tune.trials.10000", 17) == 0)
            measure(argv[i], folder, MANY, 1);
        else if (strncmp(argv[i], "tune.trials", 11) == 0)
            measure(argv[i], folder, quick ? QUICK_TRIALS : TRIALS, 1);
        else
            bench_die("sweep: there is no row %s", argv[i]);
    }
    return troupe_stop();
}
