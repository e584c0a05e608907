// at_stop.c: see at_stop.h.
#include <runtime/node/at_stop.h>

#include <runtime/base/log.h>
#include <stdatomic.h>
#include <stddef.h>

enum { ENDS_MAX = 4 };

static void (*_Atomic ends[ENDS_MAX])(void);

void trp_at_stop(void (*end)(void))
{
    for (int i = 0; i < ENDS_MAX; i++) {
        void (*is)(void) = NULL;
        if (atomic_compare_exchange_strong(&ends[i], &is, end) || is == end)
            return;
    }
    trp_assert(!"too many functions at the stop");
}

void trp_at_stop_run(void)
{
    for (int i = 0; i < ENDS_MAX; i++) {
        void (*end)(void) = atomic_load(&ends[i]);
        if (end != NULL)
            end();
    }
}
