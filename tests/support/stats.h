// stats.h: what troupe_stats_get says, as a value.
#ifndef TROUPE_TEST_STATS_H
#define TROUPE_TEST_STATS_H

#include <troupe/runtime.h>

static inline troupe_stats support_stats(void)
{
    troupe_stats now;
    troupe_must(troupe_stats_get(&now));
    return now;
}

#endif
