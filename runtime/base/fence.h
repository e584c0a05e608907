// fence.h: a fence of which one side is nearly free.
//
// Two threads that each write a word and then read the other's need a full fence between the two
// (Dekker's lock). Where one of them does it for each message and the other once in a while, the
// rare side can make the fence for both, by membarrier(2).
#ifndef TRP_BASE_FENCE_H
#define TRP_BASE_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

// Whether the rare side fences for both. Set before threads are made.
extern bool trp_fence_asymmetric;

// Registers the process with the kernel; once in each process, fork() included, while it has one
// thread if it can be: with more, the kernel waits until each CPU has passed through it (14 ms).
void trp_fence_start(void);

// The frequent side: writes `word`, before all reads that follow.
static inline void trp_fence_store(void *_Atomic *word, void *value)
{
    if (trp_fence_asymmetric) {
        atomic_store_explicit(word, value, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst); // For the compiler; the rest is the other's.
    } else {
        (void)atomic_exchange(word, value);
    }
}

// The rare side: stands between its write and its read.
void trp_fence_heavy(void);

#endif
