// commits.h: the checkpoints of reports that are not committed yet, in the order of their numbers.
// Pure, but for memory.
//
// A checkpoint can be committed once its report is whole and each rank that announced files for it
// has said that they are written, or that they could not be.
#ifndef TRP_COMMITS_H
#define TRP_COMMITS_H

#include <train/checkpoint.h>
#include <train/reports.h>
#include <train/serial.h>

// What a rank says of the files that it announced with a report.
TROUPE_STRUCT(trp_written, (int, attempt), (int, rank), (int, number),
              (bool, torn),       // It could not write them: the report has no checkpoint,
              (troupe_text, why), // for this reason.
              (troupe_array_trp_manifest_file, files));

typedef struct trp_evicted {
    int64_t id;
    double score; // As the loop reported it.
} trp_evicted;

typedef struct trp_commit {
    struct trp_commit *next;
    trp_arena arena; // Of what follows.
    int number;      // Of the report.
    bool whole;
    int expected, arrived; // Ranks.
    bool torn;
    const char *why;
    trp_manifest_file *files;
    size_t file_count;
    troupe_array_trp_metric metrics;
    const char *config; // JSON; NULL: as submitted.
    // Once it is being committed: see committer.h.
    trp_serial_task task;
    struct trp_committer *committer;
    trp_staging staging;
    trp_manifest manifest;
    char created[32];
    trp_path folder;
    int journal;  // Where its line is: a descriptor, -1: none.
    bool follows; // It is committed, or failed: what follows from that is being done.
    troupe_status status;
    troupe_error error;
    trp_evicted *evicted; // Checkpoints to be removed.
    size_t evicted_count;
} trp_commit;

typedef struct trp_commits {
    trp_commit *first;
} trp_commits;

// A report is whole, and `report->pending` ranks have announced files for it (0: nothing is done).
// `config` is that of its ranks, without a zero at its end; empty: as submitted. TROUPE_NO_MEMORY.
troupe_status trp_commits_whole(trp_commits *commits, const trp_open_report *report,
                                const trp_buffer *config);
// A rank's files for a report are written. TROUPE_NO_MEMORY.
troupe_status trp_commits_written(trp_commits *commits, const trp_written *written);
// Takes out the first if it can be committed; NULL: it cannot. It is the caller's.
trp_commit *trp_commits_next(trp_commits *commits);
// The highest whole report that lacks files of ranks; 0: none.
int trp_commits_lacking(const trp_commits *commits);
void trp_commit_free(trp_commit *commit);
void trp_commits_clear(trp_commits *commits);

#endif
