// checkpoint.c: stage, commit, verify, load and remove.
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/checkpoint.h>
#include <unistd.h>

#define FOLDER "checkpoints"
#define STAGING ".staging_"
#define REMOVED ".removed_"
#define PREFIX "checkpoint_"
#define MANIFEST "manifest"

static troupe_status staging_path(const char *run, int report, int attempt, trp_path *path)
{
    return trp_path_make(path, "%s/" FOLDER "/" STAGING "%d_%d", run, report, attempt);
}

troupe_status trp_checkpoint_folder(const char *run, int64_t id, trp_path *folder)
{
    return trp_path_make(folder, "%s/" FOLDER "/" PREFIX "%06" PRId64, run, id);
}

static troupe_status state_path(const char *folder, int rank, trp_path *path)
{
    return trp_path_make(path, "%s/rank_%05d.state", folder, rank);
}

troupe_status trp_checkpoint_stage(const char *run, int report, int attempt, int rank,
                                   const troupe_type *type, const void *value, trp_seal *seal)
{
    trp_path staging, path;
    TROUPE_TRY(staging_path(run, report, attempt, &staging));
    TROUPE_TRY(state_path(staging.text, rank, &path));
    troupe_status status = trp_folder_make_new(staging.text);
    if (status != TROUPE_OK && status != TROUPE_EXISTS) // Another rank may have been first.
        return status;
    return trp_sealed_write(path.text, type, value, seal);
}

// The run's own folder is new: with its first checkpoint it is made to last too.
static troupe_status sync_run(const char *run)
{
    trp_path above;
    TROUPE_TRY(trp_folder_sync(run));
    TROUPE_TRY(trp_path_make(&above, "%s/..", run));
    return trp_folder_sync(above.text);
}

troupe_status trp_checkpoint_commit(const char *run, int attempt, const trp_manifest *manifest,
                                    trp_path *folder)
{
    trp_path staging, path;
    trp_seal seal;
    TROUPE_TRY(staging_path(run, manifest->report, attempt, &staging));
    TROUPE_TRY(trp_path_make(&path, "%s/" MANIFEST, staging.text));
    TROUPE_TRY(trp_checkpoint_folder(run, manifest->id, folder));
    TROUPE_TRY(trp_sealed_write(path.text, &troupe_type_trp_manifest, manifest, &seal));
    TROUPE_TRY(trp_folder_sync(staging.text));
    TROUPE_TRY(trp_folder_rename(staging.text, folder->text));
    TROUPE_TRY(trp_path_make(&path, "%s/" FOLDER, run));
    TROUPE_TRY(trp_folder_sync(path.text));
    return manifest->id == 0 ? sync_run(run) : TROUPE_OK;
}

troupe_status trp_checkpoint_discard(const char *run, int report, int attempt)
{
    trp_path staging;
    TROUPE_TRY(staging_path(run, report, attempt, &staging));
    return trp_folder_discard(staging.text);
}

troupe_status trp_checkpoint_read(const char *folder, trp_arena *arena, trp_manifest *manifest)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/" MANIFEST, folder));
    troupe_status status =
        trp_sealed_read(path.text, &troupe_type_trp_manifest, NULL, arena, manifest);
    if (status == TROUPE_NOT_FOUND)
        return troupe_fail(TROUPE_NOT_FOUND, "%s is not a checkpoint: it has no " MANIFEST, folder);
    return status;
}

static troupe_status verify_file(const char *folder, const trp_manifest_file *file)
{
    trp_path path;
    trp_seal seal;
    TROUPE_TRY(state_path(folder, file->rank, &path));
    TROUPE_TRY(trp_sealed_verify(path.text, &seal));
    if (seal.schema != file->schema || seal.size != file->size || seal.checksum != file->checksum)
        return troupe_fail(TROUPE_CORRUPT, "%s is not the file that its checkpoint was made with",
                           path.text);
    return TROUPE_OK;
}

troupe_status trp_checkpoint_verify(const char *folder, trp_arena *arena, trp_manifest *manifest)
{
    TROUPE_TRY(trp_checkpoint_read(folder, arena, manifest));
    for (size_t i = 0; i < manifest->files.count; i++) {
        troupe_status status = verify_file(folder, &manifest->files.items[i]);
        if (status == TROUPE_NOT_FOUND)
            return troupe_fail(TROUPE_CORRUPT, "%s is damaged: the state of rank %d is missing",
                               folder, manifest->files.items[i].rank);
        TROUPE_TRY(status);
    }
    return TROUPE_OK;
}

static const trp_manifest_file *find_file(const trp_manifest *manifest, int rank)
{
    for (size_t i = 0; i < manifest->files.count; i++)
        if (manifest->files.items[i].rank == rank)
            return &manifest->files.items[i];
    return NULL;
}

troupe_status trp_checkpoint_load(const char *folder, int rank, trp_whose_state whose,
                                  const troupe_type *type, trp_arena *arena, void *value)
{
    trp_arena scratch = {0};
    trp_manifest manifest;
    trp_path path;
    troupe_status status = trp_checkpoint_read(folder, &scratch, &manifest);
    if (status == TROUPE_OK) {
        const trp_manifest_file *file = find_file(&manifest, rank);
        if (!file && whose == TRP_STATE_OR_FIRST)
            file = find_file(&manifest, 0);
        if (!file)
            status = troupe_fail(TROUPE_NOT_FOUND, "%s has no state of rank %d%s", folder, rank,
                                 whose == TRP_STATE_OR_FIRST && rank ? ", nor of rank 0" : "");
        else
            status = state_path(folder, file->rank, &path);
        if (status == TROUPE_OK) {
            trp_seal expected = {file->schema, file->size, file->checksum};
            status = trp_sealed_read(path.text, type, &expected, arena, value);
        }
    }
    trp_arena_clear(&scratch);
    return status;
}

int64_t trp_checkpoint_number(const char *name)
{
    size_t prefix = strlen(PREFIX);
    if (strncmp(name, PREFIX, prefix) != 0 || name[prefix] < '0' || name[prefix] > '9')
        return -1;
    char *end;
    errno = 0;
    long long number = strtoll(name + prefix, &end, 10);
    return *end == '\0' && errno == 0 ? number : -1;
}

static int compare_numbers(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

troupe_status trp_checkpoint_list(const char *run, int64_t **numbers, size_t *count)
{
    trp_path path;
    size_t capacity = 0, found = 0;
    int64_t *list = NULL;
    TROUPE_TRY(trp_path_make(&path, "%s/" FOLDER, run));
    DIR *folder = opendir(path.text);
    if (!folder)
        return trp_fail_errno(TROUPE_IO, "cannot open the folder %s", path.text);
    for (struct dirent *entry; (entry = readdir(folder));) {
        int64_t number = trp_checkpoint_number(entry->d_name);
        if (number < 0)
            continue;
        if (found == capacity) {
            capacity = capacity > 0 ? 2 * capacity : 16;
            int64_t *grown = (int64_t *)trp_realloc(list, capacity * sizeof *list);
            if (!grown) {
                trp_free(list);
                closedir(folder);
                return troupe_fail(TROUPE_NO_MEMORY, "no memory for the checkpoints of %s", run);
            }
            list = grown;
        }
        list[found++] = number;
    }
    closedir(folder);
    if (found > 0)
        qsort(list, found, sizeof *list, compare_numbers);
    *numbers = list;
    *count = found;
    return TROUPE_OK;
}

// The highest number below `below` that a folder of the run has; -1: none.
static troupe_status highest(const char *run, int64_t below, int64_t *id)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/" FOLDER, run));
    DIR *folder = opendir(path.text);
    if (!folder)
        return trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "cannot open the folder %s", path.text);
    *id = -1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        int64_t number = trp_checkpoint_number(entry->d_name);
        if (number < below && number > *id)
            *id = number;
    }
    closedir(folder);
    return TROUPE_OK;
}

troupe_status trp_checkpoint_newest(const char *run, int64_t below, trp_arena *arena,
                                    trp_manifest *manifest)
{
    for (;;) {
        int64_t id;
        trp_path folder;
        TROUPE_TRY(highest(run, below, &id));
        if (id < 0)
            return troupe_fail(TROUPE_NOT_FOUND, "%s has no checkpoint that can be used", run);
        TROUPE_TRY(trp_checkpoint_folder(run, id, &folder));
        troupe_status status = trp_checkpoint_verify(folder.text, arena, manifest);
        if (status == TROUPE_OK && manifest->id != id)
            status =
                troupe_fail(TROUPE_CORRUPT, "%s is damaged: it says that it is number %" PRId64,
                            folder.text, manifest->id);
        if (status == TROUPE_OK)
            return TROUPE_OK;
        trp_log(TRP_WARN, "a checkpoint cannot be used, an older one is looked for: %s",
                troupe_last_error()->text);
        below = id;
    }
}

troupe_status trp_checkpoint_remove(const char *run, int64_t id)
{
    trp_path folder, removed;
    TROUPE_TRY(trp_checkpoint_folder(run, id, &folder));
    TROUPE_TRY(trp_path_make(&removed, "%s/" FOLDER "/" REMOVED "%06" PRId64, run, id));
    // Renamed first, so that no crash leaves a checkpoint that lacks some of its files. Not synced:
    // one that comes back after a loss of power is an old one, and is verified before it is used.
    TROUPE_TRY(trp_folder_rename(folder.text, removed.text));
    return trp_folder_discard(removed.text);
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Removes what was left half done in a folder of checkpoints.
static troupe_status clean(const char *parent)
{
    trp_path path;
    DIR *folder = opendir(parent);
    if (!folder)
        return trp_fail_errno(TROUPE_IO, "cannot open the folder %s", parent);
    troupe_status status = TROUPE_OK;
    for (struct dirent *entry; status == TROUPE_OK && (entry = readdir(folder));) {
        if (!starts_with(entry->d_name, STAGING) && !starts_with(entry->d_name, REMOVED))
            continue;
        status = trp_path_make(&path, "%s/%s", parent, entry->d_name);
        if (status == TROUPE_OK)
            status = trp_folder_discard(path.text);
    }
    closedir(folder);
    return status;
}

troupe_status trp_checkpoint_clean(const char *run)
{
    trp_path parent;
    TROUPE_TRY(trp_path_make(&parent, "%s/" FOLDER, run));
    TROUPE_TRY(trp_folder_make(parent.text));
    return clean(parent.text);
}
