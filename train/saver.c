// saver.c: see saver.h.
#include <errno.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <train/saver.h>
#include <train/state.h>
#include <train/tree.h>
#include <unistd.h>

static trp_staging staging_of(const trp_saver *saver)
{
    return (trp_staging){saver->run, saver->epoch, saver->attempt, saver->number};
}

// Says why the report that is being prepared or written has no checkpoint.
static void note_torn(trp_saver *saver)
{
    saver->torn = true;
    snprintf(saver->why, sizeof(saver->why), "rank %d: %s", saver->rank, troupe_last_error()->text);
}

// ---- what the writer does

static void write_state(trp_serial_task *task)
{
    trp_saver *saver = (trp_saver *)((char *)task - offsetof(trp_saver, write));
    trp_staging staging = staging_of(saver);
    trp_path shard;
    saver->state_digest = trp_digest(saver->packed.data, saver->packed.size);
    if (trp_checkpoint_stage(&staging, saver->rank, saver->state.path, &saver->packed, &shard) !=
        TROUPE_OK)
        note_torn(saver);
    // Its memory stays for the next state: pages that were touched before are filled five times as
    // fast as new ones.
    saver->packed.size = 0;
    trp_error_forget();
}

static void close_report(trp_serial_task *task)
{
    trp_saver *saver = (trp_saver *)((char *)task - offsetof(trp_saver, close));
    // They are this saver's own.
    trp_manifest_file *files = (trp_manifest_file *)(uintptr_t)saver->files.items;
    // Listed before its state was written, and with that its digest known.
    for (size_t i = 0; saver->state.path && i < saver->files.count; i++)
        if (strcmp(files[i].path, saver->state.path) == 0)
            files[i].digest = saver->state_digest;
    if (!saver->torn && saver->folder.text[0] &&
        trp_shard_seal(saver->folder.text, files, saver->files.count) != TROUPE_OK)
        note_torn(saver);
    trp_written written = {
        .attempt = saver->attempt,
        .rank = saver->rank,
        .number = saver->number,
        .torn = saver->torn,
        .why = saver->torn ? saver->why : NULL,
    };
    if (!saver->torn)
        written.files = saver->files;
    // Answered before the loop can end: so nothing is under way when that is known. A coordinator
    // that is gone needs no word.
    enum { PAUSE_US = 1000 };
    int taken = 0;
    troupe_status status = TROUPE_OK;
    while (status == TROUPE_OK && !taken) {
        troupe_ref told = troupe_call_from(saver->coordinator, trp_coordinator_written, &written);
        status = troupe_get(int, told, &taken);
        if (status == TROUPE_OK && !taken)
            (void)usleep(PAUSE_US);
    }
    if (status != TROUPE_OK)
        trp_log(TRP_DEBUG, "the coordinator did not take word of report %d: %s", saver->number,
                troupe_last_error()->text);
    trp_error_forget();
    troupe_arena_reset();
}

// ---- what the loop does

// Before anything is done for a report.
static troupe_status begin(trp_saver *saver, int number)
{
    if (saver->begun)
        return TROUPE_OK;
    if (!saver->writer)
        TROUPE_TRY(trp_serial_start("troupe-writer", &saver->writer));
    trp_serial_wait(saver->writer);
    trp_arena_clear(&saver->arena);
    saver->number = number;
    saver->folder.text[0] = '\0';
    saver->state = (trp_manifest_file){0};
    saver->torn = saver->filled = saver->saved = false;
    saver->files = (troupe_array_trp_manifest_file){0};
    saver->begun = true;
    return TROUPE_OK;
}

troupe_status trp_saver_folder(trp_saver *saver, int number, const char **path)
{
    TROUPE_TRY(begin(saver, number));
    trp_staging staging = staging_of(saver);
    trp_path folder;
    if (!saver->filled) {
        TROUPE_TRY(trp_shard_make(&staging, saver->rank, &folder));
        saver->folder = folder;
    }
    saver->filled = true;
    *path = saver->folder.text;
    return TROUPE_OK;
}

static troupe_status pack(trp_saver *saver, const troupe_type *type, const void *value)
{
    char *name = (char *)trp_arena_alloc(&saver->arena, TRP_STATE_NAME);
    if (!name)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to save a state");
    trp_shard_state_name(saver->rank, name);
    saver->packed.size = 0;
    TROUPE_TRY(trp_state_pack(name, type, value, &saver->packed));
    saver->state = (trp_manifest_file){.path = name,
                                       .rank = saver->rank,
                                       .kind = TRP_FILE_STATE,
                                       .size = saver->packed.size,
                                       .schema = troupe_type_hash(type)};
    return TROUPE_OK;
}

troupe_status trp_saver_save(trp_saver *saver, int number, const troupe_type *type,
                             const void *value)
{
    TROUPE_TRY(begin(saver, number));
    trp_serial_wait(saver->writer); // An earlier state for the same report.
    saver->state.path = NULL;
    saver->torn = false;
    saver->saved = true;
    troupe_status status = pack(saver, type, value);
    if (status == TROUPE_OK) {
        saver->write.run = write_state;
        trp_serial_add(saver->writer, &saver->write);
    } else {
        trp_buffer_free(&saver->packed);
        note_torn(saver);
    }
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

troupe_status trp_saver_check(trp_saver *saver, bool *pending)
{
    const trp_manifest_file *state = saver->state.path ? &saver->state : NULL;
    *pending = false;
    if (!saver->begun || saver->keeps_none)
        return TROUPE_OK;
    troupe_array_trp_manifest_file files = {state, state != NULL};
    if (saver->filled)
        TROUPE_TRY(trp_shard_list(saver->folder.text, saver->rank, state, &saver->arena, &files));
    saver->files = files;
    *pending = saver->saved || files.count > 0;
    return TROUPE_OK;
}

void trp_saver_close(trp_saver *saver)
{
    if (!saver->begun)
        return;
    saver->begun = false;
    if (saver->keeps_none && saver->filled && trp_folder_discard(saver->folder.text) != TROUPE_OK)
        trp_log(TRP_INFO, "what was not to be kept stays: %s", troupe_last_error()->text);
    if (!saver->saved && saver->files.count == 0)
        return;
    saver->close.run = close_report;
    trp_serial_add(saver->writer, &saver->close);
}

void trp_saver_end(trp_saver *saver)
{
    trp_serial_end(&saver->writer);
    trp_buffer_free(&saver->packed);
    trp_arena_clear(&saver->arena);
}
