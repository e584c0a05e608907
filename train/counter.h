// counter.h: a count in shared memory that one process raises and others wait for.
#ifndef TRP_COUNTER_H
#define TRP_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct trp_counter {
    // Twice the count; bit 0 is set once, for good: so that who is about to sleep on the word does
    // not miss it. Pairs: release by who writes, acquire by who waits.
    _Atomic uint32_t word;
    // Who may sleep on it; raised before sleeping, read after the word is written (both
    // sequentially consistent), so that one of the two sees the other. A dead sleeper costs a call.
    _Atomic uint32_t sleepers;
} trp_counter;

// In memory that nobody uses yet.
void trp_counter_init(trp_counter *counter, uint32_t count);
// One more. What this thread wrote before can be read by those who have seen it.
void trp_counter_raise(trp_counter *counter);
// Nobody is to wait for it any more, for good: all waits end.
void trp_counter_close(trp_counter *counter);
bool trp_counter_is_closed(const trp_counter *counter);
// Whether the count is at least `target`, without waiting.
bool trp_counter_reached(const trp_counter *counter, uint32_t target);
// The same, for some hundred nanoseconds: as long as a look at the clock is not worth it.
bool trp_counter_glance(const trp_counter *counter, uint32_t target);

// How long it pays to look at a count of one of so many processes before sleeping.
int64_t trp_counter_spin_ns(int processes);
// Waits until the count is at least `target` (a difference of up to 2^30 is told right): true.
// False: it was closed before, or `until_ms` of trp_clock_ms has passed.
bool trp_counter_await(trp_counter *counter, uint32_t target, int64_t spin_ns, int64_t until_ms);

#endif
