// record.h: what a run leaves behind: its checkpoints, its journal, and what its follower is
// told.
//
// Used by the run's coordinator alone. It lasts over all attempts of a run; a report whose number
// was delivered in an earlier attempt is not delivered again.
#ifndef TRP_RECORD_H
#define TRP_RECORD_H

#include <train/committer.h>
#include <train/job.h>
#include <train/reports.h>
#include <train/retention.h>

typedef struct trp_record {
    trp_job *job;
    trp_retention retention;
    int64_t next_id; // Of checkpoints.
    bool warned;     // That reports lack the metric which .keep_metric names.
    int only_world;  // How many ranks alone can go on from the newest checkpoint; 0: any number.
    int newest;      // Report of the newest checkpoint; 0: there is none.
    int missing;     // Reports in a row that have no checkpoint, for the same reason:
    char missing_why[128];
    int delivered;   // The highest number of a report that was delivered,
    int asked;       // and of one of an earlier opening that a gate was asked about once more.
    trp_arena arena; // Of the last report's metrics:
    troupe_metric last[TRP_METRICS_MAX];
    size_t last_count;
    trp_buffer value; // That rank 0's loop returned, packed; empty: none.
    uint64_t value_schema;
} trp_record;

// Begins with what earlier openings of the run have left.
troupe_status trp_record_open(trp_record *record, trp_job *job);
// Delivers a whole report.
void trp_record_add(trp_record *record, int attempt, const trp_open_report *report);
// Hands what was staged for a report to the committer.
void trp_record_commit(trp_record *record, trp_committer *committer, int attempt,
                       trp_commit *commit);
// Takes a commit that is over: tells of it, and hands on or frees it.
void trp_record_committed(trp_record *record, trp_committer *committer, trp_commit *commit);
// The checkpoint that an attempt continues from ("" in `folder`: none) and the report that it
// continues after. TROUPE_CORRUPT: the one that the user named cannot be used.
troupe_status trp_record_origin(trp_record *record, trp_path *folder, int *report);
// What rank 0's loop has returned in this attempt.
void trp_record_return(trp_record *record, troupe_bytes value, uint64_t schema);
// Puts what is known into a result.
troupe_status trp_record_fill(const trp_record *record, troupe_result *result);
void trp_record_close(trp_record *record);

// Puts down how the run has ended; the result may be NULL.
void trp_record_end(trp_record *record, troupe_status status, const troupe_result *result);

#endif
