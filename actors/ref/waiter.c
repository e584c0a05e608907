// waiter.c: a thread that sleeps until what it waits for has become ready: see ref/call_table.h.
#include <actors/ref/waiter.h>

#include <actors/ref/call_table.h>
#include <runtime/base/clock.h>
#include <runtime/link/park.h>

// What trp_waiter_sleep does after its spin.
static bool sleep_notified(trp_waiter *waiter, int64_t deadline_ns)
{
    for (;;) {
        uint32_t seen = TRP_WAITER_IDLE;
        if (!atomic_compare_exchange_strong(&waiter->word, &seen, TRP_WAITER_ASLEEP) &&
            seen == TRP_WAITER_NOTIFIED) {
            atomic_store(&waiter->word, TRP_WAITER_IDLE);
            return true;
        }
        trp_park(&waiter->word, TRP_WAITER_ASLEEP, deadline_ns);
        if (atomic_load(&waiter->word) == TRP_WAITER_ASLEEP && deadline_ns >= 0 &&
            trp_clock_ns() >= deadline_ns)
            return atomic_exchange(&waiter->word, TRP_WAITER_IDLE) == TRP_WAITER_NOTIFIED;
    }
}

bool trp_waiter_sleep(trp_waiter *waiter, int64_t deadline_ns)
{
    trp_spin(&waiter->word, TRP_WAITER_IDLE);
    return sleep_notified(waiter, deadline_ns);
}

bool trp_waiter_doze(trp_waiter *waiter, int64_t ns)
{
    trp_spin(&waiter->word, TRP_WAITER_IDLE);
    bool idle = atomic_load(&waiter->word) == TRP_WAITER_IDLE;
    return sleep_notified(waiter, idle ? trp_clock_ns() + ns : -1);
}

void trp_waiter_wake(trp_waiter *waiter)
{
    if (atomic_exchange(&waiter->word, TRP_WAITER_NOTIFIED) == TRP_WAITER_ASLEEP)
        trp_unpark(&waiter->word, 1);
}
