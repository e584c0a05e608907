// saver.c: see saver.h.
#include <errno.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <train/saver.h>
#include <train/tree.h>
#include <unistd.h>

static trp_staging staging_of(const trp_saver *saver, int number)
{
    return (trp_staging){saver->run, saver->epoch, saver->attempt, number};
}

troupe_status trp_saver_folder(trp_saver *saver, int number, const char **path)
{
    trp_staging staging = staging_of(saver, number);
    if (!saver->filled)
        TROUPE_TRY(trp_shard_make(&staging, saver->rank, &saver->folder));
    saver->filled = true;
    *path = saver->folder.text;
    return TROUPE_OK;
}

static void note_torn(trp_saver *saver)
{
    saver->torn = true;
    snprintf(saver->why, sizeof(saver->why), "rank %d: %s", saver->rank, troupe_last_error()->text);
}

troupe_status trp_saver_save(trp_saver *saver, int number, const troupe_type *type,
                             const void *value)
{
    trp_staging staging = staging_of(saver, number);
    if (saver->keeps_none)
        return TROUPE_OK;
    // Until it is whole: what was saved before is overwritten by the attempt.
    saver->state.path = NULL;
    saver->torn = false;
    troupe_status status =
        trp_checkpoint_stage(&staging, saver->rank, type, value, &saver->arena, &saver->state);
    if (status != TROUPE_OK)
        note_torn(saver);
    return status;
}

// ---- adding what lies elsewhere

static troupe_status remove_source(const char *source)
{
    struct stat about;
    if (lstat(source, &about))
        return trp_fail_errno(TROUPE_IO, "cannot look at %s", source);
    if (S_ISDIR(about.st_mode))
        return trp_folder_discard(source);
    if (trp_file_refuses("unlink") || unlink(source))
        return trp_fail_errno(TROUPE_IO, "cannot remove %s", source);
    return TROUPE_OK;
}

static troupe_status target_of(const char *folder, const char *source, trp_path *target)
{
    struct stat about;
    if (stat(source, &about))
        return trp_fail_errno(errno == ENOENT || errno == ENOTDIR ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "troupe_checkpoint_add: cannot add %s", source);
    const char *name = strrchr(source, '/');
    if (S_ISDIR(about.st_mode))
        return trp_path_make(target, "%s", folder);
    return trp_path_make(target, "%s/%s", folder, name ? name + 1 : source);
}

troupe_status trp_saver_add(trp_saver *saver, int number, const char *source, bool remove)
{
    const char *folder;
    trp_path target;
    TROUPE_TRY(trp_saver_folder(saver, number, &folder));
    TROUPE_TRY(target_of(folder, source, &target));
    TROUPE_TRY(trp_tree_copy(source, target.text));
    return remove ? remove_source(source) : TROUPE_OK;
}

// ---- at the report

static const trp_manifest_file *state_of(const trp_saver *saver)
{
    return saver->state.path ? &saver->state : NULL;
}

troupe_status trp_saver_check(trp_saver *saver)
{
    saver->files = (troupe_array_trp_manifest_file){0};
    if (saver->keeps_none)
        return TROUPE_OK;
    if (saver->filled)
        return trp_shard_list(saver->folder.text, saver->rank, state_of(saver), &saver->arena,
                              &saver->files);
    if (saver->state.path)
        saver->files = (troupe_array_trp_manifest_file){&saver->state, 1};
    return TROUPE_OK;
}

void trp_saver_close(trp_saver *saver, trp_report *report)
{
    if (saver->keeps_none && saver->filled && trp_folder_discard(saver->folder.text) != TROUPE_OK)
        trp_log(TRP_INFO, "what was not to be kept stays: %s", troupe_last_error()->text);
    // They are this saver's own.
    trp_manifest_file *files = (trp_manifest_file *)(uintptr_t)saver->files.items;
    if (!saver->torn && saver->filled && saver->files.count > 0 &&
        trp_shard_seal(saver->folder.text, files, saver->files.count) != TROUPE_OK)
        note_torn(saver);
    if (saver->torn) {
        report->staged = TRP_STAGED_TORN;
        report->why = saver->why;
    } else if (saver->files.count > 0) {
        report->staged = TRP_STAGED_WHOLE;
        report->files = saver->files;
    }
}

void trp_saver_next(trp_saver *saver)
{
    trp_arena_clear(&saver->arena);
    saver->folder.text[0] = '\0';
    saver->filled = false;
    saver->state = (trp_manifest_file){0};
    saver->torn = false;
    saver->files = (troupe_array_trp_manifest_file){0};
}
