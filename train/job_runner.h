// job_runner.h: runs one job of the train server in a process of its own: its node, coordinator and
// ranks. It follows what is wished at the server while there is one, and needs none
// (docs/internals/server/server.md).
#ifndef TRP_JOB_RUNNER_H
#define TRP_JOB_RUNNER_H

#include <train/job_mode.h>

// Runs the job of the order in this process, whose runtime runs, writes its `end`, and ends the
// process.
_Noreturn void trp_job_runner_run(const trp_job_mode *mode);
// Ends the process, and the job too where it would fail likewise again. The reason is the thread's
// last error.
_Noreturn void trp_job_runner_fail(const trp_job_mode *mode, troupe_status status);
// Ends the process without an end of the job.
_Noreturn void trp_job_runner_leave(void);

#endif
