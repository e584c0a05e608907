// job_mode.h: a process that the train server has started for one job: how it knows that, and what
// its first troupe_start does instead of returning.
//
// The launcher says it in a variable, before main:
// TROUPE_JOB=<pid>:<descriptor of alive>:<descriptor of the order>:<id>:<attempt>:<job's folder>.
#ifndef TRP_JOB_MODE_H
#define TRP_JOB_MODE_H

#include <train/alive.h>
#include <train/wire.h>

typedef struct trp_job_mode {
    int64_t job;
    int attempt;
    const char *folder; // Of the job, in the state folder.
    trp_alive *lock;    // Of byte 0 of `alive` there.
    trp_wire_order order;
} trp_job_mode;

// Whether the environment has this process run a job; then its first troupe_start does. By a
// constructor; harmless when called again.
void trp_job_mode_find(void);

#endif
