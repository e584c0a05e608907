// repository_copy.c: versions out of a repository, as folders, and such folders into one. What is
// copied is what the manifest names, with the bytes that it says, and nothing else.
#include <models/repository.h>
#include <models/stored.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <stdio.h>
#include <string.h>
#include <train/checkpoint.h>
#include <train/tree.h>
#include <unistd.h>

// Where something is copied from, and its manifest as it is there.
typedef struct original {
    const char *folder;
    unsigned char *text;
    size_t size;
    trp_manifest manifest;
    trp_push_record record;
    trp_arena arena;
} original;

// A program is copied by copy_program alone, if at all.
static troupe_status check_file(const char *folder, const trp_manifest_file *file)
{
    bool plain = file->kind == TRP_FILE_PLAIN || file->kind == TRP_FILE_STATE;
    if (!plain || strchr(file->path, '/') || file->path[0] == '.' ||
        strcmp(file->path, TRP_MANIFEST_NAME) == 0 || strcmp(file->path, TRP_STORED_PROGRAM) == 0)
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "%s has '%.100s', which is not a plain file of a version", folder,
                           file->path);
    return TROUPE_OK;
}

static troupe_status check(original *from)
{
    const trp_manifest *manifest = &from->manifest;
    bool weights = false;
    if (!manifest->push)
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "%s is a checkpoint that was never pushed: troupe_push takes it",
                           from->folder);
    if (trp_push_record_read(manifest, &from->arena, &from->record) != TROUPE_OK)
        return trp_error_prefix("%s", from->folder);
    for (size_t i = 0; i < manifest->files.count; i++) {
        TROUPE_TRY(check_file(from->folder, &manifest->files.items[i]));
        weights = weights || manifest->files.items[i].kind == TRP_FILE_STATE;
    }
    return weights ? TROUPE_OK
                   : troupe_fail(TROUPE_CORRUPT, "%s is damaged: its manifest names no weights",
                                 from->folder);
}

static troupe_status open_original(const char *folder, original *from)
{
    trp_path path;
    *from = (original){.folder = folder};
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_MANIFEST_NAME, folder));
    troupe_status status = trp_file_read(path.text, &from->text, &from->size);
    if (status == TROUPE_NOT_FOUND)
        return troupe_fail(status, "%s is no exported version: it has no " TRP_MANIFEST_NAME,
                           folder);
    TROUPE_TRY(status);
    TROUPE_TRY(
        trp_manifest_parse(path.text, from->text, from->size, &from->arena, &from->manifest));
    return check(from);
}

static void close_original(original *from)
{
    trp_free(from->text);
    trp_arena_clear(&from->arena);
}

// What is written is what was compared.
static troupe_status copy_file(const char *folder, const trp_manifest_file *file, const char *to)
{
    trp_path path, copy;
    unsigned char *data;
    size_t size;
    TROUPE_TRY(trp_path_make(&path, "%s/%s", folder, file->path));
    TROUPE_TRY(trp_path_make(&copy, "%s/%s", to, file->path));
    troupe_status status = trp_file_read(path.text, &data, &size);
    if (status == TROUPE_NOT_FOUND)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: %s is missing", folder, file->path);
    TROUPE_TRY(status);
    if (size != file->size)
        status = troupe_fail(TROUPE_CORRUPT, "%s is damaged: it has %zu bytes, expected %" PRIu64,
                             path.text, size, file->size);
    else if (trp_digest(data, size) != file->digest)
        status = troupe_fail(TROUPE_CORRUPT, "%s is damaged: its checksum is wrong", path.text);
    if (status == TROUPE_OK)
        status = trp_file_write(copy.text, &(trp_piece){data, size}, 1);
    trp_free(data);
    return status;
}

static troupe_status copy_files(const original *from, const char *to)
{
    for (size_t i = 0; i < from->manifest.files.count; i++)
        TROUPE_TRY(copy_file(from->folder, &from->manifest.files.items[i], to));
    return TROUPE_OK;
}

// The program, which the manifest does not list among its files, since a version may lack it.
static troupe_status copy_program(const original *from, const char *to)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_STORED_PROGRAM, from->folder));
    if (from->record.kept.size == 0 || access(path.text, F_OK) != 0)
        return TROUPE_OK;
    return trp_stored_copy(from->folder, &from->record.kept, to);
}

// ---- export

static troupe_status export_to(const original *from, const char *folder)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_MANIFEST_NAME, folder));
    TROUPE_TRY(copy_files(from, folder));
    TROUPE_TRY(copy_program(from, folder));
    TROUPE_TRY(trp_folder_sync(folder));
    return trp_file_replace(path.text, from->text, from->size);
}

troupe_status troupe_repository_export_with(const char *ref, const char *folder,
                                            const troupe_repository_options *how)
{
    TRP_REQUIRE(ref);
    TRP_REQUIRE(folder);
    trp_version version;
    original from;
    troupe_error said;
    TROUPE_TRY(trp_version_of(how, TRP_TO_READ, ref, &version));
    troupe_status status = open_original(version.folder.text, &from);
    bool made = false;
    if (status == TROUPE_OK) {
        status = trp_folder_make_new(folder);
        made = status == TROUPE_OK;
    }
    if (made)
        status = export_to(&from, folder);
    close_original(&from);
    if (status == TROUPE_OK || status == TROUPE_EXISTS)
        return status;
    status = trp_version_failed(&version, status);
    trp_error_hold(&said);
    if (made)
        (void)trp_folder_discard(folder);
    trp_error_restore(&said);
    return status;
}

// ---- import

static troupe_status import_to(const original *from, const troupe_repository_options *how,
                               const char *key, troupe_model_ref *ref)
{
    trp_draft draft;
    TROUPE_TRY(trp_draft_begin(how->repository, key, &draft));
    troupe_status status = copy_files(from, draft.at.folder.text);
    if (status == TROUPE_OK && how->with_program)
        status = copy_program(from, draft.at.folder.text);
    if (status == TROUPE_OK)
        status = trp_draft_publish(&draft, from->text, from->size);
    if (status == TROUPE_OK && ref)
        (void)snprintf(ref->text, sizeof ref->text, "%s@%" PRId64, key, draft.at.number);
    trp_draft_end(&draft, status == TROUPE_OK);
    return status;
}

troupe_status troupe_repository_import_with(const char *folder, const char *key,
                                            troupe_model_ref *ref,
                                            const troupe_repository_options *how)
{
    TRP_REQUIRE(folder);
    TRP_REQUIRE(key);
    trp_path found;
    original from;
    troupe_repository_options full;
    TROUPE_TRY(TRP_OPTIONS_TAKE("a repository", full, how));
    TROUPE_TRY(trp_name_check("key", key));
    TROUPE_TRY(trp_folder_find(folder, "folder", &found));
    troupe_status status = open_original(found.text, &from);
    if (status == TROUPE_OK)
        status = import_to(&from, &full, key, ref);
    close_original(&from);
    return status;
}
