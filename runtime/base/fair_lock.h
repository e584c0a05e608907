// fair_lock.h: a lock that threads get in the order in which they asked for it. For those that hold
// it most of the time, and let others in between: of a plain mutex who lets it go and takes it
// again is faster than who sleeps and waits for it, for as long as that goes on.
#ifndef TRP_BASE_FAIR_LOCK_H
#define TRP_BASE_FAIR_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct trp_fair_lock {
    pthread_mutex_t lock; // Of what follows.
    pthread_cond_t turn;
    uint64_t next, now;         // The ticket that is given next, and the one whose turn it is.
    const void *_Atomic holder; // A thread; NULL: none.
    int depth;                  // The holder's alone: it may take the lock again.
} trp_fair_lock;

void trp_fair_lock_open(trp_fair_lock *lock);
void trp_fair_lock_close(trp_fair_lock *lock); // Nobody has it or waits for it.
void trp_fair_lock_take(trp_fair_lock *lock);
void trp_fair_lock_give(trp_fair_lock *lock);

#endif
