// pbt.c: population based training (Jaderberg et al., "Population Based Training of Neural
// Networks", arXiv 1711.09846; truncation selection of its section 4.1.1).
//
// At each interval a trial of the worst quantile goes on from the checkpoint of one of the best
// quantile, drawn alike, with a point near that one's (explore.c). Quantiles are of the trials that
// live and have reported at an interval, by their last scores there; a quantile is ceil(n * share)
// of n, and at most n / 2. NaN is worse than any number, and is cloned by none.
//
// Asynchronous: a trial is judged as it reports. Where there are more trials than room, it pauses
// at its intervals, and the one with the fewest reports goes on. Synchronous: trials pause until
// all that live have come to their interval; then all are judged, and those that clone go on first,
// while what they clone is still what it was.
#include <math.h>
#include <runtime/base/buffer.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <string.h>
#include <tune/schedule/explore.h>
#include <tune/schedule/pbt_log.h>
#include <tune/schedule/ranking.h>
#include <tune/schedule/scheduler.h>
#include <tune/schedule/seats.h>

typedef struct seat {
    trp_seat state;
    int reports;
    bool ranked;  // It has a score.
    double score; // At its last interval.
    bool worst;   // It is to clone when it goes on:
    int source;   // this one, or, asynchronous, one that is among the best then.
} seat;

typedef struct pbt {
    troupe_scheduler base;
    troupe_pbt_options how;
    const troupe_problem *problem; // NULL: not begun.
    int added, live, running;
    bool closed; // No new trials come.
    trp_seats seats;
    trp_seats points;      // dim_count doubles each.
    trp_ranking scores;    // Of those that live.
    trp_ranking waiting;   // By reports, those that are paused and not ready.
    trp_ranking ready;     // By the order in which they go on. Synchronous.
    double *room, *chosen; // A point each.
    bool *mutates;
    char *log_path, *mutate;
    trp_pbt_log log;
    trp_buffer description;
} pbt;

// ---- what it is told

// Marks the dimensions that are named.
static troupe_status mark(pbt *self)
{
    const troupe_problem *problem = self->problem;
    if (self->mutate == NULL)
        return TROUPE_OK;
    for (const char *at = self->mutate; *at != '\0';) {
        size_t length = strcspn(at, ",");
        const char *name = at;
        at += length + (at[length] == ',');
        for (; length > 0 && *name == ' '; length--)
            name++;
        while (length > 0 && name[length - 1] == ' ')
            length--;
        size_t i = 0;
        while (i < problem->dim_count && (strncmp(problem->dims[i].name, name, length) != 0 ||
                                          problem->dims[i].name[length] != '\0'))
            i++;
        if (i == problem->dim_count)
            return troupe_fail(TROUPE_INVALID, "pbt: mutate names \"%.*s\", which the space lacks",
                               (int)length, name);
        self->mutates[i] = true;
    }
    return TROUPE_OK;
}

static troupe_status pbt_begin(troupe_scheduler *scheduler, const troupe_problem *problem)
{
    pbt *self = (pbt *)scheduler;
    size_t point = problem->dim_count * sizeof(double);
    if (problem->dim_count == 0)
        return troupe_fail(TROUPE_INVALID, "pbt: the space has no row that varies");
    self->problem = problem;
    self->points.item = point;
    self->room = trp_alloc(point);
    self->chosen = trp_alloc(point);
    self->mutates = trp_alloc(problem->dim_count * sizeof *self->mutates);
    if (self->room == NULL || self->chosen == NULL || self->mutates == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a point of %zu dimensions",
                           problem->dim_count);
    TROUPE_TRY(mark(self));
    return self->log_path == NULL ? TROUPE_OK : trp_pbt_log_open(&self->log, self->log_path);
}

static troupe_status seat_of(pbt *self, int trial, const double *x, seat **found)
{
    if (self->problem == NULL)
        return troupe_fail(TROUPE_INVALID, "pbt: it was not told what is searched (begin)");
    TROUPE_TRY(trp_seats_make(&self->seats, trial, found));
    if ((*found)->state != TRP_SEAT_NONE)
        return TROUPE_OK;
    double *point;
    if (x == NULL)
        return troupe_fail(TROUPE_INVALID, "pbt: trial %d has no point", trial);
    TROUPE_TRY(trp_seats_make(&self->points, trial, &point));
    memcpy(point, x, self->points.item);
    (*found)->state = TRP_SEAT_RUNNING;
    self->added++;
    self->live++;
    self->running++;
    const trp_pbt_line line = {.trial = trial, .source = -1};
    trp_pbt_log_add(&self->log, self->problem, &line, x);
    return TROUPE_OK;
}

static troupe_status pbt_added(troupe_scheduler *scheduler, int trial, const double *x)
{
    seat *of;
    return seat_of((pbt *)scheduler, trial, x, &of);
}

// ---- intervals

static int first_interval(const pbt *self)
{
    return self->how.burn_in > self->how.interval ? self->how.burn_in : self->how.interval;
}

static int pbt_decides_at(troupe_scheduler *scheduler, int trial, int after)
{
    const pbt *self = (pbt *)scheduler;
    int first = first_interval(self), interval = self->how.interval;
    (void)trial;
    long long next = first;
    if (after >= first)
        next = first + ((long long)(after - first) / interval + 1) * interval;
    if (self->how.limit > 0 && next > self->how.limit)
        next = self->how.limit > after ? self->how.limit : (long long)after + 1;
    return next > 0x7fffffff ? 0 : (int)next;
}

static bool is_due(const pbt *self, int before, int report)
{
    int at = pbt_decides_at((troupe_scheduler *)&self->base, 0, before);
    return at != 0 && at <= report;
}

// More new trials are to come, as far as is known.
static bool awaits_new(const pbt *self)
{
    return !self->closed && self->problem->trials > self->added;
}

// ---- judging

static size_t quantile(const pbt *self)
{
    size_t count = self->scores.count;
    size_t size = (size_t)ceil((double)count * self->how.quantile);
    return size > count / 2 ? count / 2 : size;
}

static bool is_worst(pbt *self, int trial, double score)
{
    size_t size = quantile(self), place = trp_ranking_place(&self->scores, score, trial);
    return place >= self->scores.count - size || (isnan(score) && size > 0);
}

// One of the best, drawn; -1: there is none. `random` goes on with the trial's exploring.
static int draw_source(pbt *self, int trial, int report, trp_random *random)
{
    // The searcher draws from (seed, trial).
    trp_random_seed(random, self->problem->seed ^ 0x7062745f636c6f6eu, // "pbt_clon"
                    (uint64_t)trial << 32 | (uint32_t)report);
    size_t size = quantile(self);
    size_t numbers = trp_ranking_better(&self->scores, (double)NAN);
    size = size < numbers ? size : numbers;
    if (size == 0)
        return -1;
    return trp_ranking_at(&self->scores, (size_t)trp_random_below(random, size)).id;
}

// The trial goes on as a clone of the source.
static void clone(pbt *self, int trial, int source, trp_random *random, troupe_verdict *verdict)
{
    const seat *of = trp_seats_at(&self->seats, trial);
    const seat *from = trp_seats_at(&self->seats, source);
    double *point = trp_seats_at(&self->points, trial);
    const trp_explore how = {.resample = self->how.resample,
                             .up = self->how.up,
                             .down = self->how.down,
                             .mutates = self->mutate == NULL ? NULL : self->mutates};
    memcpy(self->chosen, trp_seats_at(&self->points, source), self->points.item);
    trp_explore_point(&how, self->problem, random, self->chosen, self->room);
    memcpy(point, self->chosen, self->points.item);
    if (verdict->x != NULL)
        memcpy(verdict->x, point, self->points.item);
    verdict->act = TROUPE_ACT_CLONE;
    verdict->source = source;
    const trp_pbt_line line = {trial, of->reports, source, from->reports};
    trp_pbt_log_add(&self->log, self->problem, &line, point);
}

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for one more score of a population");
}

// Puts the trial's score in its place. Nothing fails after this has not.
static bool rank(pbt *self, seat *of, int trial, double score)
{
    if (!of->ranked && !trp_ranking_add(&self->scores, score, trial))
        return false;
    if (of->ranked)
        trp_ranking_move(&self->scores, of->score, trial, score);
    of->ranked = true;
    of->score = score;
    return true;
}

static troupe_status pbt_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                troupe_verdict *verdict)
{
    pbt *self = (pbt *)scheduler;
    int trial = progress->trial, report = progress->report;
    seat *of;
    TROUPE_TRY(seat_of(self, trial, progress->x, &of));
    if (of->state != TRP_SEAT_RUNNING)
        return TROUPE_OK;
    bool due = is_due(self, of->reports, report);
    if (self->how.limit > 0 && report >= self->how.limit) {
        of->reports = report;
        verdict->act = TROUPE_ACT_END;
        return TROUPE_OK;
    }
    bool pauses = due && (self->how.synchronous || self->waiting.count > 0 || awaits_new(self));
    if (pauses && !trp_ranking_add(&self->waiting, report, trial))
        return no_memory();
    if (due && !rank(self, of, trial, progress->score)) {
        if (pauses)
            trp_ranking_remove(&self->waiting, report, trial);
        return no_memory();
    }
    of->reports = report;
    if (!due)
        return TROUPE_OK;
    of->worst = !self->how.synchronous && is_worst(self, trial, progress->score);
    if (pauses) {
        of->state = TRP_SEAT_WAITING;
        self->running--;
        verdict->act = TROUPE_ACT_PAUSE;
    } else if (of->worst) {
        trp_random random;
        int source = draw_source(self, trial, report, &random);
        if (source >= 0)
            clone(self, trial, source, &random, verdict);
    }
    return TROUPE_OK;
}

static troupe_status pbt_ended(troupe_scheduler *scheduler, int trial, troupe_ending ending)
{
    pbt *self = (pbt *)scheduler;
    seat *of = trp_seats_at(&self->seats, trial);
    (void)ending;
    if (of == NULL || of->state == TRP_SEAT_NONE || of->state == TRP_SEAT_OVER)
        return TROUPE_OK;
    if (of->state == TRP_SEAT_RUNNING)
        self->running--;
    else if (of->state == TRP_SEAT_READY)
        trp_ranking_remove(&self->ready, of->worst ? 0 : 1, trial);
    else
        trp_ranking_remove(&self->waiting, of->reports, trial);
    if (of->ranked)
        trp_ranking_remove(&self->scores, of->score, trial);
    of->state = TRP_SEAT_OVER;
    self->live--;
    return TROUPE_OK;
}

// ---- who goes on

// All that live have come to their interval: judges them. It has either judged all or changed
// nothing.
static troupe_status judge_all(pbt *self)
{
    for (size_t i = 0; i < self->waiting.count; i++) {
        trp_ranked one = trp_ranking_at(&self->waiting, i);
        seat *of = trp_seats_at(&self->seats, one.id);
        trp_random random;
        of->worst = is_worst(self, one.id, of->score);
        of->source = of->worst ? draw_source(self, one.id, of->reports, &random) : -1;
        of->worst = of->source >= 0;
        if (!trp_ranking_add(&self->ready, of->worst ? 0 : 1, one.id)) {
            trp_ranking_free(&self->ready);
            return no_memory();
        }
    }
    for (size_t i = 0; i < self->ready.count; i++)
        ((seat *)trp_seats_at(&self->seats, trp_ranking_at(&self->ready, i).id))->state =
            TRP_SEAT_READY;
    trp_ranking_free(&self->waiting);
    return TROUPE_OK;
}

static void goes_on(pbt *self, int trial, troupe_verdict *verdict)
{
    seat *of = trp_seats_at(&self->seats, trial);
    of->state = TRP_SEAT_RUNNING;
    self->running++;
    trp_random random;
    int source = -1;
    if (of->worst)
        source = draw_source(self, trial, of->reports, &random);
    if (self->how.synchronous && of->worst)
        source = of->source; // What it was then: others have ended since, and scores have come.
    of->worst = false;
    if (source >= 0 && source != trial)
        clone(self, trial, source, &random, verdict);
}

static troupe_status next_synchronous(pbt *self, bool fresh, int *trial, troupe_verdict *verdict)
{
    bool all = self->running == 0 && self->waiting.count > 0;
    // A new one belongs to the population until its number is reached; where that is not known,
    // until somebody waits.
    bool wanted =
        self->problem->trials > 0 ? self->problem->trials > self->added : self->waiting.count == 0;
    if (self->ready.count == 0 && fresh && wanted)
        return TROUPE_OK;
    if (self->ready.count == 0 && all)
        TROUPE_TRY(judge_all(self));
    if (self->ready.count > 0) {
        trp_ranked first = trp_ranking_at(&self->ready, 0);
        trp_ranking_remove(&self->ready, first.score, first.id);
        *trial = first.id;
        self->closed = !fresh;
        goes_on(self, first.id, verdict);
        return TROUPE_OK;
    }
    if (self->running > 0)
        return TROUPE_BUSY;
    return fresh ? TROUPE_OK : TROUPE_END;
}

static troupe_status pbt_next(troupe_scheduler *scheduler, bool fresh, int *trial,
                              troupe_verdict *verdict)
{
    pbt *self = (pbt *)scheduler;
    if (self->problem == NULL)
        return troupe_fail(TROUPE_INVALID, "pbt: it was not told what is searched (begin)");
    *trial = -1;
    if (self->how.synchronous)
        return next_synchronous(self, fresh, trial, verdict);
    if (fresh && self->problem->trials > self->added)
        return TROUPE_OK;
    if (self->waiting.count > 0) {
        trp_ranked first = trp_ranking_at(&self->waiting, 0);
        trp_ranking_remove(&self->waiting, first.score, first.id);
        *trial = first.id;
        self->closed = !fresh;
        goes_on(self, first.id, verdict);
        return TROUPE_OK;
    }
    if (fresh)
        return TROUPE_OK;
    return self->running > 0 ? TROUPE_BUSY : TROUPE_END;
}

// ---- made and freed

static void pbt_destroy(troupe_scheduler *scheduler)
{
    pbt *self = (pbt *)scheduler;
    trp_ranking_free(&self->scores);
    trp_ranking_free(&self->waiting);
    trp_ranking_free(&self->ready);
    trp_seats_free(&self->seats);
    trp_seats_free(&self->points);
    trp_pbt_log_close(&self->log);
    trp_buffer_free(&self->description);
    trp_free(self->room);
    trp_free(self->chosen);
    trp_free(self->mutates);
    trp_free(self->log_path);
    trp_free(self->mutate);
    trp_free(self);
}

static troupe_status check(troupe_pbt_options *how, const troupe_pbt_options *given)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_pbt", *how, given));
    how->interval = how->interval == 0 ? 1 : how->interval;
    how->quantile = how->quantile == 0 ? 0.25 : how->quantile;
    how->resample = how->resample == 0 ? 0.25 : how->resample;
    how->up = how->up == 0 ? 1.2 : how->up;
    how->down = how->down == 0 ? 0.8 : how->down;
    if (how->interval < 1)
        return troupe_fail(TROUPE_INVALID, "pbt: interval is %d, must be at least 1",
                           how->interval);
    if (how->burn_in < 0)
        return troupe_fail(TROUPE_INVALID, "pbt: burn_in is %d, must be at least 0", how->burn_in);
    if (!(how->quantile > 0 && how->quantile <= 0.5))
        return troupe_fail(TROUPE_INVALID, "pbt: quantile is %g, must be above 0 and at most 0.5",
                           how->quantile);
    if (!(how->resample > 0 && how->resample <= 1))
        return troupe_fail(TROUPE_INVALID, "pbt: resample is %g, must be above 0 and at most 1",
                           how->resample);
    if (!(how->up > 1 && isfinite(how->up)))
        return troupe_fail(TROUPE_INVALID, "pbt: up is %g, must be above 1", how->up);
    if (!(how->down > 0 && how->down < 1))
        return troupe_fail(TROUPE_INVALID, "pbt: down is %g, must be above 0 and below 1",
                           how->down);
    if (how->limit < 0)
        return troupe_fail(TROUPE_INVALID, "pbt: limit is %d, must be at least 1", how->limit);
    return TROUPE_OK;
}

// Everything that decides: a sweep that goes on compares it.
static void describe(pbt *self)
{
    const troupe_pbt_options *how = &self->how;
    trp_buffer *text = &self->description;
    trp_buffer_printf(text, "PBT (interval %d, quantile %g", how->interval, how->quantile);
    if (how->burn_in > 0)
        trp_buffer_printf(text, ", burn-in %d", how->burn_in);
    trp_buffer_printf(text, ", resample %g, up %g, down %g", how->resample, how->up, how->down);
    if (how->limit > 0)
        trp_buffer_printf(text, ", limit %d", how->limit);
    if (how->synchronous)
        trp_buffer_printf(text, ", synchronous");
    if (self->mutate != NULL)
        trp_buffer_printf(text, ", of %s", self->mutate);
    trp_buffer_append(text, ")", 2);
}

troupe_scheduler *troupe_pbt_with(const troupe_pbt_options *given)
{
    troupe_pbt_options how;
    if (check(&how, given) != TROUPE_OK)
        return trp_scheduler_refused();
    pbt *self = trp_alloc(sizeof *self);
    if (self != NULL) {
        self->how = how;
        self->log.fd = -1;
        self->log_path = how.log == NULL ? NULL : trp_strdup(how.log);
        self->mutate = how.mutate == NULL ? NULL : trp_strdup(how.mutate);
        describe(self);
    }
    if (self == NULL || self->description.failed || (how.log != NULL && self->log_path == NULL) ||
        (how.mutate != NULL && self->mutate == NULL)) {
        if (self != NULL)
            pbt_destroy(&self->base);
        troupe_fail(TROUPE_NO_MEMORY, "no memory for a scheduler");
        return trp_scheduler_refused();
    }
    self->seats.item = sizeof(seat);
    self->base = (troupe_scheduler){.abi = TROUPE_ABI,
                                    .describe = (const char *)self->description.data,
                                    .begin = pbt_begin,
                                    .added = pbt_added,
                                    .decides_at = pbt_decides_at,
                                    .decide = pbt_decide,
                                    .ended = pbt_ended,
                                    .next = pbt_next,
                                    .destroy = pbt_destroy,
                                    .limit = how.limit};
    return &self->base;
}
