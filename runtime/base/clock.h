// clock.h: monotonic time, and the time of day. Nothing in the library waits by the wall clock.
#ifndef TRP_BASE_CLOCK_H
#define TRP_BASE_CLOCK_H

#include <stdint.h>

int64_t trp_clock_ns(void);
static inline int64_t trp_clock_ms(void)
{
    return trp_clock_ns() / 1000000;
}
// The time of day, in seconds since 1970, for what is shown and for what begins at a date.
double trp_clock_unix_s(void);
// The hour so many milliseconds from now; -1, which means none, of a negative number.
static inline int64_t trp_clock_deadline(int64_t timeout_ms)
{
    return timeout_ms < 0 ? -1 : trp_clock_ns() + timeout_ms * 1000000;
}
static inline double trp_clock_s(void)
{
    return (double)trp_clock_ns() * 1e-9;
}

#endif
