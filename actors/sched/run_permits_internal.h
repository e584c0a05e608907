// run_permits_internal.h: the run queues of the process: the rights to run turns, and what waits
// for one.
#ifndef TRP_SCHED_RUN_PERMITS_INTERNAL_H
#define TRP_SCHED_RUN_PERMITS_INTERNAL_H

#include <actors/sched/runqueue_internal.h>
#include <actors/sched/scheduler.h>
#include <actors/sched/sender_yield.h>

enum {
    TRP_THREADS_MAX = 1024,
    TRP_QUEUES_MAX = TRP_THREADS_MAX,
};

typedef struct trp_runqueues {
    _Atomic int limit;   // So many turns may run at once: more while some have stalled
                         // (sched/blocked_threads_internal.h).
    _Atomic int count;   // So many of `each` may be in use: `limit` at least.
    int taken;           // So many are. Under the scheduler's lock.
    trp_runqueue inject; // What threads without a queue made runnable.
    trp_runqueue each[TRP_QUEUES_MAX];
} trp_runqueues;
extern trp_runqueues trp_queues;

// Notes that the actor is in that queue, or is run from it.
void trp_queues_home(trp_runnable *actor, const trp_runqueue *queue);
// NULL: none.
trp_runqueue *trp_queues_home_of(const trp_runnable *actor);

// Whether neither an actor waits in it nor one that pauses.
bool trp_queues_empty(trp_runqueue *queue);
// Whether there is what a thread without work should run.
bool trp_queues_work_waits(void);
// Whether anything waits at all.
bool trp_queues_some_wait(void);
// Changes how many turns may run at once. With the scheduler's lock held.
void trp_queues_widen(int by);
// What waits in the queue, which may be another thread's, is anybody's from now on.
void trp_queues_share(trp_runqueue *queue);
// The queue is nobody's any more. With the scheduler's lock held.
void trp_queues_give(trp_runqueue *queue);
// One that was free, with work if there is such a one; NULL: none was. Whoever gives it back clears
// `taken`. With the scheduler's lock held.
trp_runqueue *trp_queues_take(void);

// The actor of this queue that gets the next turn, NULL: none; one of another queue. By the thread
// that has it.
trp_runnable *trp_queues_choose(trp_runqueue *mine);
trp_runnable *trp_queues_steal(trp_runqueue *mine);

// Takes those whose init has not run yet, linked by `next`.
trp_runnable *trp_queues_take_fresh(void);

// Takes all that is queued, linked by `next`.
trp_runnable *trp_queues_clear(void);

#endif
