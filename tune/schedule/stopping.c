// stopping.c: ends trials for what they have had or reached, beside another scheduler.
//
// The other one is asked first, so that it has seen each report. Its word to stop or end a trial
// holds; else a trial that meets a condition ends, whatever it was to do.
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <string.h>
#include <tune/schedule/beside.h>
#include <tune/schedule/seats.h>

typedef struct seat {
    int reports; // That it has had.
    double best;
    int since; // Reports since the best was better by the margin.
    // The last `plateau` scores: the oldest is at reports % plateau.
    double *last;
} seat;

typedef struct stopping {
    troupe_scheduler base;
    troupe_scheduler *inner;
    troupe_stop_when when;
    trp_seats seats;
    char description[256];
} stopping;

static troupe_status stopping_begin(troupe_scheduler *scheduler, const troupe_problem *problem)
{
    return trp_beside_begin(((stopping *)scheduler)->inner, problem);
}

static troupe_status stopping_added(troupe_scheduler *scheduler, int trial, const double *x)
{
    return trp_beside_added(((stopping *)scheduler)->inner, trial, x);
}

static troupe_status stopping_next(troupe_scheduler *scheduler, bool fresh, int *trial,
                                   troupe_verdict *verdict)
{
    return trp_beside_next(((stopping *)scheduler)->inner, fresh, trial, verdict);
}

static int stopping_decides_at(troupe_scheduler *scheduler, int trial, int after)
{
    const stopping *self = (stopping *)scheduler;
    const troupe_stop_when *when = &self->when;
    int next = trp_beside_decides_at(self->inner, trial, after);
    int own = 0;
    if (when->elapsed_s > 0 || when->predicate != NULL)
        own = after + 1;
    else if (when->patience > 0 || when->plateau > 0)
        own = after + 1 > when->grace ? after + 1 : when->grace;
    if (when->reports > 0) {
        int last = when->reports > after ? when->reports : after + 1;
        own = own == 0 || last < own ? last : own;
    }
    return next == 0 || own < next ? own : next;
}

// The standard deviation of the last scores, of which there are as many as the plateau is long.
static double deviation(const double *scores, int count)
{
    double mean = 0, squares = 0;
    for (int i = 0; i < count; i++)
        mean += scores[i] / count;
    for (int i = 0; i < count; i++)
        squares += (scores[i] - mean) * (scores[i] - mean);
    return sqrt(squares / count);
}

static bool meets(const stopping *self, const seat *of, const troupe_progress *progress)
{
    const troupe_stop_when *when = &self->when;
    if (when->reports > 0 && progress->report >= when->reports)
        return true;
    if (when->elapsed_s > 0 && progress->elapsed_s >= when->elapsed_s)
        return true;
    if (progress->report >= when->grace) {
        if (when->patience > 0 && of->since >= when->patience)
            return true;
        if (when->plateau > 0 && of->reports >= when->plateau &&
            deviation(of->last, when->plateau) < when->deviation)
            return true;
    }
    return when->predicate != NULL && when->predicate(when->user, progress);
}

static void take_in(const stopping *self, seat *of, double score)
{
    const troupe_stop_when *when = &self->when;
    // Better than no number is any.
    bool better =
        of->reports == 0 || (isnan(of->best) && !isnan(score)) || score < of->best - when->margin;
    of->since = better ? 0 : of->since + 1;
    if (better)
        of->best = score;
    if (when->plateau > 0)
        of->last[of->reports % when->plateau] = score;
    of->reports++;
}

static troupe_status stopping_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                     troupe_verdict *verdict)
{
    stopping *self = (stopping *)scheduler;
    seat *of;
    TROUPE_TRY(trp_seats_make(&self->seats, progress->trial, &of));
    if (self->when.plateau > 0 && of->last == NULL) {
        of->last = trp_alloc((size_t)self->when.plateau * sizeof *of->last);
        if (of->last == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for the last %d scores of a trial",
                               self->when.plateau);
    }
    TROUPE_TRY(self->inner->decide(self->inner, progress, verdict));
    take_in(self, of, progress->score);
    bool over = verdict->act == TROUPE_ACT_STOP || verdict->act == TROUPE_ACT_END;
    if (!over && meets(self, of, progress))
        verdict->act = TROUPE_ACT_END;
    return TROUPE_OK;
}

static troupe_status stopping_ended(troupe_scheduler *scheduler, int trial, troupe_ending ending)
{
    stopping *self = (stopping *)scheduler;
    seat *of = trp_seats_at(&self->seats, trial);
    TROUPE_TRY(trp_beside_ended(self->inner, trial, ending));
    if (of != NULL) {
        trp_free(of->last);
        of->last = NULL;
    }
    return TROUPE_OK;
}

static void stopping_destroy(troupe_scheduler *scheduler)
{
    stopping *self = (stopping *)scheduler;
    for (size_t i = 0; i < self->seats.count; i++)
        trp_free(((seat *)trp_seats_at(&self->seats, (int)i))->last);
    trp_seats_free(&self->seats);
    self->inner->destroy(self->inner);
    trp_free(self);
}

static troupe_status check(troupe_stop_when *when, const troupe_stop_when *given)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_stopping", *when, given));
    static const char *const names[] = {"reports", "patience", "plateau", "grace"};
    const int values[] = {when->reports, when->patience, when->plateau, when->grace};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i] < 0)
            return troupe_fail(TROUPE_INVALID, "stopping: %s is %d, must be at least 0", names[i],
                               values[i]);
    }
    if (!(when->elapsed_s >= 0))
        return troupe_fail(TROUPE_INVALID, "stopping: elapsed_s is %g, must be at least 0",
                           when->elapsed_s);
    if (!(when->margin >= 0))
        return troupe_fail(TROUPE_INVALID, "stopping: margin is %g, must be at least 0",
                           when->margin);
    if (when->plateau == 1 || (when->plateau > 0 && !(when->deviation > 0)))
        return troupe_fail(TROUPE_INVALID,
                           "stopping: a plateau is of 2 scores or more with a deviation below one "
                           "that is above 0, not of %d below %g",
                           when->plateau, when->deviation);
    if (when->reports == 0 && when->elapsed_s == 0 && when->patience == 0 && when->plateau == 0 &&
        when->predicate == NULL)
        return troupe_fail(TROUPE_INVALID, "stopping: set one of reports, elapsed_s, patience, "
                                           "plateau and predicate");
    return TROUPE_OK;
}

static void describe(stopping *self)
{
    const troupe_stop_when *when = &self->when;
    char *text = self->description;
    size_t size = sizeof self->description, at = 0;
    at += (size_t)snprintf(text, size, "%.120s, ending after (", trp_beside_describe(self->inner));
    const char *comma = "";
#define PART(condition, ...)                                                                       \
    if (condition) {                                                                               \
        at += (size_t)snprintf(text + at, size - at, "%s", comma);                                 \
        at += (size_t)snprintf(text + at, size - at, __VA_ARGS__);                                 \
        comma = ", ";                                                                              \
    }
    PART(when->reports > 0, "%d reports", when->reports)
    PART(when->elapsed_s > 0, "%g s", when->elapsed_s)
    PART(when->patience > 0, "patience %d by %g", when->patience, when->margin)
    PART(when->plateau > 0, "plateau %d below %g", when->plateau, when->deviation)
    PART(when->grace > 0, "grace %d", when->grace)
    PART(when->predicate != NULL, "a predicate")
#undef PART
    snprintf(text + at, size - at, ")");
}

troupe_scheduler *troupe_stopping(troupe_scheduler *given, const troupe_stop_when *when)
{
    troupe_stop_when taken;
    troupe_scheduler *inner = trp_beside_take("stopping", given);
    if (inner == NULL)
        return trp_scheduler_refused();
    stopping *self = trp_beside_alloc(inner, check(&taken, when), sizeof *self);
    if (self == NULL)
        return trp_scheduler_refused();
    self->inner = inner;
    self->when = taken;
    self->seats.item = sizeof(seat);
    describe(self);
    int limit = inner->limit;
    if (taken.reports > 0 && (limit == 0 || taken.reports < limit))
        limit = taken.reports;
    self->base = (troupe_scheduler){.abi = TROUPE_ABI,
                                    .describe = self->description,
                                    .begin = stopping_begin,
                                    .added = stopping_added,
                                    .decides_at = stopping_decides_at,
                                    .decide = stopping_decide,
                                    .ended = stopping_ended,
                                    .next = stopping_next,
                                    .destroy = stopping_destroy,
                                    .limit = limit};
    return &self->base;
}
