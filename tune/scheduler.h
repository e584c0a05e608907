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
    char description[96]; // For the table: "ASHA (grace 1, reduction 3, limit 81)".
    // Decides at report `number` (from 1, rising) of a trial; lower scores are better, NaN is
    // worst. TROUPE_NO_MEMORY leaves the scheduler as it was.
    troupe_status (*decide)(troupe_scheduler *scheduler, int trial, int number, double score,
                            trp_decision *decision);
    void (*destroy)(troupe_scheduler *scheduler);
};

// Lets every trial run to its end. Static: freeing it does nothing.
troupe_scheduler *trp_fifo(void);

#endif
