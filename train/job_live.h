// job_live.h: live values of a job: what is wished of them, told to its group, and put down.
#ifndef TRP_JOB_LIVE_H
#define TRP_JOB_LIVE_H

#include <train/job.h>

// What the ranks of a group begin with: their values, packed, and the revision. From then on newer
// ones are ordered. `report`: that they go on after. TROUPE_NO_MEMORY.
troupe_status trp_job_live_begin(trp_job *job, int report, trp_buffer *values, uint32_t *revision);
// A report is whole: an order that took effect with it is put down, and newer wishes are ordered.
void trp_job_live_whole(trp_job *job, int report);
// The config as ranks have it that make the next report: JSON; nothing where it is as submitted.
void trp_job_live_config(trp_job *job, trp_buffer *out);
// Sets the newest values in a config of the job, with what belongs to them in the thread's arena.
troupe_status trp_job_live_read(trp_job *job, void *config);

// Wishes that a member be so: a value packed by trp_live_pack_value. Accepted, it is in the
// journal. Errors as those of troupe_job_modify.
troupe_status trp_job_modify(trp_job *job, const char *member, troupe_bytes value);
// The same of a value in JSON, wished at the train server as its wish of that number. One that the
// run has already, since an earlier attempt was told, is passed over.
troupe_status trp_job_modify_json(trp_job *job, const char *member, const char *value,
                                  int64_t wish);

// For an opening, before the job is known to anyone: takes up what earlier openings have wished,
// but for the members that the config given now has changed. What holds goes to `file`, with its
// text in `text`.
troupe_status trp_job_live_open(trp_job *job, trp_run_file *file, trp_buffer *text);

#endif
