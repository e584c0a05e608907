// schedule.h: which jobs start now, which later, and why each other one waits. Pure: it has no
// clock, no files, no threads and no processes; the caller says what time it is and what happened.
//
// Times are milliseconds of any clock that does not go back. Jobs are held in tickets, which belong
// to the schedule. See docs/internals/server/scheduling.md.
#ifndef TRP_SERVER_SCHEDULE_H
#define TRP_SERVER_SCHEDULE_H

#include <runtime/node/resource_ledger.h>

#define TRP_NEVER INT64_MAX

enum {
    TRP_SCHEDULE_HOUR_MS = 3600000, // One step of priority is worth an hour of waiting.
    TRP_SCHEDULE_PRIORITY_MAX = 1000,
    TRP_SCHEDULE_RANKS_MAX = 1024,
    TRP_SCHEDULE_WHY = 320, // Bytes of a sentence that says why a job waits.
};

// What a job needs: all of it together, or nothing.
typedef struct trp_need {
    int ranks, min_ranks;     // Elastic: from min_ranks on it may start; 0: only with all.
    trp_amounts each;         // Of one rank, as the ledger counts. GPUs: a part of one, or whole.
    int64_t coordinator_cpus; // Beside the ranks, in ten-thousandths.
} trp_need;

typedef struct trp_request {
    uint64_t id;  // What the caller calls the job, and sentences too.
    int priority; // Higher first; from -TRP_SCHEDULE_PRIORITY_MAX to it.
    trp_need need;
    int64_t limit_ms; // It is ended after that time; 0: it may run for ever.
    int64_t start_ms; // Reserved: it starts exactly then; 0: in its turn.
    bool beyond;      // Is queued even if it needs more than the machine has.
    bool again; // It was taken before (a restart of the caller): a reservation is not refused.
} trp_request;

typedef enum trp_ticket_state {
    TRP_TICKET_QUEUED,
    TRP_TICKET_BEYOND,   // Needs more than there is, and cannot start.
    TRP_TICKET_RESERVED, // Starts at its time.
    TRP_TICKET_RUNNING,  // Holds its grant.
    TRP_TICKET_PAUSED,   // Holds nothing and does not wait.
} trp_ticket_state;

// A job in the schedule. Only to be read.
typedef struct trp_ticket {
    trp_request request;
    trp_ticket_state state;
    // The grant of a running one; of a reserved one what is kept for it.
    int ranks;
    trp_amounts amounts; // In all, with the coordinator's CPUs.
    uint64_t *gpus;      // Of each rank: a bit for each device that it has a part of.
    int64_t gpu_part;    // How large a part of each.
    int64_t from_ms;     // Start,
    int64_t until_ms;    // and when the grant is back at the latest by its limit; or TRP_NEVER.
    // The schedule's own.
    int64_t order;     // Smaller first,
    uint64_t sequence; // then this.
    int room;          // Ranks for which `gpus` has room.
    int wished;        // Ranks that a running one asks for; 0: it has what it wants.
} trp_ticket;

typedef struct trp_schedule trp_schedule;

// A schedule for this machine: totals and names are taken from a ledger (trp_resources_init,
// trp_resources_add). `grace_ms`: how long after its limit a grant may take to come back, as jobs
// are told to stop, then ended; what is planned counts with it. TROUPE_NO_MEMORY.
troupe_status trp_schedule_open(trp_schedule **schedule, const trp_resources *machine,
                                int64_t grace_ms);
void trp_schedule_close(trp_schedule *schedule);

// Takes a job on. All memory that it will ever need is allocated here, so that nothing later loses
// it. TROUPE_TOO_LARGE: needs more than the machine has (with .beyond it is taken on, and waits);
// TROUPE_INVALID: an amount, rank or time that makes no sense; TROUPE_BUSY: what a reservation
// needs is not free at its time, by the limits of what runs and by other reservations;
// TROUPE_NO_MEMORY. Nothing is changed then, and the error text says why.
troupe_status trp_schedule_submit(trp_schedule *schedule, const trp_request *request,
                                  int64_t now_ms, trp_ticket **ticket);

// Takes on a job that has been started already, with the grant that it was given (after a restart
// of the caller): `gpus` has an entry for each rank, or is NULL. What it holds counts even where
// the machine has less by now.
troupe_status trp_schedule_adopt(trp_schedule *schedule, const trp_request *request, int ranks,
                                 const uint64_t *gpus, int64_t started_ms, trp_ticket **ticket);

// The next job to start now, or a running one that is to have more ranks; its ticket says what it
// is given. `before`: the ranks that it had, 0 of one that starts. NULL: nobody. To be called until
// then after each event, and at trp_schedule_due. Allocates nothing.
trp_ticket *trp_schedule_next(trp_schedule *schedule, int64_t now_ms, int *before);

// When to ask trp_schedule_next though nothing has happened: the next reservation. TRP_NEVER: not.
int64_t trp_schedule_due(const trp_schedule *schedule, int64_t now_ms);

// Ends a ticket, in any state: what it holds is free. Of a running one: once its processes are
// gone.
void trp_schedule_remove(trp_schedule *schedule, trp_ticket *ticket);

// A running job gives all back (its processes are gone) and keeps its ticket; then queues again, as
// one that was submitted now.
void trp_schedule_pause(trp_schedule *schedule, trp_ticket *ticket);
void trp_schedule_resume(trp_schedule *schedule, trp_ticket *ticket, int64_t now_ms);

// Gives a job another number of ranks. A running one gives back those from `ranks` on at once
// (their processes are gone), or asks for more, which trp_schedule_next grants, all of them at
// once, when nobody who waits is delayed by it. One that waits is asked for anew, with its place in
// the queue. TROUPE_INVALID: no such number, or a reserved one; TROUPE_TOO_LARGE: more than the
// machine has; TROUPE_NO_MEMORY.
troupe_status trp_schedule_resize(trp_schedule *schedule, trp_ticket *ticket, int ranks);

// Gives a job another priority, in any state: one that waits in the queue gets the place that it
// would have had with it from the start.
void trp_schedule_set_priority(trp_schedule *schedule, trp_ticket *ticket, int priority);

// Says in one sentence why a job that waits does so, and when it starts at the latest, if that is
// known: else TRP_NEVER.
int64_t trp_schedule_why(trp_schedule *schedule, trp_ticket *ticket, int64_t now_ms,
                         char why[TRP_SCHEDULE_WHY]);

// What is free now of a resource (TRP_CPUS, ...), in the ledger's units.
int64_t trp_schedule_free(const trp_schedule *schedule, int resource);
// Jobs by their place in the queue, the first with 0; NULL: there are not so many. Reserved ones
// and those that need more than there is are not in it.
trp_ticket *trp_schedule_queued(const trp_schedule *schedule, size_t place);
// For tests and measurements: nothing passes the first that waits, as if there were no
// back-filling.
void trp_schedule_strict(trp_schedule *schedule, bool strict);

#endif
