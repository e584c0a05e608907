// schedule_plan.c: what may start at one moment. The invariant: what is started fits, for as long
// as it may run, beside everything that runs, beside every reservation at its time, and beside the
// one job that waits and has been promised a time.
#include <server/schedule_internal.h>

int64_t trp_plan_until(const trp_schedule *schedule, int64_t limit_ms, int64_t from_ms)
{
    return limit_ms > 0 ? from_ms + limit_ms + schedule->grace_ms : TRP_NEVER;
}

// When something planned starts, which is now if its time has passed,
static int64_t comes(const trp_plan *plan, const trp_ticket *ticket)
{
    return ticket->from_ms > plan->now_ms ? ticket->from_ms : plan->now_ms;
}

// and when it is over.
static int64_t goes(const trp_plan *plan, const trp_ticket *ticket)
{
    if (ticket->until_ms == TRP_NEVER)
        return TRP_NEVER;
    return comes(plan, ticket) + ticket->until_ms - ticket->from_ms;
}

// What is planned: the reservations and, after the last of them, the promised one.
static const trp_ticket *planned(const trp_schedule *schedule, size_t i)
{
    return i < schedule->reserved_count ? schedule->reserved[i] : schedule->plan.promised;
}

static size_t planned_count(const trp_schedule *schedule)
{
    return schedule->reserved_count + (schedule->plan.promised != NULL);
}

// Whether it counts at this moment.
static bool is_planned(const trp_plan *plan, const trp_ticket *ticket)
{
    return ticket == plan->promised || !plan->without_due || ticket->from_ms > plan->now_ms;
}

static void take_planned(const trp_schedule *schedule, int64_t at_ms, trp_pool *pool)
{
    const trp_plan *plan = &schedule->plan;
    for (size_t i = 0; i < planned_count(schedule); i++) {
        const trp_ticket *it = planned(schedule, i);
        if (is_planned(plan, it) && comes(plan, it) <= at_ms && at_ms < goes(plan, it))
            trp_pool_book(schedule, pool, it, 1);
    }
}

// Gives back what runs and is over by then; *next: the first that has not been. What is over its
// limit may come back at any moment.
static void give_back(const trp_schedule *schedule, int64_t at_ms, size_t *next, trp_pool *pool)
{
    while (*next < schedule->running_count && schedule->running[*next]->until_ms <= at_ms)
        trp_pool_book(schedule, pool, schedule->running[(*next)++], -1);
}

// Which of two planned ones comes first: NULL: there is none.
static const trp_ticket *sooner(const trp_plan *plan, const trp_ticket *a, const trp_ticket *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    return comes(plan, a) <= comes(plan, b) ? a : b;
}

// Makes the points anew, after a change of what is planned or set aside.
static void make_points(trp_schedule *schedule)
{
    trp_plan *plan = &schedule->plan;
    const trp_ticket *promised = plan->promised;
    trp_pool back = plan->base;
    size_t next = 0, i = 0;
    for (plan->count = 0;;) {
        while (i < schedule->reserved_count && !is_planned(plan, schedule->reserved[i]))
            i++;
        const trp_ticket *reserved = i < schedule->reserved_count ? schedule->reserved[i] : NULL;
        const trp_ticket *it = sooner(plan, promised, reserved);
        if (it == NULL)
            return;
        trp_point *point = &plan->points[plan->count];
        point->at_ms = comes(plan, it);
        point->ticket = it;
        give_back(schedule, point->at_ms, &next, &back);
        point->free = back;
        take_planned(schedule, point->at_ms, &point->free);
        point->room = plan->count > 0 ? point[-1].room : plan->base;
        trp_pool_least(schedule, &point->room, &point->free);
        plan->count++;
        if (it == promised)
            promised = NULL;
        else
            i++;
    }
}

void trp_plan_begin(trp_schedule *schedule, int64_t now_ms, bool without_due)
{
    trp_plan *plan = &schedule->plan;
    plan->now_ms = now_ms;
    plan->base = schedule->free;
    plan->without_due = without_due;
    plan->promised = NULL;
    plan->blocked = 0;
    make_points(schedule);
}

const trp_pool *trp_plan_room(const trp_schedule *schedule, int64_t until_ms)
{
    const trp_plan *plan = &schedule->plan;
    size_t low = 0, high = plan->count; // Points before that time.
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (plan->points[middle].at_ms < until_ms)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &plan->points[low - 1].room : &plan->base;
}

// Narrows what is free at a time to what is so at each moment until another.
static void narrow(const trp_schedule *schedule, int64_t from_ms, int64_t until_ms, trp_pool *room)
{
    const trp_plan *plan = &schedule->plan;
    for (size_t i = 0; i < plan->count && plan->points[i].at_ms < until_ms; i++)
        if (plan->points[i].at_ms > from_ms)
            trp_pool_least(schedule, room, &plan->points[i].free);
}

void trp_plan_between(const trp_schedule *schedule, int64_t from_ms, int64_t until_ms,
                      trp_pool *room)
{
    size_t next = 0;
    *room = schedule->plan.base;
    give_back(schedule, from_ms, &next, room);
    take_planned(schedule, from_ms, room);
    narrow(schedule, from_ms, until_ms, room);
}

bool trp_plan_set(trp_schedule *schedule, trp_ticket *ticket, const trp_pool *room, int ranks,
                  int64_t from_ms)
{
    ticket->ranks = ranks;
    ticket->amounts = trp_need_amounts(schedule, &ticket->request.need, ranks);
    ticket->from_ms = from_ms;
    ticket->until_ms = trp_plan_until(schedule, ticket->request.limit_ms, from_ms);
    return trp_pool_place(schedule, room, ticket, 0, ranks);
}

int64_t trp_plan_earliest(const trp_schedule *schedule, const trp_ticket *ticket, trp_pool *room)
{
    const trp_plan *plan = &schedule->plan;
    const trp_need *need = &ticket->request.need;
    int least = trp_need_least(need);
    trp_pool back = plan->base; // With what has been given back until then.
    size_t next = 0;
    for (int64_t at = plan->now_ms; at < TRP_NEVER;) {
        give_back(schedule, at, &next, &back);
        if (trp_pool_ranks(schedule, &back, need, least, true) >= least) {
            *room = back;
            take_planned(schedule, at, room);
            narrow(schedule, at, trp_plan_until(schedule, ticket->request.limit_ms, at), room);
            if (trp_pool_ranks(schedule, room, need, least, true) >= least)
                return at;
        }
        int64_t then =
            next < schedule->running_count ? schedule->running[next]->until_ms : TRP_NEVER;
        for (size_t i = 0; i < planned_count(schedule); i++) {
            int64_t over = goes(plan, planned(schedule, i));
            then = over > at && over < then ? over : then;
        }
        at = then;
    }
    return TRP_NEVER;
}

// Sets aside what a job needs that waits for what nobody knows when it is given back: those behind
// it get none of what it waits for, and of the rest what it leaves.
static void set_aside(trp_schedule *schedule, trp_ticket *ticket, uint32_t missing)
{
    trp_plan *plan = &schedule->plan;
    int least = trp_need_least(&ticket->request.need);
    bool placed = trp_plan_set(schedule, ticket, &plan->base, least, plan->now_ms);
    for (int i = 0; i < schedule->machine.count; i++) {
        plan->base.sum.of[i] -= ticket->amounts.of[i];
        if (missing >> i & 1)
            plan->by[i] = ticket->request.id;
    }
    for (int rank = 0; placed && ticket->gpu_part > 0 && rank < least; rank++)
        for (int i = 0; i < schedule->gpus; i++)
            plan->base.of[i] -= ticket->gpus[rank] >> i & 1 ? ticket->gpu_part : 0;
    for (int i = 0; !placed && i < schedule->gpus; i++)
        plan->base.of[i] -= 2 * TRP_CPU; // However much of it comes back.
    plan->blocked |= missing;
    make_points(schedule);
}

// Sees to it that nothing behind a job that waits delays it.
static void protect(trp_schedule *schedule, trp_ticket *ticket)
{
    trp_plan *plan = &schedule->plan;
    trp_pool room;
    uint32_t missing = trp_pool_short(schedule, &plan->base, &ticket->request.need,
                                      trp_need_least(&ticket->request.need));
    if ((missing & plan->blocked) != 0)
        return; // It comes after the one that waits for the same.
    int64_t at = trp_plan_earliest(schedule, ticket, &room);
    if (at < TRP_NEVER) {
        trp_plan_set(schedule, ticket, &room, trp_need_least(&ticket->request.need), at);
        plan->promised = ticket;
        make_points(schedule);
    } else if (missing != 0) { // Else it waits for the end of a reservation.
        set_aside(schedule, ticket, missing);
    }
}

trp_ticket *trp_plan_scan(trp_schedule *schedule, int64_t now_ms, const trp_ticket *asked,
                          int *ranks)
{
    trp_plan *plan = &schedule->plan;
    trp_plan_begin(schedule, now_ms, false);
    for (size_t i = 0; i < schedule->queued; i++) {
        trp_ticket *it = schedule->queue[i].ticket;
        if (it == asked)
            return it;
        if (schedule->queue[i].cpus > plan->base.sum.of[TRP_CPUS] &&
            (plan->promised != NULL || (plan->blocked >> TRP_CPUS & 1) != 0))
            continue;
        const trp_need *need = &it->request.need;
        const trp_pool *room =
            trp_plan_room(schedule, trp_plan_until(schedule, it->request.limit_ms, now_ms));
        *ranks = trp_pool_ranks(schedule, room, need, need->ranks, true);
        if (*ranks >= trp_need_least(need)) {
            if (asked == NULL)
                return it;
            continue;
        }
        if (asked == NULL && schedule->strict)
            return NULL;
        if (plan->promised == NULL)
            protect(schedule, it);
    }
    return NULL;
}
