// storage.h: where what a run has committed lies, and the documents that say how far it is: local
// files, or what a program has registered a table for. See docs/internals/train/storage.md.
//
// A path is a local one or "scheme:name". Failures name it, and have the status of the table:
// TROUPE_NOT_FOUND where nothing is, TROUPE_NO_SPACE, else TROUPE_IO.
#ifndef TRP_STORAGE_H
#define TRP_STORAGE_H

#include <runtime/host/file.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/train.h>

// TROUPE_INVALID: its scheme is not known.
troupe_status trp_storage_check(const char *path);

// Makes or replaces what is at the path, which lasts then.
troupe_status trp_storage_put(const char *path, const void *data, size_t size);
// Reads all; *data is freed with trp_free.
troupe_status trp_storage_read(const char *path, unsigned char **data, size_t *size);
// Copies it to a new local file, not much more than `most` bytes of it. TROUPE_CORRUPT: where the
// file is to be, there is something else.
troupe_status trp_storage_fetch(const char *path, const char *file, uint64_t most);
// Size and XXH64 of all.
troupe_status trp_storage_digest(const char *path, uint64_t *size, uint64_t *digest);
troupe_status trp_storage_append(const char *path, uint64_t offset, const void *data, size_t size);
troupe_status trp_storage_sync(const char *path);
troupe_status trp_storage_remove(const char *path);
// Calls `each` for what lies one level below the path, in any order: folders, and what has more
// below it, end with '/'. Where there is nothing, it may be TROUPE_NOT_FOUND.
typedef void (*trp_storage_each)(void *user, const char *child);
troupe_status trp_storage_list(const char *path, trp_storage_each each, void *user);
// Whether anything lies below the path.
troupe_status trp_storage_has(const char *path, bool *has);

// Puts the files of a local folder below the path, its manifest last; the folder may be gone
// then. On failure there is no manifest at the path.
troupe_status trp_storage_publish(const char *path, const char *folder);
// Removes all below the path, its manifest first.
troupe_status trp_storage_withdraw(const char *path);

// Takes what is below the path for this process, until it leaves it or ends. TROUPE_BUSY says who
// has it. Local files are taken by train/alive.h: here nothing is done.
troupe_status trp_storage_take(const char *path);
void trp_storage_leave(const char *path);

// The table of local files.
extern const troupe_storage trp_storage_files;

// Test hook: called before each change with "put", "append", "sync", "remove", "publish" or
// "withdraw"; other than 0: the change fails with TROUPE_IO and that errno.
typedef int (*trp_storage_hook)(const char *step, const char *path);
extern _Atomic(trp_storage_hook) trp_storage_probe;

#endif
