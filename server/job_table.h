// job_table.h: jobs of the train server as text for people, and as their folders show them where
// there is no server.
#ifndef TRP_SERVER_JOB_TABLE_H
#define TRP_SERVER_JOB_TABLE_H

#include <stdio.h>
#include <train/wire.h>

// "queued", "running", ...; of one that has ended "done", "stopped", "failed" or
// "cancelled".
const char *trp_job_state_name(const trp_wire_job *job);
// DONE, STOPPED, FAILED or CANCELLED.
const char *trp_job_outcome(int status, bool stopped);
// A table, cut at the width of the terminal, if `out` is one. `runs`: a server does; `ended`: those
// that have ended were asked for, too.
void trp_job_table_print(const trp_wire_jobs *jobs, bool runs, bool ended, FILE *out);
// All of one job, a line each.
void trp_job_print(const trp_wire_job *job, bool runs, FILE *out);
// As JSON: an object, or an array of them.
void trp_job_print_json(const trp_wire_job *job, FILE *out);
void trp_jobs_print_json(const trp_wire_jobs *jobs, FILE *out);

// Reads the folders of jobs, the newest first, into the arena. TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_job_folders_read(const char *state_folder, const trp_wire_list *which,
                                   trp_arena *arena, trp_wire_jobs *jobs);

#endif
