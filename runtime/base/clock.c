// clock.c: monotonic time, and the time of day.
#include <runtime/base/clock.h>
#include <stdio.h>
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

void trp_time_of_day(char text[32])
{
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    if (localtime_r(&now.tv_sec, &local) == NULL || strftime(text, 32, "%F %T", &local) == 0)
        text[0] = '\0';
}

trp_time_text trp_time_now(void)
{
    struct timespec now;
    struct tm utc;
    trp_time_text time;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t length = strftime(time.text, sizeof time.text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(time.text + length, sizeof time.text - length, ".%03dZ", (int)(now.tv_nsec / 1000000));
    return time;
}
