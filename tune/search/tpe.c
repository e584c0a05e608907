// tpe.c: the tree-structured Parzen estimator (Bergstra et al., NIPS 2011; with several dimensions
// together as in Falkner et al., ICML 2018; the rules of detail as Watanabe, arXiv 2304.11127,
// describes them of Optuna).
//
// Trials are good ones or bad ones. Points are drawn from the density of the good, and the one at
// which it is greatest beside that of the bad is taken. Dimensions that count under the same
// condition make a group, which has densities of its own, of those trials at which it counts.
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <tune/search/parzen.h>
#include <tune/search/searcher.h>
#include <tune/search/tpe_split.h>

typedef struct tpe_group {
    size_t *dims;
    size_t dim_count;
    trp_axis **axes; // Those of dims that have more than one value.
    size_t *axis_dims;
    size_t axis_count;
    trp_parzen good, bad;
} tpe_group;

typedef struct tpe {
    troupe_searcher base;
    troupe_tpe_options how;
    const troupe_problem *problem;
    bool univariate;
    trp_axis *axes; // One a dimension.
    tpe_group *groups;
    size_t group_count;
    trp_tpe_trials trials;
    size_t ended, told; // Trials that have a result; that have a result or a report.
    bool stale;         // The densities are not of what is known.
    // Of each trial, room for them:
    uint8_t *roles;
    int *members, *place;
    size_t room;
    // Of each candidate: its coordinates, and its densities.
    double *candidates, *good_logs, *bad_logs;
    char name[120];
} tpe;

// ---- what it knows

static troupe_status groups_open(tpe *self)
{
    const troupe_problem *problem = self->problem;
    size_t count = problem->dim_count;
    self->groups = trp_alloc((count + 1) * sizeof *self->groups);
    if (self->groups == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a search");
    for (size_t i = 0; i < count; i++) {
        const troupe_dim *dim = &problem->dims[i];
        size_t g = self->univariate ? self->group_count : 0;
        for (; g < self->group_count; g++) {
            const troupe_dim *first = &problem->dims[self->groups[g].dims[0]];
            if (first->parent == dim->parent && (dim->parent < 0 || first->when == dim->when))
                break;
        }
        tpe_group *group = &self->groups[g];
        if (g == self->group_count) {
            self->group_count++;
            size_t room = self->univariate ? 1 : count;
            group->dims = trp_alloc(room * sizeof *group->dims);
            group->axis_dims = trp_alloc(room * sizeof *group->axis_dims);
            group->axes = trp_alloc(room * sizeof(trp_axis *));
            if (group->dims == NULL || group->axis_dims == NULL || group->axes == NULL)
                return troupe_fail(TROUPE_NO_MEMORY, "no memory for a search");
        }
        group->dims[group->dim_count++] = i;
        if (trp_dim_values(dim) == 1)
            continue;
        group->axes[group->axis_count] = &self->axes[i];
        group->axis_dims[group->axis_count++] = i;
    }
    return TROUPE_OK;
}

static troupe_status tpe_begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    tpe *self = (tpe *)searcher;
    if (self->how.budgets && problem->objectives > 1)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "TPE with .budgets learns from reports, which are of one objective; "
                           "there are %zu",
                           problem->objectives);
    size_t count = problem->dim_count, candidates = (size_t)self->how.candidates;
    self->problem = problem;
    self->univariate = self->how.univariate || (problem->objectives > 1 && !self->how.multivariate);
    self->trials.objectives = problem->objectives;
    self->axes = trp_alloc((count + 1) * sizeof *self->axes);
    self->candidates = trp_alloc((count + 1) * candidates * sizeof(double));
    self->good_logs = trp_alloc(candidates * sizeof(double));
    self->bad_logs = trp_alloc(candidates * sizeof(double));
    if (self->axes == NULL || self->candidates == NULL || self->good_logs == NULL ||
        self->bad_logs == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a search");
    for (size_t i = 0; i < count; i++)
        trp_axis_open(&self->axes[i], &problem->dims[i]);
    return groups_open(self);
}

static troupe_status grow(tpe *self)
{
    size_t room = self->room == 0 ? 64 : self->room * 2;
    uint8_t *roles = trp_realloc(self->roles, room * sizeof *roles);
    if (roles != NULL)
        self->roles = roles;
    int *members = trp_realloc(self->members, room * sizeof *members);
    if (members != NULL)
        self->members = members;
    int *place = trp_realloc(self->place, room * sizeof *place);
    if (place != NULL)
        self->place = place;
    if (roles == NULL || members == NULL || place == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu trials of a search", room);
    self->room = room;
    return TROUPE_OK;
}

static troupe_status tpe_given(troupe_searcher *searcher, int number, const double *x)
{
    tpe *self = (tpe *)searcher;
    if (self->trials.count == self->room)
        TROUPE_TRY(grow(self));
    TROUPE_TRY(trp_tpe_reserve(&self->trials));
    for (size_t i = 0; i < self->problem->dim_count; i++)
        TROUPE_TRY(trp_axis_reserve(&self->axes[i]));
    for (size_t i = 0; i < self->problem->dim_count; i++)
        trp_axis_add(&self->axes[i], x[i]);
    trp_tpe_add(&self->trials, number);
    self->stale = true;
    return TROUPE_OK;
}

static troupe_status tpe_report(troupe_searcher *searcher, int number, int report, double score)
{
    tpe *self = (tpe *)searcher;
    int row = trp_tpe_find(&self->trials, number);
    if (!self->how.budgets || row < 0)
        return TROUPE_OK;
    trp_tpe_trial *trial = &self->trials.rows[row];
    self->stale = true;
    self->told += trial->told_count == 0 && trial->state == TRP_TPE_RUNS;
    return trp_tpe_report_add(trial, report, score);
}

// Whether a trial's point is not the one that it was given: it cloned another.
static bool has_moved(const tpe *self, int row, const double *x)
{
    for (size_t i = 0; i < self->problem->dim_count; i++) {
        double known = self->axes[i].at[row], now = trp_axis_coordinate(&self->axes[i], x[i]);
        if (!(known == now || (isnan(known) && isnan(now))))
            return true;
    }
    return false;
}

static troupe_status tpe_observe(troupe_searcher *searcher, const troupe_observation *seen)
{
    tpe *self = (tpe *)searcher;
    size_t objectives = self->problem->objectives;
    int row = trp_tpe_find(&self->trials, seen->number);
    if (row < 0 || has_moved(self, row, seen->x)) {
        TROUPE_TRY(tpe_given(searcher, seen->number, seen->x));
        row = trp_tpe_find(&self->trials, seen->number);
    }
    trp_tpe_trial *trial = &self->trials.rows[row];
    bool first = trial->state == TRP_TPE_RUNS;
    bool failed = seen->ending == TROUPE_ENDING_FAILED;
    for (size_t i = 0; i < objectives; i++) {
        self->trials.scores[(size_t)row * objectives + i] = seen->scores[i];
        failed = failed || (seen->ending == TROUPE_ENDING_COMPLETE && isnan(seen->scores[i]));
    }
    trial->reports = seen->reports;
    trial->violation = seen->violation;
    trial->state = failed                                  ? TRP_TPE_NOTHING
                   : seen->ending == TROUPE_ENDING_STOPPED ? TRP_TPE_STOPPED
                                                           : TRP_TPE_COMPLETE;
    self->ended += !failed && first;
    self->told += !failed && first && trial->told_count == 0;
    self->stale = true;
    return TROUPE_OK;
}

// ---- what it makes of that

// The density of a group's trials that have this role.
static troupe_status build(tpe *self, tpe_group *group, trp_tpe_role role, trp_parzen *density)
{
    size_t count = 0;
    for (size_t i = 0; i < self->trials.count; i++) {
        bool counts = self->roles[i] == role && !isnan(group->axes[0]->at[i]);
        self->place[i] = counts ? (int)count : -1;
        if (counts)
            self->members[count++] = (int)i;
    }
    bool fading = role == TRP_TPE_BAD || self->problem->objectives == 1;
    return trp_parzen_build(density, group->axes, group->axis_count, self->members, count,
                            self->place, fading);
}

static troupe_status learn(tpe *self)
{
    if (!self->stale)
        return TROUPE_OK;
    int budget = 0;
    if (self->how.budgets) // As many as BOHB asks for (Falkner et al., section 3.2).
        budget = trp_tpe_budget(&self->trials, self->problem->dim_count + 3);
    TROUPE_TRY(trp_tpe_split(&self->trials, budget, !self->how.no_liar, self->roles));
    for (size_t g = 0; g < self->group_count; g++) {
        tpe_group *group = &self->groups[g];
        if (group->axis_count == 0)
            continue;
        TROUPE_TRY(build(self, group, TRP_TPE_GOOD, &group->good));
        TROUPE_TRY(build(self, group, TRP_TPE_BAD, &group->bad));
    }
    self->stale = false;
    return TROUPE_OK;
}

static void place_candidate(const tpe *self, const tpe_group *group, size_t number, double *x)
{
    const double *candidate = self->candidates + number * group->axis_count;
    for (size_t i = 0; i < group->axis_count; i++)
        x[group->axis_dims[i]] = trp_axis_value(group->axes[i], candidate[i]);
}

// Fills in a group's coordinates.
static troupe_status draw_group(tpe *self, tpe_group *group, trp_random *random, double *x)
{
    size_t count = (size_t)self->how.candidates, best = count;
    for (size_t i = 0; i < group->dim_count; i++) // What has one value, and else is drawn below.
        x[group->dims[i]] = trp_dim_at(&self->problem->dims[group->dims[i]], 0);
    if (group->axis_count == 0)
        return TROUPE_OK;
    for (size_t c = 0; c < count; c++)
        trp_parzen_draw(&group->good, random, self->candidates + c * group->axis_count);
    TROUPE_TRY(trp_parzen_log(&group->good, self->candidates, count, self->good_logs));
    TROUPE_TRY(trp_parzen_log(&group->bad, self->candidates, count, self->bad_logs));
    for (size_t c = 0; c < count; c++) {
        self->good_logs[c] -= self->bad_logs[c];
        if (best < count && !(self->good_logs[c] > self->good_logs[best]))
            continue;
        if (self->group_count == 1) { // The point is whole.
            place_candidate(self, group, c, x);
            if (!trp_searcher_allowed(self->problem, x))
                continue;
        }
        best = c;
    }
    place_candidate(self, group, best < count ? best : 0, x);
    return TROUPE_OK;
}

static troupe_status tpe_suggest(troupe_searcher *searcher, int number, double *x)
{
    enum { TRIES = 40 };
    tpe *self = (tpe *)searcher;
    const troupe_problem *problem = self->problem;
    size_t known = self->how.budgets ? self->told : self->ended;
    if (known >= (size_t)self->how.startup) {
        TROUPE_TRY(learn(self));
        trp_random random;
        trp_random_seed(&random, problem->seed, (uint64_t)number);
        for (int i = 0; i < TRIES; i++) {
            for (size_t g = 0; g < self->group_count; g++) {
                tpe_group *group = &self->groups[g];
                if (trp_dim_counts(problem->dims, group->dims[0], x))
                    TROUPE_TRY(draw_group(self, group, &random, x));
                else
                    for (size_t k = 0; k < group->dim_count; k++)
                        x[group->dims[k]] = (double)NAN;
            }
            if (trp_searcher_allowed(problem, x))
                return TROUPE_OK;
        }
    }
    trp_searcher_draw(problem, number, x);
    return TROUPE_OK;
}

// ---- making one

static void tpe_destroy(troupe_searcher *searcher)
{
    tpe *self = (tpe *)searcher;
    for (size_t g = 0; g < self->group_count; g++) {
        trp_free(self->groups[g].dims);
        trp_free(self->groups[g].axis_dims);
        trp_free(self->groups[g].axes);
        trp_parzen_close(&self->groups[g].good);
        trp_parzen_close(&self->groups[g].bad);
    }
    for (size_t i = 0; self->axes != NULL && i < self->problem->dim_count; i++)
        trp_axis_close(&self->axes[i]);
    trp_free(self->axes);
    trp_free(self->groups);
    trp_tpe_close(&self->trials);
    trp_free(self->roles);
    trp_free(self->members);
    trp_free(self->place);
    trp_free(self->candidates);
    trp_free(self->good_logs);
    trp_free(self->bad_logs);
    trp_free(self);
}

// Checks options and fills in what is left out.
static troupe_status settle(troupe_tpe_options *how)
{
    enum { CANDIDATES_MAX = 100000 };
    if (how->startup < 0 && how->startup != TROUPE_NONE)
        return troupe_fail(TROUPE_INVALID, "TPE's .startup is %d; it is 1 or more, or TROUPE_NONE",
                           how->startup);
    if (how->candidates < 0 || how->candidates > CANDIDATES_MAX)
        return troupe_fail(TROUPE_INVALID, "TPE's .candidates is %d; it is from 1 to %d",
                           how->candidates, CANDIDATES_MAX);
    if (how->univariate && how->multivariate)
        return troupe_fail(TROUPE_INVALID,
                           "TPE's .univariate and .multivariate are both set; each excludes the "
                           "other");
    if (how->startup == 0)
        how->startup = 10;
    else if (how->startup == TROUPE_NONE)
        how->startup = 0;
    if (how->candidates == 0)
        how->candidates = 24;
    return TROUPE_OK;
}

// "TPE", and what is not as by default: a search that goes on must be the same.
static void name_of(const troupe_tpe_options *how, char *name, size_t size)
{
    char parts[100] = "";
    size_t used = 0;
    if (how->startup != 10)
        used += (size_t)snprintf(parts, sizeof parts, ", startup %d", how->startup);
    if (how->candidates != 24)
        used +=
            (size_t)snprintf(parts + used, sizeof parts - used, ", %d candidates", how->candidates);
    snprintf(parts + used, sizeof parts - used, "%s%s%s%s", how->univariate ? ", univariate" : "",
             how->multivariate ? ", multivariate" : "", how->no_liar ? ", no liar" : "",
             how->budgets ? ", budgets" : "");
    if (parts[0] == '\0')
        snprintf(name, size, "TPE");
    else
        snprintf(name, size, "TPE (%s)", parts + 2);
}

troupe_searcher *troupe_search_tpe_with(const troupe_tpe_options *how)
{
    troupe_tpe_options taken;
    if (TRP_OPTIONS_TAKE("troupe_search_tpe", taken, how) != TROUPE_OK ||
        settle(&taken) != TROUPE_OK)
        return trp_searcher_refused();
    tpe *self = trp_alloc(sizeof *self);
    if (self == NULL)
        return trp_searcher_short();
    self->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = self->name,
                                   .begin = tpe_begin,
                                   .suggest = tpe_suggest,
                                   .given = tpe_given,
                                   .report = tpe_report,
                                   .observe = tpe_observe,
                                   .destroy = tpe_destroy};
    self->how = taken;
    name_of(&taken, self->name, sizeof self->name);
    self->stale = true;
    return &self->base;
}
