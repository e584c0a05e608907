// resizing.c: shares ranks evenly among the trials that run, beside another scheduler; the rule of
// Ray's ResourceChangingScheduler with DistributeResources.
//
// At a report a trial that goes on gets ceil(cpus / trials) ranks, as far as they are free: the
// trials that run, are paused or are still to come share alike, but no trial gets fewer than trials
// begin with. Of the latter the first report tells.
#include <limits.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <tune/schedule/beside.h>
#include <tune/schedule/seats.h>

typedef struct seat {
    trp_seat state;
    int ranks; // That it has, or is to go on with.
} seat;

typedef struct resizing {
    troupe_scheduler base;
    troupe_scheduler *inner;
    const troupe_problem *problem; // NULL: not told.
    troupe_resize_options how;
    int first;       // Ranks that trials begin with; 0: nobody has reported.
    int added, over; // Trials.
    long long held;  // Ranks of those that run.
    trp_seats seats;
    char description[192];
} resizing;

static troupe_status resizing_begin(troupe_scheduler *scheduler, const troupe_problem *problem)
{
    resizing *self = (resizing *)scheduler;
    self->problem = problem;
    return trp_beside_begin(self->inner, problem);
}

static troupe_status seat_of(resizing *self, int trial, seat **found)
{
    TROUPE_TRY(trp_seats_make(&self->seats, trial, found));
    if ((*found)->state == TRP_SEAT_NONE) {
        **found = (seat){TRP_SEAT_RUNNING, self->first};
        self->held += self->first;
        self->added++;
    }
    return TROUPE_OK;
}

static troupe_status resizing_added(troupe_scheduler *scheduler, int trial, const double *x)
{
    resizing *self = (resizing *)scheduler;
    seat *of;
    TROUPE_TRY(trp_seats_make(&self->seats, trial, &of)); // What may fail comes first.
    TROUPE_TRY(trp_beside_added(self->inner, trial, x));
    return seat_of(self, trial, &of);
}

static int resizing_decides_at(troupe_scheduler *scheduler, int trial, int after)
{
    (void)scheduler;
    (void)trial;
    return after + 1;
}

static void hold(resizing *self, seat *of, int ranks)
{
    self->held += ranks - of->ranks;
    of->ranks = ranks;
}

// What a trial gets that has `ranks` of those that are held.
static int share(const resizing *self, int ranks)
{
    long long trials = self->added - self->over;
    if (self->problem != NULL && self->problem->trials > self->added)
        trials += self->problem->trials - self->added;
    trials = trials < 1 ? 1 : trials;
    long long most = (self->how.cpus + trials - 1) / trials;
    if (self->how.max_ranks > 0 && most > self->how.max_ranks)
        most = self->how.max_ranks;
    long long free = self->how.cpus - self->held;
    long long gets = ranks + free < most ? ranks + free : most;
    return gets < self->first ? self->first : (int)gets;
}

static troupe_status resizing_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                     troupe_verdict *verdict)
{
    resizing *self = (resizing *)scheduler;
    seat *of;
    TROUPE_TRY(seat_of(self, progress->trial, &of));
    TROUPE_TRY(self->inner->decide(self->inner, progress, verdict));
    if (of->state != TRP_SEAT_RUNNING)
        return TROUPE_OK;
    if (self->first == 0) { // Those that run and have not reported began with as many.
        self->first = progress->ranks;
        for (size_t i = 0; i < self->seats.count; i++) {
            seat *one = trp_seats_at(&self->seats, (int)i);
            if (one->state == TRP_SEAT_RUNNING)
                hold(self, one, self->first);
        }
    }
    hold(self, of, progress->ranks);
    if (verdict->act == TROUPE_ACT_PAUSE) {
        of->state = TRP_SEAT_WAITING;
        self->held -= of->ranks;
    } else if (verdict->act == TROUPE_ACT_GO_ON) {
        int gets = share(self, of->ranks);
        if (gets != of->ranks) {
            hold(self, of, gets);
            verdict->act = TROUPE_ACT_RESIZE;
            verdict->ranks = gets;
        }
    }
    return TROUPE_OK;
}

static troupe_status resizing_ended(troupe_scheduler *scheduler, int trial, troupe_ending ending)
{
    resizing *self = (resizing *)scheduler;
    seat *of = trp_seats_at(&self->seats, trial);
    TROUPE_TRY(trp_beside_ended(self->inner, trial, ending));
    if (of == NULL || of->state == TRP_SEAT_NONE || of->state == TRP_SEAT_OVER)
        return TROUPE_OK;
    if (of->state == TRP_SEAT_RUNNING)
        self->held -= of->ranks;
    of->state = TRP_SEAT_OVER;
    self->over++;
    return TROUPE_OK;
}

static troupe_status resizing_next(troupe_scheduler *scheduler, bool fresh, int *trial,
                                   troupe_verdict *verdict)
{
    resizing *self = (resizing *)scheduler;
    TROUPE_TRY(trp_beside_next(self->inner, fresh, trial, verdict));
    seat *of = trp_seats_at(&self->seats, *trial);
    if (of == NULL || of->state != TRP_SEAT_WAITING)
        return TROUPE_OK;
    of->state = TRP_SEAT_RUNNING;
    self->held += of->ranks;
    if (verdict->act == TROUPE_ACT_GO_ON) {
        int gets = share(self, of->ranks);
        if (gets != of->ranks) {
            hold(self, of, gets);
            verdict->act = TROUPE_ACT_RESIZE;
            verdict->ranks = gets;
        }
    }
    return TROUPE_OK;
}

static void resizing_destroy(troupe_scheduler *scheduler)
{
    resizing *self = (resizing *)scheduler;
    trp_seats_free(&self->seats);
    self->inner->destroy(self->inner);
    trp_free(self);
}

static troupe_status check(troupe_resize_options *how, const troupe_resize_options *given)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_resizing", *how, given));
    if (how->cpus < 1)
        return troupe_fail(TROUPE_INVALID, "resizing: cpus is %d, must be at least 1", how->cpus);
    if (how->max_ranks < 0)
        return troupe_fail(TROUPE_INVALID, "resizing: max_ranks is %d, must be at least 0",
                           how->max_ranks);
    return TROUPE_OK;
}

troupe_scheduler *troupe_resizing_with(troupe_scheduler *given,
                                       const troupe_resize_options *options)
{
    troupe_resize_options how;
    troupe_scheduler *inner = trp_beside_take("resizing", given);
    if (inner == NULL)
        return trp_scheduler_refused();
    resizing *self = trp_beside_alloc(inner, check(&how, options), sizeof *self);
    if (self == NULL)
        return trp_scheduler_refused();
    self->inner = inner;
    self->how = how;
    self->seats.item = sizeof(seat);
    int at = snprintf(self->description, sizeof self->description, "%.120s, resizing (cpus %d",
                      trp_beside_describe(inner), how.cpus);
    size_t left = sizeof self->description - (size_t)at;
    if (how.max_ranks > 0)
        snprintf(self->description + at, left, ", at most %d ranks)", how.max_ranks);
    else
        snprintf(self->description + at, left, ")");
    self->base = (troupe_scheduler){.abi = TROUPE_ABI,
                                    .describe = self->description,
                                    .begin = resizing_begin,
                                    .added = resizing_added,
                                    .decides_at = resizing_decides_at,
                                    .decide = resizing_decide,
                                    .ended = resizing_ended,
                                    .next = resizing_next,
                                    .destroy = resizing_destroy,
                                    .limit = inner->limit};
    return &self->base;
}
