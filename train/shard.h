// shard.h: what one rank puts into a checkpoint: a folder of its own beside those of other ranks,
// whose files are moved into one folder when the checkpoint is committed.
//
//     <run>/checkpoints/.staging_<epoch>_<attempt>_<report>/rank_00000/...   each rank's
//     <run>/checkpoints/.staging_<epoch>_<attempt>_<report>/whole/...        all of them
#ifndef TRP_SHARD_H
#define TRP_SHARD_H

#include <runtime/host/file.h>
#include <train/manifest.h>

// Where what belongs to a report is staged.
typedef struct trp_staging {
    const char *run;
    int64_t epoch; // Of the opening of the run.
    int attempt, report;
} trp_staging;

troupe_status trp_staging_path(const trp_staging *staging, trp_path *path);
// The folder of a rank in it, and that of all. They are made if need be.
troupe_status trp_shard_make(const trp_staging *staging, int rank, trp_path *folder);
troupe_status trp_shard_make_whole(const trp_staging *staging, trp_path *folder);

// The name of the file that troupe_save makes.
enum { TRP_STATE_NAME = 32 };
void trp_shard_state_name(int rank, char name[TRP_STATE_NAME]);

// Lists what is in a rank's folder, without looking into it. `state` (NULL: none) is what
// troupe_save made there. TROUPE_INVALID names what cannot be in a checkpoint: a link that leads
// out, a pipe, a name of the library's own. All goes to `arena`.
troupe_status trp_shard_list(const char *folder, int rank, const trp_manifest_file *state,
                             trp_arena *arena, troupe_array_trp_manifest_file *files);
// Syncs what was listed and sets sizes and digests, once nobody writes to it any more; states were
// written with theirs.
troupe_status trp_shard_seal(const char *folder, trp_manifest_file *files, size_t count);

// Whether a link at that path of a checkpoint stays within it.
bool trp_shard_link_stays(const char *path, const char *target);

// Moves the files of all shards to the folder of the whole, and leaves them in `files`, sorted by
// path and each once. TROUPE_INVALID: two ranks have different files at one path; nothing has been
// moved then.
troupe_status trp_shard_merge(const trp_staging *staging, const char *whole,
                              trp_manifest_file *files, size_t *count);

#endif
