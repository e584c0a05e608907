// web_job.h: a job as the web interface knows it: what its folder says, and what the server does.
#ifndef TRP_SERVER_WEB_JOB_H
#define TRP_SERVER_WEB_JOB_H

#include <server/web_internal.h>

TROUPE_STRUCT(web_job_file, (int, version), (int64_t, id), (troupe_text, key), (troupe_text, name),
              (troupe_text, trainer), (troupe_text, program), (troupe_text, folder), (int, ranks),
              (double, cpus_per_rank), (double, gpus_per_rank), (double, memory_per_rank_bytes),
              (double, time_limit_s), (int, priority), (double, start_at), (double, submitted_at));

typedef struct web_job {
    int64_t id;
    const char *problem; // Why its folder cannot be read; NULL.
    web_job_file file;
    trp_json config, metadata, arguments; // Empty: none.
    bool ended;
    trp_job_end end;          // If so.
    bool begun;               // It was let run at some time.
    int holder;               // Who has the lock of being alive; 0: none, -1: one without a number.
    const trp_wire_job *told; // By the server; NULL.
    const char *state, *outcome; // In capitals; `outcome` of one that has ended, else NULL.
} web_job;

// Reads the folder of a job. TROUPE_NOT_FOUND, TROUPE_NO_MEMORY; damage is its `problem`.
troupe_status web_job_read(web_call *call, int64_t id, const trp_wire_jobs *told, web_job *job);
// The job that the path names, with what the server says of it.
troupe_status web_job_of(web_call *call, web_job *job);
// The numbers of all jobs, the highest first.
troupe_status web_job_numbers(web_call *call, int64_t **numbers, size_t *count);
// Its run, with all of its journal that the request may read. TROUPE_NOT_FOUND: it has none yet.
troupe_status web_job_run(web_call *call, const web_job *job, web_run **run);
// When its first group began, as Unix time; 0: not known.
double web_job_started(const web_job *job, const web_run *run);
double web_job_ended(const web_job *job);

// The members that lists and pages have alike, into an object that is open.
void web_job_write(web_call *call, const web_job *job, const web_run *run);

// ---- web_run_view.c: what is written of a run, whosever it is

void web_run_metrics(trp_buffer *out, const trp_facts *facts);
// The first metric, or the one that the run is kept by, in a few points.
void web_run_spark(trp_buffer *out, const trp_facts *facts);
void web_run_details(web_call *call, const web_run *run);
troupe_status web_run_write_curves(web_call *call, const web_run *run);
void web_run_usage(trp_buffer *out, const web_usage *usage);
// CPUs and memory of all ranks together, and GPUs.
void web_run_usage_sum(trp_buffer *out, const web_usage *usage);

// ---- web_reports.c

troupe_status web_events(web_call *call, const char *folder);
troupe_status web_log(web_call *call, const char *path);
troupe_status web_rank_log(web_call *call, const char *folder, int64_t rank);

// A time as the files of runs have it, as Unix time; 0: it is none.
double web_time_of(const char *text);
// Opens a file of the user's own to be read: no link, no pipe. -1.
int web_open_file(const char *path, struct stat *about);
// Reads such a file whole, if it is not too large, and ends it with a NUL; NULL: the last error
// says why. *size may be NULL.
char *web_read_file(web_call *call, const char *path, size_t *size);

#endif
