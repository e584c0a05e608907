// launcher.h: starts the program of a job, by `troupe-launch`.
#ifndef TRP_SERVER_LAUNCHER_H
#define TRP_SERVER_LAUNCHER_H

#include <sys/types.h>
#include <train/wire.h>

// Starts the attempt that the order says, of the job whose folder is `folder` (<state>/jobs/<id>),
// which it may run in (trp_fence_set). *pid is a child of this process, which waits for it; *pidfd
// stands for it, and is the caller's to close. That it was started says nothing about the program:
// the launcher ends with 0 if the job's lock is taken or another attempt may run, and else, where
// it cannot execute the program, writes to `end` why. Its environment, folder and so on are those
// of `launch`, but for GPUs (`order->gpu_ids`: CUDA_VISIBLE_DEVICES; NULL: as it was), CPUs, if the
// client may have used fewer than are granted, and variables that speak of the client's process.
// TROUPE_INVALID: the program, or an object that it consists of, is not what it was at the
// submission, or is gone, which ends the job. TROUPE_NOT_FOUND, TROUPE_IO, TROUPE_NO_MEMORY:
// troupe-launch is missing or cannot be started now.
troupe_status trp_launcher_start(const trp_wire_launch *launch, const trp_wire_order *order,
                                 const char *folder, pid_t *pid, int *pidfd);

// What the last one says of the program. TROUPE_INVALID.
troupe_status trp_launcher_check(const trp_wire_launch *launch);
// Whether it has the CPUs that the client might use: not where these are fewer than are granted.
bool trp_launcher_is_affine(const trp_wire_launch *launch, double cpus);

#endif
