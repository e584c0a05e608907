// start.h: starting the processes of a group's ranks, all at once.
#ifndef TRP_START_H
#define TRP_START_H

#include <train/job.h>
#include <train/worker.h>

// Starts the processes of those ranks of the job that are not there, with a worker for each; of the
// ranks that share a process all are there or none. All arrays are by rank, and what they say of
// the others stays. A worker that could not be started says why when it is called.
// TROUPE_NO_MEMORY: nothing was started.
troupe_status trp_workers_start(const trp_job *job, const bool *there, trp_place *places,
                                trp_worker_actor *workers);

#endif
