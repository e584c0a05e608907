// runqueue_internal.h: the actors that wait for a turn: a list under a tiny lock, and before it one
// place that its owner fills without the lock.
//
// `next` is filled by the thread that has the queue, when it is empty, and emptied by an exchange,
// by any thread. It is what a method woke first, and runs next: its data is in the cache.
#ifndef TRP_SCHED_RUNQUEUE_INTERNAL_H
#define TRP_SCHED_RUNQUEUE_INTERNAL_H

#include <actors/sched/runnable.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct trp_runqueue {
    _Alignas(64) _Atomic bool locked;
    trp_runnable *first, *last;
    _Atomic uint32_t count; // Of the list: changed under the lock, read by all.
    trp_runnable *_Atomic next;
    _Atomic bool taken;      // A thread has it. Changed under the scheduler's lock.
    _Atomic uint32_t turns;  // That began, but not on top of others: by the thread that has it.
    _Atomic uint32_t cost;   // ns a turn takes, on average,
    _Atomic uint32_t weight; // and a message.
    // The thread's that has it: turns since the clock was read, the messages in them, when that
    // was, after how many turns it is read again, and how often in a row `next` was taken.
    uint32_t since, messages;
    int64_t read_ns;
    uint32_t window, streak;
    uint32_t seen; // The watcher's: `turns` when it looked last.
    // Those that have sent much and let others run, oldest first: changed under the scheduler's
    // lock; and since when none of them has gone on.
    struct trp_pauser *_Atomic pausers;
    _Atomic int64_t progress_ns;
} trp_runqueue;

// To the end of the list.
void trp_runqueue_append(trp_runqueue *queue, trp_runnable *actor);
// To `next`, or the end. By the thread that has it.
void trp_runqueue_add(trp_runqueue *queue, trp_runnable *actor);
// The first of the list; NULL: none.
trp_runnable *trp_runqueue_take(trp_runqueue *queue);
trp_runnable *trp_runqueue_take_next(trp_runqueue *queue);
// Moves the older half of the list (all: the whole) to the end of another's.
void trp_runqueue_move(trp_runqueue *from, trp_runqueue *to, bool all);
bool trp_runqueue_empty(trp_runqueue *queue);

// Notes a turn that ended, with its messages. Returns the time since the clock was read last if it
// was read now, 0 otherwise.
int64_t trp_runqueue_measure(trp_runqueue *queue, uint32_t messages);
// Forgets the time up to now: the thread did not run turns.
void trp_runqueue_resume(trp_runqueue *queue);
// Whether what waits in the list is worth the wake-up of another thread.
bool trp_runqueue_worth(trp_runqueue *queue);

#endif
