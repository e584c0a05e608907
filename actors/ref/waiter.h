// waiter.h: a thread that sleeps until what it waits for has become ready.
#ifndef TRP_REF_WAITER_H
#define TRP_REF_WAITER_H

#include <actors/ref/call_table.h>

// Sleeps until notified or `deadline_ns` (negative: none); false: the deadline passed.
bool trp_waiter_sleep(trp_waiter *waiter, int64_t deadline_ns);

// The same for so long from now on; whoever need not sleep looks at no clock.
bool trp_waiter_doze(trp_waiter *waiter, int64_t ns);

// Ends its sleep, or its next one, for another reason than that its row is ready.
void trp_waiter_wake(trp_waiter *waiter);

#endif
