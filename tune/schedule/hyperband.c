// hyperband.c: HyperBand (Li et al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter
// Optimization", JMLR 2018, algorithm 1).
//
// Bracket s = floor(log_eta R), .., 0 begins with ceil((s_max + 1) / (s + 1) * eta^s) trials, which
// pause after R / eta^s reports; when all are there, the best 1/eta of them (rounded down) go on to
// eta times as many, and so on; the last ones end at R. A new trial goes to the bracket that is not
// full, or begins the next one; after s = 0 comes s_max again. Brackets run side by side: a worker
// that has nothing to do in the first ones begins a trial of the newest. A trial that has failed or
// ended by itself leaves its bracket, which waits for it no more; its place is nobody's. NaN goes
// on nowhere. Where no new trials come, a bracket that is not full is halved as it is; at least one
// of a bracket goes on.
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdio.h>
#include <tune/schedule/hyperband.h>
#include <tune/schedule/ranking.h>
#include <tune/schedule/scheduler.h>
#include <tune/schedule/seats.h>

typedef struct bracket {
    int s;
    int joined;  // Trials that it was given.
    int size;    // That it is to be given. Less than planned, if no more came.
    int rung;    // Where its trials wait, or are on the way to.
    int entered; // Trials of this stage.
    int pending; // Of these, the ones that have neither come to the rung nor left.
    trp_ranking waiting;
} bracket;

typedef struct seat {
    trp_seat state;
    int bracket;
    double score; // At the rung where it waits.
    int after;    // In the queue of what is ready or dropped: the next one's number, plus 1.
} seat;

typedef struct queue {
    int first, last; // Numbers plus 1; 0: none.
} queue;

typedef struct hyperband {
    troupe_scheduler base;
    troupe_hyperband_options how;
    int running;
    trp_seats seats;
    trp_seats brackets; // In the order in which they began.
    int bracket_count;
    queue ready, dropped;
    char description[96];
    trp_hyperband_plan plans[]; // By s.
} hyperband;

// ---- the numbers

int trp_hyperband_brackets(int limit, int reduction, bool as_ray)
{
    if (as_ray)
        return (int)rint(log(limit) / log(reduction)) + 1;
    int count = 1;
    for (long long most = reduction; most <= limit; most *= reduction)
        count++;
    return count;
}

bool trp_hyperband_plan_make(int limit, int reduction, bool as_ray, int s, trp_hyperband_plan *plan)
{
    int brackets = trp_hyperband_brackets(limit, reduction, as_ray);
    double first = ceil((double)brackets / (s + 1) * pow(reduction, s));
    plan->halvings = s;
    plan->trials[0] = first > 0x7fffffff ? 0x7fffffff : (int)first;
    long long part = 1;
    for (int i = 0; i < s; i++)
        part *= reduction;
    plan->levels[0] = as_ray ? (int)(limit * pow(reduction, -s)) : (int)(limit / part);
    for (int i = 1; i <= s; i++) {
        part /= reduction;
        int before = plan->trials[i - 1];
        long long next = (long long)plan->levels[i - 1] * reduction;
        plan->trials[i] = as_ray ? (before - 1) / reduction + 1 : before / reduction;
        plan->levels[i] = !as_ray ? (int)(limit / part) : next < limit ? (int)next : limit;
    }
    return plan->levels[0] > 0;
}

// ---- queues

static void push(hyperband *self, queue *line, int trial)
{
    seat *of = trp_seats_at(&self->seats, trial);
    of->after = 0;
    if (line->last == 0)
        line->first = trial + 1;
    else
        ((seat *)trp_seats_at(&self->seats, line->last - 1))->after = trial + 1;
    line->last = trial + 1;
}

// Takes the first that is still in that state: others have ended meanwhile. -1: there is none.
static int pop(hyperband *self, queue *line, trp_seat state)
{
    while (line->first != 0) {
        int trial = line->first - 1;
        const seat *of = trp_seats_at(&self->seats, trial);
        line->first = of->after;
        if (line->first == 0)
            line->last = 0;
        if (of->state == state)
            return trial;
    }
    return -1;
}

// ---- halving

static bool is_full(const bracket *in)
{
    return in->joined >= in->size;
}

// A trial's number in a ranking, and back: of equal scores the first one is better, with Ray the
// last.
static int ranked_as(const hyperband *self, int trial)
{
    return self->how.as_ray ? -1 - trial : trial;
}

// Halves a bracket whose trials of this stage have all come to their rung or left: its best are
// ready, the others dropped. `last`: the trial that came last, which runs still, or -1: it is put
// in no queue. Returns whether that one goes on.
static bool halve(hyperband *self, bracket *in, int last)
{
    int keep = self->how.as_ray ? (in->entered - 1) / self->how.reduction + 1
                                : in->entered / self->how.reduction;
    size_t numbers = trp_ranking_better(&in->waiting, (double)NAN);
    size_t most = keep < 1 ? 1 : (size_t)keep;
    size_t promoted = most < numbers ? most : numbers;
    bool goes_on = false;
    for (size_t i = 0; in->waiting.count > 0; i++) {
        trp_ranked best = trp_ranking_at(&in->waiting, 0);
        trp_ranking_remove(&in->waiting, best.score, best.id);
        int trial = ranked_as(self, best.id);
        seat *of = trp_seats_at(&self->seats, trial);
        if (trial == last) {
            goes_on = i < promoted;
            continue;
        }
        of->state = i < promoted ? TRP_SEAT_READY : TRP_SEAT_DROPPED;
        push(self, i < promoted ? &self->ready : &self->dropped, trial);
    }
    in->rung++;
    in->entered = (int)most;
    in->pending = (int)promoted;
    return goes_on;
}

static bool can_halve(const bracket *in)
{
    return is_full(in) && in->pending == 0 && in->waiting.count > 0;
}

// ---- the table

// The bracket that a new trial goes to, made if need be.
static troupe_status open_bracket(hyperband *self, bracket **in, int *index)
{
    int newest = self->bracket_count - 1;
    *in = trp_seats_at(&self->brackets, newest);
    *index = newest;
    if (*in != NULL && !is_full(*in))
        return TROUPE_OK;
    int kinds = trp_hyperband_brackets(self->how.limit, self->how.reduction, self->how.as_ray);
    int s = self->how.as_ray ? 0 : kinds - 1; // Ray begins with the smallest.
    if (*in != NULL)
        s = self->how.as_ray ? ((*in)->s + 1) % kinds : ((*in)->s + kinds - 1) % kinds;
    if (self->plans[s].levels[0] == 0)
        s = 0; // It is the last of Ray's that may be too small.
    TROUPE_TRY(trp_seats_make(&self->brackets, newest + 1, in));
    int size = self->plans[s].trials[0];
    **in = (bracket){.s = s, .size = size, .entered = size};
    *index = newest + 1;
    self->bracket_count++;
    return TROUPE_OK;
}

static troupe_status seat_of(hyperband *self, int trial, seat **found)
{
    TROUPE_TRY(trp_seats_make(&self->seats, trial, found));
    seat *of = *found;
    if (of->state != TRP_SEAT_NONE)
        return TROUPE_OK;
    bracket *in;
    TROUPE_TRY(open_bracket(self, &in, &of->bracket));
    of->state = TRP_SEAT_RUNNING;
    in->joined++;
    in->pending++;
    self->running++;
    return TROUPE_OK;
}

static bracket *bracket_of(const hyperband *self, const seat *of)
{
    return trp_seats_at(&self->brackets, of->bracket);
}

static troupe_status hyperband_added(troupe_scheduler *scheduler, int trial, const double *x)
{
    seat *of;
    (void)x;
    return seat_of((hyperband *)scheduler, trial, &of);
}

static int hyperband_decides_at(troupe_scheduler *scheduler, int trial, int after)
{
    const hyperband *self = (hyperband *)scheduler;
    const seat *of = trp_seats_at(&self->seats, trial);
    if (of == NULL || of->state == TRP_SEAT_NONE)
        return after + 1;
    const trp_hyperband_plan *plan = &self->plans[bracket_of(self, of)->s];
    for (int i = 0; i <= plan->halvings; i++) {
        if (plan->levels[i] > after)
            return plan->levels[i];
    }
    return after + 1;
}

static troupe_status hyperband_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                      troupe_verdict *verdict)
{
    hyperband *self = (hyperband *)scheduler;
    seat *of;
    TROUPE_TRY(seat_of(self, progress->trial, &of));
    bracket *in = bracket_of(self, of);
    const trp_hyperband_plan *plan = &self->plans[in->s];
    if (of->state != TRP_SEAT_RUNNING)
        return TROUPE_OK;
    if (progress->report >= plan->levels[plan->halvings]) {
        verdict->act = TROUPE_ACT_END;
        return TROUPE_OK;
    }
    if (progress->report < plan->levels[in->rung])
        return TROUPE_OK;
    if (!trp_ranking_add(&in->waiting, progress->score, ranked_as(self, progress->trial)))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for one more score of a bracket");
    of->score = progress->score;
    in->pending--;
    if (can_halve(in)) {
        if (!halve(self, in, progress->trial)) {
            of->state = TRP_SEAT_ENDING;
            verdict->act = TROUPE_ACT_STOP;
        }
        return TROUPE_OK;
    }
    of->state = TRP_SEAT_WAITING;
    self->running--;
    verdict->act = TROUPE_ACT_PAUSE;
    return TROUPE_OK;
}

static troupe_status hyperband_ended(troupe_scheduler *scheduler, int trial, troupe_ending ending)
{
    hyperband *self = (hyperband *)scheduler;
    seat *of = trp_seats_at(&self->seats, trial);
    (void)ending; // However it ended, it comes to no rung.
    if (of == NULL || of->state == TRP_SEAT_NONE)
        return TROUPE_OK;
    bracket *in = bracket_of(self, of);
    trp_seat was = of->state;
    of->state = TRP_SEAT_OVER;
    if (was == TRP_SEAT_WAITING)
        trp_ranking_remove(&in->waiting, of->score, ranked_as(self, trial));
    if (was == TRP_SEAT_RUNNING || was == TRP_SEAT_ENDING)
        self->running--;
    if (was == TRP_SEAT_RUNNING || was == TRP_SEAT_READY)
        in->pending--;
    if (can_halve(in))
        halve(self, in, -1);
    return TROUPE_OK;
}

static troupe_status hyperband_next(troupe_scheduler *scheduler, bool fresh, int *trial,
                                    troupe_verdict *verdict)
{
    hyperband *self = (hyperband *)scheduler;
    bracket *newest = trp_seats_at(&self->brackets, self->bracket_count - 1);
    (void)verdict;
    if (!fresh && newest != NULL && !is_full(newest) && newest->pending == 0 &&
        newest->waiting.count > 0) {
        newest->size = newest->joined;
        newest->entered = self->how.as_ray ? newest->entered : newest->joined;
        halve(self, newest, -1);
    }
    *trial = pop(self, &self->dropped, TRP_SEAT_DROPPED);
    if (*trial >= 0) {
        ((seat *)trp_seats_at(&self->seats, *trial))->state = TRP_SEAT_OVER;
        return TROUPE_STOPPED;
    }
    *trial = pop(self, &self->ready, TRP_SEAT_READY);
    if (*trial >= 0) {
        ((seat *)trp_seats_at(&self->seats, *trial))->state = TRP_SEAT_RUNNING;
        self->running++;
        return TROUPE_OK;
    }
    if (fresh) // -1: a new one.
        return TROUPE_OK;
    return self->running > 0 ? TROUPE_BUSY : TROUPE_END;
}

static void hyperband_destroy(troupe_scheduler *scheduler)
{
    hyperband *self = (hyperband *)scheduler;
    for (int i = 0; i < self->bracket_count; i++)
        trp_ranking_free(&((bracket *)trp_seats_at(&self->brackets, i))->waiting);
    trp_seats_free(&self->brackets);
    trp_seats_free(&self->seats);
    trp_free(self);
}

static troupe_status check(troupe_hyperband_options *how, const troupe_hyperband_options *given)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_hyperband", *how, given));
    how->limit = how->limit == 0 ? 81 : how->limit;
    how->reduction = how->reduction == 0 ? 3 : how->reduction;
    if (how->reduction < 2)
        return troupe_fail(TROUPE_INVALID, "hyperband: reduction is %d, must be at least 2",
                           how->reduction);
    if (how->limit < 1)
        return troupe_fail(TROUPE_INVALID, "hyperband: limit is %d, must be at least 1",
                           how->limit);
    return TROUPE_OK;
}

troupe_scheduler *troupe_hyperband_with(const troupe_hyperband_options *given)
{
    troupe_hyperband_options how;
    if (check(&how, given) != TROUPE_OK)
        return trp_scheduler_refused();
    int kinds = trp_hyperband_brackets(how.limit, how.reduction, how.as_ray);
    hyperband *self = trp_alloc(sizeof *self + (size_t)kinds * sizeof *self->plans);
    if (self == NULL) {
        troupe_fail(TROUPE_NO_MEMORY, "no memory for a scheduler");
        return trp_scheduler_refused();
    }
    self->how = how;
    self->seats.item = sizeof(seat);
    self->brackets.item = sizeof(bracket);
    for (int s = 0; s < kinds; s++)
        trp_hyperband_plan_make(how.limit, how.reduction, how.as_ray, s, &self->plans[s]);
    snprintf(self->description, sizeof self->description, "HyperBand (limit %d, reduction %d%s)",
             how.limit, how.reduction, how.as_ray ? ", as Ray" : "");
    self->base = (troupe_scheduler){.abi = TROUPE_ABI,
                                    .describe = self->description,
                                    .added = hyperband_added,
                                    .decides_at = hyperband_decides_at,
                                    .decide = hyperband_decide,
                                    .ended = hyperband_ended,
                                    .next = hyperband_next,
                                    .destroy = hyperband_destroy,
                                    .limit = how.limit};
    return &self->base;
}
