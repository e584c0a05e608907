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
// The same here, as people read it: "2024-04-10 09:41:32".
void trp_time_of_day(char text[32]);
// The same in UTC, as files have it: "2026-11-24T12:00:00.123Z".
typedef struct trp_time_text {
    char text[32];
} trp_time_text;
trp_time_text trp_time_now(void);
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
