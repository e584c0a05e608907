// push.c: models into the repository and out of it: checked before anything is stored, and opened
// by the code that the version names.
#include <models/repository.h>
#include <models/stored.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <runtime/codec/tensor.h>
#include <runtime/codec/type.h>
#include <stdio.h>
#include <string.h>
#include <train/checkpoint.h>
#include <train/spec.h>
#include <train/state.h>

// ---- the check

// A row of zeros, as the model's .input says.
static troupe_status zeros(const troupe_input *row, trp_arena *arena, troupe_tensor *x)
{
    size_t size;
    *x = (troupe_tensor){.dtype = row->dtype, .ndim = row->ndim + 1, .shape = {1}};
    for (uint32_t i = 0; i < row->ndim; i++)
        x->shape[i + 1] = row->shape[i] > 0 ? row->shape[i] : 1;
    TROUPE_TRY(trp_tensor_size(x, &size));
    void *block = TRP_IS_ABSURD(size, 2) ? NULL : trp_arena_alloc(arena, size + TRP_TENSOR_SLACK);
    if (!block)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a row of its input");
    x->data = trp_tensor_aligned(block);
    return TROUPE_OK;
}

static bool has_any_size(const troupe_input *row)
{
    for (uint32_t i = 0; i < row->ndim; i++)
        if (row->shape[i] == 0)
            return true;
    return false;
}

static troupe_status ask(const troupe_model *model, troupe_instance *instance, trp_arena *arena)
{
    troupe_tensor x, y = {0};
    if (model->input->dtype == TROUPE_DTYPE_NONE)
        return TROUPE_OK;
    TROUPE_TRY(zeros(model->input, arena, &x));
    troupe_status status = troupe_model_forward(instance, &x, &y);
    if (status == TROUPE_WRONG_TYPE && has_any_size(model->input))
        return TROUPE_OK; // Which sizes it takes is known to its hooks alone.
    TROUPE_TRY(status);
    if (troupe_tensor_check(&y, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY) != TROUPE_OK)
        return trp_error_prefix("its result is no tensor");
    return TROUPE_OK;
}

troupe_status trp_push_check(const troupe_model *model, const char *checkpoint)
{
    troupe_instance *instance;
    trp_arena arena = {0}; // Also of what the hooks take.
    if (troupe_model_open_as(model, checkpoint, NULL, &instance) != TROUPE_OK)
        return trp_error_prefix("model '%s' was not pushed", model->name);
    trp_arena *before = trp_arena_swap(&arena);
    troupe_status status = ask(model, instance, &arena);
    (void)trp_arena_swap(before);
    troupe_model_close(&instance);
    trp_arena_clear(&arena);
    return status == TROUPE_OK
               ? status
               : trp_error_prefix("model '%s' was not pushed: asked with a row of zeros",
                                  model->name);
}

// ---- what is stored

typedef struct push {
    bool keeps; // Its program, too.
    const troupe_data_given *data;
    const troupe_model *table;
    const trp_model *model;
    const char *checkpoint;
    trp_arena arena; // Of all that follows.
    trp_manifest manifest;
    trp_push_record record;
    trp_buffer weights;
    trp_manifest_file file;
} push;

// Packs what the checkpoint keeps of the model, and says what it is.
static troupe_status prepare(push *it, const char *metadata)
{
    trp_path folder;
    TROUPE_TRY(trp_checkpoint_find(it->checkpoint, &folder));
    TROUPE_TRY(trp_checkpoint_read(folder.text, &it->arena, &it->manifest));
    TROUPE_TRY(trp_spec_metadata(metadata, &it->arena, &it->manifest.metadata));
    TROUPE_TRY(trp_push_record_make(it->table, it->checkpoint, &it->arena, &it->record));
    void *kept = trp_arena_alloc(&it->arena, it->model->kept.size);
    if (!kept)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the weights of '%s'", it->table->name);
    TROUPE_TRY(trp_checkpoint_load(folder.text, 0, TRP_STATE_OR_FIRST, &it->model->kept, &it->arena,
                                   kept));
    TROUPE_TRY(trp_state_pack(TRP_WEIGHTS, &it->model->kept, kept, &it->weights));
    if (it->weights.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the weights of '%s'", it->table->name);
    it->file = (trp_manifest_file){.path = TRP_WEIGHTS,
                                   .kind = TRP_FILE_STATE,
                                   .size = it->weights.size,
                                   .digest = trp_digest(it->weights.data, it->weights.size),
                                   .schema = troupe_type_hash(&it->model->kept)};
    it->manifest.trainer = it->table->name;
    it->manifest.files = (troupe_array_trp_manifest_file){&it->file, 1};
    return TROUPE_OK;
}

// Copies this program, and has the copy do what it will be asked for later: to open the model.
static troupe_status keep_program(push *it, const char *folder, const char *ref)
{
    trp_path checkpoint;
    trp_stored_answer answer;
    trp_child_process process;
    trp_push_program *record = &it->record.kept;
    TROUPE_TRY(trp_stored_keep(folder, it->data, &it->arena, record));
    TROUPE_TRY(trp_checkpoint_find(it->checkpoint, &checkpoint));
    trp_stored_of of = {.folder = folder, .record = record};
    (void)snprintf(of.ref, sizeof of.ref, "%s", ref);
    const trp_stored_request request = {
        .action = "check", .ref = ref, .folder = checkpoint.text, .arguments = it->table->name};
    if (trp_stored_ask(&of, &request, &it->arena, &answer, &process) != TROUPE_OK)
        return trp_error_prefix("model '%s' was not pushed, since the copy of this program cannot "
                                "serve it",
                                it->table->name);
    trp_child_end(&process);
    return TROUPE_OK;
}

// Writes the version that has been claimed.
static troupe_status store(push *it, trp_draft *draft, const char *ref)
{
    trp_path path;
    trp_buffer record = {0}, text = {0};
    if (it->keeps)
        TROUPE_TRY(keep_program(it, draft->at.folder.text, ref));
    trp_push_record said = it->record;
    said.ref = ref;
    trp_json_value(&record, &troupe_type_trp_push_record, &said);
    it->manifest.push = trp_buffer_keep(&record, &it->arena);
    if (!it->manifest.push)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the manifest of %s", ref);
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_WEIGHTS, draft->at.folder.text));
    TROUPE_TRY(trp_file_write(path.text, &(trp_piece){it->weights.data, it->weights.size}, 1));
    trp_manifest_write(&it->manifest, &text);
    troupe_status status =
        text.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the manifest of %s", ref)
                    : trp_draft_publish(draft, text.data, text.size);
    trp_buffer_free(&text);
    return status;
}

static troupe_status push_to(push *it, const char *repository, const char *key, const char *alias,
                             troupe_model_ref *ref)
{
    trp_draft draft;
    troupe_model_ref made;
    TROUPE_TRY(trp_draft_begin(repository, key, &draft));
    (void)snprintf(made.text, sizeof made.text, "%s@%" PRId64, key, draft.at.number);
    troupe_status status = store(it, &draft, made.text);
    bool published = status == TROUPE_OK;
    if (published && alias && trp_alias_set(&draft.at, alias, true) != TROUPE_OK)
        status = trp_error_prefix("%s was pushed, and has no alias '%s'", made.text, alias);
    trp_draft_end(&draft, published);
    if (status == TROUPE_OK && ref)
        *ref = made;
    return status;
}

troupe_status troupe_push_as(const troupe_model *model, const char *key, const char *checkpoint,
                             troupe_model_ref *ref, const troupe_push_options *how)
{
    TRP_REQUIRE(model);
    TRP_REQUIRE(key);
    TRP_REQUIRE(checkpoint);
    troupe_push_options full;
    push it = {.table = model, .checkpoint = checkpoint};
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_push", full, how));
    TROUPE_TRY(trp_model_of(model, &it.model));
    TROUPE_TRY(trp_name_check("key", key));
    if (full.alias)
        TROUPE_TRY(trp_alias_check(full.alias));
    it.keeps = full.keep_program;
    it.data = full.data;
    if (full.data && !full.keep_program)
        return troupe_fail(TROUPE_INVALID,
                           "option .data is given without .keep_program, and only a "
                           "program that is kept trains");
    if (full.keep_program)
        TROUPE_TRY(trp_stored_check(model));
    TROUPE_TRY(trp_push_check(model, checkpoint));
    troupe_status status = prepare(&it, full.metadata);
    if (status == TROUPE_OK)
        status = push_to(&it, full.repository, key, full.alias, ref);
    trp_buffer_free(&it.weights);
    trp_arena_clear(&it.arena);
    return status;
}

// ---- opening

static troupe_status check_schema(const troupe_model *model, const trp_manifest *manifest,
                                  trp_arena *arena)
{
    trp_push_record record;
    TROUPE_TRY(trp_push_record_read(manifest, arena, &record));
    uint64_t hash = troupe_type_hash(model->state);
    if (trp_push_hash(record.state.hash) == hash)
        return TROUPE_OK;
    return troupe_fail(TROUPE_WRONG_TYPE,
                       "it has the state '%s' with schema %s, and model '%s' of this program has "
                       "'%s' with schema %016" PRIx64,
                       record.state.name ? record.state.name : "?",
                       record.state.hash ? record.state.hash : "?", model->name, model->state->name,
                       hash);
}

troupe_status trp_version_check(const trp_version *version, const troupe_model **model)
{
    trp_manifest manifest;
    trp_arena arena = {0};
    troupe_status status = trp_manifest_read(version->folder.text, &arena, &manifest);
    if (status == TROUPE_OK && !*model) {
        *model = troupe_model_find(manifest.trainer);
        status = *model ? TROUPE_OK : troupe_failed_(troupe_last_error()->status);
    }
    if (status == TROUPE_OK && strcmp(manifest.trainer, (*model)->name) != 0)
        status = troupe_fail(TROUPE_WRONG_TYPE, "it is of model '%s', not of '%s'",
                             manifest.trainer, (*model)->name);
    if (status == TROUPE_OK)
        status = check_schema(*model, &manifest, &arena);
    trp_arena_clear(&arena);
    if (status == TROUPE_OK)
        return status;
    if (trp_version_failed(version, status) == status)
        return trp_error_prefix("%s@%" PRId64, version->key, version->number);
    return troupe_last_error()->status;
}

troupe_status troupe_model_open_stored_as(const troupe_model *model, const char *ref,
                                          const char *json, troupe_instance **instance,
                                          const troupe_repository_options *how)
{
    TRP_REQUIRE(ref);
    TRP_REQUIRE(instance);
    trp_version version;
    TROUPE_TRY(trp_version_of(how, TRP_TO_READ, ref, &version));
    TROUPE_TRY(trp_version_check(&version, &model));
    troupe_status status = troupe_model_open_as(model, version.folder.text, json, instance);
    if (status == TROUPE_OK)
        return status;
    if (trp_version_failed(&version, status) == status)
        return trp_error_prefix("%s@%" PRId64, version.key, version.number);
    return troupe_last_error()->status;
}
