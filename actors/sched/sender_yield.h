// sender_yield.h: an actor that sends much lets others run: they take turns on one CPU.
//
// What waits in mailboxes should fit in a CPU's own cache, and between two CPUs a message costs
// several times what it costs in one cache. So a method that has sent many messages in one turn
// gives up its right to run, and goes on when nothing else is left to do in its queue. If the
// receiver's mailbox is deep and it runs elsewhere, the sender goes there: it goes on with the
// right of the receiver's queue, on its CPU. A paused sender waits for no event: where nothing
// moves, it goes on after some milliseconds, with a right or without.
#ifndef TRP_SCHED_SENDER_YIELD_H
#define TRP_SCHED_SENDER_YIELD_H

#include <actors/sched/runnable.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct trp_runqueue trp_runqueue;

// A thread that is kept on one CPU until it runs. Zeroed: it is not.
typedef struct trp_binding {
    cpu_set_t cpus; // Where it may run otherwise.
    bool bound;
} trp_binding;

// Keeps a thread that sleeps on this CPU, where the memory is that it will need; waking it then is
// no message to another CPU. It begins there, and is moved only if the kernel sees a reason.
void trp_bind_here(trp_binding *binding, pthread_t thread);
// By the thread itself.
void trp_unbind(trp_binding *binding);

// A method on this thread has sent the actor a message, and may wait: after many it pauses.
void trp_pause_sent(trp_runnable *receiver);
// Lets one that has paused in this runner's queue go on, with that right: true then; if it has
// waited for too long (`overdue`), rather with a right that is free, if one is.
bool trp_pause_end(trp_runqueue *queue, bool overdue);
// Whether some have paused there, and none gone on, for so long that they should not wait any more.
bool trp_pause_overdue(const trp_runqueue *queue, int64_t now_ns);
// Lets all go on, without a right. With the scheduler's lock held.
void trp_pause_end_all(void);

#endif
