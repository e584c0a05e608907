// stored_train.c: what a stored program does for a training, and for its own check.
#include <models/stored.h>

#include <models/model.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/folder.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <train/data.h>
#include <train/detached.h>
#include <train/handle.h>
#include <train/registry.h>
#include <train/storage.h>

// ---- the config

// Whether a text member is one of those in the list, which are separated by commas.
static bool is_listed(const char *list, const char *path)
{
    size_t size = strlen(path);
    for (const char *at = list; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        const char *from = at + strspn(at, " ");
        size_t length = strcspn(from, ", ");
        if (length == size && strncmp(from, path, size) == 0)
            return true;
    }
    return false;
}

static bool is_harmless(const troupe_type *type)
{
    switch (type->kind) {
    case TROUPE_KIND_TEXT:
    case TROUPE_KIND_BYTES:
    case TROUPE_KIND_REF:
    case TROUPE_KIND_ACTOR:
    case TROUPE_KIND_TENSOR:
    case TROUPE_KIND_RECORD:
        return false;
    case TROUPE_KIND_ARRAY:
        return is_harmless(type->item);
    default:
        return true;
    }
}

// That a config from anyone has numbers and flags alone, and texts that the model has marked.
static troupe_status check_open(const char *open, const troupe_type *type, trp_json object,
                                const char *within)
{
    trp_json at = {0}, name, value;
    while (trp_json_next_member(object, &at, &name, &value)) {
        char path[256];
        const troupe_field *field = NULL;
        for (size_t i = 0; i < type->field_count && !field; i++)
            if (trp_json_equals(name, type->fields[i].name))
                field = &type->fields[i];
        if (!field) // Refused later, with the members that there are.
            continue;
        (void)snprintf(path, sizeof path, "%s%s%s", within, *within ? "." : "", field->name);
        bool is_text = field->type->kind == TROUPE_KIND_TEXT ||
                       (field->type->kind == TROUPE_KIND_CHAR && field->count > 0);
        if (field->type->kind == TROUPE_KIND_RECORD && field->count == 0)
            TROUPE_TRY(check_open(open, field->type, value, path));
        else if (is_text ? !is_listed(open, path) : !is_harmless(field->type))
            return troupe_fail(TROUPE_INVALID,
                               "config.%s is not a number or flag, and the model has not marked it "
                               "as one that may be set over HTTP (.open_texts)",
                               path);
    }
    return TROUPE_OK;
}

troupe_status trp_stored_config(const trp_stored_request *request, const char *json,
                                bool open_alone, trp_arena *arena, const troupe_model **model,
                                void **config)
{
    trp_manifest manifest;
    trp_json given;
    TROUPE_TRY(trp_manifest_read(request->folder, arena, &manifest));
    *model = troupe_model_find(manifest.trainer);
    if (!*model)
        return troupe_last_error()->status;
    const char *open = (*model)->open_texts ? *(*model)->open_texts : NULL;
    if (open_alone && json && trp_json_parse(json, strlen(json), &given) == TROUPE_OK)
        TROUPE_TRY(check_open(open, (*model)->config, given, ""));
    *config = trp_arena_alloc(arena, (*model)->config->size);
    if (!*config)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of '%s'", (*model)->name);
    return trp_model_config(*model, manifest.config, json, "the settings that were asked for",
                            arena, *config);
}

// ---- the data

troupe_status trp_stored_data(const trp_stored_request *request, const char *json, trp_arena *arena,
                              troupe_data_given **data)
{
    trp_manifest manifest;
    trp_push_record record;
    trp_json source;
    *data = NULL;
    TROUPE_TRY(trp_manifest_read(request->folder, arena, &manifest));
    TROUPE_TRY(trp_push_record_read(&manifest, arena, &record));
    const trp_push_program *kept = &record.kept;
    if (!kept->data && json)
        return troupe_fail(TROUPE_INVALID,
                           "a source of data is given, and the version was pushed without .data");
    if (!kept->data)
        return TROUPE_OK;
    const troupe_data_table *table = trp_data_table_named(kept->data);
    troupe_data_given *given = (troupe_data_given *)trp_arena_alloc(arena, sizeof *given);
    if (!table)
        return troupe_last_error()->status;
    void *value = trp_arena_alloc(arena, table->source->size);
    if (!given || !value)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the data of '%s'", table->name);
    memset(value, 0, table->source->size);
    const char *texts[] = {kept->source, json};
    for (int i = 0; i < 2; i++) {
        if (!texts[i])
            continue;
        if (trp_json_parse(texts[i], strlen(texts[i]), &source) != TROUPE_OK ||
            trp_json_read(table->source, source, arena, value) != TROUPE_OK)
            return trp_error_prefix("the source of data '%s'", table->name);
    }
    *given = (troupe_data_given){.table = table, .source = value, .share = kept->share};
    *data = given;
    return TROUPE_OK;
}

// ---- submitting

// Where the journal ends of a run that goes on.
static int64_t journal_of(const troupe_train_options *options, const troupe_trainer *trainer)
{
    trp_path path;
    struct stat about;
    int64_t size = 0;
    char *run = NULL;
    const char *storage = options->storage ? trp_path_local(options->storage) : NULL;
    const char *name = options->name ? options->name : trainer->name;
    if (options->open != TROUPE_OPEN_NEW &&
        trp_folder_named(storage, name, false, &run) == TROUPE_OK &&
        trp_path_make(&path, "%s/journal.jsonl", run) == TROUPE_OK && stat(path.text, &about) == 0)
        size = about.st_size;
    trp_free(run);
    trp_error_forget();
    return size;
}

static troupe_status answer_detached(troupe_job *job, trp_stored_answer *answer)
{
    answer->job = troupe_job_number(job);
    return troupe_job_leave(&job);
}

// The job is this process's: it stays until that has ended.
static troupe_status stay(int fd, troupe_job *job, trp_stored_answer *answer)
{
    troupe_status status = trp_stored_answer_now(fd, answer);
    if (status == TROUPE_OK)
        trp_child_serve(fd, job);
    else
        troupe_job_close(&job);
    return status;
}

static troupe_status submit(int fd, const trp_stored_request *request, trp_arena *arena,
                            trp_stored_answer *answer)
{
    trp_stored_submission asked = {0};
    const troupe_model *model;
    troupe_data_given *data;
    troupe_job *job;
    void *config;
    TROUPE_TRY(trp_stored_arguments(request, &troupe_type_trp_stored_submission, arena, &asked));
    TROUPE_TRY(trp_stored_config(request, asked.config, asked.open_alone, arena, &model, &config));
    TROUPE_TRY(trp_stored_data(request, asked.data, arena, &data));
    troupe_train_options options = trp_options_unpack(&asked.options);
    options.console = TROUPE_CONSOLE_OFF; // Of who asks.
    options.data = data;
    if (asked.from_version)
        options.from = request->folder;
    answer->journal = journal_of(&options, model->trainer);
    TROUPE_TRY(troupe_submit_as(model->trainer, config, NULL, &job, &options));
    answer->path = troupe_job_path(job);
    if (troupe_job_number(job) > 0) {
        trp_buffer path = {0};
        trp_buffer_append(&path, answer->path, strlen(answer->path));
        answer->path = trp_buffer_keep(&path, arena);
        return answer_detached(job, answer);
    }
    // Its folder is known once it is taken on, which it is.
    return stay(fd, job, answer);
}

// ---- the check of a push

static troupe_status check(int fd, const trp_stored_request *request, trp_arena *arena,
                           trp_stored_answer *answer)
{
    (void)fd, (void)arena, (void)answer;
    const troupe_model *model = troupe_model_find(request->arguments ? request->arguments : "");
    return model ? trp_push_check(model, request->folder) : troupe_last_error()->status;
}

__attribute__((constructor)) static void be_able(void)
{
    trp_stored_can("check", check);
    trp_stored_can("submit", submit);
}
