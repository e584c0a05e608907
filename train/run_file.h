// run_file.h: the two documents of a run's folder that are replaced whole: run.json says what runs,
// `end` how it ended. JSON: members that are missing have their defaults, unknown ones are ignored,
// and a higher version is refused.
#ifndef TRP_RUN_FILE_H
#define TRP_RUN_FILE_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>
#include <train/option_table.h>
#include <troupe/train.h>

TROUPE_STRUCT(trp_run_head, (int, version), (troupe_text, program), (troupe_text, trainer),
              (troupe_text, schema), // Of the config, in hexadecimal.
              (troupe_text, created), (troupe_text, from), (trp_saved_options, options),
              (int64_t, revision)); // Of the wishes that `modified` has, or the config.

// What the run learns from. Its name NULL: nothing; no keys: they are not known yet.
TROUPE_STRUCT(trp_run_data, (troupe_text, name), (troupe_text, schema), // Of the source.
              (troupe_array_troupe_text, keys));                        // Sorted.

typedef struct trp_run_file {
    trp_run_head head;
    trp_run_data data;
    trp_json config, metadata; // Empty: none.
    trp_json modified;         // Members that have been modified since, with their values.
} trp_run_file;

// Whether the folder has a run.json that can be read.
bool trp_run_file_exists(const char *run);
// Reads run.json; texts go to `arena`. TROUPE_NOT_FOUND, TROUPE_CORRUPT and TROUPE_VERSION name the
// file.
troupe_status trp_run_file_read(const char *run, trp_arena *arena, trp_run_file *file);
// Makes or replaces it, synced, unless it says the same already. `lasts`: else one of a local run
// is not synced.
troupe_status trp_run_file_write(const char *run, const trp_run_file *file, bool lasts);

TROUPE_STRUCT(trp_end_file, (int, version), (troupe_text, status), (bool, stopped),
              (troupe_text, error), (troupe_text, cause), // The second may be missing.
              (int, reports), (int, restarts), (double, elapsed_s), (troupe_text, checkpoint),
              (troupe_text, best),                      // Names of folders.
              (troupe_text, at), (troupe_bytes, value), // That rank 0 returned, packed.
              (uint64_t, value_schema),
              (troupe_text, job)); // Its submission, where it was the train server's.
// Syncs the one that is there.
troupe_status trp_run_file_sync(const char *run);

// What it says. A run that need not last says it in the last line of its journal instead, where
// that is no longer than TRP_END_LINE_MAX.
enum { TRP_END_LINE_MAX = 4096 };
void trp_end_file_text(const trp_end_file *end, trp_buffer *text);
// Reads the file or the line. Errors as those of trp_run_file_read.
troupe_status trp_end_file_read(const char *run, trp_arena *arena, trp_end_file *end);
troupe_status trp_end_file_write(const char *run, const trp_end_file *end, bool lasts);
// Takes it away, for a run that goes on.
troupe_status trp_end_file_remove(const char *run);

// A status as the files of a run name it: "OK", "PEER_LOST".
const char *trp_status_word(troupe_status status);
// And back; TROUPE_FAILED: there is no such status.
troupe_status trp_status_of_word(const char *word);

#endif
