// asha.c: asynchronous successive halving (Li et al., "A System for Massively Parallel
// Hyperparameter Tuning", MLSys 2020): the stopping form, algorithm 2 (promotion), brackets, and
// Ray's rule.
//
// Rungs lie at grace * reduction^(s + k) reports, below the limit, for bracket s. A trial that
// reaches a rung leaves its score there. Stopping: it goes on if it is among the best
// floor(n / reduction) of the n scores, its own included, or the best of all if that would be none;
// equal scores share the better rank. Promotion: it pauses, and goes on once it is among the best
// floor(n / reduction) of those that have come so far. NaN is worse than any number, and is never
// promoted. Decisions are final: a trial that went on is not stopped by later ones.
#include <math.h>
#include <runtime/base/buffer.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <string.h>
#include <tune/schedule/ranking.h>
#include <tune/schedule/scheduler.h>
#include <tune/schedule/seats.h>
#include <tune/space/random.h>

enum { RUNGS_MAX = 32 }; // 2^31 reports are beyond an int.

typedef struct rung {
    int level; // Reports at which a trial reaches it.
    trp_ranking scores;
    trp_ranking waiting; // Of these, the ones that are paused.
} rung;

typedef struct bracket {
    rung *rungs;
    int rung_count;
    double weight; // Its share of new trials.
    double given;  // New trials that it was given.
} bracket;

typedef struct seat {
    trp_seat state;
    int bracket;
    int rung;     // The lowest that it has not reached.
    double score; // At the rung below, where it waits.
} seat;

typedef struct asha {
    troupe_scheduler base;
    troupe_asha_options how;
    uint64_t seed;
    int running;
    trp_seats seats;
    bracket brackets[RUNGS_MAX];
    char description[96];
    rung rungs[]; // Of all brackets.
} asha;

static troupe_status asha_begin(troupe_scheduler *scheduler, const troupe_problem *problem)
{
    asha *self = (asha *)scheduler;
    self->seed = problem->seed;
    return TROUPE_OK;
}

// Ray's choice: at random, by the softmax of the numbers of rungs.
static int bracket_by_softmax(asha *self, int trial)
{
    trp_random random;
    trp_random_seed(&random, self->seed ^ 0x617368615f726179u, (uint64_t)trial); // "asha_ray"
    double total = 0;
    for (int s = 0; s < self->how.brackets; s++)
        total += self->brackets[s].weight;
    double drawn = trp_random_unit(&random) * total;
    for (int s = 0; s < self->how.brackets - 1; s++) {
        drawn -= self->brackets[s].weight;
        if (drawn < 0)
            return s;
    }
    return self->how.brackets - 1;
}

// The brackets take turns, so that their shares are those of HyperBand's brackets.
static int bracket_by_turn(const asha *self)
{
    int chosen = 0;
    for (int s = 1; s < self->how.brackets; s++) {
        const bracket *one = &self->brackets[s], *best = &self->brackets[chosen];
        if ((one->given + 1) * best->weight < (best->given + 1) * one->weight)
            chosen = s;
    }
    return chosen;
}

static troupe_status seat_of(asha *self, int trial, seat **found)
{
    TROUPE_TRY(trp_seats_make(&self->seats, trial, found));
    seat *of = *found;
    if (of->state == TRP_SEAT_NONE) {
        of->state = TRP_SEAT_RUNNING;
        of->bracket = self->how.as_ray ? bracket_by_softmax(self, trial) : bracket_by_turn(self);
        self->brackets[of->bracket].given++;
        self->running++;
    }
    return TROUPE_OK;
}

static troupe_status asha_added(troupe_scheduler *scheduler, int trial, const double *x)
{
    seat *of;
    (void)x;
    return seat_of((asha *)scheduler, trial, &of);
}

static int asha_decides_at(troupe_scheduler *scheduler, int trial, int after)
{
    const asha *self = (asha *)scheduler;
    const seat *of = trp_seats_at(&self->seats, trial);
    const bracket *in = &self->brackets[of == NULL ? 0 : of->bracket];
    for (int i = 0; i < in->rung_count; i++) {
        if (in->rungs[i].level > after)
            return in->rungs[i].level;
    }
    return after < self->how.limit ? self->how.limit : after + 1;
}

static troupe_status no_memory(const rung *at)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for one more score at the rung of %d reports",
                       at->level);
}

static troupe_status decide_stopping(asha *self, rung *at, int trial, double score,
                                     troupe_verdict *verdict)
{
    if (!trp_ranking_add(&at->scores, score, trial))
        return no_memory(at);
    size_t places = at->scores.count / (size_t)self->how.reduction;
    if (trp_ranking_better(&at->scores, score) >= (places == 0 ? 1 : places))
        verdict->act = TROUPE_ACT_STOP;
    return TROUPE_OK;
}

// The quantile 1 - 1/reduction of the rewards, which are the scores' negatives, with the steps and
// the rounding that Ray's ASHAScheduler takes by numpy's nanpercentile.
static double ray_cutoff(rung *at, int reduction)
{
    double share = (1 - 1.0 / reduction) * 100 / 100;
    double place = (double)(at->scores.count - 1) * share;
    size_t below = (size_t)floor(place), last = at->scores.count - 1;
    size_t above = below + 1 > last ? last : below + 1;
    double low = -trp_ranking_at(&at->scores, last - below).score;
    double high = -trp_ranking_at(&at->scores, last - above).score;
    double part = place - floor(place), apart = high - low;
    return part >= 0.5 ? high - apart * (1 - part) : low + apart * part;
}

static troupe_status decide_as_ray(const asha *self, rung *at, int trial, double score,
                                   troupe_verdict *verdict)
{
    bool stops = at->scores.count > 0 && -score < ray_cutoff(at, self->how.reduction);
    // What is not a number counts for no quantile, and is stopped by none.
    if (!isnan(score) && !trp_ranking_add(&at->scores, score, trial))
        return no_memory(at);
    if (stops)
        verdict->act = TROUPE_ACT_STOP;
    return TROUPE_OK;
}

// The paper's get_job: of the highest rung that has one, the best trial that may be promoted.
static rung *promotable(asha *self, trp_ranked *best)
{
    for (int s = 0; s < self->how.brackets; s++) {
        bracket *in = &self->brackets[s];
        for (int i = in->rung_count - 1; i >= 0; i--) {
            rung *at = &in->rungs[i];
            size_t places = at->scores.count / (size_t)self->how.reduction;
            if (places == 0 || at->waiting.count == 0)
                continue;
            *best = trp_ranking_at(&at->waiting, 0);
            if (trp_ranking_place(&at->scores, best->score, best->id) < places)
                return at;
        }
    }
    return NULL;
}

static troupe_status decide_promotion(asha *self, rung *at, seat *of, int trial, double score,
                                      troupe_verdict *verdict)
{
    if (!trp_ranking_add(&at->scores, score, trial))
        return no_memory(at);
    if (isnan(score)) {
        verdict->act = TROUPE_ACT_STOP;
        return TROUPE_OK;
    }
    if (!trp_ranking_add(&at->waiting, score, trial)) {
        trp_ranking_remove(&at->scores, score, trial);
        return no_memory(at);
    }
    trp_ranked best = {.id = -1};
    if (promotable(self, &best) == at && best.id == trial) {
        trp_ranking_remove(&at->waiting, score, trial); // Its place would be given to it at once.
        return TROUPE_OK;
    }
    of->state = TRP_SEAT_WAITING;
    of->score = score;
    self->running--;
    verdict->act = TROUPE_ACT_PAUSE;
    return TROUPE_OK;
}

static troupe_status asha_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                 troupe_verdict *verdict)
{
    asha *self = (asha *)scheduler;
    seat *of;
    TROUPE_TRY(seat_of(self, progress->trial, &of));
    if (of->state != TRP_SEAT_RUNNING)
        return TROUPE_OK;
    if (progress->report >= self->how.limit) {
        verdict->act = TROUPE_ACT_END;
        return TROUPE_OK;
    }
    const bracket *in = &self->brackets[of->bracket];
    int reached = of->rung;
    while (reached < in->rung_count && in->rungs[reached].level <= progress->report)
        reached++;
    if (reached == of->rung)
        return TROUPE_OK;
    rung *at = &in->rungs[reached - 1];
    if (self->how.as_ray)
        TROUPE_TRY(decide_as_ray(self, at, progress->trial, progress->score, verdict));
    else if (self->how.promote)
        TROUPE_TRY(decide_promotion(self, at, of, progress->trial, progress->score, verdict));
    else
        TROUPE_TRY(decide_stopping(self, at, progress->trial, progress->score, verdict));
    of->rung = reached;
    return TROUPE_OK;
}

static void leaves(asha *self, const seat *of, int trial)
{
    rung *at = &self->brackets[of->bracket].rungs[of->rung - 1];
    trp_ranking_remove(&at->waiting, of->score, trial);
}

static troupe_status asha_ended(troupe_scheduler *scheduler, int trial, troupe_ending ending)
{
    asha *self = (asha *)scheduler;
    seat *of = trp_seats_at(&self->seats, trial);
    (void)ending; // What it left at rungs stays.
    if (of == NULL)
        return TROUPE_OK;
    if (of->state == TRP_SEAT_WAITING)
        leaves(self, of, trial);
    else if (of->state == TRP_SEAT_RUNNING)
        self->running--;
    of->state = TRP_SEAT_OVER;
    return TROUPE_OK;
}

static troupe_status asha_next(troupe_scheduler *scheduler, bool fresh, int *trial,
                               troupe_verdict *verdict)
{
    asha *self = (asha *)scheduler;
    trp_ranked best = {.id = -1};
    (void)verdict;
    if (promotable(self, &best) != NULL) {
        seat *of = trp_seats_at(&self->seats, best.id);
        leaves(self, of, best.id);
        of->state = TRP_SEAT_RUNNING;
        self->running++;
        *trial = best.id;
        return TROUPE_OK;
    }
    if (fresh) {
        *trial = -1;
        return TROUPE_OK;
    }
    if (self->running > 0)
        return TROUPE_BUSY;
    // Nobody comes to any rung any more: what waits there waits in vain.
    for (int s = 0; s < self->how.brackets; s++) {
        for (int i = 0; i < self->brackets[s].rung_count; i++) {
            trp_ranking *waiting = &self->brackets[s].rungs[i].waiting;
            if (waiting->count == 0)
                continue;
            *trial = trp_ranking_at(waiting, waiting->count - 1).id;
            seat *of = trp_seats_at(&self->seats, *trial);
            leaves(self, of, *trial);
            of->state = TRP_SEAT_OVER;
            return TROUPE_STOPPED;
        }
    }
    return TROUPE_END;
}

static void asha_destroy(troupe_scheduler *scheduler)
{
    asha *self = (asha *)scheduler;
    for (int s = 0; s < self->how.brackets; s++) {
        for (int i = 0; i < self->brackets[s].rung_count; i++) {
            trp_ranking_free(&self->brackets[s].rungs[i].scores);
            trp_ranking_free(&self->brackets[s].rungs[i].waiting);
        }
    }
    trp_seats_free(&self->seats);
    trp_free(self);
}

// Rungs below the limit of the bracket that has the most.
static int rungs_of(const troupe_asha_options *how)
{
    int count = 0;
    for (long long level = how->grace; level < how->limit; level *= how->reduction)
        count++;
    return count;
}

static troupe_status check(troupe_asha_options *how, const troupe_asha_options *given)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_asha", *how, given));
    how->grace = how->grace == 0 ? 1 : how->grace;
    how->reduction = how->reduction == 0 ? 4 : how->reduction;
    how->limit = how->limit == 0 ? 100 : how->limit;
    how->brackets = how->brackets == 0 ? 1 : how->brackets;
    if (how->grace < 1)
        return troupe_fail(TROUPE_INVALID, "asha: grace is %d, must be at least 1", how->grace);
    if (how->reduction < 2)
        return troupe_fail(TROUPE_INVALID, "asha: reduction is %d, must be at least 2",
                           how->reduction);
    if (how->limit < how->grace)
        return troupe_fail(TROUPE_INVALID, "asha: limit is %d, must be at least grace, which is %d",
                           how->limit, how->grace);
    int most = rungs_of(how) + 1; // The last of them has no rung: its trials run to the limit.
    most = most > RUNGS_MAX ? RUNGS_MAX : most;
    if (how->brackets < 1 || how->brackets > most)
        return troupe_fail(TROUPE_INVALID,
                           "asha: brackets is %d, must be 1 to %d, since rungs are at %d * %d^k "
                           "reports, below %d",
                           how->brackets, most, how->grace, how->reduction, how->limit);
    if (how->promote && how->as_ray)
        return troupe_fail(TROUPE_INVALID, "asha: promote and as_ray exclude each other: Ray's "
                                           "ASHAScheduler promotes no trial");
    return TROUPE_OK;
}

static void describe(asha *self)
{
    int size = (int)sizeof self->description;
    int at = snprintf(self->description, (size_t)size, "ASHA (grace %d, reduction %d, limit %d",
                      self->how.grace, self->how.reduction, self->how.limit);
    if (self->how.brackets > 1)
        at += snprintf(self->description + at, (size_t)(size - at), ", brackets %d",
                       self->how.brackets);
    snprintf(self->description + at, (size_t)(size - at), "%s)",
             self->how.promote  ? ", promoting"
             : self->how.as_ray ? ", as Ray"
                                : "");
}

static void make_brackets(asha *self)
{
    const troupe_asha_options *how = &self->how;
    int most = rungs_of(how);
    rung *next = self->rungs;
    for (int s = 0; s < how->brackets; s++) {
        bracket *in = &self->brackets[s];
        in->rungs = next;
        in->rung_count = most - s;
        long long level = how->grace;
        for (int i = 0; i < most; i++, level *= how->reduction) {
            if (i >= s)
                (next++)->level = (int)level;
        }
        // HyperBand's bracket with as many rungs, the one at the limit included, begins with so
        // many trials; or Ray's softmax, whose rungs may have one at the limit.
        double halvings = in->rung_count;
        in->weight = ceil((most + 1) / (halvings + 1) * pow(how->reduction, halvings));
        if (how->as_ray) {
            double longest = log((double)how->limit / how->grace) / log(how->reduction);
            in->weight = exp(fmax(trunc(longest - s + 1), 0) - trunc(longest + 1));
        }
    }
}

troupe_scheduler *troupe_asha_with(const troupe_asha_options *given)
{
    troupe_asha_options how;
    if (check(&how, given) != TROUPE_OK)
        return trp_scheduler_refused();
    size_t rungs = (size_t)rungs_of(&how) * (size_t)how.brackets;
    asha *self = trp_alloc(sizeof *self + rungs * sizeof *self->rungs);
    if (self == NULL) {
        troupe_fail(TROUPE_NO_MEMORY, "no memory for a scheduler");
        return trp_scheduler_refused();
    }
    self->how = how;
    self->seats.item = sizeof(seat);
    describe(self);
    self->base = (troupe_scheduler){.abi = TROUPE_ABI,
                                    .describe = self->description,
                                    .begin = asha_begin,
                                    .added = asha_added,
                                    .decides_at = asha_decides_at,
                                    .decide = asha_decide,
                                    .ended = asha_ended,
                                    .next = how.promote ? asha_next : NULL,
                                    .destroy = asha_destroy,
                                    .limit = how.limit};
    make_brackets(self);
    return &self->base;
}
