// auto.c: the searcher that chooses others by the space, the number of trials and of objectives.
//
// How well the rule does is measured by benchmarks/bench_quality.c; it was found on other instances
// of the same functions.
#include <math.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <tune/search/searcher.h>
#include <tune/search/sobol.h>
#include <tune/space/dims.h>

typedef struct given_point {
    int number;
    bool running;
} given_point;

typedef struct auto_searcher {
    troupe_searcher base;
    const troupe_problem *problem;
    troupe_searcher *chosen;
    troupe_searcher *first;       // Names the points of the beginning; NULL: the chosen one does.
    int ended;                    // Trials with a result.
    int until;                    // So many results, and CMA-ES goes on; 0: it never does.
    given_point *points;          // What was given out until then,
    double *x;                    // and where: a point's coordinates each.
    size_t count, room;           // Of them.
    size_t best;                  // Among them; count: none has a result.
    double best_score, violation; // The best one's.
    char name[120];
} auto_searcher;

enum {
    BEGINNING = 10, // Results before TPE is asked; until then points are Sobol's, which are even.
    FEW_CANDIDATES = 12, // Of spaces with choices: TPE looks around more than with 24.
    UNKNOWN = 100,       // Trials where it is not known how many there will be.
    FRONT_TRIALS = 400,  // From so many on NSGA-II rather than TPE for several objectives.
    LONG = 150,          // From so many on CMA-ES,
    EVOLVES = 15,        // which needs so many for each dimension
    VALUES = 8,          // and so many values of a number.
    FEW_NUMBERS = 6,     // Up to so many a Gaussian process, where trials are fewer.
    SHARE = 4,           // TPE has this part of the trials before it,
    UNTIL = 100,         // but no more than so many.
};
// CMA-ES begins at the best of these trials with such a step, a share of each range.
static const double first_step = 0.06;

// ---- the choice

typedef struct shape {
    bool grid;    // All dimensions are a grid's.
    bool numbers; // All always count and are numbers, or choices with an order, of several values.
    int count;    // Dimensions with more than one value.
    int trials;
} shape;

static shape shape_of(const troupe_problem *problem)
{
    shape is = {.grid = problem->dim_count > 0,
                .numbers = true,
                .trials = problem->trials > 0 ? problem->trials : UNKNOWN};
    for (size_t i = 0; i < problem->dim_count; i++) {
        const troupe_dim *dim = &problem->dims[i];
        double values = trp_dim_values(dim);
        is.grid = is.grid && dim->grid;
        if (values == 1)
            continue;
        is.count++;
        bool several = values == 0 || values >= VALUES;
        bool number = dim->kind != TROUPE_DIM_CHOICE || dim->ordered;
        is.numbers = is.numbers && several && number && dim->parent < 0;
    }
    return is;
}

static troupe_searcher *choose(auto_searcher *self, const troupe_problem *problem)
{
    shape is = shape_of(problem);
    if (is.grid) // Whose coordinates the study sets.
        return troupe_search_random();
    if (problem->objectives > 1 && is.trials >= FRONT_TRIALS)
        return troupe_search_nsga2(.population = 0);
    if (problem->objectives > 1)
        return troupe_search_tpe(.startup = 0);
    if (!is.numbers)
        return troupe_search_tpe(.candidates = FEW_CANDIDATES);
    if (is.count > 0 && is.trials >= LONG && is.trials >= EVOLVES * is.count) {
        self->until = is.trials / SHARE < UNTIL ? is.trials / SHARE : UNTIL;
    } else if (is.count > 0 && is.count <= FEW_NUMBERS) {
        self->until = LONG; // Its cost grows with the cube of the trials.
        return troupe_search_gp(.startup = 0);
    }
    if (problem->dim_count <= TRP_SOBOL_DIMS)
        self->first = troupe_search_sobol();
    return self->first != NULL ? troupe_search_tpe(.startup = TROUPE_NONE)
                               : troupe_search_tpe(.startup = 0);
}

static troupe_status begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    if (searcher->refusal != TROUPE_OK)
        return troupe_fail(searcher->refusal, "%s", searcher->name);
    return searcher->begin == NULL ? TROUPE_OK : searcher->begin(searcher, problem);
}

static troupe_status auto_begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    auto_searcher *self = (auto_searcher *)searcher;
    self->problem = problem;
    self->chosen = choose(self, problem);
    TROUPE_TRY(begin(self->chosen, problem));
    if (self->first != NULL)
        TROUPE_TRY(begin(self->first, problem));
    bool goes_on = self->until > 0 && (problem->trials == 0 || problem->trials > self->until);
    snprintf(self->name, sizeof self->name, "auto: %s%s", self->chosen->name,
             goes_on ? ", then CMA-ES" : "");
    self->base.name = self->name;
    return TROUPE_OK;
}

// ---- from one to the next

static troupe_status keep_point(auto_searcher *self, int number, const double *x)
{
    size_t width = self->problem->dim_count;
    if (self->count == self->room) {
        size_t room = self->room == 0 ? 32 : self->room * 2;
        given_point *points = trp_realloc(self->points, room * sizeof *points);
        if (points != NULL)
            self->points = points;
        double *grown = trp_realloc(self->x, room * width * sizeof *grown);
        if (grown != NULL)
            self->x = grown;
        if (points == NULL || grown == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu trials of a search", room);
        self->room = room;
    }
    memcpy(self->x + self->count * width, x, width * sizeof *x);
    self->best = self->best == self->count ? self->count + 1 : self->best;
    self->points[self->count++] = (given_point){.number = number, .running = true};
    return TROUPE_OK;
}

static void note_end(auto_searcher *self, const troupe_observation *seen)
{
    size_t at = self->count;
    while (at > 0 && self->points[at - 1].number != seen->number)
        at--;
    if (at-- == 0)
        return;
    self->points[at].running = false;
    size_t width = self->problem->dim_count; // One that cloned another has another point now.
    memcpy(self->x + at * width, seen->x, width * sizeof *self->x);
    double score = seen->scores[0];
    bool better = seen->violation != self->violation ? seen->violation < self->violation
                                                     : score < self->best_score;
    if (seen->ending == TROUPE_ENDING_FAILED || isnan(score))
        return;
    if (self->best < self->count && !better)
        return;
    self->best = at;
    self->best_score = score;
    self->violation = seen->violation;
}

// CMA-ES takes over: it begins at the best point, and knows of what runs.
static troupe_status go_on(auto_searcher *self)
{
    const double *x = self->x + self->best * self->problem->dim_count;
    troupe_observation seen = {.size = sizeof seen,
                               .number = -1,
                               .x = x,
                               .scores = &self->best_score,
                               .violation = self->violation};
    troupe_searcher *next = troupe_search_cmaes(.sigma = first_step, .restarts = true);
    troupe_status status = begin(next, self->problem);
    if (status == TROUPE_OK)
        status = next->given(next, -1, x);
    if (status == TROUPE_OK)
        status = next->observe(next, &seen);
    for (size_t i = 0; i < self->count && status == TROUPE_OK; i++)
        if (self->points[i].running)
            status =
                next->given(next, self->points[i].number, self->x + i * self->problem->dim_count);
    if (status != TROUPE_OK) {
        troupe_searcher_free(&next);
        return status;
    }
    troupe_searcher_free(&self->chosen);
    self->chosen = next;
    self->until = 0;
    return TROUPE_OK;
}

// ---- the calls

static troupe_status auto_suggest(troupe_searcher *searcher, int number, double *x)
{
    auto_searcher *self = (auto_searcher *)searcher;
    bool early = self->first != NULL && self->ended < BEGINNING;
    troupe_searcher *asked = early ? self->first : self->chosen;
    return asked->suggest(asked, number, x);
}

static troupe_status auto_given(troupe_searcher *searcher, int number, const double *x)
{
    auto_searcher *self = (auto_searcher *)searcher;
    if (self->until > 0)
        TROUPE_TRY(keep_point(self, number, x));
    return self->chosen->given == NULL ? TROUPE_OK : self->chosen->given(self->chosen, number, x);
}

static troupe_status auto_report(troupe_searcher *searcher, int number, int report, double score)
{
    troupe_searcher *chosen = ((auto_searcher *)searcher)->chosen;
    return chosen->report == NULL ? TROUPE_OK : chosen->report(chosen, number, report, score);
}

static troupe_status auto_observe(troupe_searcher *searcher, const troupe_observation *seen)
{
    auto_searcher *self = (auto_searcher *)searcher;
    if (self->chosen->observe != NULL)
        TROUPE_TRY(self->chosen->observe(self->chosen, seen));
    self->ended += seen->ending != TROUPE_ENDING_FAILED && !isnan(seen->scores[0]);
    if (self->until == 0)
        return TROUPE_OK;
    note_end(self, seen);
    bool enough = self->ended >= self->until && self->best < self->count;
    return enough ? go_on(self) : TROUPE_OK;
}

static void auto_destroy(troupe_searcher *searcher)
{
    auto_searcher *self = (auto_searcher *)searcher;
    troupe_searcher_free(&self->chosen);
    troupe_searcher_free(&self->first);
    trp_free(self->points);
    trp_free(self->x);
    trp_free(self);
}

troupe_searcher *troupe_search_auto(void)
{
    auto_searcher *self = trp_alloc(sizeof *self);
    if (self == NULL)
        return trp_searcher_short();
    self->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = "auto",
                                   .begin = auto_begin,
                                   .suggest = auto_suggest,
                                   .given = auto_given,
                                   .report = auto_report,
                                   .observe = auto_observe,
                                   .destroy = auto_destroy};
    return &self->base;
}
