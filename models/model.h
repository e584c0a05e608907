// model.h: what the library makes of a model's table, and instances: a model's struct with its
// config and its memory.
#ifndef TRP_MODELS_MODEL_H
#define TRP_MODELS_MODEL_H

#include <runtime/base/arena.h>
#include <troupe/model.h>

// Where a run of the library's loop goes on: the first step that is not in the weights.
TROUPE_STRUCT(trp_progress, (int64_t, epoch), (int64_t, batch));

// A model that is registered; never freed.
typedef struct trp_model {
    const troupe_model *table;
    uint32_t hooks;
    const troupe_field *fitting; // Of its config; NULL: it has none.
    // What a checkpoint has: the state's members and, as "troupe", the progress.
    troupe_type kept;
    size_t progress_at; // Its offset.
    uint64_t hash[1];
    troupe_field fields[]; // Of `kept`.
} trp_model;

// Registers it if need be. Errors as those of troupe_model_register.
troupe_status trp_model_of(const troupe_model *table, const trp_model **model);
static inline bool trp_model_has(const trp_model *model, troupe_hook hook)
{
    return model->hooks >> hook & 1;
}

// ---- model_config.c

// The model's defaults, below the members of a config that a file has (NULL: none; what the config
// lacks is left out), below those of a user (NULL: none; what the config lacks is refused, and
// `what` names them). Pointers go to `arena`.
troupe_status trp_model_config(const troupe_model *model, const char *file, const char *user,
                               const char *what, trp_arena *arena, void *config);
// In which members the config that a file has differs from *config, fitting left out: "hidden is 32
// in the checkpoint's config and 64 in this one"; empty where it does not. For a person to read.
void trp_model_differences(const trp_model *model, const char *file, const void *config, char *text,
                           size_t capacity);

// ---- model_state.c

// Whether weights that were kept fit those of an instance that was just set up, by their shapes.
// TROUPE_WRONG_TYPE names the first that do not, and `whose` they are.
troupe_status trp_model_state_fits(const trp_model *model, const void *kept, void *fresh,
                                   const char *whose);

// ---- model_instance.c

struct troupe_instance {
    const trp_model *model;
    trp_arena arena; // What it has.
    void *self;
    void *config;
    bool is_set_up;
};

// Makes one, of a copy of the config. `use` says what for; its arena is the instance's.
troupe_status trp_instance_make(const trp_model *model, troupe_use use, const void *config,
                                troupe_instance **instance);
void trp_instance_end(troupe_instance **instance);
// Whether forward takes that tensor. TROUPE_WRONG_TYPE: the text has both shapes.
troupe_status trp_model_check_input(const troupe_model *table, const troupe_tensor *x);
const char *trp_hook_name(troupe_hook hook);
// Calls a hook, if there is one. What fails gets its name in front.
troupe_status trp_instance_call(troupe_instance *instance, troupe_hook hook, void *at,
                                const void *in, void *out);
// Sets the state of what a checkpoint has to that of the instance. Its pointers are the model's.
troupe_status trp_instance_save(troupe_instance *instance, void *kept);
// Copies what was kept into the instance. `whose` names it in texts, and `file` is the config that
// it was made with; NULL: not known.
troupe_status trp_instance_load(troupe_instance *instance, const void *kept, const char *whose,
                                const char *file);

#endif
