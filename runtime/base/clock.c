// clock.c: monotonic time, and the time of day.
#include <runtime/base/clock.h>
#include <time.h>

int64_t trp_clock_ns(void)
{
    struct timespec now;
    // Cannot fail: the clock exists and the address is valid.
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double trp_clock_unix_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
