// stage.h: a stage of a trainer that runs in the driver (setup, on_start or on_shutdown), and the
// setup of a run's data.
//
// Each runs on a thread of its own, with a copy of the config, and tells the coordinator when it is
// over. It may outlast its run: whoever waits for it can let it go.
#ifndef TRP_STAGE_H
#define TRP_STAGE_H

#include <train/data.h>
#include <train/job.h>
#include <train/place.h>
#include <train/worker.h>

typedef enum trp_stage_kind {
    TRP_STAGE_SETUP,
    TRP_STAGE_DATA,
    TRP_STAGE_START,
    TRP_STAGE_SHUTDOWN,
} trp_stage_kind;

// Of a group: a rank to execute functions on.
typedef struct trp_stage_rank {
    trp_worker_actor worker; // id 0: it is gone.
    trp_place place;
} trp_stage_rank;

// What a stage is given.
typedef struct trp_stage_plan {
    trp_job *job;
    trp_coordinator_actor coordinator;
    trp_stage_kind kind;
    int attempt;                 // Restarts so far.
    troupe_status ended;         // Of SHUTDOWN.
    const trp_stage_rank *ranks; // By rank, copied; NULL: an early one.
    int64_t until_ms;            // Longest for functions of ranks, by trp_clock_ms; 0: any time.
} trp_stage_plan;

typedef struct trp_stage trp_stage;

// Whether the job has that stage.
bool trp_stage_is_there(const trp_job *job, trp_stage_kind kind);
// Whether it comes before there is any process of a group.
bool trp_stage_is_early(trp_stage_kind kind);

// Starts it; the caller has *stage until trp_stage_leave. TROUPE_NO_MEMORY: it was not started.
troupe_status trp_stage_begin(const trp_stage_plan *plan, trp_stage **stage);
// Whether it is over; then how it ended, with the thread's last error set, is in *status.
bool trp_stage_over(trp_stage *stage, troupe_status *status);
// Of DATA that is over: hands over the sets that it named.
void trp_stage_take_data(trp_stage *stage, trp_data_sets *sets);
// Lets it go, over or not, and clears *stage. Harmless on NULL.
void trp_stage_leave(trp_stage **stage);

#endif
