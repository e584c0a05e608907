// blocked_threads_internal.h: turns that block their thread outside the library, and what gets
// their place meanwhile.
#ifndef TRP_SCHED_BLOCKED_THREADS_INTERNAL_H
#define TRP_SCHED_BLOCKED_THREADS_INTERNAL_H

#include <actors/sched/scheduler_internal.h>

// The watcher's look, where all places are taken: makes places for what waits behind methods that
// hold their threads. True: it may not, since too many do. With the scheduler's lock held.
bool trp_stalls_look(void);
// The thread's turn is over, or its method waits by a call of the library: true if its place had
// been given to another. With the scheduler's lock held.
bool trp_stall_end(trp_runner *one);
// The turn of this thread is over, which had stalled. Without the lock.
void trp_stall_over(void);
// The same, and where it says so, who has asked for an actor that would begin here is told, at
// once; what waits for a thread is told where that lasts. By the watcher, with the scheduler's lock
// held, which is let go meanwhile: it may be woken then.
void trp_stalls_watch(void);
// What waits for a thread is told, where that lasts; false: nothing does. With the scheduler's lock
// held, which is let go meanwhile.
void trp_stalls_told(bool full);

#endif
