// model.c: the registry of models: filled by constructors before main, or by hand.
#include <models/model.h>

#include <runtime/base/buffer.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/tensor.h>
#include <stdalign.h>
#include <string.h>
#include <train/registry.h>

enum { NAME_MAX_BYTES = 63 };

static const char progress_name[] = "troupe";
static trp_named_list models = TRP_NAMED_LIST_INIT;

static troupe_status check_types(const troupe_model *table)
{
    if (!table->config || table->config->abi != TROUPE_ABI || !table->defaults)
        return troupe_fail(TROUPE_INVALID, "model '%s' has no type of its config, or no defaults",
                           table->name);
    if (!table->state || table->state->abi != TROUPE_ABI ||
        (table->state->kind != TROUPE_KIND_RECORD && table->state->kind != TROUPE_KIND_NONE))
        return troupe_fail(TROUPE_INVALID, "the state of model '%s' is no TROUPE_STRUCT",
                           table->name);
    for (size_t i = 0; i < table->state->field_count; i++)
        if (strcmp(table->state->fields[i].name, progress_name) == 0)
            return troupe_fail(TROUPE_INVALID,
                               "the state of model '%s' has a member '%s', which is the library's",
                               table->name, progress_name);
    if (table->input->ndim >= TROUPE_DIMS_MAX)
        return troupe_fail(TROUPE_INVALID,
                           "a row of the input of model '%s' has %u dimensions: expected at most "
                           "%d",
                           table->name, table->input->ndim, TROUPE_DIMS_MAX - 1);
    if (table->input->dtype != TROUPE_DTYPE_NONE && troupe_dtype_size(table->input->dtype) == 0)
        return troupe_fail(TROUPE_INVALID, "the input of model '%s' has the unknown type %d",
                           table->name, (int)table->input->dtype);
    return TROUPE_OK;
}

static troupe_status check_hooks(const troupe_model *table, uint32_t hooks)
{
    static const struct {
        troupe_hook hook;
        const char *name;
    } needed[] = {{TROUPE_HOOK_SETUP, "setup"},
                  {TROUPE_HOOK_FORWARD, "forward"},
                  {TROUPE_HOOK_SAVE, "save"},
                  {TROUPE_HOOK_LOAD, "load"}};
    size_t count = table->is_state || table->state->kind == TROUPE_KIND_NONE ? 2 : 4;
    for (size_t i = 0; i < count; i++)
        if (!(hooks >> needed[i].hook & 1))
            return troupe_fail(TROUPE_INVALID, "model '%s' has no hook '%s'%s", table->name,
                               needed[i].name,
                               i < 2 ? ""
                                     : ": expected both 'save' and 'load', or that the struct is "
                                       "its own state");
    return TROUPE_OK;
}

static troupe_status check(const troupe_model *table)
{
    if (table->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "a model was compiled for generation %u of the library, this is %u",
                           table->abi, TROUPE_ABI);
    if (!table->name || !*table->name || strlen(table->name) > NAME_MAX_BYTES)
        return troupe_fail(TROUPE_INVALID, "a model has no name of 1 to %d bytes", NAME_MAX_BYTES);
    TROUPE_TRY(check_types(table));
    return check_hooks(table, table->hooks());
}

static const troupe_field *fitting_of(const troupe_type *config)
{
    uint64_t hash = troupe_type_hash(&troupe_type_troupe_fitting);
    for (size_t i = 0; i < config->field_count; i++)
        if (config->fields[i].count == 0 && config->fields[i].type->kind == TROUPE_KIND_RECORD &&
            troupe_type_hash(config->fields[i].type) == hash)
            return &config->fields[i];
    return NULL;
}

static trp_model *make(const troupe_model *table)
{
    size_t members = table->state->field_count;
    trp_model *model =
        (trp_model *)trp_alloc(sizeof *model + (members + 1) * sizeof *model->fields);
    if (!model)
        return NULL;
    size_t step = alignof(trp_progress);
    model->table = table;
    model->hooks = table->hooks();
    model->fitting = fitting_of(table->config);
    model->progress_at = (table->state->size + step - 1) / step * step;
    if (members > 0)
        memcpy(model->fields, table->state->fields, members * sizeof *model->fields);
    model->fields[members] =
        (troupe_field){progress_name, model->progress_at, &troupe_type_trp_progress, 0};
    model->kept = (troupe_type){
        .abi = TROUPE_ABI,
        .kind = TROUPE_KIND_RECORD,
        .name = table->name,
        .size = model->progress_at + sizeof(trp_progress),
        .fields = model->fields,
        .field_count = members + 1,
        .hash = model->hash,
    };
    return model;
}

// Two files that declare a model in a header have two tables of it.
static bool same(const troupe_model *a, const troupe_model *b)
{
    return a == b || (a->size == b->size && a->hooks() == b->hooks() &&
                      troupe_type_hash(a->config) == troupe_type_hash(b->config) &&
                      troupe_type_hash(a->state) == troupe_type_hash(b->state));
}

troupe_status trp_model_of(const troupe_model *table, const trp_model **model)
{
    TROUPE_TRY(check(table));
    const trp_model *found = (const trp_model *)trp_named_find(&models, table->name);
    if (!found) {
        trp_model *made = make(table);
        const void *there;
        if (!made)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory to register model '%s'", table->name);
        troupe_status status = trp_named_add(&models, table->name, made, &there);
        if (status != TROUPE_OK || there != made)
            trp_free(made);
        TROUPE_TRY(status);
        found = (const trp_model *)there;
    }
    if (!same(found->table, table))
        return troupe_fail(TROUPE_EXISTS, "another model has the name '%s'", table->name);
    *model = found;
    return TROUPE_OK;
}

troupe_status troupe_model_register(const troupe_model *model)
{
    TRP_REQUIRE(model);
    const trp_model *found;
    TROUPE_TRY(trp_model_of(model, &found));
    return model->trainer ? troupe_trainer_register(model->trainer) : TROUPE_OK;
}

const troupe_model *troupe_model_find(const char *name)
{
    if (TRP_IS_NULL(name)) {
        (void)TRP_NULL(name);
        return NULL;
    }
    const trp_model *found = (const trp_model *)trp_named_find(&models, name);
    if (found)
        return found->table;
    trp_buffer names = {0};
    trp_named_write(&models, &names);
    (void)troupe_fail(TROUPE_NOT_FOUND, "there is no model '%.63s': those that there are: %.*s",
                      name, (int)names.size, names.data ? (const char *)names.data : "");
    trp_buffer_free(&names);
    return NULL;
}

void *troupe_use_alloc(troupe_use *use, size_t size)
{
    if (TRP_IS_NULL(use)) {
        (void)TRP_NULL(use);
        return NULL;
    }
    // A size that went below zero, as of a negative width, is told as it is: as too large a one.
    bool is_possible = use->arena_ && !TRP_IS_ABSURD(size, 1);
    void *block =
        is_possible ? trp_arena_alloc((trp_arena *)use->arena_, size + TRP_TENSOR_SLACK) : NULL;
    if (!block) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu bytes of a model", size);
        return NULL;
    }
    return trp_tensor_aligned(block);
}
