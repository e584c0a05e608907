// warm.h: warm runners: a copy of a runner's process, made where its program has come to
// troupe_start and nothing of a job has happened, that makes the runners of further jobs of the
// same kind without executing the program again (docs/internals/server/server.md).
#ifndef TRP_WARM_H
#define TRP_WARM_H

#include <train/alive.h>
#include <train/wire.h>

// What a runner that was made of the copy is to do: it has the job's lock, and the job's log as its
// output.
typedef struct trp_warm_job {
    int64_t job;
    int attempt;
    char folder[4096];
    trp_alive *lock;
    trp_buffer order; // Packed.
} trp_warm_job;

// Called when the process begins: what it writes to its log from then on until trp_warm_copy is
// written to the logs of those runners too.
void trp_warm_begin(void);
// Makes a copy that waits for jobs at the server that `folder`, of the job, is of, unless the
// program has something that runners would share or lack: threads, children, timers, descriptors
// other than `lock`'s, shared memory, much memory. Returns false in this process; and true in each
// runner that is made of the copy, with *job.
bool trp_warm_copy(const char *folder, const trp_wire_order *order, trp_alive **lock,
                   trp_warm_job *job);

#endif
