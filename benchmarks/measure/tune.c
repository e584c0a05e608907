// tune.c: what a study costs: rows of bench_tune, whose peer is compare/peer_optuna.py.
//
//     tune <folder> <quick|full> ROW...
//
// Prints "<row> <value>" for each of these rows. Spaces have d real dimensions, and what is told
// costs next to nothing to compute.
#include <harness.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum {
    DIMS_MAX = 20,
    RECORDS = 200,
    REOPENED = 80000,
    QUICK_RECORDS = 20,
    QUICK_REOPENED = 1000,
    TEXT = 1024,
};

static const char *folder;
static bool quick;

static troupe_searcher *make_random(void)
{
    return troupe_search_random();
}

static troupe_searcher *make_sobol(void)
{
    return troupe_search_sobol();
}

static troupe_searcher *make_tpe(void)
{
    return troupe_search_tpe();
}

static troupe_searcher *make_cmaes(void)
{
    return troupe_search_cmaes();
}

static troupe_searcher *make_gp(void)
{
    return troupe_search_gp();
}

static troupe_searcher *make_nsga2(void)
{
    return troupe_search_nsga2();
}

// `counted`: trials at the end whose time counts; those before are points to try first, which the
// searcher has only to learn of; 0: all trials are suggested, and the last tenth counts.
static const struct sampler {
    const char *name;
    troupe_searcher *(*make)(void);
    size_t objectives;
    int counted;
} samplers[] = {
    {"random", make_random, 1, 0}, {"sobol", make_sobol, 1, 0}, {"tpe", make_tpe, 1, 50},
    {"cmaes", make_cmaes, 1, 0},   {"gp", make_gp, 1, 3},       {"nsga2", make_nsga2, 2, 0},
};
enum { SAMPLERS = sizeof samplers / sizeof *samplers };

static troupe_space *make_space(int dims)
{
    char text[TEXT] = "{";
    size_t used = 1;
    for (int i = 0; i < dims; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s\"x%d\": {\"uniform\": [-5, 5]}", i > 0 ? ", " : "", i);
    snprintf(text + used, sizeof text - used, "}");
    troupe_space *space;
    troupe_must(troupe_space_parse(text, &space));
    return space;
}

// Points for the beginning, as texts.
static char **make_points(int count, int dims)
{
    char **points = calloc((size_t)count + 1, sizeof *points);
    if (points == NULL)
        bench_die("tune: no memory");
    srand48(1);
    for (int i = 0; i < count; i++) {
        char text[TEXT] = "{";
        size_t used = 1;
        for (int k = 0; k < dims; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"x%d\": %.17g",
                                     k > 0 ? ", " : "", k, drand48() * 10 - 5);
        snprintf(text + used, sizeof text - used, "}");
        points[i] = strdup(text);
    }
    return points;
}

// Asks for a trial and tells what came of it.
static void step(troupe_study *study, int dims, size_t objectives)
{
    troupe_asked asked;
    troupe_must(troupe_study_ask(study, &asked));
    double sums[2] = {0};
    for (int i = 0; i < dims; i++) {
        sums[0] += asked.x[i] * asked.x[i];
        sums[1] += (asked.x[i] - 1) * (asked.x[i] - 1);
    }
    if (objectives == 1)
        troupe_must(troupe_study_tell(study, asked.number, sums[0]));
    else
        troupe_must(troupe_study_tell_values(study, asked.number, sums, 0));
    troupe_arena_reset();
}

static void measure_suggest(const char *row, const struct sampler *by, int dims, int trials)
{
    static const troupe_goal goals[2] = {TROUPE_MINIMIZE, TROUPE_MINIMIZE};
    int counted = by->counted > 0 ? by->counted : trials / 10;
    int given = by->counted > 0 ? trials - counted : 0;
    troupe_space *space = make_space(dims);
    char **points = make_points(given, dims);
    troupe_study *study;
    troupe_must(troupe_study_open(space, &study, .searcher = by->make(), .trials = trials,
                                  .goals = goals, .goal_count = by->objectives,
                                  .first = (const void *const *)points,
                                  .first_count = (size_t)given));
    for (int i = 0; i < trials - counted; i++)
        step(study, dims, by->objectives);
    int64_t start = bench_now_ns();
    for (int i = 0; i < counted; i++)
        step(study, dims, by->objectives);
    double passed = (double)(bench_now_ns() - start);
    printf("%s %.9g\n", row, passed / 1e3 / counted);
    fflush(stdout);
    troupe_study_free(&study);
    troupe_space_free(&space);
    for (int i = 0; i < given; i++)
        free(points[i]);
    free(points);
}

// "tune.suggest.<sampler>.<dims>.<trials>"
static bool read_suggest(const char *row)
{
    char name[16];
    int dims, trials, used = 0;
    if (sscanf(row, "tune.suggest.%15[a-z0-9].%d.%d%n", name, &dims, &trials, &used) != 3 ||
        row[used] != 0 || dims < 1 || dims > DIMS_MAX || trials < 10)
        return false;
    for (size_t i = 0; i < SAMPLERS; i++)
        if (strcmp(samplers[i].name, name) == 0) {
            measure_suggest(row, &samplers[i], dims, trials);
            return true;
        }
    return false;
}

static troupe_study *open_file(const troupe_space *space, const char *path, bool sync,
                               troupe_open open)
{
    troupe_study *study;
    troupe_must(troupe_study_open(space, &study, .searcher = troupe_search_random(), .file = path,
                                  .sync = sync, .open = open));
    return study;
}

static void measure_record(const char *row)
{
    char path[TEXT];
    int trials = quick ? QUICK_RECORDS : RECORDS;
    snprintf(path, sizeof path, "%s/record.jsonl", folder);
    troupe_space *space = make_space(5);
    troupe_study *study = open_file(space, path, true, TROUPE_OPEN_NEW);
    int64_t start = bench_now_ns();
    for (int i = 0; i < trials; i++)
        step(study, 5, 1);
    printf("%s %.9g\n", row, (double)(bench_now_ns() - start) / 1e3 / trials);
    fflush(stdout);
    troupe_study_free(&study);
    troupe_space_free(&space);
    unlink(path);
}

// From a file with so many trials to the first trial that is asked for and told.
static void measure_reopen(const char *row)
{
    char path[TEXT];
    int trials = quick ? QUICK_REOPENED : REOPENED;
    snprintf(path, sizeof path, "%s/reopen.jsonl", folder);
    troupe_space *space = make_space(5);
    troupe_study *study = open_file(space, path, false, TROUPE_OPEN_NEW);
    for (int i = 0; i < trials; i++)
        step(study, 5, 1);
    troupe_study_free(&study);
    int64_t start = bench_now_ns();
    study = open_file(space, path, false, TROUPE_OPEN_RESUME);
    step(study, 5, 1);
    printf("%s %.9g\n", row, (double)(bench_now_ns() - start) / 1e6);
    fflush(stdout);
    if (troupe_study_count(study) != (size_t)trials + 1)
        bench_die("tune: %zu trials, where %d were expected", troupe_study_count(study),
                  trials + 1);
    troupe_study_free(&study);
    troupe_space_free(&space);
    unlink(path);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        bench_die("usage: tune <folder> <quick|full> ROW...");
    folder = argv[1];
    quick = strcmp(argv[2], "quick") == 0;
    for (int i = 3; i < argc; i++) {
        if (strncmp(argv[i], "tune.record", 11) == 0)
            measure_record(argv[i]);
        else if (strncmp(argv[i], "tune.reopen", 11) == 0)
            measure_reopen(argv[i]);
        else if (!read_suggest(argv[i]))
            bench_die("tune: there is no row %s", argv[i]);
    }
    return 0;
}
