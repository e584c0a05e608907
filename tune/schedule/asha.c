// asha.c: asynchronous successive halving in the stopping form (Li et al., "A System for Massively
// Parallel Hyperparameter Tuning", MLSys 2020).
//
// Rungs lie at grace * reduction^k reports, below the limit. A trial that reaches a rung leaves its
// score there and goes on if it is among the best floor(n / reduction) of the n scores, its own
// included, or the best of all if that would be none. Equal scores share the better rank; NaN is
// worse than any number. Decisions are final: a trial that went on is not stopped by later ones.
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <string.h>
#include <tune/schedule/scheduler.h>

enum { RUNGS_MAX = 32 }; // 2^31 reports are beyond an int.

typedef struct rung {
    int level; // Reports at which a trial reaches it.
    double *scores;
    size_t count, capacity;
} rung;

typedef struct asha {
    troupe_scheduler base;
    int reduction, limit;
    int rung_count;
    rung rungs[RUNGS_MAX];
    int reports[RUNGS_MAX + 1]; // Those of the rungs, and the limit.
} asha;

static bool better(double a, double b)
{
    return a < b || (!isnan(a) && isnan(b));
}

static troupe_status record(rung *at, double score)
{
    if (at->count == at->capacity) {
        size_t capacity = at->capacity == 0 ? 16 : at->capacity * 2;
        double *scores = trp_realloc(at->scores, capacity * sizeof *scores);
        if (scores == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu scores of a rung", capacity);
        at->scores = scores;
        at->capacity = capacity;
    }
    at->scores[at->count++] = score;
    return TROUPE_OK;
}

static bool goes_on(const rung *at, double score, int reduction)
{
    size_t ahead = 0;
    for (size_t i = 0; i < at->count; i++)
        ahead += better(at->scores[i], score);
    size_t places = at->count / (size_t)reduction;
    return ahead < (places == 0 ? 1 : places);
}

static troupe_status asha_decide(troupe_scheduler *scheduler, int trial, int number, double score,
                                 trp_decision *decision)
{
    asha *self = (asha *)scheduler;
    (void)trial;
    *decision = TRP_GO_ON;
    if (number >= self->limit) {
        *decision = TRP_END;
        return TROUPE_OK;
    }
    for (int i = 0; i < self->rung_count && self->rungs[i].level <= number; i++) {
        rung *at = &self->rungs[i];
        if (at->level != number)
            continue;
        TROUPE_TRY(record(at, score));
        if (!goes_on(at, score, self->reduction))
            *decision = TRP_STOP;
    }
    return TROUPE_OK;
}

static void asha_destroy(troupe_scheduler *scheduler)
{
    asha *self = (asha *)scheduler;
    for (int i = 0; i < self->rung_count; i++)
        trp_free(self->rungs[i].scores);
    trp_free(self);
}

troupe_scheduler *troupe_asha_with(const troupe_asha_options *how)
{
    troupe_asha_options options;
    troupe_status taken = TRP_OPTIONS_TAKE("troupe_asha", options, how);
    int grace = options.grace == 0 ? 1 : options.grace;
    int reduction = options.reduction == 0 ? 4 : options.reduction;
    int limit = options.limit == 0 ? 100 : options.limit;
    if (taken != TROUPE_OK)
        ; // It has been said.
    else if (grace < 1)
        troupe_fail(TROUPE_INVALID, "asha: grace is %d, must be at least 1", grace);
    else if (reduction < 2)
        troupe_fail(TROUPE_INVALID, "asha: reduction is %d, must be at least 2", reduction);
    else if (limit < grace)
        troupe_fail(TROUPE_INVALID, "asha: limit is %d, must be at least grace, which is %d", limit,
                    grace);
    if (taken != TROUPE_OK || grace < 1 || reduction < 2 || limit < grace)
        return trp_scheduler_refused();

    asha *self = trp_alloc(sizeof *self);
    if (self == NULL) {
        troupe_fail(TROUPE_NO_MEMORY, "no memory for a scheduler");
        return trp_scheduler_refused();
    }
    self->base.decide = asha_decide;
    self->base.destroy = asha_destroy;
    snprintf(self->base.description, sizeof self->base.description,
             "ASHA (grace %d, reduction %d, limit %d)", grace, reduction, limit);
    self->reduction = reduction;
    self->limit = limit;
    for (long long level = grace; level < limit; level *= reduction)
        self->rungs[self->rung_count++].level = (int)level;
    for (int i = 0; i < self->rung_count; i++)
        self->reports[i] = self->rungs[i].level;
    self->reports[self->rung_count] = limit;
    self->base.reports = self->reports;
    self->base.report_count = (size_t)self->rung_count + 1;
    return &self->base;
}
