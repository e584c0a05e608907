// median.c: the median stopping rule (Golovin et al., "Google Vizier: A Service for Black-Box
// Optimization", KDD 2017, section 3.2.2): a trial stops at report k if its best score so far is
// worse than the median of the running means up to k of all other trials that have reached k.
//
// The mean is of those reports that are numbers; where none is, it is infinity. The means at each
// report are in two heaps, the lower and the upper half, so that a decision costs the logarithm of
// the trials: a trial reaches a report once, so nothing ever leaves.
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <tune/schedule/scheduler.h>
#include <tune/schedule/seats.h>

typedef struct seat {
    double best, sum;
    int reports, numbers; // How many, and how many of them are numbers.
} seat;

// A heap with its largest value first; of the upper half the negatives are kept.
typedef struct heap {
    double *values;
    size_t count, capacity;
} heap;

typedef struct halves {
    heap lower, upper; // The lower one has as many as the upper, or one more.
} halves;

typedef struct median {
    troupe_scheduler base;
    troupe_median_options how;
    trp_seats seats;
    trp_seats means; // halves by report, from the grace on.
    char description[96];
} median;

static bool reserve(heap *into)
{
    if (into->count < into->capacity)
        return true;
    size_t capacity = into->capacity == 0 ? 4 : into->capacity * 2;
    double *values = trp_realloc(into->values, capacity * sizeof *values);
    if (values == NULL)
        return false;
    into->values = values;
    into->capacity = capacity;
    return true;
}

static void push(heap *into, double value)
{
    size_t at = into->count++;
    while (at > 0 && into->values[(at - 1) / 2] < value) {
        into->values[at] = into->values[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    into->values[at] = value;
}

static double pop(heap *from)
{
    double top = from->values[0], last = from->values[--from->count];
    size_t at = 0;
    for (size_t child = 1; child < from->count; child = 2 * at + 1) {
        if (child + 1 < from->count && from->values[child + 1] > from->values[child])
            child++;
        if (from->values[child] <= last)
            break;
        from->values[at] = from->values[child];
        at = child;
    }
    if (from->count > 0)
        from->values[at] = last;
    return top;
}

static bool record(halves *of, double mean)
{
    if (!reserve(&of->lower) || !reserve(&of->upper))
        return false;
    if (of->lower.count > of->upper.count) { // The upper one gets the largest.
        push(&of->lower, mean);
        push(&of->upper, -pop(&of->lower));
    } else {
        push(&of->upper, -mean);
        push(&of->lower, -pop(&of->upper));
    }
    return true;
}

static double median_of(const halves *of)
{
    if (of->lower.count > of->upper.count)
        return of->lower.values[0];
    return (of->lower.values[0] - of->upper.values[0]) / 2;
}

static int median_decides_at(troupe_scheduler *scheduler, int trial, int after)
{
    const median *self = (median *)scheduler;
    (void)trial;
    int next = after + 1 > self->how.grace ? after + 1 : self->how.grace;
    return self->how.limit > after && next > self->how.limit ? self->how.limit : next;
}

static troupe_status median_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                   troupe_verdict *verdict)
{
    median *self = (median *)scheduler;
    seat *of;
    TROUPE_TRY(trp_seats_make(&self->seats, progress->trial, &of));
    seat now = *of;
    if (now.reports == 0)
        now.best = (double)INFINITY;
    now.reports++;
    if (!isnan(progress->score)) {
        now.numbers++;
        now.sum += progress->score;
        now.best = fmin(now.best, progress->score);
    }
    if (progress->report >= self->how.grace) {
        halves *others;
        double mean = now.numbers == 0 ? (double)INFINITY : now.sum / now.numbers;
        TROUPE_TRY(trp_seats_make(&self->means, progress->report - self->how.grace, &others));
        size_t count = others->lower.count + others->upper.count;
        bool stops = count >= (size_t)self->how.samples && now.best > median_of(others);
        // The sum of both infinities is no number, and no mean.
        if (!record(others, isnan(mean) ? (double)INFINITY : mean))
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for one more mean at report %d",
                               progress->report);
        if (stops)
            verdict->act = TROUPE_ACT_STOP;
    }
    if (self->how.limit > 0 && progress->report >= self->how.limit)
        verdict->act = TROUPE_ACT_END;
    *of = now;
    return TROUPE_OK;
}

static void median_destroy(troupe_scheduler *scheduler)
{
    median *self = (median *)scheduler;
    for (size_t i = 0; i < self->means.count; i++) {
        halves *of = trp_seats_at(&self->means, (int)i);
        trp_free(of->lower.values);
        trp_free(of->upper.values);
    }
    trp_seats_free(&self->means);
    trp_seats_free(&self->seats);
    trp_free(self);
}

static troupe_status check(troupe_median_options *how, const troupe_median_options *given)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_median", *how, given));
    how->grace = how->grace == 0 ? 1 : how->grace;
    how->samples = how->samples == 0 ? 3 : how->samples;
    if (how->grace < 1)
        return troupe_fail(TROUPE_INVALID, "median: grace is %d, must be at least 1", how->grace);
    if (how->samples < 1)
        return troupe_fail(TROUPE_INVALID, "median: samples is %d, must be at least 1",
                           how->samples);
    if (how->limit < 0)
        return troupe_fail(TROUPE_INVALID, "median: limit is %d, must be at least 1", how->limit);
    return TROUPE_OK;
}

troupe_scheduler *troupe_median_with(const troupe_median_options *given)
{
    troupe_median_options how;
    if (check(&how, given) != TROUPE_OK)
        return trp_scheduler_refused();
    median *self = trp_alloc(sizeof *self);
    if (self == NULL) {
        troupe_fail(TROUPE_NO_MEMORY, "no memory for a scheduler");
        return trp_scheduler_refused();
    }
    self->how = how;
    self->seats.item = sizeof(seat);
    self->means.item = sizeof(halves);
    int at = snprintf(self->description, sizeof self->description, "median (grace %d, samples %d",
                      how.grace, how.samples);
    size_t left = sizeof self->description - (size_t)at;
    if (how.limit > 0)
        snprintf(self->description + at, left, ", limit %d)", how.limit);
    else
        snprintf(self->description + at, left, ")");
    self->base = (troupe_scheduler){.abi = TROUPE_ABI,
                                    .describe = self->description,
                                    .decides_at = median_decides_at,
                                    .decide = median_decide,
                                    .destroy = median_destroy,
                                    .limit = how.limit};
    return &self->base;
}
