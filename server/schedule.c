// schedule.c: tickets, the queue, and what happens to them (see server/schedule.h). The invariant:
// free = total - the amounts of all running tickets, for the sums and for each GPU.
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <server/schedule_internal.h>
#include <stddef.h>
#include <string.h>

troupe_status trp_schedule_open(trp_schedule **schedule, const trp_resources *machine,
                                int64_t grace_ms)
{
    trp_schedule *it = (trp_schedule *)trp_alloc(sizeof *it);
    trp_point *points = (trp_point *)trp_alloc(sizeof *points);
    if (it == NULL || points == NULL) {
        trp_free(it);
        trp_free(points);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a schedule");
    }
    it->machine = *machine;
    it->grace_ms = grace_ms;
    it->plan.points = points;
    it->points_room = 1;
    it->gpus = (int)(machine->total.of[TRP_GPUS] / TRP_CPU);
    it->free.sum = machine->total;
    for (int i = 0; i < it->gpus; i++)
        it->free.of[i] = TRP_CPU;
    *schedule = it;
    return TROUPE_OK;
}

// ---- memory

static trp_owned *owned(trp_ticket *ticket)
{
    return (trp_owned *)((char *)ticket - offsetof(trp_owned, ticket));
}

// Grows an array; false: no memory, and it is as before.
static bool grow(void *array, size_t count, size_t size)
{
    void *more = trp_realloc(*(void **)array, count * size);
    if (more != NULL)
        *(void **)array = more;
    return more != NULL;
}

// Room in each list for one ticket more, wherever it will be.
static troupe_status make_room(trp_schedule *schedule, bool reserved)
{
    size_t room = schedule->room, points = schedule->points_room;
    if (schedule->tickets == room)
        room = room > 0 ? 2 * room : 16;
    if (schedule->reserved_count + 2 > points) // One is for the promised.
        points *= 2;
    bool fits = room == schedule->room || (grow(&schedule->queue, room, sizeof *schedule->queue) &&
                                           grow(&schedule->running, room, sizeof(trp_ticket *)) &&
                                           grow(&schedule->reserved, room, sizeof(trp_ticket *)));
    if (fits)
        schedule->room = room;
    if (fits && reserved && points != schedule->points_room) {
        fits = grow(&schedule->plan.points, points, sizeof(trp_point));
        if (fits)
            schedule->points_room = points;
    }
    return fits ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory to queue one more job");
}

static troupe_status make_ticket(trp_schedule *schedule, const trp_request *request, int room,
                                 trp_ticket **ticket)
{
    trp_owned *it = (trp_owned *)trp_alloc(sizeof *it);
    uint64_t *gpus = (uint64_t *)trp_alloc((size_t)room * sizeof *gpus);
    if (it == NULL || gpus == NULL) {
        trp_free(it);
        trp_free(gpus);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to queue one more job");
    }
    it->ticket = (trp_ticket){
        .request = *request, .gpus = gpus, .room = room, .sequence = ++schedule->sequence};
    it->next = schedule->all;
    if (it->next != NULL)
        it->next->previous = it;
    schedule->all = it;
    schedule->tickets++;
    *ticket = &it->ticket;
    return TROUPE_OK;
}

static void free_ticket(trp_schedule *schedule, trp_ticket *ticket)
{
    trp_owned *it = owned(ticket);
    if (it->next != NULL)
        it->next->previous = it->previous;
    if (it->previous != NULL)
        it->previous->next = it->next;
    else
        schedule->all = it->next;
    schedule->tickets--;
    trp_free(it->ticket.gpus);
    trp_free(it);
}

void trp_schedule_close(trp_schedule *schedule)
{
    if (schedule == NULL)
        return;
    while (schedule->all != NULL)
        free_ticket(schedule, &schedule->all->ticket);
    trp_free(schedule->queue);
    trp_free(schedule->running);
    trp_free(schedule->reserved);
    trp_free(schedule->plan.points);
    trp_free(schedule);
}

// ---- lists

static bool is_before(const trp_ticket *a, const trp_ticket *b)
{
    return a->order != b->order ? a->order < b->order : a->sequence < b->sequence;
}

// The first place in the queue that is not before a ticket.
static size_t place_of(const trp_schedule *schedule, const trp_ticket *ticket)
{
    size_t low = 0, high = schedule->queued;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(schedule->queue[middle].ticket, ticket))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void enqueue(trp_schedule *schedule, trp_ticket *ticket)
{
    size_t at = place_of(schedule, ticket);
    trp_queued *place = schedule->queue + at;
    memmove(place + 1, place, (schedule->queued - at) * sizeof *place);
    const trp_need *need = &ticket->request.need;
    *place = (trp_queued){need->each.of[TRP_CPUS] * trp_need_least(need) + need->coordinator_cpus,
                          ticket};
    schedule->queued++;
    ticket->state = TRP_TICKET_QUEUED;
}

static void dequeue(trp_schedule *schedule, trp_ticket *ticket)
{
    size_t at = place_of(schedule, ticket);
    trp_assert(at < schedule->queued && schedule->queue[at].ticket == ticket);
    schedule->queued--;
    memmove(schedule->queue + at, schedule->queue + at + 1,
            (schedule->queued - at) * sizeof *schedule->queue);
}

// Lists by time: what runs by its end, what is reserved by its start.
static int64_t time_of(const trp_ticket *ticket)
{
    return ticket->state == TRP_TICKET_RUNNING ? ticket->until_ms : ticket->from_ms;
}

static void insert(trp_ticket **list, size_t *count, trp_ticket *ticket)
{
    size_t at = (*count)++;
    for (; at > 0 && time_of(list[at - 1]) > time_of(ticket); at--)
        list[at] = list[at - 1];
    list[at] = ticket;
}

static void take_out(trp_ticket **list, size_t *count, const trp_ticket *ticket)
{
    size_t at = 0;
    while (at < *count && list[at] != ticket)
        at++;
    trp_assert(at < *count);
    --*count;
    memmove(list + at, list + at + 1, (*count - at) * sizeof(trp_ticket *));
}

// Takes a ticket out of the list in which it is; what a running one held is free.
static void withdraw(trp_schedule *schedule, trp_ticket *ticket)
{
    if (ticket->state == TRP_TICKET_QUEUED)
        dequeue(schedule, ticket);
    if (ticket->state == TRP_TICKET_RESERVED)
        take_out(schedule->reserved, &schedule->reserved_count, ticket);
    if (ticket->state == TRP_TICKET_RUNNING) {
        take_out(schedule->running, &schedule->running_count, ticket);
        trp_pool_book(schedule, &schedule->free, ticket, -1);
    }
    ticket->ranks = 0;
    ticket->wished = 0;
    ticket->amounts = (trp_amounts){{0}};
}

static void run(trp_schedule *schedule, trp_ticket *ticket)
{
    trp_pool_book(schedule, &schedule->free, ticket, 1);
    ticket->state = TRP_TICKET_RUNNING;
    insert(schedule->running, &schedule->running_count, ticket);
}

// ---- coming

static troupe_status check(const trp_schedule *schedule, const trp_request *request)
{
    const trp_need *need = &request->need;
    bool something = need->coordinator_cpus > 0;
    if (need->ranks < 1 || need->ranks > TRP_SCHEDULE_RANKS_MAX || need->min_ranks < 0 ||
        need->min_ranks > need->ranks)
        return troupe_fail(TROUPE_INVALID,
                           "%d ranks, at least %d, were asked for: expected 1 to %d, and no more "
                           "at least than at most",
                           need->ranks, need->min_ranks, TRP_SCHEDULE_RANKS_MAX);
    for (int i = 0; i < schedule->machine.count; i++) {
        something = something || need->each.of[i] > 0;
        if (need->each.of[i] < 0 || need->each.of[i] > INT64_MAX / TRP_SCHEDULE_RANKS_MAX / 2)
            return troupe_fail(TROUPE_INVALID, "the amount of %s of a rank is out of range",
                               schedule->machine.names[i]);
    }
    if (!something || need->coordinator_cpus < 0 ||
        need->coordinator_cpus > (int64_t)TRP_CPUS_MAX * TRP_CPU)
        return troupe_fail(TROUPE_INVALID, "a job that needs nothing, or less, was submitted");
    int64_t gpus = need->each.of[TRP_GPUS];
    if (gpus > TRP_CPU && gpus % TRP_CPU != 0)
        return troupe_fail(TROUPE_INVALID,
                           "%g GPUs for a rank were asked for: expected a part of one, or a whole "
                           "number",
                           (double)gpus / TRP_CPU);
    if (request->limit_ms < 0 || request->limit_ms > INT64_MAX / 4 || request->start_ms < 0 ||
        request->start_ms > INT64_MAX / 4)
        return troupe_fail(TROUPE_INVALID,
                           "a time limit of %lld ms or a start at %lld ms is out "
                           "of range",
                           (long long)request->limit_ms, (long long)request->start_ms);
    if (request->priority < -TRP_SCHEDULE_PRIORITY_MAX ||
        request->priority > TRP_SCHEDULE_PRIORITY_MAX)
        return troupe_fail(TROUPE_INVALID, "priority %d: expected %d to %d", request->priority,
                           -TRP_SCHEDULE_PRIORITY_MAX, TRP_SCHEDULE_PRIORITY_MAX);
    return TROUPE_OK;
}

// Keeps what a ticket needs at its time, or fails.
static troupe_status reserve(trp_schedule *schedule, trp_ticket *ticket, int64_t now_ms)
{
    const trp_request *request = &ticket->request;
    int64_t from = request->start_ms > now_ms ? request->start_ms : now_ms;
    trp_pool room;
    trp_plan_begin(schedule, now_ms, false);
    trp_plan_between(schedule, from, trp_plan_until(schedule, request->limit_ms, from), &room);
    int least = trp_need_least(&request->need);
    int ranks = trp_pool_ranks(schedule, &room, &request->need, request->need.ranks, true);
    ticket->from_ms = from;
    if (ranks < least && !request->again)
        return trp_schedule_refuse(schedule, ticket, &room);
    // One that was taken before keeps its time, even if it comes late.
    trp_plan_set(schedule, ticket, &room, ranks < least ? least : ranks, request->start_ms);
    ticket->state = TRP_TICKET_RESERVED;
    insert(schedule->reserved, &schedule->reserved_count, ticket);
    return TROUPE_OK;
}

troupe_status trp_schedule_submit(trp_schedule *schedule, const trp_request *request,
                                  int64_t now_ms, trp_ticket **ticket)
{
    trp_ticket *it;
    TROUPE_TRY(check(schedule, request));
    char why[TRP_SCHEDULE_WHY];
    bool exceeds = trp_schedule_exceeds(schedule, &request->need, why);
    if (exceeds && !request->beyond)
        return troupe_fail(TROUPE_TOO_LARGE, "%s", why);
    TROUPE_TRY(make_room(schedule, request->start_ms > 0));
    TROUPE_TRY(make_ticket(schedule, request, request->need.ranks, &it));
    it->order = now_ms - (int64_t)request->priority * TRP_SCHEDULE_HOUR_MS;
    troupe_status status = TROUPE_OK;
    if (exceeds)
        it->state = TRP_TICKET_BEYOND;
    else if (request->start_ms > 0)
        status = reserve(schedule, it, now_ms);
    else
        enqueue(schedule, it);
    if (status != TROUPE_OK)
        free_ticket(schedule, it);
    else
        *ticket = it;
    return status;
}

troupe_status trp_schedule_adopt(trp_schedule *schedule, const trp_request *request, int ranks,
                                 const uint64_t *gpus, int64_t started_ms, trp_ticket **ticket)
{
    trp_ticket *it;
    TROUPE_TRY(check(schedule, request));
    int64_t part = request->need.each.of[TRP_GPUS];
    if (ranks < 1 || ranks > TRP_SCHEDULE_RANKS_MAX || (gpus == NULL && part > 0))
        return troupe_fail(TROUPE_INVALID, "a grant of %d ranks%s cannot be taken on", ranks,
                           gpus == NULL ? " without GPUs" : "");
    TROUPE_TRY(make_room(schedule, false));
    int room = ranks > request->need.ranks ? ranks : request->need.ranks;
    TROUPE_TRY(make_ticket(schedule, request, room, &it));
    it->ranks = ranks;
    it->amounts = trp_need_amounts(schedule, &request->need, ranks);
    it->gpu_part = part < TRP_CPU ? part : TRP_CPU;
    for (int i = 0; i < ranks && part > 0; i++)
        it->gpus[i] = gpus[i];
    it->order = started_ms;
    it->from_ms = started_ms;
    it->until_ms = trp_plan_until(schedule, request->limit_ms, started_ms);
    run(schedule, it);
    *ticket = it;
    return TROUPE_OK;
}

// ---- starting

// Starts a reservation whose time has come, if all that it needs is free. Of several the newest, so
// that one that is late does not make all that come after it late; none delays one whose time is to
// come.
static trp_ticket *start_reserved(trp_schedule *schedule, int64_t now_ms)
{
    size_t due = 0;
    while (due < schedule->reserved_count && schedule->reserved[due]->from_ms <= now_ms)
        due++;
    if (due == 0)
        return NULL;
    trp_plan_begin(schedule, now_ms, true);
    while (due-- > 0) {
        trp_ticket *it = schedule->reserved[due];
        const trp_pool *room =
            trp_plan_room(schedule, trp_plan_until(schedule, it->request.limit_ms, now_ms));
        int ranks = trp_pool_ranks(schedule, room, &it->request.need, it->ranks, true);
        if (ranks < trp_need_least(&it->request.need))
            continue; // It is late.
        take_out(schedule->reserved, &schedule->reserved_count, it);
        if (ranks == it->ranks && trp_pool_keeps(room, it)) {
            // On its own devices, by which others were promised theirs.
            it->from_ms = now_ms;
            it->until_ms = trp_plan_until(schedule, it->request.limit_ms, now_ms);
        } else {
            trp_plan_set(schedule, it, room, ranks, now_ms);
        }
        run(schedule, it);
        return it;
    }
    return NULL;
}

// Gives the first running one that wishes it all the more ranks, if nobody else is delayed by that:
// it is started anew with them, which part of them is not worth. After a scan, whose plan counts.
static trp_ticket *grow_running(trp_schedule *schedule, int64_t now_ms, int *before)
{
    for (size_t i = 0; i < schedule->running_count; i++) {
        trp_ticket *it = schedule->running[i];
        if (it->wished <= it->ranks || it->until_ms <= now_ms)
            continue;
        const trp_pool *room = trp_plan_room(schedule, it->until_ms);
        int more = it->wished - it->ranks;
        if (trp_pool_ranks(schedule, room, &it->request.need, more, false) < more)
            continue;
        *before = it->ranks;
        trp_pool_book(schedule, &schedule->free, it, -1);
        trp_pool_place(schedule, room, it, it->ranks, it->ranks + more);
        it->ranks += more;
        it->amounts = trp_need_amounts(schedule, &it->request.need, it->ranks);
        trp_pool_book(schedule, &schedule->free, it, 1);
        it->wished = 0;
        return it;
    }
    return NULL;
}

trp_ticket *trp_schedule_next(trp_schedule *schedule, int64_t now_ms, int *before)
{
    int ranks = 0;
    *before = 0;
    trp_ticket *it = start_reserved(schedule, now_ms);
    if (it != NULL)
        return it;
    it = trp_plan_scan(schedule, now_ms, NULL, &ranks);
    if (it == NULL)
        return grow_running(schedule, now_ms, before);
    const trp_pool *room =
        trp_plan_room(schedule, trp_plan_until(schedule, it->request.limit_ms, now_ms));
    dequeue(schedule, it);
    trp_plan_set(schedule, it, room, ranks, now_ms);
    run(schedule, it);
    return it;
}

int64_t trp_schedule_due(const trp_schedule *schedule, int64_t now_ms)
{
    for (size_t i = 0; i < schedule->reserved_count; i++)
        if (schedule->reserved[i]->from_ms > now_ms)
            return schedule->reserved[i]->from_ms;
    return TRP_NEVER;
}

// ---- ending, and changing

void trp_schedule_remove(trp_schedule *schedule, trp_ticket *ticket)
{
    withdraw(schedule, ticket);
    free_ticket(schedule, ticket);
}

void trp_schedule_pause(trp_schedule *schedule, trp_ticket *ticket)
{
    trp_assert(ticket->state == TRP_TICKET_RUNNING);
    withdraw(schedule, ticket);
    ticket->state = TRP_TICKET_PAUSED;
}

void trp_schedule_resume(trp_schedule *schedule, trp_ticket *ticket, int64_t now_ms)
{
    trp_assert(ticket->state == TRP_TICKET_PAUSED);
    ticket->order = now_ms - (int64_t)ticket->request.priority * TRP_SCHEDULE_HOUR_MS;
    ticket->sequence = ++schedule->sequence;
    enqueue(schedule, ticket);
}

troupe_status trp_schedule_resize(trp_schedule *schedule, trp_ticket *ticket, int ranks)
{
    trp_request asked = ticket->request;
    char why[TRP_SCHEDULE_WHY];
    asked.need.ranks = ranks;
    asked.need.min_ranks = asked.need.min_ranks > ranks ? ranks : asked.need.min_ranks;
    if (ticket->state == TRP_TICKET_RESERVED)
        return troupe_fail(TROUPE_INVALID,
                           "job %llu is reserved, and its ranks are what was "
                           "reserved: expected one that runs or is queued",
                           (unsigned long long)asked.id);
    TROUPE_TRY(check(schedule, &asked));
    trp_need all = asked.need;
    all.min_ranks = ticket->state == TRP_TICKET_RUNNING ? ranks : all.min_ranks;
    if (trp_schedule_exceeds(schedule, &all, why))
        return troupe_fail(TROUPE_TOO_LARGE, "%s", why);
    if (ranks > ticket->room) {
        if (!grow(&ticket->gpus, (size_t)ranks, sizeof *ticket->gpus))
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for %d ranks", ranks);
        ticket->room = ranks;
    }
    if (ticket->state == TRP_TICKET_QUEUED)
        dequeue(schedule, ticket);
    ticket->request = asked;
    if (ticket->state == TRP_TICKET_QUEUED || ticket->state == TRP_TICKET_BEYOND)
        enqueue(schedule, ticket);
    if (ticket->state != TRP_TICKET_RUNNING)
        return TROUPE_OK;
    ticket->wished = ranks > ticket->ranks ? ranks : 0;
    if (ranks < ticket->ranks) {
        trp_pool_book(schedule, &schedule->free, ticket, -1);
        ticket->ranks = ranks;
        ticket->amounts = trp_need_amounts(schedule, &asked.need, ranks);
        trp_pool_book(schedule, &schedule->free, ticket, 1);
    }
    return TROUPE_OK;
}

void trp_schedule_set_priority(trp_schedule *schedule, trp_ticket *ticket, int priority)
{
    bool queued = ticket->state == TRP_TICKET_QUEUED;
    if (queued)
        dequeue(schedule, ticket);
    ticket->order -= (int64_t)(priority - ticket->request.priority) * TRP_SCHEDULE_HOUR_MS;
    ticket->request.priority = priority;
    if (queued)
        enqueue(schedule, ticket);
}

// ---- looking

int64_t trp_schedule_free(const trp_schedule *schedule, int resource)
{
    return schedule->free.sum.of[resource];
}

trp_ticket *trp_schedule_queued(const trp_schedule *schedule, size_t place)
{
    return place < schedule->queued ? schedule->queue[place].ticket : NULL;
}

void trp_schedule_strict(trp_schedule *schedule, bool strict)
{
    schedule->strict = strict;
}
