// checkpoint.c: stage, commit, verify, load and remove.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/checkpoint.h>
#include <train/sealed.h>
#include <train/state.h>
#include <train/tree.h>
#include <unistd.h>

#define FOLDER "checkpoints"
#define STAGING ".staging_"
#define REMOVED ".removed_" // See storage_files.c.
#define PREFIX "checkpoint_"

troupe_status trp_checkpoint_folder(const char *run, int64_t id, trp_path *folder)
{
    return trp_path_make(folder, "%s/" FOLDER "/" PREFIX "%06" PRId64, run, id);
}

troupe_status trp_checkpoint_stage(const trp_staging *staging, int rank, const char *name,
                                   const trp_buffer *packed, trp_path *shard)
{
    trp_path path;
    TROUPE_TRY(trp_shard_make(staging, rank, shard));
    TROUPE_TRY(trp_path_make(&path, "%s/%s", shard->text, name));
    return trp_file_write(path.text, &(trp_piece){packed->data, packed->size}, 1);
}

static troupe_status sync_folder(void *user, const trp_tree_node *node)
{
    const char *root = (const char *)user;
    if (node->kind != TRP_TREE_LEAVE)
        return TROUPE_OK;
    if (trp_file_refuses("fsync folder") || fsync(node->fd))
        return trp_fail_errno(TROUPE_IO, "cannot sync the folder %s/%s", root, node->path);
    return TROUPE_OK;
}

// Brings all that the manifest names together in one folder, with the manifest last.
static troupe_status assemble(const trp_staging *staging, const trp_manifest *manifest,
                              trp_path *whole)
{
    trp_path path;
    trp_manifest merged = *manifest;
    // They are the caller's, and may be sorted.
    trp_manifest_file *files = (trp_manifest_file *)(uintptr_t)manifest->files.items;
    TROUPE_TRY(trp_shard_make_whole(staging, whole));
    TROUPE_TRY(trp_shard_merge(staging, whole->text, files, &merged.files.count));
    TROUPE_TRY(trp_path_join(&path, whole->text, TRP_MANIFEST_NAME));
    trp_buffer text = {0};
    trp_manifest_write(&merged, &text);
    troupe_status status = text.failed
                               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path.text)
                               : trp_file_write(path.text, &(trp_piece){text.data, text.size}, 1);
    trp_buffer_free(&text);
    TROUPE_TRY(status);
    return trp_tree_walk(whole->text, sync_folder, whole->text);
}

troupe_status trp_checkpoint_commit(const trp_staging *staging, const char *run,
                                    const trp_manifest *manifest, trp_path *folder)
{
    trp_path whole;
    troupe_error kept;
    TROUPE_TRY(trp_checkpoint_folder(run, manifest->id, folder));
    TROUPE_TRY(assemble(staging, manifest, &whole));
    troupe_status status = trp_storage_publish(folder->text, whole.text);
    trp_error_hold(&kept);
    if (status == TROUPE_OK && trp_checkpoint_discard(staging) != TROUPE_OK)
        trp_log(TRP_INFO, "a folder that was staged is left behind: %s", troupe_last_error()->text);
    trp_error_restore(&kept);
    return status;
}

troupe_status trp_checkpoint_discard(const trp_staging *staging)
{
    trp_path path;
    TROUPE_TRY(trp_staging_path(staging, &path));
    return trp_folder_discard(path.text);
}

// ---- reading

troupe_status trp_checkpoint_find(const char *path, trp_path *folder)
{
    if (trp_path_is_local(path))
        return trp_folder_find(trp_path_local(path), "checkpoint path", folder);
    TROUPE_TRY(trp_storage_check(path));
    return trp_path_make(folder, "%s", path);
}

troupe_status trp_folder_find(const char *path, const char *what, trp_path *folder)
{
    const char *home = getenv("HOME");
    struct stat about;
    if (path[0] == '~' && (path[1] == '/' || path[1] == '\0') && home && home[0] == '/')
        TROUPE_TRY(trp_path_make(folder, "%s%s", home, path + 1));
    else
        TROUPE_TRY(trp_path_make(folder, "%s", path));
    if (stat(folder->text, &about) == 0)
        return TROUPE_OK;
    if (errno == ENOENT || errno == ENOTDIR)
        return troupe_fail(TROUPE_NOT_FOUND, "the %s %s does not exist", what, folder->text);
    return trp_fail_errno(TROUPE_IO, "cannot use the %s %s", what, folder->text);
}

troupe_status trp_checkpoint_read(const char *folder, trp_arena *arena, trp_manifest *manifest)
{
    troupe_status status = trp_manifest_read(folder, arena, manifest);
    if (status == TROUPE_NOT_FOUND)
        return troupe_fail(TROUPE_NOT_FOUND, "%s is not a checkpoint: it has no " TRP_MANIFEST_NAME,
                           folder);
    return status;
}

static troupe_status lacks(const char *folder, const trp_manifest_file *file)
{
    if (file->kind == TRP_FILE_STATE || file->kind == TRP_FILE_SEALED)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: the state of rank %d is missing", folder,
                           file->rank);
    return troupe_fail(TROUPE_CORRUPT, "%s is damaged: %s is missing", folder, file->path);
}

static troupe_status verify_bytes(const char *folder, const trp_manifest_file *file, int fd)
{
    trp_path path;
    struct stat about;
    uint64_t size, digest;
    TROUPE_TRY(trp_path_make(&path, "%s/%s", folder, file->path));
    if (fstat(fd, &about))
        return trp_fail_errno(TROUPE_IO, "cannot read %s", path.text);
    bool is_folder = S_ISDIR(about.st_mode);
    if (is_folder != (file->kind == TRP_FILE_FOLDER) || (!is_folder && !S_ISREG(about.st_mode)))
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: %s is not a %s", folder, file->path,
                           is_folder ? "file" : "folder");
    if (is_folder)
        return TROUPE_OK;
    if ((uint64_t)about.st_size != file->size)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: it has %lld bytes, expected %" PRIu64,
                           path.text, (long long)about.st_size, file->size);
    TROUPE_TRY(trp_file_digest(fd, path.text, &size, &digest));
    if (size != file->size || digest != file->digest)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: its checksum is wrong", path.text);
    return TROUPE_OK;
}

static troupe_status verify_sealed(const char *folder, const trp_manifest_file *file)
{
    trp_path path;
    trp_seal seal;
    TROUPE_TRY(trp_path_make(&path, "%s/%s", folder, file->path));
    troupe_status status = trp_sealed_verify(path.text, &seal);
    if (status == TROUPE_NOT_FOUND)
        return lacks(folder, file);
    TROUPE_TRY(status);
    if (seal.schema != file->schema || seal.size != file->size || seal.checksum != file->digest)
        return troupe_fail(TROUPE_CORRUPT, "%s is not the file that its checkpoint was made with",
                           path.text);
    return TROUPE_OK;
}

static troupe_status verify_link(const char *folder, const trp_manifest_file *file)
{
    trp_path path;
    char target[PATH_MAX];
    TROUPE_TRY(trp_path_make(&path, "%s/%s", folder, file->path));
    ssize_t length = readlink(path.text, target, sizeof(target));
    if (length < 0 || (size_t)length != strlen(file->target) ||
        memcmp(target, file->target, (size_t)length) != 0)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: it is not the link to '%s'", path.text,
                           file->target);
    return TROUPE_OK;
}

static troupe_status verify_file(int fd, const char *folder, const trp_manifest_file *file)
{
    if (file->kind == TRP_FILE_UNKNOWN)
        return TROUPE_OK;
    if (file->kind == TRP_FILE_SEALED)
        return verify_sealed(folder, file);
    if (file->kind == TRP_FILE_LINK)
        return verify_link(folder, file);
    int opened = trp_file_open_beneath(fd, file->path);
    if (opened < 0 && (errno == ENOENT || errno == ENOTDIR))
        return lacks(folder, file);
    if (opened < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open %s/%s", folder, file->path);
    troupe_status status = verify_bytes(folder, file, opened);
    close(opened);
    return status;
}

// A file of a checkpoint that is elsewhere. What has no bytes there is right.
static troupe_status verify_far(const char *folder, const trp_manifest_file *file)
{
    trp_path path;
    uint64_t size, digest;
    if (file->kind != TRP_FILE_PLAIN && file->kind != TRP_FILE_STATE)
        return TROUPE_OK;
    TROUPE_TRY(trp_path_make(&path, "%s/%s", folder, file->path));
    troupe_status status = trp_storage_digest(path.text, &size, &digest);
    if (status == TROUPE_NOT_FOUND)
        return lacks(folder, file);
    TROUPE_TRY(status);
    if (size != file->size)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: it has %" PRIu64 " bytes, expected %" PRIu64, path.text,
                           size, file->size);
    if (digest != file->digest)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: its checksum is wrong", path.text);
    return TROUPE_OK;
}

troupe_status trp_checkpoint_verify(const char *folder, trp_arena *arena, trp_manifest *manifest)
{
    TROUPE_TRY(trp_checkpoint_read(folder, arena, manifest));
    if (!trp_path_is_local(folder)) {
        for (size_t i = 0; i < manifest->files.count; i++)
            TROUPE_TRY(verify_far(folder, &manifest->files.items[i]));
        return TROUPE_OK;
    }
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open the folder %s", folder);
    troupe_status status = TROUPE_OK;
    for (size_t i = 0; i < manifest->files.count && status == TROUPE_OK; i++)
        status = verify_file(fd, folder, &manifest->files.items[i]);
    close(fd);
    return status;
}

// ---- loading a state

static const trp_manifest_file *find_state(const trp_manifest *manifest, int rank)
{
    for (size_t i = 0; i < manifest->files.count; i++) {
        const trp_manifest_file *file = &manifest->files.items[i];
        if (file->rank == rank && (file->kind == TRP_FILE_STATE || file->kind == TRP_FILE_SEALED))
            return file;
    }
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
        const trp_manifest_file *file = find_state(&manifest, rank);
        if (!file && whose == TRP_STATE_OR_FIRST)
            file = find_state(&manifest, 0);
        if (!file)
            status = troupe_fail(TROUPE_NOT_FOUND, "%s has no state of rank %d%s", folder, rank,
                                 whose == TRP_STATE_OR_FIRST && rank ? ", nor of rank 0" : "");
        else
            status = trp_path_make(&path, "%s/%s", folder, file->path);
        if (status == TROUPE_OK) {
            trp_expected expected = {file->size, file->digest, file->kind == TRP_FILE_SEALED};
            status = trp_state_read(path.text, type, &expected, arena, value);
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
    return (*end == '\0' || strcmp(end, "/") == 0) && errno == 0 ? number : -1;
}

static int compare_numbers(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

typedef struct numbers {
    int64_t *list;
    size_t count, capacity;
    bool failed;
} numbers;

static void take_number(void *user, const char *child)
{
    numbers *found = (numbers *)user;
    int64_t number = trp_checkpoint_number(child);
    if (number < 0 || found->failed)
        return;
    if (found->count == found->capacity) {
        size_t capacity = found->capacity > 0 ? 2 * found->capacity : 16;
        int64_t *grown = (int64_t *)trp_realloc(found->list, capacity * sizeof *found->list);
        found->failed = grown == NULL;
        if (grown == NULL)
            return;
        found->list = grown;
        found->capacity = capacity;
    }
    found->list[found->count++] = number;
}

troupe_status trp_checkpoint_list(const char *run, int64_t **numbers_found, size_t *count)
{
    trp_path path;
    numbers found = {0};
    TROUPE_TRY(trp_path_join(&path, run, FOLDER));
    troupe_status status = trp_storage_list(path.text, take_number, &found);
    if (status == TROUPE_OK && found.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the checkpoints of %s", run);
    if (status == TROUPE_NOT_FOUND && !trp_path_is_local(run))
        status = TROUPE_OK; // It has no folders.
    if (status != TROUPE_OK) {
        trp_free(found.list);
        return status;
    }
    if (found.count > 0)
        qsort(found.list, found.count, sizeof *found.list, compare_numbers);
    *numbers_found = found.list;
    *count = found.count;
    return TROUPE_OK;
}

bool trp_checkpoint_is_useless(const char *path, troupe_status status)
{
    return trp_path_is_local(path) || status == TROUPE_CORRUPT || status == TROUPE_NOT_FOUND ||
           status == TROUPE_VERSION;
}

static troupe_status newest_of(const char *run, const char *local, const int64_t *ids, size_t count,
                               trp_arena *arena, trp_manifest *manifest, trp_path *folder)
{
    while (count-- > 0) {
        trp_path path;
        TROUPE_TRY(trp_checkpoint_folder(run, ids[count], &path));
        troupe_status status = trp_checkpoint_bring(path.text, local, arena, manifest, folder);
        if (status == TROUPE_OK && manifest->id != ids[count])
            status =
                troupe_fail(TROUPE_CORRUPT, "%s is damaged: it says that it is number %" PRId64,
                            path.text, manifest->id);
        if (status == TROUPE_OK || !trp_checkpoint_is_useless(run, status))
            return status;
        trp_log(TRP_WARN, "a checkpoint cannot be used, an older one is looked for: %s",
                troupe_last_error()->text);
    }
    return troupe_fail(TROUPE_NOT_FOUND, "%s has no checkpoint that can be used", run);
}

troupe_status trp_checkpoint_newest(const char *run, const char *local, int64_t below,
                                    trp_arena *arena, trp_manifest *manifest, trp_path *folder)
{
    int64_t *ids;
    size_t count;
    TROUPE_TRY(trp_checkpoint_list(run, &ids, &count));
    while (count > 0 && ids[count - 1] >= below)
        count--;
    troupe_status status = newest_of(run, local, ids, count, arena, manifest, folder);
    trp_free(ids);
    return status;
}

troupe_status trp_checkpoint_remove(const char *run, int64_t id)
{
    trp_path folder;
    TROUPE_TRY(trp_checkpoint_folder(run, id, &folder));
    return trp_storage_withdraw(folder.text);
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
    if (!folder && errno == ENOENT) // Nothing was saved.
        return TROUPE_OK;
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

// The same elsewhere: what has no manifest.
static troupe_status clean_far(const char *run)
{
    int64_t *ids;
    size_t count;
    TROUPE_TRY(trp_checkpoint_list(run, &ids, &count));
    troupe_status status = TROUPE_OK;
    for (size_t i = 0; i < count && status == TROUPE_OK; i++) {
        trp_path path;
        unsigned char *data;
        size_t size;
        status = trp_path_make(&path, "%s/" FOLDER "/" PREFIX "%06" PRId64 "/" TRP_MANIFEST_NAME,
                               run, ids[i]);
        if (status == TROUPE_OK)
            status = trp_storage_read(path.text, &data, &size);
        if (status == TROUPE_OK)
            trp_free(data);
        else if (status == TROUPE_NOT_FOUND)
            status = trp_checkpoint_remove(run, ids[i]);
    }
    trp_free(ids);
    return status;
}

troupe_status trp_checkpoint_clean(const char *run)
{
    trp_path parent;
    if (!trp_path_is_local(run))
        return clean_far(run);
    TROUPE_TRY(trp_path_join(&parent, run, FOLDER));
    return clean(parent.text);
}

troupe_status trp_checkpoint_place(const char *run)
{
    trp_path folder;
    TROUPE_TRY(trp_path_join(&folder, run, FOLDER));
    return trp_folder_make(folder.text);
}
