// bench_quality.c: how good are the points that searchers find, beside the same samplers of Optuna,
// and the trials that schedulers keep?
//
//     bench_quality [quick] [ROW...]
//     bench_quality check
//
// A row is quality.<searcher>.<function>: functions, spaces and budgets are those of
// tune/functions.c, seeds 1 to 21 (11 for GP), all of it fixed before the first look. A seed is the
// searcher's and the function's instance: both sides search the same instances. Of one objective a
// value is the distance of the best score to the best that there is; of two, the volume that a
// run's points dominate up to (11, 11). A row has the medians with intervals of 95 %, and the
// one-sided p of Mann and Whitney that ours is worse, and that it is better.
//
// Then the counts: on how many rows a searcher is no worse (p >= 0.05), and on how many the default
// one has a better median than Optuna's default.
//
// quality.asha.<family> and quality.hyperband.<family> are schedulers on learning curves
// (tune/curves.h) beside Optuna's pruners, and quality.asha.ray.<family> and
// quality.hyperband.ray.<family> the same with .as_ray beside Ray Tune's. A value is the regret of
// the trial that is taken in the end.
//
// What peers came to is kept in the folder `quality` beside this program, row by row, so that a
// run that was interrupted goes on; ours is searched anew each time. Quick: ours alone, 3 seeds and
// 30 trials. `check` tries the functions and the statistics on what is known of them.
#include "harness_rows.h"
#include "quality_curves.h"
#include "tune/functions.h"
#include "tune/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe.h>

enum { GP_SEEDS = 11, GP_TRIALS = 60, QUICK_SEEDS = 3, QUICK_TRIALS = 30, PEER_SECONDS = 7 * 3600 };

static troupe_searcher *make_tpe(void)
{
    return troupe_search_tpe();
}

static troupe_searcher *make_cmaes(void)
{
    return troupe_search_cmaes();
}

static troupe_searcher *make_nsga2(void)
{
    return troupe_search_nsga2();
}

static troupe_searcher *make_gp(void)
{
    return troupe_search_gp();
}

static const struct searcher {
    const char *name;
    troupe_searcher *(*make)(void);
    double share;         // Of rows that is asked for; 0: none is.
    bool single, several; // The functions that it is tried on: of one objective, of two.
    bool few;             // Of one objective only those of `for_gp`.
    bool better;          // Rows count where the median is better, rather than where no worse.
} searchers[] = {
    {"random", troupe_search_random, .single = true},
    {"default", troupe_search_auto, .single = true, .several = true, .share = 2 / 3.0,
     .better = true},
    {"tpe", make_tpe, .single = true, .share = 0.75},
    {"cmaes", make_cmaes, .single = true, .share = 0.75},
    {"nsga2", make_nsga2, .several = true, .share = 0.75},
    {"gp", make_gp, .single = true, .few = true, .share = 0.75},
};
enum { SEARCHERS = sizeof searchers / sizeof *searchers };

static const char *const for_gp[] = {"branin", "hartmann.6", "ackley.5", "rosenbrock.5",
                                     "bbob.schaffers.5"};

typedef struct sample {
    double values[TUNE_SEEDS];
    size_t count;
    char name[96];              // Whose it is.
    char missing[BENCH_REASON]; // Why it is not there; else empty.
} sample;

static bool is_tried(const struct searcher *by, const tune_function *on)
{
    if (on->objectives > 1)
        return by->several;
    bool listed = !by->few;
    for (size_t i = 0; i < sizeof for_gp / sizeof *for_gp; i++)
        listed |= strcmp(on->name, for_gp[i]) == 0;
    return by->single && listed;
}

// ---- Ours

static void observe(troupe_searcher *searcher, int number, const double *x, const double *scores)
{
    const troupe_observation seen = {
        .size = sizeof seen, .number = number, .x = x, .scores = scores};
    if (searcher->observe != NULL)
        troupe_must(searcher->observe(searcher, &seen));
}

static double search(troupe_searcher *searcher, const tune_function *on, uint64_t seed, int trials)
{
    tune_instance *at = tune_open(on, seed);
    double *scores = calloc((size_t)trials * on->objectives, sizeof *scores), x[TUNE_DIMS_MAX];
    const troupe_problem problem = {.size = sizeof problem,
                                    .dims = on->dims,
                                    .dim_count = on->dim_count,
                                    .objectives = on->objectives,
                                    .seed = seed,
                                    .trials = trials};
    if (at == NULL || scores == NULL)
        bench_die("bench_quality: no memory");
    troupe_must(searcher->refusal);
    if (searcher->begin != NULL)
        troupe_must(searcher->begin(searcher, &problem));
    double best = INFINITY;
    for (int i = 0; i < trials; i++) {
        double *score = &scores[(size_t)i * on->objectives];
        troupe_must(searcher->suggest(searcher, i, x));
        if (searcher->given != NULL)
            troupe_must(searcher->given(searcher, i, x));
        tune_evaluate(at, x, score);
        observe(searcher, i, x, score);
        best = fmin(best, score[0]);
    }
    if (on->objectives > 1)
        best = tune_volume(scores, (size_t)trials);
    free(scores);
    tune_close(at);
    troupe_searcher_free(&searcher);
    return best;
}

// ---- Peers

static bool kept_path(const char *row, char *path, size_t capacity)
{
    char name[160];
    if (!bench_path("quality", path, capacity))
        return false;
    mkdir(path, 0777);
    snprintf(name, sizeof name, "quality/%s", row);
    return bench_path(name, path, capacity);
}

// Reads "peer <name>" and "value <number>" lines. False: there are not as many.
static bool read_values(const char *out, size_t seeds, sample *theirs)
{
    theirs->count = 0;
    for (const char *line = out; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        double value;
        if (sscanf(line, "peer %95[^\n]", theirs->name) == 1)
            continue;
        if (theirs->count < seeds && sscanf(line, "value %lf", &value) == 1)
            theirs->values[theirs->count++] = value;
    }
    return theirs->count == seeds;
}

// Has a peer's program print its values, unless they are kept.
static void ask_peer(const char *row, const char *const *command, size_t seeds, sample *theirs)
{
    static char out[8192];
    char path[512];
    bool keeps = kept_path(row, path, sizeof path);
    FILE *kept = keeps ? fopen(path, "re") : NULL;
    if (kept != NULL) {
        out[fread(out, 1, sizeof out - 1, kept)] = 0;
        fclose(kept);
        if (read_values(out, seeds, theirs))
            return;
    }
    if (!bench_run(command, PEER_SECONDS, out, sizeof out, theirs->missing))
        return;
    if (!read_values(out, seeds, theirs)) {
        snprintf(theirs->missing, sizeof theirs->missing, "%zu values of %zu", theirs->count,
                 seeds);
        return;
    }
    // Beside its place first: who is interrupted leaves no half of a row.
    char draft[sizeof path + 4];
    snprintf(draft, sizeof draft, "%s.new", path);
    kept = keeps ? fopen(draft, "we") : NULL;
    if (kept == NULL)
        return;
    fputs(out, kept);
    if (fclose(kept) == 0)
        rename(draft, path);
}

static void search_theirs(const char *row, const struct searcher *by, const tune_function *on,
                          size_t seeds, int trials, sample *theirs)
{
    char count[16], budget[16];
    snprintf(count, sizeof count, "%zu", seeds);
    snprintf(budget, sizeof budget, "%d", trials);
    snprintf(theirs->name, sizeof theirs->name, "Optuna");
    const char *command[] = {
        "compare/peer_optuna", "quality", by->name, on->name, budget, count, NULL};
    ask_peer(row, command, seeds, theirs);
}

// ---- Rows

typedef struct count {
    int rows, no_worse, better, clearly_better;
} count;

static bool are_same(const sample *ours, const sample *theirs)
{
    bool same = ours->count == theirs->count;
    for (size_t i = 0; i < ours->count && same; i++)
        same = ours->values[i] == theirs->values[i];
    return same;
}

// `unit`: "volume", of which more is better, or another, of which less is.
static void print_row(const char *row, const char *unit, int trials, const sample *ours,
                      const sample *theirs, count *counted)
{
    bool volume = strcmp(unit, "volume") == 0;
    tune_summary a = tune_summarize(ours->values, ours->count);
    printf("{\"name\": \"%s\", \"unit\": \"%s\", \"trials\": %d, \"seeds\": %zu, \"value\": %.5g, "
           "\"min\": %.5g, \"max\": %.5g",
           row, unit, trials, ours->count, a.median, a.low, a.high);
    if (theirs->missing[0] != 0 || theirs->count == 0) {
        if (!bench_rows_quick())
            printf(", \"peer\": \"%s\", \"peer_value\": null, \"note\": \"missing: %s\"",
                   theirs->name, theirs->missing);
        printf("}\n");
        fflush(stdout);
        return;
    }
    tune_summary b = tune_summarize(theirs->values, theirs->count);
    double more = tune_larger(ours->values, ours->count, theirs->values, theirs->count);
    double less = tune_larger(theirs->values, theirs->count, ours->values, ours->count);
    double worse = volume ? less : more, better = volume ? more : less;
    bool ahead = volume ? a.median > b.median : a.median < b.median;
    printf(", \"peer\": \"%s\", \"peer_value\": %.5g, \"peer_min\": %.5g, \"peer_max\": %.5g, "
           "\"p_worse\": %.3g, \"p_better\": %.3g, \"note\": \"%s\"}\n",
           theirs->name, b.median, b.low, b.high, worse, better,
           are_same(ours, theirs) ? "the same of every seed"
           : worse < 0.05         ? "worse"
           : better < 0.05        ? "better"
                                  : "no difference that shows");
    fflush(stdout);
    counted->rows++;
    counted->no_worse += worse >= 0.05;
    counted->better += ahead;
    counted->clearly_better += better < 0.05;
}

static bool measure(const struct searcher *by, const tune_function *on, count *counted)
{
    char row[128];
    static sample ours, theirs;
    snprintf(row, sizeof row, "quality.%s.%s", by->name, on->name);
    if (!is_tried(by, on) || !bench_rows_wanted(row))
        return false;
    size_t seeds = by->few ? GP_SEEDS : TUNE_SEEDS;
    int trials = by->few && on->objectives == 1 ? GP_TRIALS : on->trials;
    if (bench_rows_quick()) {
        seeds = QUICK_SEEDS;
        trials = QUICK_TRIALS;
    }
    memset(&ours, 0, sizeof ours);
    memset(&theirs, 0, sizeof theirs);
    for (ours.count = 0; ours.count < seeds; ours.count++)
        ours.values[ours.count] = search(by->make(), on, ours.count + 1, trials);
    if (!bench_rows_quick())
        search_theirs(row, by, on, seeds, trials, &theirs);
    print_row(row, on->objectives > 1 ? "volume" : "distance", trials, &ours, &theirs, counted);
    return true;
}

// ---- Schedulers

static const struct scheduler {
    const char *name, *peer; // "asha", "asha.ray".
    bool hyperband, as_ray;
} schedulers[] = {
    {"asha", "Optuna", false, false},
    {"asha.ray", "Ray Tune", false, true},
    {"hyperband", "Optuna", true, false},
    {"hyperband.ray", "Ray Tune", true, true},
};
enum { SCHEDULERS = sizeof schedulers / sizeof *schedulers };

static double sweep(const struct scheduler *by, const char *family, uint64_t seed)
{
    tune_curves *of = tune_curves_open(family, seed);
    if (of == NULL)
        bench_die("bench_quality: no curves %s", family);
    int limit = tune_curves_epochs(of);
    troupe_scheduler *scheduler = by->hyperband
                                      ? troupe_hyperband(.limit = limit, .as_ray = by->as_ray)
                                      : troupe_asha(.limit = limit, .as_ray = by->as_ray);
    double regret = quality_sweep(of, scheduler, seed);
    tune_curves_close(of);
    return regret;
}

static bool measure_scheduler(const struct scheduler *by, const char *family, count *counted)
{
    char row[128], seeds[16];
    static sample ours, theirs;
    snprintf(row, sizeof row, "quality.%s.%s", by->name, family);
    if (!bench_rows_wanted(row))
        return false;
    memset(&ours, 0, sizeof ours);
    memset(&theirs, 0, sizeof theirs);
    size_t runs = bench_rows_quick() ? QUICK_SEEDS : TUNE_SEEDS;
    for (ours.count = 0; ours.count < runs; ours.count++)
        ours.values[ours.count] = sweep(by, family, ours.count + 1);
    snprintf(seeds, sizeof seeds, "%zu", runs);
    snprintf(theirs.name, sizeof theirs.name, "%s", by->peer);
    const char *name = by->hyperband ? "hyperband" : "asha";
    const char *optuna[] = {"compare/peer_optuna", "curves", name, family, seeds, NULL};
    const char *ray[] = {"compare/peer_ray_curves", name, family, seeds, NULL};
    if (!bench_rows_quick())
        ask_peer(row, by->as_ray ? ray : optuna, runs, &theirs);
    print_row(row, "regret", TUNE_CURVE_BUDGET, &ours, &theirs, counted);
    return true;
}

static void print_count(const char *name, double wanted, bool better, const count *counted)
{
    int good = better ? counted->better : counted->no_worse;
    if (counted->rows == 0)
        return;
    double share = (double)good / counted->rows;
    printf("{\"name\": \"quality.count.%s\", \"unit\": \"share\", \"value\": %.3g, \"rows\": %d, "
           "\"no_worse\": %d, \"better_median\": %d, \"clearly_better\": %d",
           name, share, counted->rows, counted->no_worse, counted->better, counted->clearly_better);
    if (wanted > 0)
        printf(", \"note\": \"%s on %d of %d rows: at least %.3g was wanted, which %s\"",
               better ? "a better median" : "no worse", good, counted->rows, wanted,
               share >= wanted ? "holds" : "does not hold");
    printf("}\n");
    fflush(stdout);
}

// ---- What is known

static int faults;

static void expect(const char *what, double found, double expected, double within)
{
    if (fabs(found - expected) <= within)
        return;
    fprintf(stderr, "%s: %.9g, expected %.9g\n", what, found, expected);
    faults++;
}

// Where the optimum is, as far as the functions say. False: they do not.
static bool best_point(const tune_function *on, const tune_instance *at, double *x)
{
    static const double hartmann[] = {0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573};
    bool bbob = strncmp(on->name, "bbob.", 5) == 0, ones = strncmp(on->name, "rosen", 5) == 0;
    for (size_t i = 0; i < on->dim_count; i++)
        x[i] = ones ? 1 : at->best[i];
    if (strcmp(on->name, "branin") == 0) {
        x[0] = 9.42478;
        x[1] = 2.475;
    }
    if (strcmp(on->name, "hartmann.6") == 0)
        memcpy(x, hartmann, sizeof hartmann);
    if (strcmp(on->name, "mixed.network") == 0) {
        x[1] = pow(10, at->numbers[3 + (int)x[0]]);
        x[3] = pow(10, x[3]);
    }
    return bbob || on->objectives == 1;
}

// No point is better than the best, and that is as good as it should be.
static void check_function(const tune_function *on)
{
    for (uint64_t instance = 1; instance <= 5; instance++) {
        tune_instance *at = tune_open(on, instance);
        double x[TUNE_DIMS_MAX] = {0}, scores[2] = {0}, lowest = INFINITY;
        if (at == NULL)
            bench_die("bench_quality: no memory");
        if (best_point(on, at, x)) {
            tune_evaluate(at, x, scores);
            expect(on->name, scores[0], 0, 1e-6);
        }
        for (int i = 0; i < 2000; i++) {
            for (size_t k = 0; k < on->dim_count; k++) {
                const troupe_dim *dim = &on->dims[k];
                bool whole = dim->kind != TROUPE_DIM_REAL;
                x[k] = tune_uniform(at, dim->low, dim->high + (whole ? 1 : 0));
                x[k] = whole ? floor(x[k]) : x[k];
            }
            tune_evaluate(at, x, scores);
            for (size_t k = 0; k < on->objectives; k++)
                lowest = fmin(lowest, isfinite(scores[k]) ? scores[k] : -INFINITY);
        }
        expect(on->name, fmin(lowest, on->objectives > 1 ? -1 : 0), on->objectives > 1 ? -1 : 0,
               1e-6);
        tune_close(at);
    }
}

// A trial reports at the end what it comes to, but for noise, and one is the best of all.
static void check_curves(const char *family)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        tune_curves *of = tune_curves_open(family, seed);
        if (of == NULL)
            bench_die("bench_quality: no curves %s", family);
        int last = tune_curves_epochs(of), falls = 0;
        double least = INFINITY, low = INFINITY, high = -INFINITY;
        for (int i = 0; i < tune_curves_trials(of); i++) {
            double regret = tune_curves_regret(of, i), score = tune_curves_score(of, i, last);
            least = fmin(least, regret);
            low = fmin(low, score - regret);
            high = fmax(high, score - regret);
            falls += score < tune_curves_score(of, i, 1);
            expect(family, tune_curves_pace(of, i), 1, 0.5);
        }
        expect(family, least, 0, 0);
        expect(family, low, high, 0.12);
        expect(family, falls, tune_curves_trials(of), 0.02 * tune_curves_trials(of));
        double ours = quality_sweep(of, troupe_asha(.limit = last), seed);
        double again = quality_sweep(of, troupe_asha(.limit = last), seed);
        expect(family, ours, again, 0);
        expect(family, ours, 0, 0.5);
        tune_curves_close(of);
    }
}

static int check(void)
{
    for (size_t i = 0; i < tune_function_count(); i++)
        check_function(tune_function_at(i));
    for (size_t i = 0; tune_curve_family(i) != NULL; i++)
        check_curves(tune_curve_family(i));
    // ZDT at x = (1/4, 0 ..), where g is 1.
    const double wanted[] = {0.5, 1 - 1 / 16.0, 1 - 0.5 - 0.25};
    for (int i = 0; i < 3; i++) {
        const char *const names[] = {"zdt.1", "zdt.2", "zdt.3"};
        double x[TUNE_DIMS_MAX] = {0.25}, scores[2];
        tune_instance *at = tune_open(tune_function_named(names[i]), 1);
        tune_evaluate(at, x, scores);
        expect(names[i], scores[0], 0.25, 0);
        expect(names[i], scores[1], wanted[i], 1e-12);
        tune_close(at);
    }
    expect("volume", tune_volume((double[]){1, 10, 2, 9, 3, 9, 12, 0}, 4), 19, 1e-12);
    // The interval of 21 values is from the sixth to the sixteenth.
    double values[TUNE_SEEDS], others[TUNE_SEEDS];
    for (int i = 0; i < TUNE_SEEDS; i++) {
        values[i] = (i * 8) % TUNE_SEEDS;
        others[i] = i - 5.5;
    }
    tune_summary found = tune_summarize(values, TUNE_SEEDS);
    expect("median", found.median, 10, 0);
    expect("low", found.low, 5, 0);
    expect("high", found.high, 15, 0);
    // scipy.stats.mannwhitneyu(alternative="greater", method="asymptotic").
    expect("p", tune_larger(values, TUNE_SEEDS, others, TUNE_SEEDS), 0.005941936, 1e-6);
    expect("p with ties", tune_larger((double[]){1, 2, 2, 3}, 4, (double[]){1, 1, 2, 2, 2}, 5),
           0.246781395, 1e-6);
    return faults == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return check();
    bench_rows_open(argc, argv);
    count counts[SEARCHERS] = {{0}}, of_schedulers[SCHEDULERS] = {{0}};
    bool any = false;
    for (size_t i = 0; i < SEARCHERS; i++)
        for (size_t k = 0; k < tune_function_count(); k++)
            any |= measure(&searchers[i], tune_function_at(k), &counts[i]);
    for (size_t i = 0; i < SCHEDULERS; i++)
        for (size_t k = 0; tune_curve_family(k) != NULL; k++)
            any |= measure_scheduler(&schedulers[i], tune_curve_family(k), &of_schedulers[i]);
    for (size_t i = 0; i < SEARCHERS; i++)
        print_count(searchers[i].name, searchers[i].share, searchers[i].better, &counts[i]);
    for (size_t i = 0; i < SCHEDULERS; i++)
        print_count(schedulers[i].name, 0, false, &of_schedulers[i]);
    if (!any)
        bench_die("no figure's name begins like that");
    return EXIT_SUCCESS;
}
