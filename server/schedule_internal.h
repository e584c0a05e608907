// schedule_internal.h: what the files of the schedule share: pools of what is free, and the plan of
// one moment.
#ifndef TRP_SERVER_SCHEDULE_INTERNAL_H
#define TRP_SERVER_SCHEDULE_INTERNAL_H

#include <server/schedule.h>

// What is free, now or at a time to come. Less than nothing where some of it was set aside.
typedef struct trp_pool {
    trp_amounts sum;          // Of GPUs only to be told: what counts is
    int64_t of[TRP_GPUS_MAX]; // what is free of each device.
} trp_pool;

// A place in the queue.
typedef struct trp_queued {
    int64_t cpus; // That the job needs at least: most are passed over by this alone.
    trp_ticket *ticket;
} trp_queued;

// A moment at which something starts that was planned, and what there is room for until then and
// from then until the next one.
typedef struct trp_point {
    int64_t at_ms;
    const trp_ticket *ticket; // What starts.
    trp_pool free, room;      // At that moment; at each one up to it.
} trp_point;

// What is known while the queue is looked through.
typedef struct trp_plan {
    int64_t now_ms;
    trp_pool base;        // Free now, less what is set aside for those that wait.
    bool without_due;     // Reservations whose time has come are left out: one of them is to start.
    trp_ticket *promised; // One that waits and has a time, as if it were reserved.
    uint32_t blocked;     // A bit for each resource that something is set aside of
    uint64_t by[TRP_RESOURCES_MAX]; // because this job waits for it.
    trp_point *points;              // In the order of time.
    size_t count;
} trp_plan;

typedef struct trp_owned {
    trp_ticket ticket;
    struct trp_owned *next, *previous;
} trp_owned;

struct trp_schedule {
    trp_resources machine;
    int gpus;
    bool strict;
    int64_t grace_ms;
    uint64_t sequence;
    trp_pool free;
    trp_owned *all; // Every ticket.
    size_t tickets, room, points_room;
    trp_queued *queue; // In order; room for every ticket, as in the next one.
    size_t queued;
    trp_ticket **running; // Soonest end first.
    size_t running_count;
    trp_ticket **reserved; // Soonest first.
    size_t reserved_count;
    trp_plan plan;
};

// schedule_pool.c

// The amounts of so many ranks, and the coordinator's CPUs.
trp_amounts trp_need_amounts(const trp_schedule *schedule, const trp_need *need, int ranks);
int trp_need_least(const trp_need *need); // Ranks without which it does not start.
// How many ranks there is room for, at most `most`; with the coordinator's CPUs if `whole`.
int trp_pool_ranks(const trp_schedule *schedule, const trp_pool *pool, const trp_need *need,
                   int most, bool whole);
// A bit for each resource of which a pool has less than so many ranks need.
uint32_t trp_pool_short(const trp_schedule *schedule, const trp_pool *pool, const trp_need *need,
                        int ranks);
// Chooses devices of a pool for the ranks from..to-1 of a ticket: of those that have room for a
// part the fullest, so that whole ones stay free. False: there are not enough.
bool trp_pool_place(const trp_schedule *schedule, const trp_pool *pool, trp_ticket *ticket,
                    int from, int to);
// Whether a pool has room on the very devices that were chosen for a ticket.
bool trp_pool_keeps(const trp_pool *pool, const trp_ticket *ticket);
// Takes what a ticket has off a pool, or (sign -1) gives it back.
void trp_pool_book(const trp_schedule *schedule, trp_pool *pool, const trp_ticket *ticket,
                   int sign);
void trp_pool_least(const trp_schedule *schedule, trp_pool *pool, const trp_pool *other);

// schedule_plan.c

// When something that starts at `from` and has this limit is given back at the latest.
int64_t trp_plan_until(const trp_schedule *schedule, int64_t limit_ms, int64_t from_ms);
void trp_plan_begin(trp_schedule *schedule, int64_t now_ms, bool without_due);
// What there is room for from now until then, or between two times.
const trp_pool *trp_plan_room(const trp_schedule *schedule, int64_t until_ms);
void trp_plan_between(const trp_schedule *schedule, int64_t from_ms, int64_t until_ms,
                      trp_pool *room);
// Gives a ticket the ranks and devices that it would have of a pool.
bool trp_plan_set(trp_schedule *schedule, trp_ticket *ticket, const trp_pool *room, int ranks,
                  int64_t from_ms);
// When one that waits could start if nothing else did: at once, or when something is given back.
// TRP_NEVER: that is not known. *room: what there is for it then.
int64_t trp_plan_earliest(const trp_schedule *schedule, const trp_ticket *ticket, trp_pool *room);
// Looks through the queue for the first that may start, and how many ranks it gets: NULL: none.
// With `asked`: goes as far as that one, which is returned, and has in the plan what those before
// it leave.
trp_ticket *trp_plan_scan(trp_schedule *schedule, int64_t now_ms, const trp_ticket *asked,
                          int *ranks);

// schedule_why.c

// Whether a job needs more than the machine has, and the sentence that says so.
bool trp_schedule_exceeds(const trp_schedule *schedule, const trp_need *need,
                          char why[TRP_SCHEDULE_WHY]);
// TROUPE_BUSY, with what holds what the reservation needs.
troupe_status trp_schedule_refuse(const trp_schedule *schedule, const trp_ticket *ticket,
                                  const trp_pool *room);

#endif
