// saver.h: what a rank puts into its next checkpoint: the state that it saves, and the folder that
// it fills with files of its own.
//
// The thread of the rank's loop prepares one report's files at a time; the saver's own thread, the
// writer, writes and syncs them and then tells the coordinator. What belongs to a report is the
// loop's until it is handed over, and the writer's until that is done: the first call for the next
// report waits for it.
#ifndef TRP_SAVER_H
#define TRP_SAVER_H

#include <runtime/base/buffer.h>
#include <train/coordinator.h>

typedef struct trp_saver {
    const char *run;
    int64_t epoch;
    int attempt, rank;
    bool keeps_none; // Nothing is committed: what is put into the folder goes with the report.
    trp_coordinator_actor coordinator;
    trp_serial *writer; // Made at the first use.
    // The loop's.
    bool begun;  // Something was done for the next report.
    bool filled; // The folder was handed out: anything may be in it.
    bool saved;  // A state was saved, whole or not.
    // Of one report: see above.
    int number;
    trp_arena arena;
    trp_path folder;
    trp_manifest_file state; // Without a path: none.
    uint64_t state_digest;   // The writer's; put into `files` once all is written.
    trp_buffer packed;       // The state, until it is written.
    bool torn;               // Something could not be written.
    char why[544];
    troupe_array_trp_manifest_file files;
    trp_serial_task write, close;
} trp_saver;

// Gives the folder to be filled for report `number`.
troupe_status trp_saver_folder(trp_saver *saver, int number, const char **path);
// Packs a state for report `number`, replacing an earlier one, and has it written.
troupe_status trp_saver_save(trp_saver *saver, int number, const troupe_type *type,
                             const void *value);
// Copies a file into the folder for report `number`, or all that is in a folder.
troupe_status trp_saver_add(trp_saver *saver, int number, const char *source, bool remove);

// Before the report is made: whether what is in the folder can be in a checkpoint (TROUPE_INVALID),
// and whether there is anything.
troupe_status trp_saver_check(trp_saver *saver, bool *pending);
// After it was made: has the rest written, and the coordinator told.
void trp_saver_close(trp_saver *saver);
// Waits until all is written and told, and ends the writer.
void trp_saver_end(trp_saver *saver);

#endif
