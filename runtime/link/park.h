// park.h: how a thread of this process sleeps until another one changes a word.
//
// Everything in the library that waits for something inside its own process waits here, so that
// there is one place that knows what else a waiting thread can do.
#ifndef TRP_LINK_PARK_H
#define TRP_LINK_PARK_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// A moment's rest inside a loop that reads a word again and again.
static inline void trp_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Finds out whether spinning can pay here. Once a start.
void trp_park_start(void);

// In a process that begins together with many others: its first waits sleep at once. Spinning and
// yielding take the CPU from those that are to begin as well; what pays is learnt after that.
void trp_park_crowded(void);

// Reads *word for as long as it is `seen`, at most about as long as a wake-up across CPUs would
// take: who is answered meanwhile saves that wake-up. On one CPU it does nothing, nor where
// trp_park would read what other processes have sent: it spins itself.
void trp_spin(_Atomic uint32_t *word, uint32_t seen);

// How often looking has paid in one kind of wait; .every is 1 at first.
typedef struct trp_habit {
    _Atomic int every, waits;
} trp_habit;
// As trp_spin, with a habit of its own, for a word that other processes change. True: it has
// changed.
bool trp_spin_on(trp_habit *habit, _Atomic uint32_t *word, uint32_t seen);

// Sleeps while *word is `seen`, until trp_unpark or the monotonic time `deadline_ns` (negative:
// none). May return early: the caller checks its condition again. Meanwhile the thread reads what
// other processes send, if no other one does: the layer above's handlers then run on it.
void trp_park(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns);

// The same for a short time, after which others go on: does not read meanwhile.
void trp_nap(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns);

// Wakes up to `count` of those parked on the word, after it was changed (sequentially consistent).
// Only the address is used, so the word's owner may be gone by now. A thread that is parked on the
// word and reads meanwhile counts as one, and sees the change before it sleeps.
void trp_unpark(_Atomic uint32_t *word, int count);

#endif
