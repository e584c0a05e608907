// park.h: how a thread of this process sleeps until another one changes a word.
//
// Everything in the library that waits for something that another process may send waits here, so
// that there is one place that knows what else a waiting thread can do: it reads what comes by the
// carrier of this node. Other waits are those of base/futex.h.
#ifndef TRP_LINK_PARK_H
#define TRP_LINK_PARK_H

#include <limits.h>
#include <runtime/base/futex.h>

// In a process that begins together with many others: its first waits sleep at once. Spinning and
// yielding take the CPU from those that are to begin as well; what pays is learnt after that.
void trp_park_crowded(void);

// Reads *word for as long as it is `seen`, at most about as long as a wake-up across CPUs would
// take: who is answered meanwhile saves that wake-up. On one CPU it does nothing, nor where
// trp_park would read what other processes have sent: it spins itself.
void trp_spin(_Atomic uint32_t *word, uint32_t seen);

// Sleeps while *word is `seen`, until trp_unpark or the monotonic time `deadline_ns` (negative:
// none). May return early: the caller checks its condition again. Meanwhile the thread reads what
// other processes send, if no other one does: the layer above's handlers then run on it.
void trp_park(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns);

// Wakes up to `count` of those parked on the word, after it was changed (sequentially consistent).
// Only the address is used, so the word's owner may be gone by now. A thread that is parked on the
// word and reads meanwhile counts as one, and sees the change before it sleeps.
void trp_unpark(_Atomic uint32_t *word, int count);

// How often spinning, and yielding the CPU, has paid for threads that wait here.
extern trp_habit trp_park_spins, trp_park_yields;

#endif
