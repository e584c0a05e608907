// storage.h: places for runs and checkpoints other than local files. Part of train.h.
#ifndef TROUPE_STORAGE_H
#define TROUPE_STORAGE_H

#include <troupe/wire.h>

TROUPE_BEGIN_C

// A place for checkpoints and for what runs put down of themselves, other than local files. Once it
// is registered, "scheme:name" is a path in it wherever the path of a storage, a run or a
// checkpoint is expected. What ranks write is staged on their machine and put when it is committed;
// what they print and the files for other programs stay there: in troupe-run-<user>-<hash>, a
// folder where objects spill to (.spill_dir of troupe_start).
//
// Functions are called by any thread, several at once, and in worker processes too, with the part
// of a path behind the colon. They return TROUPE_OK, TROUPE_NOT_FOUND (there is no such object),
// TROUPE_NO_SPACE, or TROUPE_IO and the like, and say in troupe_fail why. An object that was put
// lasts, and is seen by every process.
typedef struct troupe_storage {
    uint32_t abi;       // TROUPE_ABI
    const char *scheme; // "s3": a lower-case letter, then letters, digits, '+', '-', '.'.
    void *user;         // For the functions.
    // Makes or replaces an object: it is there whole, or the old one is. The second: from a file.
    troupe_status (*put)(void *user, const char *name, const void *data, size_t size);
    troupe_status (*put_file)(void *user, const char *name, const char *file);
    // Reads up to `size` bytes from `offset`; *got is less than that at the end only.
    troupe_status (*get)(void *user, const char *name, uint64_t offset, void *data, size_t size,
                         size_t *got);
    // Adds bytes at `offset`, up to which the object is there (0: it may be missing), in place of
    // what is behind it. It must not wait for a network: `sync` waits until what was added lasts.
    troupe_status (*append)(void *user, const char *name, uint64_t offset, const void *data,
                            size_t size);
    troupe_status (*sync)(void *user, const char *name);
    // Calls `each` for each object "name/child", and once with "child/" for all "name/child/...".
    troupe_status (*list)(void *user, const char *name, void (*each)(void *to, const char *child),
                          void *to);
    troupe_status (*remove)(void *user, const char *name);
    // Gives this process all that is below `name` until it leaves it or ends, however it ends: only
    // it may change anything there. TROUPE_BUSY: another one has it; the text says who.
    troupe_status (*take)(void *user, const char *name);
    void (*leave)(void *user, const char *name);
    // May be NULL. Puts all files below the folder, "manifest.json" at its top last; no links. And
    // removes all objects below the name, "manifest.json" first.
    troupe_status (*publish)(void *user, const char *name, const char *folder);
    troupe_status (*withdraw)(void *user, const char *name);
    const void *reserved_[4];
} troupe_storage;

// Makes a storage known under its scheme; *storage must stay as it is. Before troupe_start, so that
// workers know it too. TROUPE_INVALID: a function or the scheme is missing, or the scheme is taken;
// TROUPE_VERSION; TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL troupe_status troupe_storage_register(const troupe_storage *storage);

TROUPE_END_C

#endif
