// futex.h: sleeping on a word of this process until another thread changes it.
#ifndef TRP_FUTEX_H
#define TRP_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Sleeps while *word is `seen`, until trp_futex_wake or the monotonic time `deadline_ns` (negative:
// none). May return early: the caller checks its condition again.
static inline void trp_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline_ns < 0 ? NULL : &until,
                  NULL, FUTEX_BITSET_MATCH_ANY);
}

// Wakes up to `count` sleepers. Only the address is used, so the word's owner may be gone by now.
static inline void trp_futex_wake(_Atomic uint32_t *word, int count)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

// Reads *word for as long as it is `seen`, at most about as long as a wake-up across CPUs would
// take: who is answered meanwhile saves that wake-up. On one CPU it does nothing.
void trp_spin(_Atomic uint32_t *word, uint32_t seen);

#endif
