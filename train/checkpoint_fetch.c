// checkpoint_fetch.c: brings a checkpoint that lies elsewhere to this machine.
#include <errno.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <sys/stat.h>
#include <train/checkpoint.h>
#include <train/tree.h>
#include <unistd.h>

#define FETCHED "fetched"

static troupe_status make_above(const char *folder, const char *path)
{
    trp_path above;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        TROUPE_TRY(trp_path_make(&above, "%s/%.*s", folder, (int)(slash - path), path));
        troupe_status status = trp_folder_make_new(above.text);
        if (status != TROUPE_OK && status != TROUPE_EXISTS)
            return status;
    }
    return TROUPE_OK;
}

static troupe_status fetch_file(const char *path, const char *folder, const trp_manifest_file *file)
{
    trp_path from, to;
    TROUPE_TRY(trp_path_make(&to, "%s/%s", folder, file->path));
    if (file->kind == TRP_FILE_UNKNOWN || file->kind == TRP_FILE_LINK)
        return TROUPE_OK;
    TROUPE_TRY(make_above(folder, file->path));
    if (file->kind == TRP_FILE_FOLDER) {
        troupe_status status = trp_folder_make_new(to.text);
        return status == TROUPE_EXISTS ? TROUPE_OK : status;
    }
    TROUPE_TRY(trp_path_make(&from, "%s/%s", path, file->path));
    troupe_status status = trp_storage_fetch(from.text, to.text, file->size);
    return status == TROUPE_NOT_FOUND
               ? troupe_fail(TROUPE_CORRUPT, "%s is damaged: %s is missing", path, file->path)
               : status;
}

// After all files, so that no link leads one of them elsewhere.
static troupe_status make_link(const char *path, const char *folder, const trp_manifest_file *file)
{
    trp_path to;
    if (!trp_shard_link_stays(file->path, file->target))
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: its link %s leads out of it", path,
                           file->path);
    TROUPE_TRY(make_above(folder, file->path));
    TROUPE_TRY(trp_path_make(&to, "%s/%s", folder, file->path));
    if (trp_file_refuses("link") || symlink(file->target, to.text))
        return trp_fail_errno(errno == EEXIST ? TROUPE_CORRUPT : TROUPE_IO,
                              "cannot make the link %s", to.text);
    return TROUPE_OK;
}

static troupe_status fetch_all(const char *path, const char *folder, const trp_manifest *manifest)
{
    const trp_manifest_file *files = manifest->files.items;
    TROUPE_TRY(trp_folder_make_new(folder));
    for (size_t i = 0; i < manifest->files.count; i++)
        TROUPE_TRY(fetch_file(path, folder, &files[i]));
    for (size_t i = 0; i < manifest->files.count; i++)
        if (files[i].kind == TRP_FILE_LINK)
            TROUPE_TRY(make_link(path, folder, &files[i]));
    trp_path from, to;
    TROUPE_TRY(trp_path_join(&from, path, TRP_MANIFEST_NAME));
    TROUPE_TRY(trp_path_join(&to, folder, TRP_MANIFEST_NAME));
    return trp_storage_fetch(from.text, to.text, UINT64_MAX - 1);
}

// Whether the local copy has that manifest.
static bool is_copy(const char *path, const char *copy)
{
    trp_path there, here;
    unsigned char *a = NULL, *b = NULL;
    size_t a_size = 0, b_size = 0;
    troupe_error kept;
    trp_error_hold(&kept);
    bool same = trp_path_join(&there, path, TRP_MANIFEST_NAME) == TROUPE_OK &&
                trp_path_join(&here, copy, TRP_MANIFEST_NAME) == TROUPE_OK &&
                trp_storage_read(here.text, &b, &b_size) == TROUPE_OK &&
                trp_storage_read(there.text, &a, &a_size) == TROUPE_OK && a_size == b_size &&
                memcmp(a, b, a_size) == 0;
    trp_free(a);
    trp_free(b);
    trp_error_restore(&kept);
    return same;
}

troupe_status trp_checkpoint_forget(const char *local)
{
    trp_path fetched;
    TROUPE_TRY(trp_path_join(&fetched, local, FETCHED));
    return access(fetched.text, F_OK) == 0 ? trp_folder_discard(fetched.text) : TROUPE_OK;
}

// Where a copy is made; a path of its own in `fetch` would be one too many for its frame.
static troupe_status make_staged(const char *local, trp_path *staged)
{
    trp_path fetched;
    TROUPE_TRY(trp_path_join(&fetched, local, FETCHED));
    TROUPE_TRY(trp_folder_make_new(fetched.text));
    return trp_path_join(staged, fetched.text, "new");
}

static troupe_status fetch(const char *path, const char *local, const char *copy, trp_arena *arena,
                           trp_manifest *manifest)
{
    trp_path staged;
    TROUPE_TRY(trp_checkpoint_read(path, arena, manifest));
    // One copy at a time: what is restored from next is another checkpoint, or this one.
    TROUPE_TRY(trp_checkpoint_forget(local));
    TROUPE_TRY(make_staged(local, &staged));
    troupe_status status = fetch_all(path, staged.text, manifest);
    if (status == TROUPE_OK)
        status = trp_checkpoint_verify(staged.text, arena, manifest);
    if (status == TROUPE_OK)
        status = trp_folder_rename(staged.text, copy);
    if (status != TROUPE_OK) {
        troupe_error kept;
        trp_error_hold(&kept);
        (void)trp_folder_discard(staged.text);
        trp_error_restore(&kept);
    }
    return status;
}

troupe_status trp_checkpoint_bring(const char *path, const char *local, trp_arena *arena,
                                   trp_manifest *manifest, trp_path *folder)
{
    const char *name = strrchr(path, '/');
    if (trp_path_is_local(path)) {
        TROUPE_TRY(trp_checkpoint_verify(path, arena, manifest));
        return trp_path_make(folder, "%s", path);
    }
    TROUPE_TRY(trp_path_make(folder, "%s/" FETCHED "/%s", local,
                             name && trp_checkpoint_number(name + 1) >= 0 ? name + 1
                                                                          : "checkpoint_000000"));
    if (is_copy(path, folder->text) &&
        trp_checkpoint_verify(folder->text, arena, manifest) == TROUPE_OK)
        return TROUPE_OK;
    return fetch(path, local, folder->text, arena, manifest);
}
