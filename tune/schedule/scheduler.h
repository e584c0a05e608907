// scheduler.h: which trials go on. A scheduler is a pure object that is asked at every report; it
// knows no jobs, clocks or threads.
#ifndef TRP_TUNE_SCHEDULER_H
#define TRP_TUNE_SCHEDULER_H

#include <troupe/tune.h>

typedef enum trp_decision {
    TRP_GO_ON,
    TRP_STOP, // Others are better: ends early.
    TRP_END,  // Has had all that a trial may have: ends as if by itself.
} trp_decision;

struct troupe_scheduler {
    // For the table: "ASHA (grace 1, reduction 3, limit 81)"; where it was refused, the sentence.
    char description[96];
    // The reports at which it may decide anything but to go on, rising; none: it never does.
    const int *reports;
    size_t report_count;
    troupe_status refusal; // TROUPE_OK, or why there is no such scheduler: troupe_tune returns it.
    // Decides at report `number` (from 1, rising) of a trial; lower scores are better, NaN is
    // worst. TROUPE_NO_MEMORY leaves the scheduler as it was.
    troupe_status (*decide)(troupe_scheduler *scheduler, int trial, int number, double score,
                            trp_decision *decision);
    void (*destroy)(troupe_scheduler *scheduler);
};

// Lets every trial run to its end. Static: freeing it does nothing.
troupe_scheduler *trp_fifo(void);

// Stands for a scheduler that could not be made, with the thread's last error. Never NULL: to
// troupe_tune NULL means none, and a sweep that was to stop its weak trials would stop nobody.
troupe_scheduler *trp_scheduler_refused(void);

#endif
