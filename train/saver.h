// saver.h: what a rank puts into its next checkpoint: the state that it saves, and the folder that
// it fills with files of its own. Used by the thread of the rank's loop.
#ifndef TRP_SAVER_H
#define TRP_SAVER_H

#include <train/checkpoint.h>
#include <train/reports.h>

typedef struct trp_saver {
    const char *run;
    int64_t epoch;
    int attempt, rank;
    bool keeps_none; // Nothing is committed: what is put into the folder goes with the report.
    // Of the next report.
    trp_arena arena;
    trp_path folder;         // "": not made yet.
    bool filled;             // It was handed out: anything may be in it.
    trp_manifest_file state; // Without a path: none.
    bool torn;               // A state could not be saved.
    char why[544];
    troupe_array_trp_manifest_file files;
} trp_saver;

// Gives the folder to be filled for report `number`.
troupe_status trp_saver_folder(trp_saver *saver, int number, const char **path);
// Writes a state for report `number`, replacing an earlier one.
troupe_status trp_saver_save(trp_saver *saver, int number, const troupe_type *type,
                             const void *value);
// Copies a file into the folder for report `number`, or all that is in a folder.
troupe_status trp_saver_add(trp_saver *saver, int number, const char *source, bool remove);

// Before the report is made: whether what is in the folder can be in a checkpoint. TROUPE_INVALID.
troupe_status trp_saver_check(trp_saver *saver);
// Makes it last, and says in the report what there is. The report borrows from the saver.
void trp_saver_close(trp_saver *saver, trp_report *report);
// Begins with the next report.
void trp_saver_next(trp_saver *saver);

#endif
