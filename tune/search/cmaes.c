// cmaes.c: CMA-ES as a searcher. Points belong to the generation that stands when they are given; a
// generation ends when as many of them as its population were observed.
//
// It searches in the unit interval of each dimension that is a number, or an ordered choice, and
// always counts; all others are drawn at random. A point's latent coordinates are mean + sigma * y;
// where a dimension has cells, what is tried is mean + scale * sigma * y, rounded.
#include <troupe/search.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tune/search/cmaes_evolution.h>
#include <tune/search/cmaes_margin.h>
#include <tune/search/searcher.h>
#include <tune/space/dims.h>

enum {
    POPULATION_MAX = 10000,
    ATTEMPTS = 1000, // At a point that may be tried.
    HISTORY = 10,    // Generations without a better score before it starts again, at least.
};

// What is worse than what: a trial that was stopped has a score, but might have got a better one.
typedef enum rank { RANK_COMPLETE, RANK_STOPPED, RANK_VIOLATING, RANK_FAILED } rank;

typedef struct point {
    int number;
    bool drawn;        // Of the distribution; else it was given by other means.
    size_t generation; // Of all since the first, over restarts.
    rank rank;
    double badness, reports; // Within its rank; of stopped ones more reports are better.
    double *y;               // d numbers, and the latent coordinates behind them.
} point;

typedef struct cmaes {
    troupe_searcher base;
    char name[96];
    troupe_cmaes_options how;
    const troupe_problem *problem;
    size_t d;
    size_t *covered; // The dimensions that are searched.
    double *scale;   // Of each, see cmaes_margin.h; of one without cells 1.
    trp_evolution evolution;
    size_t generation, restarts;
    point *running;
    size_t running_count, running_capacity;
    point *observed; // Of this generation: as many as its population at most.
    size_t observed_count;
    const double **ranked; // The ys of a whole generation, the best first.
    double *bests;         // Of the last generations: a ring.
    size_t best_count, best_capacity;
    bool begun; // A trial of its own has been given.
    double warm_score;
    double *scratch; // For suggestions: y, and a point.
} cmaes;

static bool is_covered(const troupe_dim *dim)
{
    if (dim->parent >= 0 || trp_dim_values(dim) == 1)
        return false;
    return dim->kind != TROUPE_DIM_CHOICE || dim->ordered;
}

static const troupe_dim *covered_dim(const cmaes *self, size_t i)
{
    return &self->problem->dims[self->covered[i]];
}

// ---- drawing

static bool within(const cmaes *self, const double *y)
{
    for (size_t i = 0; i < self->d; i++) {
        double at = self->evolution.mean[i] + self->evolution.sigma * y[i];
        if (!trp_margin_has_cells(covered_dim(self, i)) && !(at >= 0 && at < 1))
            return false;
    }
    return true;
}

// A y whose point lies within the bounds: drawn again where it does not, at last moved there.
static void draw_within(const cmaes *self, trp_random *random, double *y)
{
    const trp_evolution *e = &self->evolution;
    for (size_t left = 10 * self->d; left-- > 0;) {
        trp_evolution_draw(e, random, y);
        if (within(self, y))
            return;
    }
    for (size_t i = 0; i < self->d; i++) {
        double at = e->mean[i] + e->sigma * y[i];
        if (!trp_margin_has_cells(covered_dim(self, i)))
            y[i] = (fmin(fmax(at, 0), nextafter(1, 0)) - e->mean[i]) / e->sigma;
    }
}

static void draw_point(const cmaes *self, trp_random *random, double *y, double *x)
{
    const trp_evolution *e = &self->evolution;
    draw_within(self, random, y);
    for (size_t i = 0, next = 0; i < self->problem->dim_count; i++) {
        double value = trp_dim_draw(&self->problem->dims[i], random);
        if (next < self->d && self->covered[next] == i) {
            double unit = e->mean[next] + e->sigma * self->scale[next] * y[next];
            value = trp_dim_at(&self->problem->dims[i], fmin(fmax(unit, 0), nextafter(1, 0)));
            next++;
        }
        x[i] = trp_dim_counts(self->problem->dims, i, x) ? value : (double)NAN;
    }
}

// Trial `number`'s point of the standing generation.
static void draw_trial(const cmaes *self, int number, double *y, double *x)
{
    trp_random random;
    trp_random_seed(&random, self->problem->seed, (uint64_t)number);
    for (int i = 0; i < ATTEMPTS; i++) {
        draw_point(self, &random, y, x);
        if (trp_searcher_allowed(self->problem, x))
            return;
    }
}

static troupe_status cmaes_suggest(troupe_searcher *searcher, int number, double *x)
{
    cmaes *self = (cmaes *)searcher;
    draw_trial(self, number, self->scratch, x);
    return TROUPE_OK;
}

// ---- points

static bool same(const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            return false;
    }
    return true;
}

// Writes a point down as running.
static troupe_status note(cmaes *self, int number, const double *x)
{
    if (self->running_count == self->running_capacity) {
        size_t capacity = self->running_capacity == 0 ? 16 : self->running_capacity * 2;
        point *running = trp_realloc(self->running, capacity * sizeof *running);
        if (running == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu running trials", capacity);
        self->running = running;
        self->running_capacity = capacity;
    }
    double *y = trp_alloc(2 * self->d * sizeof *y);
    if (y == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a point of %zu dimensions", self->d);
    const trp_evolution *e = &self->evolution;
    double *latent = y + self->d, *suggested = self->scratch + self->d;
    draw_trial(self, number, y, suggested);
    bool drawn = same(suggested, x, self->problem->dim_count);
    for (size_t i = 0; i < self->d; i++) {
        if (!drawn) // It takes the value's middle for what was drawn.
            y[i] = (trp_dim_unit(covered_dim(self, i), x[self->covered[i]]) - e->mean[i]) /
                   (e->sigma * self->scale[i]);
        latent[i] = e->mean[i] + e->sigma * y[i];
    }
    self->running[self->running_count++] =
        (point){.number = number, .drawn = drawn, .generation = self->generation, .y = y};
    return TROUPE_OK;
}

static troupe_status cmaes_given(troupe_searcher *searcher, int number, const double *x)
{
    cmaes *self = (cmaes *)searcher;
    self->begun = self->begun || number >= 0;
    return note(self, number, x);
}

static void set_rank(point *at, const troupe_observation *seen)
{
    double score = seen->scores[0];
    at->badness = score;
    at->reports = seen->reports;
    if (seen->ending == TROUPE_ENDING_FAILED || isnan(score)) {
        at->rank = RANK_FAILED;
        at->badness = 0;
    } else if (seen->violation > 0) {
        at->rank = RANK_VIOLATING;
        at->badness = seen->violation;
    } else {
        at->rank = seen->ending == TROUPE_ENDING_STOPPED ? RANK_STOPPED : RANK_COMPLETE;
    }
}

static int compare(const void *left, const void *right)
{
    const point *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->rank == RANK_STOPPED && a->reports != b->reports)
        return a->reports > b->reports ? -1 : 1;
    if (a->badness != b->badness)
        return a->badness < b->badness ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

// ---- generations

static void keep_margins(cmaes *self)
{
    trp_evolution *e = &self->evolution;
    double margin = 1 / ((double)self->d * (double)e->population);
    for (size_t i = 0; i < self->d; i++) {
        double deviation = e->sigma * sqrt(e->covariance[i * self->d + i]);
        if (trp_margin_has_cells(covered_dim(self, i)))
            trp_margin_keep(covered_dim(self, i), deviation, margin, &e->mean[i], &self->scale[i]);
    }
}

// Whether the best scores of the last generations are all alike (TolFun, Hansen, section B.3).
static bool is_flat(cmaes *self, double best)
{
    size_t length = self->best_capacity;
    self->bests[self->best_count++ % length] = best;
    if (self->best_count < length)
        return false;
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < length; i++) {
        least = fmin(least, self->bests[i]);
        most = fmax(most, self->bests[i]);
    }
    return most - least <= 1e-12 * fmax(1, fabs(least));
}

static troupe_status make_room(cmaes *self, size_t population)
{
    point *observed = trp_realloc(self->observed, population * sizeof *observed);
    if (observed != NULL)
        self->observed = observed;
    const double **ranked = trp_realloc((void *)self->ranked, population * sizeof *ranked);
    if (ranked != NULL)
        self->ranked = ranked;
    if (observed == NULL || ranked == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a population of %zu", population);
    return TROUPE_OK;
}

// Starts again somewhere else with twice the population.
static troupe_status restart(cmaes *self)
{
    size_t population = self->evolution.population * 2;
    if (population > POPULATION_MAX)
        return TROUPE_OK;
    TROUPE_TRY(make_room(self, population));
    trp_random random; // Of a stream that no trial has.
    trp_random_seed(&random, self->problem->seed, UINT64_MAX - self->restarts);
    for (size_t i = 0; i < self->d; i++)
        self->scratch[i] = trp_random_unit(&random);
    trp_evolution again;
    TROUPE_TRY(trp_evolution_open(&again, self->d, population, self->scratch, self->how.sigma));
    trp_evolution_close(&self->evolution);
    self->evolution = again;
    self->restarts++;
    self->best_count = 0;
    for (size_t i = 0; i < self->d; i++)
        self->scale[i] = 1;
    return TROUPE_OK;
}

static troupe_status end_generation(cmaes *self)
{
    trp_evolution *e = &self->evolution;
    qsort(self->observed, self->observed_count, sizeof *self->observed, compare);
    for (size_t i = 0; i < e->population; i++)
        self->ranked[i] = self->observed[i].y;
    trp_evolution_update(e, self->ranked);
    double best = self->observed[0].badness;
    bool any = self->observed[0].rank != RANK_FAILED;
    for (size_t i = 0; i < self->observed_count; i++)
        trp_free(self->observed[i].y);
    self->observed_count = 0;
    self->generation++;
    keep_margins(self);
    if (self->how.restarts && ((any && is_flat(self, best)) || trp_evolution_converged(e)))
        return restart(self);
    return TROUPE_OK;
}

// The best trial of earlier studies is where it begins.
static void begin_at(cmaes *self, const point *at)
{
    if (self->begun || at->rank > RANK_STOPPED || !(at->badness < self->warm_score))
        return;
    self->warm_score = at->badness;
    for (size_t i = 0; i < self->d; i++)
        self->evolution.mean[i] = at->y[self->d + i];
}

static troupe_status cmaes_observe(troupe_searcher *searcher, const troupe_observation *seen)
{
    cmaes *self = (cmaes *)searcher;
    size_t found = self->running_count;
    while (found > 0 && self->running[found - 1].number != seen->number)
        found--;
    if (found == 0) { // It was never given.
        TROUPE_TRY(note(self, seen->number, seen->x));
        found = self->running_count;
    }
    point at = self->running[found - 1];
    memmove(&self->running[found - 1], &self->running[found],
            (self->running_count-- - found) * sizeof at);
    set_rank(&at, seen);
    if (at.number < 0) {
        begin_at(self, &at);
        trp_free(at.y);
        return TROUPE_OK;
    }
    const trp_evolution *e = &self->evolution;
    if (at.generation != self->generation) { // It came late: it counts as seen from here.
        for (size_t i = 0; i < self->d; i++)
            at.y[i] = (at.y[self->d + i] - e->mean[i]) / e->sigma;
        at.drawn = false;
    }
    if (!at.drawn)
        trp_evolution_shorten(e, at.y);
    self->observed[self->observed_count++] = at;
    return self->observed_count == e->population ? end_generation(self) : TROUPE_OK;
}

// ---- beginning and end

static troupe_status allocate(cmaes *self)
{
    size_t d = self->d, population = (size_t)self->how.population;
    if (population == 0)
        population = trp_evolution_population(d);
    self->best_capacity = HISTORY + 30 * d / population + 1;
    self->scale = trp_alloc(d * sizeof *self->scale);
    self->bests = trp_alloc(self->best_capacity * sizeof *self->bests);
    self->scratch = trp_alloc((d + self->problem->dim_count) * sizeof *self->scratch);
    if (self->scale == NULL || self->bests == NULL || self->scratch == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for CMA-ES over %zu dimensions", d);
    TROUPE_TRY(make_room(self, population));
    for (size_t i = 0; i < d; i++) {
        self->scale[i] = 1;
        self->scratch[i] = 0.5;
    }
    return trp_evolution_open(&self->evolution, d, population, self->scratch, self->how.sigma);
}

static troupe_status cmaes_begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    cmaes *self = (cmaes *)searcher;
    if (problem->objectives > 1)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "CMA-ES searches for one objective, and there are %zu: "
                           "troupe_search_nsga2 is for several",
                           problem->objectives);
    self->problem = problem;
    self->warm_score = INFINITY;
    self->covered = trp_alloc((problem->dim_count + 1) * sizeof *self->covered);
    if (self->covered == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for CMA-ES");
    for (size_t i = 0; i < problem->dim_count; i++) {
        if (is_covered(&problem->dims[i]))
            self->covered[self->d++] = i;
    }
    if (self->d == 0)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "CMA-ES needs a row that is a range of numbers, or an ordered choice, "
                           "and always counts, and there is none: troupe_search_tpe is for "
                           "choices");
    return allocate(self);
}

static void cmaes_destroy(troupe_searcher *searcher)
{
    cmaes *self = (cmaes *)searcher;
    for (size_t i = 0; i < self->running_count; i++)
        trp_free(self->running[i].y);
    for (size_t i = 0; i < self->observed_count; i++)
        trp_free(self->observed[i].y);
    trp_evolution_close(&self->evolution);
    trp_free(self->running);
    trp_free(self->observed);
    trp_free((void *)self->ranked);
    trp_free(self->covered);
    trp_free(self->scale);
    trp_free(self->bests);
    trp_free(self->scratch);
    trp_free(self);
}

static troupe_status check(const troupe_cmaes_options *how)
{
    if (how->population != 0 && (how->population < 2 || how->population > POPULATION_MAX))
        return troupe_fail(TROUPE_INVALID, "cmaes: population is %d, must be 2 to %d",
                           how->population, POPULATION_MAX);
    if (!(how->sigma >= 0 && how->sigma <= 1))
        return troupe_fail(TROUPE_INVALID,
                           "cmaes: sigma is %g, must be above 0 and at most 1: a share of each "
                           "range",
                           how->sigma);
    return TROUPE_OK;
}

// A study that goes on is asked for the same name, so the options are part of it.
static void set_name(cmaes *self)
{
    char population[24] = "", sigma[40] = "";
    if (self->how.population != 0)
        snprintf(population, sizeof population, ", population %d", self->how.population);
    if (self->how.sigma != 0)
        snprintf(sigma, sizeof sigma, ", sigma %.17g", self->how.sigma);
    const char *restarts = self->how.restarts ? ", restarts" : "";
    snprintf(self->name, sizeof self->name, "CMA-ES%s%s%s", population, sigma, restarts);
}

troupe_searcher *troupe_search_cmaes_with(const troupe_cmaes_options *how)
{
    troupe_cmaes_options options;
    troupe_status taken = TRP_OPTIONS_TAKE("troupe_search_cmaes", options, how);
    if (taken != TROUPE_OK || check(&options) != TROUPE_OK)
        return trp_searcher_refused();
    cmaes *self = trp_alloc(sizeof *self);
    if (self == NULL)
        return trp_searcher_short();
    self->how = options;
    set_name(self);
    if (options.sigma == 0)
        self->how.sigma = 1.0 / 6;
    self->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = self->name,
                                   .begin = cmaes_begin,
                                   .suggest = cmaes_suggest,
                                   .given = cmaes_given,
                                   .observe = cmaes_observe,
                                   .destroy = cmaes_destroy};
    return &self->base;
}
