// hold.h: a gate that holds a run at some reports until the test lets it go. What the test asks for
// meanwhile comes true with the next report, however late the test or the run is.
#ifndef HOLD_H
#define HOLD_H

#include "support.h"

#include <stdatomic.h>
#include <troupe.h>

typedef struct hold {
    _Atomic int at;    // The report that it is held at, or was last.
    _Atomic int until; // It may go on behind that one.
} hold;

static troupe_gate_answer hold_keep(void *user, troupe_job *job, const troupe_report_event *event,
                                    int *ranks)
{
    hold *it = user;
    (void)job, (void)ranks;
    atomic_store(&it->at, event->number);
    support_await_counter(&it->until, event->number);
    return TROUPE_GATE_GO_ON;
}

// The gate of a job that is held at those reports, which rise.
static inline troupe_gate hold_gate(hold *it, const int *reports, size_t count)
{
    return (troupe_gate){.size = sizeof(troupe_gate),
                         .decide = hold_keep,
                         .user = it,
                         .timeout_ms = SUPPORT_SOON_MS,
                         .reports = reports,
                         .report_count = count};
}

// Waits until the run is held at that report: all its ranks have made it.
static inline void hold_await(hold *it, int report)
{
    support_await_counter(&it->at, report);
}

static inline void hold_let_go(hold *it, int report)
{
    atomic_store(&it->until, report);
}

#endif
