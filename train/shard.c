// shard.c: takes stock of what ranks have staged, and puts it together.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/shard.h>
#include <train/tree.h>
#include <unistd.h>

troupe_status trp_staging_path(const trp_staging *staging, trp_path *path)
{
    return trp_path_make(path, "%s/checkpoints/.staging_%" PRId64 "_%d_%d", staging->run,
                         staging->epoch, staging->attempt, staging->report);
}

void trp_shard_state_name(int rank, char name[TRP_STATE_NAME])
{
    snprintf(name, TRP_STATE_NAME, "rank_%05d.safetensors", rank);
}

static troupe_status shard_path(const trp_staging *staging, int rank, trp_path *path)
{
    trp_path above;
    TROUPE_TRY(trp_staging_path(staging, &above));
    return trp_path_make(path, "%s/rank_%05d", above.text, rank);
}

static troupe_status make(const char *path)
{
    troupe_status status = trp_folder_make_new(path);
    return status == TROUPE_EXISTS ? TROUPE_OK : status;
}

// Another rank may have been first.
static troupe_status make_staging(const trp_staging *staging)
{
    trp_path above;
    TROUPE_TRY(trp_path_join(&above, staging->run, "checkpoints"));
    TROUPE_TRY(make(above.text)); // Of a run that has saved nothing yet.
    TROUPE_TRY(trp_staging_path(staging, &above));
    return make(above.text);
}

troupe_status trp_shard_make(const trp_staging *staging, int rank, trp_path *folder)
{
    TROUPE_TRY(shard_path(staging, rank, folder));
    TROUPE_TRY(make_staging(staging));
    return make(folder->text);
}

troupe_status trp_shard_make_whole(const trp_staging *staging, trp_path *folder)
{
    trp_path above;
    TROUPE_TRY(trp_staging_path(staging, &above));
    TROUPE_TRY(trp_path_join(folder, above.text, "whole"));
    TROUPE_TRY(make_staging(staging));
    return make(folder->text);
}

// ---- taking stock of one

typedef struct stock {
    const char *folder;
    int rank;
    const trp_manifest_file *state;
    trp_arena *arena;
    trp_manifest_file *files;
    size_t count, capacity;
} stock;

static troupe_status add(stock *work, const trp_manifest_file *file)
{
    if (work->count == work->capacity) {
        size_t capacity = work->capacity ? 2 * work->capacity : 8;
        trp_manifest_file *grown =
            (trp_manifest_file *)trp_realloc(work->files, capacity * sizeof(*work->files));
        if (!grown)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for the files in %s", work->folder);
        work->files = grown;
        work->capacity = capacity;
    }
    char *path = (char *)trp_arena_alloc(work->arena, strlen(file->path) + 1);
    if (!path)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the files in %s", work->folder);
    trp_manifest_file *added = &work->files[work->count++];
    *added = *file;
    added->path = strcpy(path, file->path);
    added->rank = work->rank;
    return TROUPE_OK;
}

// A manifest is JSON, and its names are therefore UTF-8.
static bool is_utf8(const char *text)
{
    trp_buffer quoted = {0};
    trp_json value;
    trp_json_text(&quoted, text);
    bool same = !quoted.failed &&
                trp_json_parse((const char *)quoted.data, quoted.size, &value) == TROUPE_OK &&
                trp_json_equals(value, text);
    trp_buffer_free(&quoted);
    return same;
}

// Names at the top that are the library's: of manifests, and of states.
static bool is_reserved(const char *path)
{
    int rank, length = 0;
    if (strcmp(path, TRP_MANIFEST_NAME) == 0 || strcmp(path, TRP_MANIFEST_OLD_NAME) == 0)
        return true;
    if (sscanf(path, "rank_%5d%n", &rank, &length) != 1)
        return false;
    return strcmp(path + length, ".safetensors") == 0 || strcmp(path + length, ".state") == 0;
}

// Whether a link in a folder of that depth stays within. Every ".." has to come first, where it
// goes up from a real folder: behind a name it would go up from wherever that, a link too perhaps,
// leads.
static bool stays_within(const char *target, int depth)
{
    if (target[0] == '/' || target[0] == '\0')
        return false;
    bool named = false;
    for (const char *part = target; *part;) {
        size_t length = strcspn(part, "/");
        bool up = length == 2 && part[0] == '.' && part[1] == '.';
        bool none = length == 0 || (length == 1 && part[0] == '.');
        if (up && (named || --depth < 0))
            return false;
        named |= !up && !none;
        part += length + (part[length] == '/');
    }
    return true;
}

bool trp_shard_link_stays(const char *path, const char *target)
{
    int depth = 0;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        depth++;
    return stays_within(target, depth);
}

static troupe_status add_link(stock *work, const trp_tree_node *node)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(node->parent, node->name, target, sizeof(target) - 1);
    if (length < 0)
        return trp_fail_errno(TROUPE_IO, "cannot read the link %s/%s", work->folder, node->path);
    target[length] = '\0';
    if (!stays_within(target, node->depth) || !is_utf8(target))
        return troupe_fail(TROUPE_INVALID,
                           "the link '%s' in the checkpoint of rank %d leads to '%s': expected a "
                           "relative path within the checkpoint, with \"..\" at its beginning only",
                           node->path, work->rank, target);
    char *copy = (char *)trp_arena_alloc(work->arena, (size_t)length + 1);
    if (!copy)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the files in %s", work->folder);
    trp_manifest_file file = {
        .path = node->path, .kind = TRP_FILE_LINK, .target = strcpy(copy, target)};
    return add(work, &file);
}

static troupe_status take_node(void *user, const trp_tree_node *node)
{
    stock *work = (stock *)user;
    if (node->kind == TRP_TREE_ENTER || (node->kind == TRP_TREE_LEAVE && !node->empty) ||
        node->parent < 0)
        return TROUPE_OK;
    if (work->state && strcmp(node->path, work->state->path) == 0)
        return node->kind == TRP_TREE_FILE
                   ? TROUPE_OK
                   : troupe_fail(TROUPE_INVALID, "%s/%s is not the file that troupe_save made",
                                 work->folder, node->path);
    if (is_reserved(node->path))
        return troupe_fail(TROUPE_INVALID,
                           "'%s' in the checkpoint of rank %d has a name that the library itself "
                           "uses: expected another one, or a folder above it",
                           node->path, work->rank);
    if (!is_utf8(node->path))
        return troupe_fail(TROUPE_INVALID,
                           "'%s' in the checkpoint of rank %d: expected a name in UTF-8",
                           node->path, work->rank);
    if (node->kind == TRP_TREE_FILE)
        return add(work, &(trp_manifest_file){.path = node->path, .kind = TRP_FILE_PLAIN});
    if (node->kind == TRP_TREE_LINK)
        return add_link(work, node);
    if (node->kind == TRP_TREE_OTHER)
        return troupe_fail(TROUPE_INVALID,
                           "'%s' in the checkpoint of rank %d is a pipe, a socket or a device: "
                           "expected files, folders and links",
                           node->path, work->rank);
    return add(work, &(trp_manifest_file){.path = node->path, .kind = TRP_FILE_FOLDER});
}

troupe_status trp_shard_list(const char *folder, int rank, const trp_manifest_file *state,
                             trp_arena *arena, troupe_array_trp_manifest_file *files)
{
    stock work = {.folder = folder, .rank = rank, .state = state, .arena = arena};
    troupe_status status = state ? add(&work, state) : TROUPE_OK;
    if (status == TROUPE_OK)
        status = trp_tree_walk(folder, take_node, &work);
    size_t size = work.count * sizeof(*work.files);
    trp_manifest_file *kept = NULL;
    if (status == TROUPE_OK && work.count > 0) {
        kept = (trp_manifest_file *)trp_arena_alloc(arena, size);
        if (kept)
            memcpy(kept, work.files, size);
        else
            status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the files in %s", folder);
    }
    trp_free(work.files);
    if (status == TROUPE_OK)
        *files = (troupe_array_trp_manifest_file){kept, work.count};
    return status;
}

static troupe_status seal_file(int folder, const char *path, trp_manifest_file *file)
{
    trp_path whole;
    TROUPE_TRY(trp_path_make(&whole, "%s/%s", path, file->path));
    int fd = trp_file_open_beneath(folder, file->path);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open %s", whole.text);
    troupe_status status = trp_file_digest(fd, whole.text, &file->size, &file->digest);
    if (status == TROUPE_OK)
        status = trp_file_sync(fd, whole.text);
    close(fd);
    return status;
}

troupe_status trp_shard_seal(const char *path, trp_manifest_file *files, size_t count)
{
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open the folder %s", path);
    troupe_status status = TROUPE_OK;
    for (size_t i = 0; i < count && status == TROUPE_OK; i++)
        if (files[i].kind == TRP_FILE_PLAIN)
            status = seal_file(folder, path, &files[i]);
    close(folder);
    return status;
}

// ---- putting all together

static int compare(const void *left, const void *right)
{
    const trp_manifest_file *a = (const trp_manifest_file *)left;
    const trp_manifest_file *b = (const trp_manifest_file *)right;
    int order = strcmp(a->path, b->path);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static bool is_same(const trp_manifest_file *a, const trp_manifest_file *b)
{
    return a->kind == b->kind && a->size == b->size && a->digest == b->digest &&
           (a->kind != TRP_FILE_LINK || strcmp(a->target, b->target) == 0);
}

// Leaves each path once.
static troupe_status drop_doubles(trp_manifest_file *files, size_t *count)
{
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        const trp_manifest_file *last = kept ? &files[kept - 1] : NULL;
        if (!last || strcmp(last->path, files[i].path) != 0)
            files[kept++] = files[i];
        else if (!is_same(last, &files[i]))
            return troupe_fail(
                TROUPE_INVALID,
                "ranks %d and %d have put different files at '%s' into one "
                "checkpoint: expected the same bytes, or names with the rank in them",
                last->rank, files[i].rank, files[i].path);
    }
    *count = kept;
    return TROUPE_OK;
}

// Makes the folders above a path within the whole, where they are not those of the path before it.
static troupe_status make_above(const char *whole, const char *path, const char *before)
{
    trp_path folder;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t length = (size_t)(slash - path);
        if (strncmp(before, path, length + 1) == 0)
            continue;
        TROUPE_TRY(trp_path_make(&folder, "%s/%.*s", whole, (int)length, path));
        TROUPE_TRY(make(folder.text));
    }
    return TROUPE_OK;
}

troupe_status trp_shard_merge(const trp_staging *staging, const char *whole,
                              trp_manifest_file *files, size_t *count)
{
    if (*count > 1)
        qsort(files, *count, sizeof(*files), compare);
    TROUPE_TRY(drop_doubles(files, count));
    const char *before = "";
    for (size_t i = 0; i < *count; i++) {
        const trp_manifest_file *file = &files[i];
        trp_path shard, from, to;
        TROUPE_TRY(make_above(whole, file->path, before));
        before = file->path;
        TROUPE_TRY(trp_path_make(&to, "%s/%s", whole, file->path));
        if (file->kind == TRP_FILE_FOLDER) {
            TROUPE_TRY(make(to.text));
            continue;
        }
        TROUPE_TRY(shard_path(staging, file->rank, &shard));
        TROUPE_TRY(trp_path_make(&from, "%s/%s", shard.text, file->path));
        TROUPE_TRY(trp_folder_rename(from.text, to.text));
    }
    return TROUPE_OK;
}
