// file.h: files and folders written so that they last: every result checked, everything synced.
//
// Failures name the file: TROUPE_NO_SPACE where the disk is full, TROUPE_NOT_FOUND where nothing
// is, else TROUPE_IO.
#ifndef TRP_HOST_FILE_H
#define TRP_HOST_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

// A path, made by trp_path. A run's files are a few levels deep; longer paths are refused.
typedef struct trp_path {
    char text[PATH_MAX];
} trp_path;
troupe_status trp_path_make(trp_path *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// The same of "<folder>/<name>". Without printf, whose code is pages that each rank has to map
// anew.
troupe_status trp_path_join(trp_path *path, const char *folder, const char *name);
// Cuts slashes off its end, but for the root's.
void trp_path_trim(trp_path *path);
#define TRP_SCHEME_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789+-."
// Bytes of the scheme in front of the path's colon; 0: it has none.
size_t trp_path_scheme(const char *path);
// Whether the path is of local files: it has no scheme, or "file". Then what is behind that.
bool trp_path_is_local(const char *path);
const char *trp_path_local(const char *path);

typedef struct trp_piece {
    const void *data;
    size_t size;
} trp_piece;

// Makes or replaces the file with the pieces one after the other, synced. On failure it is removed.
troupe_status trp_file_write(const char *path, const trp_piece *pieces, size_t count);
// The same, not synced: for what can be made again after a failure of the power.
troupe_status trp_file_write_unsynced(const char *path, const trp_piece *pieces, size_t count);
// Makes or replaces the file by a rename, so that a crash leaves the old or the new one whole, with
// its folder synced.
troupe_status trp_file_replace(const char *path, const void *data, size_t size);
troupe_status trp_file_replace_by(const char *path, const trp_piece *pieces, size_t count);
troupe_status trp_file_replace_unsynced(const char *path, const void *data, size_t size);
// Makes a file that is not there yet. Not synced. TROUPE_EXISTS: something is there. One of no more
// than a page is empty or whole to who reads it meanwhile, or after the process was killed.
enum { TRP_FILE_PAGE = 4096 };
troupe_status trp_file_make(const char *path, const void *data, size_t size);
// Reads the whole file, which must not be a link that leads out of its folder; *data is freed with
// trp_free.
troupe_status trp_file_read(const char *path, unsigned char **data, size_t *size);
// Adds one piece at the end of the file, which is made if need be. Not synced.
troupe_status trp_file_append(const char *path, const void *data, size_t size);

// Makes the folder with those above it; one that is there already is right.
troupe_status trp_folder_make(const char *path);
// Makes the last folder of the path. TROUPE_EXISTS: something is there.
troupe_status trp_folder_make_new(const char *path);
// Syncs the folder's own entries.
troupe_status trp_folder_sync(const char *path);
// Renames; that it lasts needs a sync of the folder that both are in.
troupe_status trp_folder_rename(const char *from, const char *to);

// Opens what lies at that relative path in the folder, to be read, and nothing that lies elsewhere,
// whatever links are there. -1 with errno. A pipe in place of a file is opened without waiting, for
// the caller to refuse it.
int trp_file_open_beneath(int folder, const char *path);
// Size and XXH64 of all that an open file holds, from its beginning; `path` is for the error text.
troupe_status trp_file_digest(int fd, const char *path, uint64_t *size, uint64_t *digest);
// The same of memory.
uint64_t trp_digest(const void *data, size_t size);
// Syncs an open file or folder.
troupe_status trp_file_sync(int fd, const char *path);

// Test hook: as on a system without openat2.
extern bool trp_file_plain_open;
// Test hook: called with the name of each step that is about to change the disk: "open", "write",
// "fsync", "fsync folder", "mkdir", "rename", "link", "unlink", "rmdir". The step fails with the
// errno that it returns; 0: it is done. NULL: none.
typedef int (*trp_file_hook)(const char *step);
extern _Atomic(trp_file_hook) trp_file_probe;
// For those who change the disk in other files: whether the step is to fail, with errno set.
bool trp_file_refuses(const char *step);

#endif
