// checkpoint.h: a run's checkpoints on disk: staged by ranks, committed whole by the coordinator,
// verified.
//
//     <run>/checkpoints/.staging_<epoch>_<attempt>_<report>/...        while ranks fill it
//     <run>/checkpoints/checkpoint_000000/... manifest.json            once committed
//
// A folder with the second name is whole: its manifest, written and synced last, names its files
// with sizes and checksums, and the rename is what commits. A crash anywhere leaves either the
// staging folder, which the next start removes, or the checkpoint. Numbers rise and are never used
// twice.
#ifndef TRP_CHECKPOINT_H
#define TRP_CHECKPOINT_H

#include <runtime/base/arena.h>
#include <runtime/host/file.h>
#include <train/manifest.h>
#include <train/shard.h>
#include <train/storage.h>
#include <troupe/wire.h>

// Writes a rank's state, which is packed already, for a report that it has yet to make, replacing
// an earlier one, and gives the folder of its shard.
troupe_status trp_checkpoint_stage(const trp_staging *staging, int rank, const char *name,
                                   const trp_buffer *packed, trp_path *shard);

// Turns what was staged for a report into the checkpoint `manifest->id` of `run`, which may be
// another place than where it was staged, and gives its folder. The files of the manifest are those
// of all shards; their order changes. On failure there is no such checkpoint, and what was staged
// is still to be discarded.
troupe_status trp_checkpoint_commit(const trp_staging *staging, const char *run,
                                    const trp_manifest *manifest, trp_path *folder);

// Removes what was staged for a report that will have no checkpoint.
troupe_status trp_checkpoint_discard(const trp_staging *staging);

// The folder of a run's checkpoint.
troupe_status trp_checkpoint_folder(const char *run, int64_t id, trp_path *folder);

// The folder that a user has named: "~" and "~/..." stand for the home. TROUPE_NOT_FOUND: it does
// not exist.
troupe_status trp_checkpoint_find(const char *path, trp_path *folder);
// The same of any folder; `what` names it in error texts.
troupe_status trp_folder_find(const char *path, const char *what, trp_path *folder);

// Reads the manifest of the checkpoint at `folder`; what it points to goes to `arena`.
// TROUPE_NOT_FOUND: it is no checkpoint; TROUPE_CORRUPT; TROUPE_VERSION.
troupe_status trp_checkpoint_read(const char *folder, trp_arena *arena, trp_manifest *manifest);

// As trp_checkpoint_read, and verifies each file that the manifest names.
troupe_status trp_checkpoint_verify(const char *folder, trp_arena *arena, trp_manifest *manifest);

// Reads the state of `rank` from the checkpoint at `folder`, or of rank 0 if `or_first` and it has
// none. Pointers go to `arena`. TROUPE_NOT_FOUND, TROUPE_CORRUPT, TROUPE_WRONG_TYPE name the file.
typedef enum trp_whose_state { TRP_STATE_EXACTLY, TRP_STATE_OR_FIRST } trp_whose_state;
troupe_status trp_checkpoint_load(const char *folder, int rank, trp_whose_state whose,
                                  const troupe_type *type, trp_arena *arena, void *value);

// Finds the newest checkpoint of the run below number `below` that verifies, with a warning for
// each that does not, and gives its local folder: of a run elsewhere it is fetched into the run's
// working folder `local`. TROUPE_NOT_FOUND: there is none. A storage that fails is no reason to go
// on from an older one: its status.
troupe_status trp_checkpoint_newest(const char *run, const char *local, int64_t below,
                                    trp_arena *arena, trp_manifest *manifest, trp_path *folder);

// Whether the checkpoint at `path`, which could not be read, is of no use: a storage elsewhere that
// does not answer may have it whole.
bool trp_checkpoint_is_useless(const char *path, troupe_status status);

// Verifies the checkpoint at `path` and gives its local folder, as above.
troupe_status trp_checkpoint_bring(const char *path, const char *local, trp_arena *arena,
                                   trp_manifest *manifest, trp_path *folder);
// Removes what was fetched into the working folder.
troupe_status trp_checkpoint_forget(const char *local);

// Removes a checkpoint; a crash leaves it or none.
troupe_status trp_checkpoint_remove(const char *run, int64_t id);

// Makes the folder of checkpoints of a run in local files. Else the first that is staged makes it.
troupe_status trp_checkpoint_place(const char *run);
// Removes what crashes left half done in the run's folder of checkpoints; of a run elsewhere, what
// has no manifest.
troupe_status trp_checkpoint_clean(const char *run);
// The numbers of the run's checkpoints, rising; freed with trp_free.
troupe_status trp_checkpoint_list(const char *run, int64_t **numbers, size_t *count);
// The number in the name of a checkpoint's folder; -1: it is no such name.
int64_t trp_checkpoint_number(const char *name);

#endif
