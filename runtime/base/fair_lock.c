// fair_lock.c: tickets. Each waits for its number, which who lets the lock go calls.
#include <runtime/base/fair_lock.h>

static _Thread_local char here; // Its address is the thread's.

void trp_fair_lock_open(trp_fair_lock *lock)
{
    *lock = (trp_fair_lock){.next = 0};
    pthread_mutex_init(&lock->lock, NULL);
    pthread_cond_init(&lock->turn, NULL);
}

void trp_fair_lock_close(trp_fair_lock *lock)
{
    pthread_cond_destroy(&lock->turn);
    pthread_mutex_destroy(&lock->lock);
}

void trp_fair_lock_take(trp_fair_lock *lock)
{
    if (atomic_load_explicit(&lock->holder, memory_order_relaxed) == &here) {
        lock->depth++;
        return;
    }
    pthread_mutex_lock(&lock->lock);
    uint64_t mine = lock->next++;
    while (lock->now != mine)
        pthread_cond_wait(&lock->turn, &lock->lock);
    pthread_mutex_unlock(&lock->lock);
    atomic_store_explicit(&lock->holder, &here, memory_order_relaxed);
    lock->depth = 1;
}

void trp_fair_lock_give(trp_fair_lock *lock)
{
    if (--lock->depth > 0)
        return;
    atomic_store_explicit(&lock->holder, NULL, memory_order_relaxed);
    pthread_mutex_lock(&lock->lock);
    lock->now++;
    pthread_cond_broadcast(&lock->turn);
    pthread_mutex_unlock(&lock->lock);
}
