// repeat.c: the searcher that tries each point of another several times, and tells it of the mean.
//
// To the other a point is one trial, numbered from 0 in the order in which points are first given
// out. Points of earlier studies, whose numbers are negative, pass through.
#include <limits.h>
#include <math.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <tune/search/searcher.h>

// The trials of a point.
typedef struct repeated {
    int given, ended;
    int failed;
    bool stopped;
    int reports; // The fewest that one made which did not fail.
    double violation;
} repeated;

typedef struct outer_trial {
    int number;
    int point;
    int place; // Among the point's.
    bool ended;
} outer_trial;

// A report of a point's trials that is not told yet.
typedef struct report_mean {
    int point, report;
    double sum;
    int count;
} report_mean;

typedef struct repeat {
    troupe_searcher base;
    troupe_searcher *inner;
    int repeats;
    troupe_problem problem; // The other's: with as many trials as there are points.
    repeated *points;
    double *x, *sums;          // Of each point: coordinates, and sums of scores.
    int *last;                 // Of each of its trials: its last report; INT_MAX: it has ended.
    size_t count, room, first; // The first one that was given less often than it is to be.
    outer_trial *trials;       // By rising numbers.
    size_t trial_count, trial_room;
    report_mean *means;
    size_t mean_count, mean_room;
    double *scores; // Room for means.
    char name[160];
} repeat;

// Room for one more item of `size` bytes; false: no memory.
static bool reserve(void **items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return true;
    size_t more = *room == 0 ? 16 : *room * 2;
    void *grown = trp_realloc(*items, more * size);
    if (grown == NULL)
        return false;
    *items = grown;
    *room = more;
    return true;
}

static troupe_status short_of_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for repeated trials");
}

static size_t place_of(const repeat *self, int number)
{
    size_t low = 0, high = self->trial_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (self->trials[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static outer_trial *find(const repeat *self, int number)
{
    size_t place = place_of(self, number);
    bool there = place < self->trial_count && self->trials[place].number == number;
    return there ? &self->trials[place] : NULL;
}

static bool is_same(const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))))
            return false;
    return true;
}

static troupe_status repeat_begin(troupe_searcher *searcher, const troupe_problem *problem)
{
    repeat *self = (repeat *)searcher;
    self->problem = *problem;
    self->problem.trials = (problem->trials + self->repeats - 1) / self->repeats;
    self->scores = trp_alloc(problem->objectives * sizeof *self->scores);
    if (self->scores == NULL)
        return short_of_memory();
    if (self->inner->begin == NULL)
        return TROUPE_OK;
    return self->inner->begin(self->inner, &self->problem);
}

static troupe_status repeat_suggest(troupe_searcher *searcher, int number, double *x)
{
    repeat *self = (repeat *)searcher;
    (void)number;
    if (self->first == self->count)
        return self->inner->suggest(self->inner, (int)self->count, x);
    size_t width = self->problem.dim_count;
    memcpy(x, self->x + self->first * width, width * sizeof *x);
    return TROUPE_OK;
}

static troupe_status point_new(repeat *self, const double *x)
{
    size_t width = self->problem.dim_count, objectives = self->problem.objectives;
    size_t room = self->room;
    if (!reserve((void **)&self->points, self->count, &room, sizeof *self->points))
        return short_of_memory();
    if (room != self->room) {
        double *grown = trp_realloc(self->x, (room * width + 1) * sizeof *grown);
        if (grown != NULL)
            self->x = grown;
        double *sums = trp_realloc(self->sums, room * objectives * sizeof *sums);
        if (sums != NULL)
            self->sums = sums;
        int *last = trp_realloc(self->last, room * (size_t)self->repeats * sizeof *last);
        if (last != NULL)
            self->last = last;
        if (grown == NULL || sums == NULL || last == NULL)
            return short_of_memory();
        self->room = room;
    }
    if (self->inner->given != NULL)
        TROUPE_TRY(self->inner->given(self->inner, (int)self->count, x));
    memcpy(self->x + self->count * width, x, width * sizeof *x);
    for (size_t i = 0; i < objectives; i++)
        self->sums[self->count * objectives + i] = 0;
    memset(self->last + self->count * (size_t)self->repeats, 0,
           (size_t)self->repeats * sizeof *self->last);
    self->points[self->count++] = (repeated){0};
    return TROUPE_OK;
}

static troupe_status repeat_given(troupe_searcher *searcher, int number, const double *x)
{
    repeat *self = (repeat *)searcher;
    size_t width = self->problem.dim_count, point = self->first;
    if (number < 0)
        return self->inner->given == NULL ? TROUPE_OK : self->inner->given(self->inner, number, x);
    if (!reserve((void **)&self->trials, self->trial_count, &self->trial_room,
                 sizeof *self->trials))
        return short_of_memory();
    while (point < self->count && (self->points[point].given == self->repeats ||
                                   !is_same(self->x + point * width, x, width)))
        point++;
    if (point == self->count)
        TROUPE_TRY(point_new(self, x));
    int among = self->points[point].given++;
    while (self->first < self->count && self->points[self->first].given == self->repeats)
        self->first++;
    size_t place = place_of(self, number);
    memmove(self->trials + place + 1, self->trials + place,
            (self->trial_count - place) * sizeof *self->trials);
    self->trials[place] = (outer_trial){.number = number, .point = (int)point, .place = among};
    self->trial_count++;
    return TROUPE_OK;
}

static int *last_of(const repeat *self, int point)
{
    return self->last + (size_t)point * (size_t)self->repeats;
}

// Tells of those reports, in their order, that each of the point's trials has made, or ended
// before.
static troupe_status tell_reports(repeat *self, int point)
{
    const int *last = last_of(self, point);
    int least = INT_MAX; // Of a trial that was not given yet: 0.
    for (int i = 0; i < self->repeats; i++)
        least = last[i] < least ? last[i] : least;
    size_t left = 0;
    troupe_status status = TROUPE_OK;
    for (size_t i = 0; i < self->mean_count; i++) {
        report_mean *mean = &self->means[i];
        if (mean->point != point || mean->report > least)
            self->means[left++] = *mean;
        else if (status == TROUPE_OK)
            status = self->inner->report(self->inner, point, mean->report, mean->sum / mean->count);
    }
    self->mean_count = left;
    return status;
}

static troupe_status repeat_report(troupe_searcher *searcher, int number, int report, double score)
{
    repeat *self = (repeat *)searcher;
    outer_trial *trial = find(self, number);
    if (self->inner->report == NULL)
        return TROUPE_OK;
    if (number < 0)
        return self->inner->report(self->inner, number, report, score);
    if (trial == NULL || report <= last_of(self, trial->point)[trial->place])
        return TROUPE_OK;
    if (!reserve((void **)&self->means, self->mean_count, &self->mean_room, sizeof *self->means))
        return short_of_memory();
    size_t at = self->mean_count; // After the point's earlier reports, so that they stay in order.
    while (at > 0 &&
           (self->means[at - 1].point != trial->point || self->means[at - 1].report > report))
        at--;
    if (at > 0 && self->means[at - 1].report == report) {
        self->means[at - 1].sum += score;
        self->means[at - 1].count++;
    } else {
        memmove(self->means + at + 1, self->means + at,
                (self->mean_count - at) * sizeof *self->means);
        self->means[at] =
            (report_mean){.point = trial->point, .report = report, .sum = score, .count = 1};
        self->mean_count++;
    }
    last_of(self, trial->point)[trial->place] = report;
    return tell_reports(self, trial->point);
}

// All of a point's trials are over.
static troupe_status tell_end(repeat *self, int point)
{
    const repeated *of = &self->points[point];
    size_t objectives = self->problem.objectives;
    int good = self->repeats - of->failed;
    for (size_t i = 0; i < objectives; i++)
        self->scores[i] =
            good > 0 ? self->sums[(size_t)point * objectives + i] / good : (double)NAN;
    troupe_observation seen = {
        .size = sizeof seen,
        .number = point,
        .ending = good == 0     ? TROUPE_ENDING_FAILED
                  : of->stopped ? TROUPE_ENDING_STOPPED
                                : TROUPE_ENDING_COMPLETE,
        .x = self->x + (size_t)point * self->problem.dim_count,
        .scores = self->scores,
        .reports = of->reports,
        .violation = good > 0 ? of->violation / good : 0,
    };
    return self->inner->observe(self->inner, &seen);
}

static troupe_status repeat_observe(troupe_searcher *searcher, const troupe_observation *seen)
{
    repeat *self = (repeat *)searcher;
    size_t objectives = self->problem.objectives;
    if (seen->number < 0)
        return self->inner->observe == NULL ? TROUPE_OK : self->inner->observe(self->inner, seen);
    outer_trial *trial = find(self, seen->number);
    if (trial == NULL) {
        TROUPE_TRY(repeat_given(searcher, seen->number, seen->x));
        trial = find(self, seen->number);
    }
    if (trial->ended)
        return TROUPE_OK;
    trial->ended = true;
    last_of(self, trial->point)[trial->place] = INT_MAX;
    repeated *of = &self->points[trial->point];
    bool failed = seen->ending == TROUPE_ENDING_FAILED;
    for (size_t i = 0; i < objectives; i++)
        failed = failed || isnan(seen->scores[i]);
    if (failed) {
        of->failed++;
    } else {
        of->reports =
            of->ended == of->failed || seen->reports < of->reports ? seen->reports : of->reports;
        of->stopped = of->stopped || seen->ending == TROUPE_ENDING_STOPPED;
        of->violation += seen->violation;
        for (size_t i = 0; i < objectives; i++)
            self->sums[(size_t)trial->point * objectives + i] += seen->scores[i];
    }
    of->ended++;
    int point = trial->point;
    if (self->inner->report != NULL)
        TROUPE_TRY(tell_reports(self, point));
    bool over = of->ended == self->repeats && self->inner->observe != NULL;
    return over ? tell_end(self, point) : TROUPE_OK;
}

static void repeat_destroy(troupe_searcher *searcher)
{
    repeat *self = (repeat *)searcher;
    troupe_searcher_free(&self->inner);
    trp_free(self->points);
    trp_free(self->x);
    trp_free(self->sums);
    trp_free(self->last);
    trp_free(self->trials);
    trp_free(self->means);
    trp_free(self->scores);
    trp_free(self);
}

static troupe_status check(const troupe_searcher *inner, int repeats)
{
    if (inner == NULL)
        return troupe_fail(TROUPE_INVALID,
                           "troupe_search_repeat needs a searcher: 'inner' is NULL");
    if (inner->refusal != TROUPE_OK)
        return troupe_fail(inner->refusal, "%s", inner->name);
    if (inner->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION, "searcher '%s' has ABI %u, the library %u", inner->name,
                           inner->abi, TROUPE_ABI);
    if (repeats < 2)
        return troupe_fail(TROUPE_INVALID, "%d repeats of each point; there are 2 or more",
                           repeats);
    return TROUPE_OK;
}

int trp_repeated_grid_points(const troupe_searcher *searcher, int *times)
{
    const repeat *self = (const repeat *)searcher;
    bool outer = searcher->destroy == repeat_destroy;
    *times = outer ? self->repeats : 1;
    return trp_grid_points(outer ? self->inner : searcher);
}

// The searcher within is consumed, also where it is not made.
static troupe_searcher *unmade(troupe_searcher *inner, troupe_searcher *instead)
{
    troupe_searcher_free(&inner);
    return instead;
}

troupe_searcher *troupe_search_repeat(troupe_searcher *inner, int repeats)
{
    if (check(inner, repeats) != TROUPE_OK)
        return unmade(inner, trp_searcher_refused());
    repeat *self = trp_alloc(sizeof *self);
    if (self == NULL)
        return unmade(inner, trp_searcher_short());
    snprintf(self->name, sizeof self->name, "%d times each of %s", repeats, inner->name);
    self->base = (troupe_searcher){.abi = TROUPE_ABI,
                                   .name = self->name,
                                   .begin = repeat_begin,
                                   .suggest = repeat_suggest,
                                   .given = repeat_given,
                                   .report = repeat_report,
                                   .observe = repeat_observe,
                                   .destroy = repeat_destroy};
    self->inner = inner;
    self->repeats = repeats;
    return &self->base;
}
