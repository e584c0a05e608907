// model_instance.c: a model that computes: made of a config and of weights that were kept, asked,
// and ended.
#include <models/model.h>

#include <models/batch.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/tensor.h>
#include <runtime/codec/type.h>
#include <stdio.h>
#include <string.h>
#include <train/checkpoint.h>

#include <train/steps.h>

const char *trp_hook_name(troupe_hook hook)
{
    static const char *const names[TROUPE_HOOKS] = {
        [TROUPE_HOOK_BEFORE_SETUP] = "before_setup",
        [TROUPE_HOOK_SETUP] = "setup",
        [TROUPE_HOOK_PREPROCESS] = "preprocess",
        [TROUPE_HOOK_FORWARD] = "forward",
        [TROUPE_HOOK_POSTPROCESS] = "postprocess",
        [TROUPE_HOOK_TRAIN_STEP] = "train_step",
        [TROUPE_HOOK_VALIDATE_STEP] = "validate_step",
        [TROUPE_HOOK_BEFORE_EPOCH] = "before_epoch",
        [TROUPE_HOOK_AFTER_EPOCH] = "after_epoch",
        [TROUPE_HOOK_BEFORE_BATCH] = "before_batch",
        [TROUPE_HOOK_AFTER_BATCH] = "after_batch",
        [TROUPE_HOOK_SAVE] = "save",
        [TROUPE_HOOK_LOAD] = "load",
        [TROUPE_HOOK_DEINIT] = "deinit",
    };
    return names[hook];
}

troupe_status trp_instance_call(troupe_instance *instance, troupe_hook hook, void *at,
                                const void *in, void *out)
{
    const trp_model *model = instance->model;
    if (!trp_model_has(model, hook))
        return TROUPE_OK;
    return trp_hook_ended(model->table->call(hook, instance->self, at, in, out),
                          trp_hook_name(hook));
}

// ---- making and ending

static troupe_status set_up(troupe_instance *instance, troupe_use use, const void *config)
{
    const troupe_model *table = instance->model->table;
    use.arena_ = &instance->arena;
    instance->config = trp_arena_alloc(&instance->arena, table->config->size + 1);
    instance->self = troupe_use_alloc(&use, table->size);
    if (!instance->config || !instance->self)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an instance of '%s'", table->name);
    TROUPE_TRY(trp_value_copy(table->config, config, &instance->arena, instance->config));
    TROUPE_TRY(trp_instance_call(instance, TROUPE_HOOK_BEFORE_SETUP, &use, instance->config, NULL));
    TROUPE_TRY(trp_instance_call(instance, TROUPE_HOOK_SETUP, &use, instance->config, NULL));
    instance->is_set_up = true;
    return TROUPE_OK;
}

troupe_status trp_instance_make(const trp_model *model, troupe_use use, const void *config,
                                troupe_instance **instance)
{
    troupe_instance *made = (troupe_instance *)trp_alloc(sizeof *made);
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an instance of '%s'",
                           model->table->name);
    made->model = model;
    troupe_status status = set_up(made, use, config);
    if (status == TROUPE_OK)
        *instance = made;
    else
        trp_instance_end(&made);
    return status;
}

void trp_instance_end(troupe_instance **instance)
{
    troupe_instance *it = *instance;
    troupe_error said;
    if (!it)
        return;
    *instance = NULL;
    trp_error_hold(&said);
    if (it->is_set_up)
        (void)trp_instance_call(it, TROUPE_HOOK_DEINIT, NULL, NULL, NULL);
    trp_error_restore(&said);
    trp_arena_clear(&it->arena);
    trp_free(it);
}

// ---- weights

troupe_status trp_instance_save(troupe_instance *instance, void *kept)
{
    const trp_model *model = instance->model;
    if (trp_model_has(model, TROUPE_HOOK_SAVE))
        return trp_instance_call(instance, TROUPE_HOOK_SAVE, NULL, NULL, kept);
    if (model->table->is_state)
        memcpy(kept, instance->self, model->table->size);
    return TROUPE_OK;
}

static troupe_status check_fit(troupe_instance *instance, const void *kept, const char *whose,
                               const char *file)
{
    const trp_model *model = instance->model;
    trp_arena draft = {0};
    char differences[400];
    void *fresh = trp_arena_alloc(&draft, model->kept.size);
    troupe_status status = fresh ? trp_instance_save(instance, fresh)
                                 : troupe_fail(TROUPE_NO_MEMORY, "no memory to compare weights");
    if (status == TROUPE_OK)
        status = trp_model_state_fits(model, kept, fresh, whose);
    trp_arena_clear(&draft);
    if (status != TROUPE_WRONG_TYPE)
        return status;
    troupe_error said;
    trp_error_hold(&said);
    trp_model_differences(model, file, instance->config, differences, sizeof differences);
    return differences[0] ? troupe_fail(status, "%s: %s", said.text, differences)
                          : trp_error_set(&said);
}

troupe_status trp_instance_load(troupe_instance *instance, const void *kept, const char *whose,
                                const char *file)
{
    const trp_model *model = instance->model;
    TROUPE_TRY(check_fit(instance, kept, whose, file));
    if (trp_model_has(model, TROUPE_HOOK_LOAD))
        return trp_instance_call(instance, TROUPE_HOOK_LOAD, NULL, kept, NULL);
    if (!model->table->is_state)
        return TROUPE_OK;
    return trp_value_copy(model->table->state, kept, &instance->arena, instance->self);
}

// ---- outside a run

static troupe_status load_checkpoint(troupe_instance *instance, const troupe_checkpoint_info *info)
{
    const trp_model *model = instance->model;
    trp_arena arena = {0};
    char whose[600];
    (void)snprintf(whose, sizeof whose, "checkpoint %s", info->path);
    void *kept = trp_arena_alloc(&arena, model->kept.size);
    troupe_status status =
        kept ? trp_checkpoint_load(info->path, 0, TRP_STATE_OR_FIRST, &model->kept, &arena, kept)
             : troupe_fail(TROUPE_NO_MEMORY, "no memory for the weights of '%s'",
                           model->table->name);
    if (status == TROUPE_OK)
        status = trp_instance_load(instance, kept, whose, info->config);
    trp_arena_clear(&arena);
    return status;
}

static troupe_status open_from(const trp_model *model, const troupe_checkpoint_info *info,
                               const char *json, troupe_instance **instance)
{
    const troupe_model *table = model->table;
    const char *file = info ? info->config : NULL;
    trp_arena arena = {0};
    char what[96];
    if (info && info->trainer[0] && strcmp(info->trainer, table->name) != 0)
        return troupe_fail(TROUPE_WRONG_TYPE, "checkpoint %s is of '%s', not of model '%s'",
                           info->path, info->trainer, table->name);
    (void)snprintf(what, sizeof what, "the settings of model '%s'", table->name);
    void *config = trp_arena_alloc(&arena, table->config->size);
    troupe_status status =
        config ? trp_model_config(table, file, json, what, &arena, config)
               : troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of '%s'", table->name);
    troupe_use use = {.purpose = TROUPE_FOR_INFERENCE, .world = 1};
    troupe_instance *made = NULL;
    if (status == TROUPE_OK)
        status = trp_instance_make(model, use, config, &made);
    trp_arena_clear(&arena);
    if (status == TROUPE_OK && info)
        status = load_checkpoint(made, info);
    if (status == TROUPE_OK)
        *instance = made;
    else
        trp_instance_end(&made);
    return status;
}

troupe_status troupe_model_open_as(const troupe_model *model, const char *checkpoint,
                                   const char *json, troupe_instance **instance)
{
    TRP_REQUIRE(model);
    TRP_REQUIRE(instance);
    const trp_model *found;
    troupe_checkpoint *opened = NULL;
    troupe_checkpoint_info info;
    TROUPE_TRY(trp_model_of(model, &found));
    if (!checkpoint)
        return open_from(found, NULL, json, instance);
    TROUPE_TRY(troupe_checkpoint_open(checkpoint, &opened));
    troupe_checkpoint_info_get(opened, &info);
    troupe_status status = open_from(found, &info, json, instance);
    troupe_checkpoint_close(&opened);
    return status;
}

void troupe_model_close(troupe_instance **instance)
{
    if (instance)
        trp_instance_end(instance);
}

troupe_status trp_model_check_input(const troupe_model *table, const troupe_tensor *x)
{
    const troupe_input *row = table->input;
    if (row->dtype == TROUPE_DTYPE_NONE)
        return troupe_tensor_check(x, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY);
    troupe_tensor like = {.dtype = row->dtype, .ndim = row->ndim + 1};
    memcpy(like.shape + 1, row->shape, row->ndim * sizeof *row->shape);
    troupe_status status = trp_rows_check(x, &like);
    if (status != TROUPE_WRONG_TYPE)
        return status;
    return troupe_fail(status, "the input of model '%s' is %s", table->name,
                       troupe_last_error()->text);
}

troupe_status troupe_model_forward_with(troupe_instance *instance, const troupe_tensor *x,
                                        troupe_tensor *y, const troupe_forward_options *how)
{
    TRP_REQUIRE(instance);
    TRP_REQUIRE(x);
    TRP_REQUIRE(y);
    TRP_REQUIRE(how);
    const trp_model *model = instance->model;
    troupe_forward_options full;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_model_forward", full, how));
    TROUPE_TRY(trp_model_check_input(model->table, x));
    troupe_tensor in = *x, out = {0};
    if (trp_model_has(model, TROUPE_HOOK_PREPROCESS)) {
        TROUPE_TRY(trp_instance_call(instance, TROUPE_HOOK_PREPROCESS, NULL, x, &out));
        in = out;
    }
    out = (troupe_tensor){0};
    TROUPE_TRY(trp_instance_call(instance, TROUPE_HOOK_FORWARD, NULL, &in, &out));
    if (trp_model_has(model, TROUPE_HOOK_POSTPROCESS) && !full.no_postprocess) {
        in = out;
        out = (troupe_tensor){0};
        TROUPE_TRY(trp_instance_call(instance, TROUPE_HOOK_POSTPROCESS, NULL, &in, &out));
    }
    *y = out;
    return TROUPE_OK;
}

static bool is_of(const troupe_instance *instance, const troupe_model *model, const char *what)
{
    const trp_model *found;
    if (trp_model_of(model, &found) != TROUPE_OK)
        return false;
    if (found == instance->model)
        return true;
    (void)troupe_fail(TROUPE_WRONG_TYPE, "%s: the instance is of model '%s', not of '%s'", what,
                      instance->model->table->name, model->name);
    return false;
}

void *troupe_model_self_as(const troupe_model *model, troupe_instance *instance)
{
    if (TRP_IS_NULL(model) || TRP_IS_NULL(instance)) {
        (void)(model ? TRP_NULL(instance) : TRP_NULL(model));
        return NULL;
    }
    return is_of(instance, model, "troupe_model_self") ? instance->self : NULL;
}

const void *troupe_model_config_of_as(const troupe_model *model, const troupe_instance *instance)
{
    if (TRP_IS_NULL(model) || TRP_IS_NULL(instance)) {
        (void)(model ? TRP_NULL(instance) : TRP_NULL(model));
        return NULL;
    }
    return is_of(instance, model, "troupe_model_config_of") ? instance->config : NULL;
}
