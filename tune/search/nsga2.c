// nsga2.c: a population that is crossed, mutated and sorted by several objectives (Deb, Pratap,
// Agarwal and Meyarivan, "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II", IEEE TEVC
// 2002).
//
// Trials run beside each other, so a generation has no moment at which all of it is asked for: it
// is whatever ends while its parents are the same. When `population` trials have ended since, the
// best of these and of the parents are the next parents. One trial at a time, that is the paper's
// algorithm. Crossover is uniform, and mutation draws anew from the prior: so choices, whole
// numbers and coordinates that do not always count need no rules of their own.
#include <troupe/search.h>

#include <math.h>
#include <runtime/base/buffer.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tune/search/fronts.h>
#include <tune/search/searcher.h>
#include <tune/space/dims.h>

enum {
    POPULATION = 50,
    POPULATION_MAX = 10000,
    // Of one suggestion: attempts to cross parents, to find what was not tried before, and to find
    // what is allowed.
    CROSSED_MAX = 100,
    NEW_MAX = 32,
    ATTEMPTS_MAX = 1000,
};

// Trials that have ended: the parents, then those that ended since they were chosen.
typedef struct generation {
    size_t count;
    double *x, *scores, *violations, *crowding;
    int *ranks;
} generation;

typedef struct nsga2 {
    troupe_searcher base;
    troupe_nsga2_options how;
    const troupe_problem *problem;
    generation now, next; // Room for two populations each; `next` is empty between calls.
    size_t parents;
    int *order; // Room for numbers of as many.
    double *distances;
    trp_buffer tried; // A hash of each point that was given.
    char name[160];
} nsga2;

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a population");
}

// Whether a trial is a better parent than another: the crowded comparison of section III-B.
static bool better(const generation *of, size_t a, size_t b)
{
    if (of->ranks[a] != of->ranks[b])
        return of->ranks[a] < of->ranks[b];
    return of->crowding[a] > of->crowding[b];
}

static int better_first(const void *left, const void *right, void *context)
{
    int a = *(const int *)left, b = *(const int *)right;
    if (better(context, (size_t)a, (size_t)b))
        return -1;
    return better(context, (size_t)b, (size_t)a) ? 1 : a - b;
}

// Fills ranks and crowding of all trials, in `next`: should memory be short, nothing has changed.
static troupe_status sort(nsga2 *self)
{
    const generation *now = &self->now;
    generation *next = &self->next;
    size_t objectives = self->problem->objectives;
    TROUPE_TRY(trp_fronts(now->scores, now->violations, now->count, objectives, next->ranks));
    for (int front = 0;; front++) {
        size_t members = 0;
        for (size_t i = 0; i < now->count; i++)
            if (next->ranks[i] == front)
                self->order[members++] = (int)i;
        if (members == 0)
            return TROUPE_OK;
        TROUPE_TRY(trp_crowding(now->scores, objectives, self->order, members, self->distances));
        for (size_t i = 0; i < members; i++)
            next->crowding[self->order[i]] = self->distances[i];
    }
}

// Makes the best of all trials the parents, in the order in which they ended.
static troupe_status turn(nsga2 *self)
{
    generation *now = &self->now, *next = &self->next;
    size_t dims = self->problem->dim_count, objectives = self->problem->objectives;
    TROUPE_TRY(sort(self));
    for (size_t i = 0; i < now->count; i++)
        self->order[i] = (int)i;
    qsort_r(self->order, now->count, sizeof *self->order, better_first, next);
    bool *stays = (bool *)self->distances; // Which is free now, and large enough.
    memset(stays, 0, now->count * sizeof *stays);
    for (int i = 0; i < self->how.population && (size_t)i < now->count; i++)
        stays[self->order[i]] = true;
    next->count = 0;
    for (size_t i = 0; i < now->count; i++) {
        if (!stays[i])
            continue;
        size_t at = next->count++;
        memcpy(&next->x[at * dims], &now->x[i * dims], dims * sizeof *next->x);
        memcpy(&next->scores[at * objectives], &now->scores[i * objectives],
               objectives * sizeof *next->scores);
        next->violations[at] = now->violations[i];
        next->crowding[at] = next->crowding[i];
        next->ranks[at] = next->ranks[i];
    }
    generation before = *now;
    *now = *next;
    *next = before;
    self->parents = now->count;
    return TROUPE_OK;
}

static troupe_status nsga2_observe(troupe_searcher *searcher, const troupe_observation *seen)
{
    nsga2 *self = (nsga2 *)searcher;
    size_t dims = self->problem->dim_count, objectives = self->problem->objectives;
    bool has_score = false;
    for (size_t i = 0; i < objectives; i++)
        has_score |= !isnan(seen->scores[i]);
    if (seen->ending == TROUPE_ENDING_FAILED || !has_score)
        return TROUPE_OK;
    generation *now = &self->now;
    size_t at = now->count++;
    memcpy(&now->x[at * dims], seen->x, dims * sizeof *seen->x);
    memcpy(&now->scores[at * objectives], seen->scores, objectives * sizeof *seen->scores);
    now->violations[at] = seen->violation;
    if (now->count - self->parents < (size_t)self->how.population)
        return TROUPE_OK;
    troupe_status status = turn(self);
    if (status != TROUPE_OK)
        now->count--;
    return status;
}

// Suggesting.

static uint64_t hash(const double *x, size_t count)
{
    uint64_t state = count;
    for (size_t i = 0; i < count; i++) {
        double value = x[i] + 0.0; // Both zeros are one.
        uint64_t bits = 0;
        if (!isnan(value))
            memcpy(&bits, &value, sizeof bits);
        state = trp_random_split(&state) ^ bits;
    }
    return trp_random_split(&state);
}

static bool was_tried(const nsga2 *self, const double *x)
{
    uint64_t wanted = hash(x, self->problem->dim_count);
    const uint64_t *hashes = (const uint64_t *)self->tried.data;
    for (size_t i = 0; i < self->tried.size / sizeof *hashes; i++)
        if (hashes[i] == wanted)
            return true;
    return false;
}

static troupe_status nsga2_given(troupe_searcher *searcher, int number, const double *x)
{
    nsga2 *self = (nsga2 *)searcher;
    (void)number;
    uint64_t point = hash(x, self->problem->dim_count);
    if (!trp_buffer_reserve(&self->tried, sizeof point)) {
        self->tried.failed = false;
        return no_memory();
    }
    trp_buffer_append(&self->tried, &point, sizeof point);
    return TROUPE_OK;
}

static size_t tournament(const nsga2 *self, trp_random *random)
{
    size_t a = trp_random_below(random, self->parents);
    size_t b = trp_random_below(random, self->parents);
    return better(&self->now, b, a) ? b : a;
}

static void breed(const nsga2 *self, trp_random *random, double *x)
{
    const troupe_problem *problem = self->problem;
    size_t first = tournament(self, random), second = tournament(self, random);
    for (int i = 0; second == first && i < 8; i++)
        second = tournament(self, random);
    bool crossed = trp_random_unit(random) < self->how.crossover;
    const double *mother = &self->now.x[first * problem->dim_count];
    const double *father = &self->now.x[second * problem->dim_count];
    for (size_t i = 0; i < problem->dim_count; i++) {
        bool swapped = trp_random_unit(random) < self->how.swap && crossed;
        bool mutated = trp_random_unit(random) < self->how.mutation;
        double drawn = trp_dim_draw(&problem->dims[i], random);
        double value = swapped ? father[i] : mother[i];
        if (isnan(value) && crossed) // It did not count at that parent.
            value = swapped ? mother[i] : father[i];
        if (isnan(value) || mutated)
            value = drawn;
        x[i] = trp_dim_counts(problem->dims, i, x) ? value : (double)NAN;
    }
    trp_dims_snap(problem->dims, problem->dim_count, x); // Parents may have been given.
}

static troupe_status nsga2_suggest(troupe_searcher *searcher, int number, double *x)
{
    const nsga2 *self = (nsga2 *)searcher;
    const troupe_problem *problem = self->problem;
    trp_random random;
    trp_random_seed(&random, problem->seed, (uint64_t)number);
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        if (self->parents > 0 && i < CROSSED_MAX)
            breed(self, &random, x);
        else
            trp_dims_draw(problem->dims, problem->dim_count, &random, x);
        bool allowed = problem->allowed == NULL || problem->allowed(problem->allowed_user, x);
        if (allowed && (i >= NEW_MAX || !was_tried(self, x)))
            break;
    }
    return TROUPE_OK;
}

// Making.

static bool make_generation(generation *of, size_t count, size_t dims, size_t objectives)
{
    of->x = trp_alloc((count * dims + 1) * sizeof *of->x);
    of->scores = trp_alloc(count * objectives * sizeof *of->scores);
    of->violations = trp_alloc(count * sizeof *of->violations);
    of->crowding = trp_alloc(count * sizeof *of->crowding);
    of->ranks = trp_alloc(count * sizeof *of->ranks);
    return of->x != NULL && of->scores != NULL && of->violations != NULL && of->crowding != NULL &&
           of->ranks != NULL;
}

static void free_generation(generation *of)
{
    trp_free(of->x);
    trp_free(of->scores);
    trp_free(of->violations);
    trp_free(of->crowding);
    trp_free(of->ranks);
    *of = (generation){0};
}

static void free_population(nsga2 *self)
{
    free_generation(&self->now);
    free_generation(&self->next);
    trp_free(self->order);
    trp_free(self->distances);
    self->order = NULL;
    self->distances = NULL;
}

static troupe_status nsga2_begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    nsga2 *self = (nsga2 *)searcher;
    size_t count = 2 * (size_t)self->how.population;
    self->order = trp_alloc(count * sizeof *self->order);
    self->distances = trp_alloc(count * sizeof *self->distances);
    bool made = make_generation(&self->now, count, problem->dim_count, problem->objectives) &&
                make_generation(&self->next, count, problem->dim_count, problem->objectives) &&
                self->order != NULL && self->distances != NULL;
    if (!made) {
        free_population(self);
        return no_memory();
    }
    self->problem = problem;
    if (self->how.mutation == 0)
        self->how.mutation = 1 / fmax((double)problem->dim_count, 1);
    return TROUPE_OK;
}

static void nsga2_destroy(troupe_searcher *searcher)
{
    nsga2 *self = (nsga2 *)searcher;
    free_population(self);
    trp_buffer_free(&self->tried);
    trp_free(self);
}

// What differs from the defaults is in the name, since a study that goes on compares it.
static void put_name(nsga2 *self)
{
    const troupe_nsga2_options *how = &self->how;
    const struct {
        const char *name;
        double value;
    } options[] = {{"population", how->population},
                   {"crossover", how->crossover},
                   {"swap", how->swap},
                   {"mutation", how->mutation}};
    size_t used = (size_t)snprintf(self->name, sizeof self->name, "NSGA-II");
    const char *before = " (";
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (options[i].value == 0)
            continue;
        used += (size_t)snprintf(self->name + used, sizeof self->name - used, "%s%s %g", before,
                                 options[i].name, options[i].value);
        before = ", ";
    }
    if (before[0] == ',')
        snprintf(self->name + used, sizeof self->name - used, ")");
}

static troupe_status take(troupe_nsga2_options *ours, const troupe_nsga2_options *how)
{
    static const trp_range ranges[] = {
        TRP_RANGE(troupe_nsga2_options, population, 2, POPULATION_MAX),
        TRP_RANGE(troupe_nsga2_options, crossover, 0, 1),
        TRP_RANGE(troupe_nsga2_options, swap, 0, 1),
        TRP_RANGE(troupe_nsga2_options, mutation, 0, 1),
    };
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_search_nsga2", *ours, how));
    return trp_ranges_check("troupe_search_nsga2", ranges, sizeof ranges / sizeof *ranges, ours);
}

troupe_searcher *troupe_search_nsga2_with(const troupe_nsga2_options *how)
{
    troupe_nsga2_options ours;
    if (take(&ours, how) != TROUPE_OK)
        return trp_searcher_refused();
    nsga2 *self = trp_alloc(sizeof *self);
    if (self == NULL) {
        no_memory();
        return trp_searcher_refused();
    }
    self->how = ours;
    put_name(self);
    self->how.population = ours.population == 0 ? POPULATION : ours.population;
    self->how.crossover = ours.crossover == 0 ? 0.9 : ours.crossover;
    self->how.swap = ours.swap == 0 ? 0.5 : ours.swap;
    self->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = self->name,
                                   .begin = nsga2_begin,
                                   .suggest = nsga2_suggest,
                                   .given = nsga2_given,
                                   .observe = nsga2_observe,
                                   .destroy = nsga2_destroy};
    return &self->base;
}
