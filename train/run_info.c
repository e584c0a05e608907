// run_info.c: what the files of a run say of it, for any program.
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <string.h>
#include <train/checkpoint.h>
#include <train/run_file.h>

static const char *text_of(trp_json value, trp_arena *arena, bool *lacks)
{
    char *copy = value.size > 0 ? trp_arena_alloc(arena, value.size + 1) : NULL;
    *lacks = *lacks || (value.size > 0 && copy == NULL);
    return copy != NULL ? memcpy(copy, value.at, value.size) : NULL;
}

static const char *folder_of(const char *run, const char *name, trp_arena *arena, bool *lacks)
{
    trp_buffer path = {0};
    if (name == NULL || name[0] == '\0')
        return NULL;
    trp_buffer_printf(&path, "%s/checkpoints/%s", run, name);
    const char *kept = trp_buffer_keep(&path, arena);
    *lacks = *lacks || kept == NULL;
    return kept;
}

static troupe_status no_memory(const char *run)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for what the run %s says of itself", run);
}

static troupe_status read_beginning(const char *run, trp_arena *arena, troupe_run_info *info)
{
    trp_run_file file;
    bool lacks = false;
    TROUPE_TRY(trp_run_file_read(run, arena, &file));
    info->trainer = file.head.trainer;
    info->program = file.head.program;
    info->created = file.head.created;
    info->config = text_of(file.config, arena, &lacks);
    info->modified = text_of(file.modified, arena, &lacks);
    info->metadata = text_of(file.metadata, arena, &lacks);
    return lacks ? no_memory(run) : TROUPE_OK;
}

static troupe_status read_end(const char *run, trp_arena *arena, troupe_run_info *info)
{
    trp_end_file end;
    bool lacks = false;
    troupe_status status = trp_end_file_read(run, arena, &end);
    if (status == TROUPE_NOT_FOUND)
        return TROUPE_OK;
    TROUPE_TRY(status);
    info->ended = true;
    info->stopped = end.stopped;
    info->status = trp_status_of_word(end.status);
    info->error = end.error != NULL ? end.error : "";
    info->at = end.at;
    info->reports = end.reports;
    info->restarts = end.restarts;
    info->elapsed_s = end.elapsed_s;
    info->checkpoint = folder_of(run, end.checkpoint, arena, &lacks);
    info->best = folder_of(run, end.best, arena, &lacks);
    return lacks ? no_memory(run) : TROUPE_OK;
}

static troupe_status look(const char *folder, troupe_run_info *info)
{
    trp_path run;
    trp_arena *arena = trp_arena_current();
    TROUPE_TRY(trp_checkpoint_find(folder, &run));
    TROUPE_TRY(read_beginning(run.text, arena, info));
    return read_end(run.text, arena, info);
}

troupe_status(troupe_run_info_get)(const char *folder, troupe_run_info *info, size_t size)
{
    troupe_run_info found = {0};
    TRP_REQUIRE(folder);
    TRP_REQUIRE(info);
    troupe_status status = trp_error_settled(look(folder, &found));
    trp_output_give(info, size, &found, status == TROUPE_OK ? sizeof found : 0);
    return status;
}
