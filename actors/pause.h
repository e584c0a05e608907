// pause.h: who sends much to one actor lets it run: they take turns on one CPU.
//
// Between two CPUs a message costs several times what it costs in one cache, and a queue that is
// longer than the cache costs nearly as much. So a method that sends to a deep mailbox
// (trp_mailbox_deep) gives up its right to run until the actor rests, and the thread that runs it
// meanwhile is kept on the same CPU. A pause is short: an actor that needs longer is worth a CPU of
// its own, and who sends to it goes on beside it until its mailbox is no longer deep.
#ifndef TRP_PAUSE_H
#define TRP_PAUSE_H

#include <actors/mailbox.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

// A thread that is kept on one CPU for a while. Zeroed: it is not.
typedef struct trp_binding {
    cpu_set_t cpus; // Where it may run otherwise.
    bool bound;
} trp_binding;

// Keeps a thread that sleeps on this CPU, where the memory is that it will need; waking it then is
// no message to another CPU.
void trp_bind_here(trp_binding *binding, pthread_t thread);
// By the thread itself.
void trp_unbind(trp_binding *binding);

// Lets the actor of this mailbox run, to which this thread has sent. Only the scheduler's threads
// pause.
void trp_pause(trp_mailbox *mailbox);
// The actor rests: who has paused for it longest goes on. To be called if `pausing` is not 0.
void trp_pause_end(trp_mailbox *mailbox);

#endif
