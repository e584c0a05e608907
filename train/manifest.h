// manifest.h: what a checkpoint says of itself: a versioned JSON file in its folder.
//
//     {
//     "version": 1,
//     "id": 3, "report": 7, "world": 2, "created": "2026-01-31T12:00:00Z", "trainer": "fit",
//     "config": {...}, "metadata": {...},
//     "metrics": [{"name": "loss", "value": 0.5}],
//     "files": [
//     {"path": "rank_00000.safetensors", "rank": 0, "size": 488, "xxh64": "...", "kind": "state",
//      "schema": "..."}],
//     "checksum": "..."
//     }
//
// Members may come and go within a version: those unknown are ignored, those missing have their
// defaults. A version rises only where older readers would misread it. The last line but one is the
// XXH64 of all bytes before that line, in every version, so that damage is told from news.
#ifndef TRP_MANIFEST_H
#define TRP_MANIFEST_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <troupe/wire.h>

#define TRP_MANIFEST_NAME "manifest.json"
#define TRP_MANIFEST_OLD_NAME "manifest" // Of checkpoints made before there was the other.
enum { TRP_MANIFEST_VERSION = 1 };

TROUPE_STRUCT(trp_metric, (troupe_text, name), (double, value));

typedef enum trp_file_kind {
    TRP_FILE_PLAIN,   // "file"
    TRP_FILE_STATE,   // "state": the file of troupe_save.
    TRP_FILE_LINK,    // "link": leads to `target`, within the checkpoint.
    TRP_FILE_FOLDER,  // "folder": with nothing in it.
    TRP_FILE_UNKNOWN, // Of a later library: not looked at.
    TRP_FILE_SEALED,  // A state in an old manifest: size and digest are the payload's.
} trp_file_kind;

TROUPE_STRUCT(trp_manifest_file, (troupe_text, path), // Relative to the checkpoint.
              (int, rank), (int, kind), (uint64_t, size), (uint64_t, digest), // XXH64.
              (uint64_t, schema),                                             // Of a state.
              (troupe_text, target));

typedef struct trp_manifest {
    int64_t id;
    int report, world;
    const char *created; // UTC.
    const char *trainer;
    const char *config, *metadata; // JSON texts; NULL: there is none.
    const char *push; // A JSON object: how it came into a repository of models; NULL: it did not.
    troupe_array_trp_metric metrics;
    troupe_array_trp_manifest_file files;
} trp_manifest;

// The text of a manifest. Out of memory: `out->failed`.
void trp_manifest_write(const trp_manifest *manifest, trp_buffer *out);

// Reads the manifest in the folder; what it points to goes to `arena`. TROUPE_NOT_FOUND: the folder
// has none; TROUPE_CORRUPT; TROUPE_VERSION: made by a later library that this one cannot read.
troupe_status trp_manifest_read(const char *folder, trp_arena *arena, trp_manifest *manifest);
// The same of the bytes of a manifest.json; `path` is for error texts.
troupe_status trp_manifest_parse(const char *path, const unsigned char *data, size_t size,
                                 trp_arena *arena, trp_manifest *manifest);

// Whether a relative path leads nowhere but down: no empty part, no "." and no "..".
bool trp_manifest_path_ok(const char *path);

// Appends the line with the checksum of all that is there, and closes the object.
void trp_manifest_seal(trp_buffer *out);

#endif
