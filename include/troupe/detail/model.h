// model.h: making a model of a struct, the types of its config and state, and its hooks. Part of
// troupe/model.h.
//
// A struct of hooks with the model's own types has the compiler check each hook; one function calls
// them by number. The trainer's stages are the library's, but for those that have to know which
// model it is.
#ifndef TROUPE_DETAIL_MODEL_H
#define TROUPE_DETAIL_MODEL_H

#include <troupe/model.h>

// A hook of another type is an error, not a warning.
// clang-format off
#ifdef __clang__
#define TROUPE_HOOKS_BEGIN_                                                                        \
    _Pragma("clang diagnostic push")                                                               \
    _Pragma("clang diagnostic error \"-Wincompatible-pointer-types\"")                             \
    _Pragma("clang diagnostic error \"-Wincompatible-function-pointer-types\"")
#define TROUPE_HOOKS_END_ _Pragma("clang diagnostic pop")
#else
#define TROUPE_HOOKS_BEGIN_                                                                        \
    _Pragma("GCC diagnostic push")                                                                 \
    _Pragma("GCC diagnostic error \"-Wincompatible-pointer-types\"")
#define TROUPE_HOOKS_END_ _Pragma("GCC diagnostic pop")
#endif
// clang-format on

#define TROUPE_MODEL_(M, C, S, setup_, forward_, ...)                                              \
    typedef C troupe_config_##M;                                                                   \
    TROUPE_HOOKS_BEGIN_                                                                            \
    static const struct {                                                                          \
        troupe_status (*setup)(M *, const C *, troupe_use *);                                      \
        troupe_status (*forward)(M *, const troupe_tensor *, troupe_tensor *);                     \
        C defaults;                                                                                \
        troupe_input input;                                                                        \
        troupe_status (*before_setup)(M *, const C *, troupe_use *);                               \
        troupe_status (*preprocess)(M *, const troupe_tensor *, troupe_tensor *);                  \
        troupe_status (*postprocess)(M *, const troupe_tensor *, troupe_tensor *);                 \
        troupe_status (*train_step)(M *, troupe_rank *, const troupe_batch *);                     \
        troupe_status (*validate_step)(M *, troupe_rank *, const troupe_batch *);                  \
        troupe_status (*before_epoch)(M *, troupe_rank *);                                         \
        troupe_status (*after_epoch)(M *, troupe_rank *);                                          \
        troupe_status (*before_batch)(M *, troupe_rank *, const troupe_batch *);                   \
        troupe_status (*after_batch)(M *, troupe_rank *, const troupe_batch *);                    \
        troupe_status (*save)(M *, S *);                                                           \
        troupe_status (*load)(M *, const S *);                                                     \
        void (*deinit)(M *);                                                                       \
        troupe_status (*on_start)(troupe_group *, const C *);                                      \
        troupe_status (*on_shutdown)(troupe_group *, const C *);                                   \
        const char *live, *allowed_options, *open_texts;                                           \
        int unused_;                                                                               \
    } troupe_model_hooks_##M = {.setup = setup_, .forward = forward_, __VA_ARGS__};                \
    TROUPE_HOOKS_END_                                                                              \
    static troupe_status troupe_model_call_##M(troupe_hook hook_, void *self_, void *at_,          \
                                               const void *in_, void *out_)                        \
    {                                                                                              \
        M *m_ = (M *)self_;                                                                        \
        troupe_rank *me_ = (troupe_rank *)at_;                                                     \
        switch (hook_) {                                                                           \
            TROUPE_MODEL_CASE_(SETUP, setup, M, (m_, (const C *)in_, (troupe_use *)at_))           \
            TROUPE_MODEL_CASE_(BEFORE_SETUP, before_setup, M,                                      \
                               (m_, (const C *)in_, (troupe_use *)at_))                            \
            TROUPE_MODEL_CASE_(FORWARD, forward, M, TROUPE_MODEL_TENSORS_)                         \
            TROUPE_MODEL_CASE_(PREPROCESS, preprocess, M, TROUPE_MODEL_TENSORS_)                   \
            TROUPE_MODEL_CASE_(POSTPROCESS, postprocess, M, TROUPE_MODEL_TENSORS_)                 \
            TROUPE_MODEL_CASE_(TRAIN_STEP, train_step, M, TROUPE_MODEL_BATCH_)                     \
            TROUPE_MODEL_CASE_(VALIDATE_STEP, validate_step, M, TROUPE_MODEL_BATCH_)               \
            TROUPE_MODEL_CASE_(BEFORE_BATCH, before_batch, M, TROUPE_MODEL_BATCH_)                 \
            TROUPE_MODEL_CASE_(AFTER_BATCH, after_batch, M, TROUPE_MODEL_BATCH_)                   \
            TROUPE_MODEL_CASE_(BEFORE_EPOCH, before_epoch, M, (m_, me_))                           \
            TROUPE_MODEL_CASE_(AFTER_EPOCH, after_epoch, M, (m_, me_))                             \
            TROUPE_MODEL_CASE_(SAVE, save, M, (m_, (S *)out_))                                     \
            TROUPE_MODEL_CASE_(LOAD, load, M, (m_, (const S *)in_))                                \
        case TROUPE_HOOK_DEINIT:                                                                   \
            troupe_model_hooks_##M.deinit(m_);                                                     \
            return TROUPE_OK;                                                                      \
        default:                                                                                   \
            return TROUPE_UNSUPPORTED;                                                             \
        }                                                                                          \
    }                                                                                              \
    static uint32_t troupe_model_has_##M(void)                                                     \
    {                                                                                              \
        return TROUPE_MODEL_HAS_(SETUP, setup, M) | TROUPE_MODEL_HAS_(FORWARD, forward, M) |       \
               TROUPE_MODEL_HAS_(BEFORE_SETUP, before_setup, M) |                                  \
               TROUPE_MODEL_HAS_(PREPROCESS, preprocess, M) |                                      \
               TROUPE_MODEL_HAS_(POSTPROCESS, postprocess, M) |                                    \
               TROUPE_MODEL_HAS_(TRAIN_STEP, train_step, M) |                                      \
               TROUPE_MODEL_HAS_(VALIDATE_STEP, validate_step, M) |                                \
               TROUPE_MODEL_HAS_(BEFORE_EPOCH, before_epoch, M) |                                  \
               TROUPE_MODEL_HAS_(AFTER_EPOCH, after_epoch, M) |                                    \
               TROUPE_MODEL_HAS_(BEFORE_BATCH, before_batch, M) |                                  \
               TROUPE_MODEL_HAS_(AFTER_BATCH, after_batch, M) | TROUPE_MODEL_HAS_(SAVE, save, M) | \
               TROUPE_MODEL_HAS_(LOAD, load, M) | TROUPE_MODEL_HAS_(DEINIT, deinit, M);            \
    }                                                                                              \
    static troupe_stages troupe_stages_##M;                                                        \
    static const troupe_trainer troupe_trainer_##M = {TROUPE_ABI,                                  \
                                                      #M,                                          \
                                                      &troupe_type_##C,                            \
                                                      NULL,                                        \
                                                      &troupe_stages_##M,                          \
                                                      &troupe_model_hooks_##M.defaults,            \
                                                      {NULL}};                                     \
    static const troupe_model troupe_model_##M = {TROUPE_ABI,                                      \
                                                  #M,                                              \
                                                  sizeof(M),                                       \
                                                  &troupe_type_##C,                                \
                                                  &troupe_type_##S,                                \
                                                  &troupe_model_hooks_##M.defaults,                \
                                                  &troupe_model_hooks_##M.input,                   \
                                                  __builtin_types_compatible_p(M, S),              \
                                                  troupe_model_call_##M,                           \
                                                  troupe_model_has_##M,                            \
                                                  &troupe_trainer_##M,                             \
                                                  &troupe_model_hooks_##M.open_texts,              \
                                                  {NULL}};                                         \
    static troupe_status troupe_fit_check_##M(troupe_setup *at_, const void *config_)              \
    {                                                                                              \
        return troupe_fit_check(&troupe_model_##M, at_, config_);                                  \
    }                                                                                              \
    static troupe_status troupe_fit_begin_##M(troupe_rank *me_, const void *config_)               \
    {                                                                                              \
        return troupe_fit_begin(&troupe_model_##M, me_, config_);                                  \
    }                                                                                              \
    TROUPE_MODEL_GROUP_(on_start, M, C)                                                            \
    TROUPE_MODEL_GROUP_(on_shutdown, M, C)                                                         \
    __attribute__((constructor)) static void troupe_register_model_##M(void)                       \
    {                                                                                              \
        troupe_fit_stages(&troupe_stages_##M);                                                     \
        troupe_stages_##M.setup = troupe_fit_check_##M;                                            \
        troupe_stages_##M.rank_setup = troupe_fit_begin_##M;                                       \
        if (troupe_model_hooks_##M.on_start)                                                       \
            troupe_stages_##M.on_start = troupe_model_on_start_##M;                                \
        if (troupe_model_hooks_##M.on_shutdown)                                                    \
            troupe_stages_##M.on_shutdown = troupe_model_on_shutdown_##M;                          \
        troupe_stages_##M.allowed_options = troupe_model_hooks_##M.allowed_options;                \
        troupe_stages_##M.live = troupe_model_hooks_##M.live;                                      \
        (void)troupe_model_register(&troupe_model_##M);                                            \
    }                                                                                              \
    _Static_assert(sizeof(M) > 0, #M)

#define TROUPE_MODEL_CASE_(HOOK, hook, M, arguments)                                               \
    case TROUPE_HOOK_##HOOK:                                                                       \
        return troupe_model_hooks_##M.hook arguments;
#define TROUPE_MODEL_GROUP_(stage, M, C)                                                           \
    static troupe_status troupe_model_##stage##_##M(troupe_group *group_, const void *config_)     \
    {                                                                                              \
        return troupe_model_hooks_##M.stage(group_, (const C *)config_);                           \
    }
#define TROUPE_MODEL_TENSORS_ (m_, (const troupe_tensor *)in_, (troupe_tensor *)out_)
#define TROUPE_MODEL_BATCH_ (m_, me_, (const troupe_batch *)in_)
#define TROUPE_MODEL_HAS_(HOOK, hook, M)                                                           \
    ((uint32_t)(troupe_model_hooks_##M.hook != NULL) << TROUPE_HOOK_##HOOK)

#endif
