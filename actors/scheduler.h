// scheduler.h: the threads that run this process's light actors.
//
// Runnable actors wait in one queue, first in first out. Up to `threads` turns run at once; a
// thread that waits inside a method is replaced by another. Threads are made when there is work for
// them. The queue is behind these functions, so that queues for each thread can take its place.
#ifndef TRP_SCHEDULER_H
#define TRP_SCHEDULER_H

#include <pthread.h>
#include <stdbool.h>
#include <troupe/status.h>

typedef struct trp_actor trp_actor;
typedef struct trp_async trp_async;

enum { TRP_BLOCKED_MAX = 256 };

void trp_scheduler_start(int threads);
// Queues an actor for a turn (trp_actor_turn). It must not be queued already.
void trp_scheduler_push(trp_actor *actor);

// This thread is about to wait / has done so: another one takes over. Nothing happens on threads
// that are no scheduler's. TROUPE_BUSY: too many threads wait; then it must not.
troupe_status trp_scheduler_block(void);
void trp_scheduler_unblock(void);

// Takes no more work; waits up to `timeout_ms` for running methods, then calls `hurry`, which ends
// all that they may wait for, and waits for the rest of the time (1 s more at least). False: a
// method still runs, and its thread is left alone.
bool trp_scheduler_stop(int timeout_ms, void (*hurry)(void));

// A thread of the library: it gets no signals.
bool trp_thread_create(pthread_t *thread, const char *name, void *(*main)(void *), void *user);

#endif
