// run_job.h: the file `job` in a run's folder: of which job of a train server the run is. Written
// by the client when it claims the folder, and again when the server has given the job a number; of
// a run that goes on by the server, with the job itself.
#ifndef TRP_RUN_JOB_H
#define TRP_RUN_JOB_H

#include <runtime/base/arena.h>
#include <troupe/wire.h>

TROUPE_STRUCT(trp_run_job, (int, version), (troupe_text, submission),
              (troupe_text, server), // Its state folder,
              (int64_t, job),        // and the job's number there; 0: not known yet.
              (int64_t, journal));   // Where the run's journal ended when it was submitted.

// TROUPE_NOT_FOUND: the run is no job of a server; TROUPE_CORRUPT, TROUPE_VERSION, TROUPE_IO.
troupe_status trp_run_job_read(const char *run, trp_arena *arena, trp_run_job *job);
// Makes or replaces it; `lasts`: synced with its folder. For a folder that was made for the job it
// need not be: the server makes it again.
troupe_status trp_run_job_write(const char *run, const trp_run_job *job, bool lasts);
// Removes it where it is of that submission, and then the folder, where that is empty: what was
// claimed for a job that there is already.
void trp_run_job_withdraw(const char *run, const char *submission);

// That the run may be opened by who does the job of that submission (NULL: of none). TROUPE_BUSY:
// it is of another job, which has not ended.
troupe_status trp_run_job_check(const char *run, const char *submission);

#endif
