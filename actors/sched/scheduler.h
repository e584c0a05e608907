// scheduler.h: the threads that run this process's light actors.
//
// Up to `threads` turns run at once, each from a queue of its own. What a method wakes waits in the
// queue of the thread that runs the method; what other threads wake goes to a common one. A further
// thread is woken only for work that is worth a wake-up, or that waits behind a long turn. A thread
// that waits inside a method, or has sent much there (sched/sender_yield.h), hands its queue to
// another. Threads are made when they are needed.
#ifndef TRP_SCHED_SCHEDULER_H
#define TRP_SCHED_SCHEDULER_H

#include <actors/sched/runnable.h>
#include <pthread.h>
#include <troupe/status.h>

// Threads that may wait in a method, or have stalled (sched/blocked_threads_internal.h).
enum { TRP_BLOCKED_MAX = 256 };

// How actors are run. Set before main.
extern trp_turns trp_scheduler_turns;

void trp_scheduler_start(int threads);
// Queues an actor for a turn. It must not be queued already. After the scheduler's end it is
// abandoned at once.
void trp_scheduler_push(trp_runnable *actor);

// Notes that the actor is run by others, and will not be pushed.
void trp_scheduler_leave(trp_runnable *actor);

// Before this thread, in a method, waits for a call to an actor that it would run next anyway: runs
// that one here and now, on top of the method, until the call has ended or there is nothing left to
// do for it. Nothing happens where that is not so.
void trp_scheduler_help(const trp_runnable *actor, uint64_t call);

// This thread is about to wait / has done so: another one takes over. Nothing happens on threads
// that are no scheduler's. TROUPE_BUSY: too many threads wait; then it must not.
troupe_status trp_scheduler_block(void);
void trp_scheduler_unblock(void);
// Whether, on a thread that runs methods, so many of them wait or have stalled that those who still
// can do without waiting had better.
bool trp_scheduler_crowded(void);
// Not NULL: on this thread no actor begins its life: all threads are held, and who asked for it is
// told this.
extern _Thread_local const troupe_error *trp_starts_refused;

// Marks the thread as one that must not wait, until the matching end.
void trp_run_callback_begin(void);
void trp_run_callback_end(void);
extern _Thread_local int trp_run_callbacks; // That it is in. By these two alone.

// Takes no more work; waits until then for running methods, then calls `hurry`, which ends all that
// they may wait for, and waits for those that did wait for the rest of the time (1 s at least).
// False: a method still runs, and its thread is left alone: it ends with the method.
bool trp_scheduler_stop(int64_t until_ns, void (*hurry)(void));
// After the stop: those that were queued, linked by `next`. From now on nobody is queued.
trp_runnable *trp_scheduler_clear(void);
bool trp_scheduler_over(void);

// The runtime stops: turns end after the message that runs, and who waits gives up.
extern _Atomic bool trp_stopping;
static inline bool trp_actors_stopping(void)
{
    return atomic_load(&trp_stopping);
}

#endif
