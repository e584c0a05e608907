// gp.c: the Gaussian process as a searcher: Sobol's points first, then those
// where the process expects the largest improvement. What the process is made
// of is a function of the observations alone: it is made when it is needed, and
// kept until there is another.
#include <troupe/search.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <string.h>
#include <tune/search/gp_likelihood.h>
#include <tune/search/gp_propose.h>
#include <tune/search/gp_targets.h>
#include <tune/search/searcher.h>
#include <tune/search/sobol.h>

enum { STARTUP = 10 };

typedef struct gp {
    troupe_searcher base;
    char name[48];
    size_t startup;
    const troupe_problem *problem;
    troupe_searcher *first; // For the trials before.
    trp_gp_features features;
    double *scores;  // Observed; infinite: it failed, or violates a constraint.
    double *points;  // Of these, rows of coordinates.
    double *targets; // Of all scores, and room for those of a part.
    size_t count, capacity;
    int *running; // Numbers.
    double *running_points;
    size_t running_count, running_capacity;
    bool begun;       // A trial of its own has been given.
    size_t fits_from; // Observations at which hyperparameters are sought first.
    // What was made of these: the process has `made` points, hyperparameters of `fitted`, and is
    // that given `conditioned`.
    trp_gp_process process;
    size_t made, fitted, conditioned;
    double *room; // One point's features.
} gp;

// ---- what it is told

static troupe_status grow(void **rows, size_t size, size_t capacity)
{
    void *grown = trp_realloc(*rows, capacity * size);
    if (grown == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu trials", capacity);
    *rows = grown;
    return TROUPE_OK;
}

static troupe_status gp_given(troupe_searcher *searcher, int number, const double *x)
{
    gp *self = (gp *)searcher;
    size_t d = self->problem->dim_count;
    if (self->running_count == self->running_capacity) {
        size_t capacity = self->running_capacity == 0 ? 16 : self->running_capacity * 2;
        TROUPE_TRY(grow((void **)&self->running, sizeof *self->running, capacity));
        TROUPE_TRY(grow((void **)&self->running_points, (d + 1) * sizeof *x, capacity));
        self->running_capacity = capacity;
    }
    self->running[self->running_count] = number;
    memcpy(self->running_points + self->running_count++ * d, x, d * sizeof *x);
    if (number >= 0 && !self->begun) { // What earlier studies told is learned at once.
        self->begun = true;
        self->fits_from = self->count > self->startup ? self->count : self->startup;
    }
    return TROUPE_OK;
}

static void forget_running(gp *self, int number)
{
    size_t d = self->problem->dim_count, at = self->running_count;
    while (at > 0 && self->running[at - 1] != number)
        at--;
    if (at == 0)
        return;
    size_t behind = self->running_count-- - at;
    memmove(self->running + at - 1, self->running + at, behind * sizeof *self->running);
    memmove(self->running_points + (at - 1) * d, self->running_points + at * d,
            behind * d * sizeof *self->running_points);
}

static troupe_status gp_observe(troupe_searcher *searcher, const troupe_observation *observation)
{
    gp *self = (gp *)searcher;
    size_t d = self->problem->dim_count;
    if (self->count == self->capacity) {
        size_t capacity = self->capacity == 0 ? 32 : self->capacity * 2;
        TROUPE_TRY(grow((void **)&self->scores, sizeof *self->scores, capacity));
        TROUPE_TRY(grow((void **)&self->points, (d + 1) * sizeof *self->points, capacity));
        TROUPE_TRY(grow((void **)&self->targets, 2 * sizeof *self->targets, capacity));
        self->capacity = capacity;
    }
    forget_running(self, observation->number);
    bool bad = observation->ending == TROUPE_ENDING_FAILED || isnan(observation->scores[0]) ||
               observation->violation > 0;
    self->scores[self->count] = bad ? (double)INFINITY : observation->scores[0];
    memcpy(self->points + self->count++ * d, observation->x, d * sizeof *self->points);
    return TROUPE_OK;
}

// ---- the process

// The observations by which hyperparameters are sought: of certain counts of them the last. So
// these do not depend on when a suggestion was asked for.
static size_t fits_at(const gp *self)
{
    size_t at = self->fits_from;
    for (size_t next = at; next <= self->count; next += next < 32 ? 1 : next / 16)
        at = next;
    return at;
}

// Brings the process up to all observations, of which there are targets.
static troupe_status make(gp *self)
{
    size_t d = self->problem->dim_count, at = fits_at(self);
    trp_gp_process *process = &self->process;
    process->count = self->made; // Without those that were running.
    while (self->made < self->count) {
        trp_gp_features_of(&self->features, self->points + self->made * d, self->room);
        TROUPE_TRY(trp_gp_process_add(process, self->room));
        self->made++;
    }
    if (self->fitted != at) {
        double *part = self->targets + self->capacity;
        self->conditioned = 0;
        if (trp_gp_targets(self->scores, at, part))
            TROUPE_TRY(trp_gp_fit(process, at, part));
        self->fitted = at;
    }
    if (self->conditioned == self->count)
        return TROUPE_OK;
    self->conditioned = 0;
    TROUPE_TRY(trp_gp_process_condition(process, self->count, self->targets));
    self->conditioned = self->count;
    return TROUPE_OK;
}

// Supposes of what runs that it turns out as expected; *least: the best target,
// or expectation.
static troupe_status suppose(gp *self, double *least)
{
    enum { LANES = TRP_GP_LANES };
    size_t d = self->problem->dim_count, n = self->count + self->running_count;
    trp_gp_process *process = &self->process;
    size_t size = process->feature_count;
    for (size_t i = 0; i < self->running_count; i++) {
        trp_gp_features_of(&self->features, self->running_points + i * d, self->room);
        TROUPE_TRY(trp_gp_process_add(process, self->room));
    }
    TROUPE_TRY(trp_gp_process_suppose(process));
    double mean[LANES], variance[LANES];
    double *room = trp_alloc((TRP_GP_SCRATCH(n) + LANES * size) * sizeof *room);
    if (room == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu trials", n);
    for (size_t i = self->count; i < n; i += LANES) {
        for (size_t k = 0; k < size * LANES; k++) {
            size_t at = i + k % LANES < n ? i + k % LANES : i;
            room[k] = process->points[at * size + k / LANES];
        }
        trp_gp_process_predict(process, room, mean, variance, NULL, NULL, room + LANES * size);
        for (size_t lane = 0; lane < LANES; lane++)
            *least = fmin(*least, mean[lane]);
    }
    trp_free(room);
    return TROUPE_OK;
}

static troupe_status gp_suggest(troupe_searcher *searcher, int number, double *x)
{
    gp *self = (gp *)searcher;
    size_t d = self->problem->dim_count, best = self->count;
    double least = INFINITY;
    if (self->count < self->startup || !trp_gp_targets(self->scores, self->count, self->targets))
        return self->first->suggest(self->first, number, x);
    TROUPE_TRY(make(self));
    for (size_t i = 0; i < self->count; i++) {
        if (self->scores[i] < INFINITY && self->targets[i] < least) {
            least = self->targets[i];
            best = i;
        }
    }
    TROUPE_TRY(suppose(self, &least));
    trp_random random;
    trp_random_seed(&random, self->problem->seed, (uint64_t)number);
    troupe_status status =
        trp_gp_propose(&self->process, &self->features, least, self->points + best * d, &random, x);
    if (status != TROUPE_END)
        return status;
    trp_searcher_draw(self->problem, number, x); // All has been tried.
    return TROUPE_OK;
}

// ---- beginning and end

static troupe_status gp_begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    gp *self = (gp *)searcher;
    if (problem->objectives > 1)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the Gaussian process searches for one objective, and there are %zu: "
                           "troupe_search_nsga2 is for several",
                           problem->objectives);
    self->problem = problem;
    self->fits_from = self->startup;
    self->first =
        problem->dim_count <= TRP_SOBOL_DIMS ? troupe_search_sobol() : troupe_search_random();
    if (self->first->refusal != TROUPE_OK)
        return troupe_fail(self->first->refusal, "%s", self->first->name);
    if (self->first->begin != NULL)
        TROUPE_TRY(self->first->begin(self->first, problem));
    TROUPE_TRY(trp_gp_features_open(&self->features, problem));
    self->room = trp_alloc((self->features.count + 1) * sizeof *self->room);
    if (self->room == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu dimensions", problem->dim_count);
    return trp_gp_process_open(&self->process, self->features.features, self->features.count,
                               problem->dim_count);
}

static void gp_destroy(troupe_searcher *searcher)
{
    gp *self = (gp *)searcher;
    troupe_searcher_free(&self->first);
    trp_gp_features_close(&self->features);
    trp_gp_process_close(&self->process);
    trp_free(self->scores);
    trp_free(self->points);
    trp_free(self->targets);
    trp_free(self->running);
    trp_free(self->running_points);
    trp_free(self->room);
    trp_free(self);
}

troupe_searcher *troupe_search_gp_with(const troupe_gp_options *how)
{
    troupe_gp_options options;
    if (TRP_OPTIONS_TAKE("troupe_search_gp", options, how) != TROUPE_OK)
        return trp_searcher_refused();
    if (options.startup < 0) {
        troupe_fail(TROUPE_INVALID, "gp: startup is %d, must be at least 1", options.startup);
        return trp_searcher_refused();
    }
    gp *self = trp_alloc(sizeof *self);
    if (self == NULL)
        return trp_searcher_short();
    self->startup = options.startup == 0 ? STARTUP : (size_t)options.startup;
    snprintf(self->name, sizeof self->name, "Gaussian process");
    if (self->startup != STARTUP) // A study that goes on is asked for the same name.
        snprintf(self->name, sizeof self->name, "Gaussian process, startup %zu", self->startup);
    self->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = self->name,
                                   .begin = gp_begin,
                                   .suggest = gp_suggest,
                                   .given = gp_given,
                                   .observe = gp_observe,
                                   .destroy = gp_destroy};
    return &self->base;
}
