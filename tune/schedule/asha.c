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
    char description[96];
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

static int asha_decides_at(troupe_scheduler *scheduler, int trial, int after)
{
    const asha *self = (asha *)scheduler;
    (void)trial;
    for (int i = 0; i < self->rung_count; i++) {
        if (self->rungs[i].level > after)
            return self->rungs[i].level;
    }
    return after < self->limit ? self->limit : after + 1;
}

static troupe_status asha_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                 troupe_verdict *verdict)
{
    asha *self = (asha *)scheduler;
    if (progress->report >= self->limit) {
        verdict->act = TROUPE_ACT_END;
        return TROUPE_OK;
    }
    for (int i = 0; i < self->rung_count && self->rungs[i].level <= progress->report; i++) {
        rung *at = &self->rungs[i];
        if (at->level != progress->report)
            continue;
        TROUPE_TRY(record(at, progress->score));
        if (!goes_on(at, progress->score, self->reduction))
            verdict->act = TROUPE_ACT_STOP;
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
    snprintf(self->description, sizeof self->description, "ASHA (grace %d, reduction %d, limit %d)",
             grace, reduction, limit);
    self->base = (troupe_scheduler){.abi = TROUPE_ABI,
                                    .describe = self->description,
                                    .decides_at = asha_decides_at,
                                    .decide = asha_decide,
                                    .destroy = asha_destroy,
                                    .limit = limit};
    self->reduction = reduction;
    self->limit = limit;
    for (long long level = grace; level < limit; level *= reduction)
        self->rungs[self->rung_count++].level = (int)level;
    return &self->base;
}
