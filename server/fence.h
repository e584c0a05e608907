// fence.h: who may run a job: the file `alive` in its folder (docs/internals/server/server.md).
//
// Byte 0 is locked by the launcher and then the runner it becomes, byte 1 by the runner's keeper.
// The text is the number of the attempt that may run, 0: none; it changes under the lock of byte 0
// alone, so that a launcher that comes late finds another number and ends. A runner that was asked
// to end by a signal says so behind the number (trp_alive_say_left). In the server nothing
// else may open the file: closing any descriptor of it lets go of its locks.
#ifndef TRP_SERVER_FENCE_H
#define TRP_SERVER_FENCE_H

#include <stdbool.h>
#include <sys/types.h>
#include <train/job_end.h>

typedef struct trp_fence {
    int attempt;          // That may run; 0: none, or the file is not there.
    bool set;             // An attempt was let run at some time.
    bool left;            // The last one that was ends, or has ended, since a signal asked it to.
    pid_t runner, keeper; // That have the locks; 0: free, -1: one that this system cannot name.
} trp_fence;

// Lets that attempt run, and no other. TROUPE_BUSY: a process has the job; TROUPE_IO,
// TROUPE_NO_SPACE.
troupe_status trp_fence_set(const char *folder, int attempt);
// Ends the job for which no process does it: lets nothing run any more, then writes `end`.
// TROUPE_BUSY: a process has the job; TROUPE_EXISTS: there is an `end`, which stays; errors of
// trp_job_end_write: nothing runs any more, and it may be called again.
troupe_status trp_fence_end(const char *folder, const trp_job_end *end);
// What it says now. TROUPE_IO. An attempt is over when both locks are free.
troupe_status trp_fence_look(const char *folder, trp_fence *found);

#endif
