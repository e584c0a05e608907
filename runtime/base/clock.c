// clock.c: monotonic time.
#include <runtime/base/clock.h>
#include <time.h>

int64_t trp_clock_ns(void)
{
    struct timespec now;
    // Cannot fail: the clock exists and the address is valid.
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
