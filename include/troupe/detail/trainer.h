// trainer.h: making a trainer of a loop, the type of its config and its stages. Part of train.h.
//
// A struct of hooks with the config's own type has the compiler check each hook that is given; one
// function per hook converts the config, and the constructor enters those that there are.
#ifndef TROUPE_DETAIL_TRAINER_H
#define TROUPE_DETAIL_TRAINER_H

#include <troupe/train.h>

#define TROUPE_TRAINER_1(loop)                                                                     \
    static troupe_status troupe_loop_##loop(troupe_rank *troupe_me_, const void *troupe_config_)   \
    {                                                                                              \
        (void)troupe_config_;                                                                      \
        return loop(troupe_me_);                                                                   \
    }                                                                                              \
    TROUPE_TRAINER_TABLE_(loop, troupe_loop_##loop, troupe_none, .unused_ = 0)
#define TROUPE_TRAINER_2(loop, T) TROUPE_TRAINER_STAGES_(loop, T, .unused_ = 0)
#define TROUPE_TRAINER_3(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)
#define TROUPE_TRAINER_4(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)
#define TROUPE_TRAINER_5(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)
#define TROUPE_TRAINER_6(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)
#define TROUPE_TRAINER_7(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)
#define TROUPE_TRAINER_8(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)
#define TROUPE_TRAINER_9(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)
#define TROUPE_TRAINER_10(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)
#define TROUPE_TRAINER_11(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)
#define TROUPE_TRAINER_12(...) TROUPE_TRAINER_STAGES_(__VA_ARGS__)

// One that is set is called alone, which an analyzer that does not see the library cannot know.
#define TROUPE_STAGE_(stage, place, loop)                                                          \
    static troupe_status troupe_stage_##stage##_##loop(place *troupe_at_,                          \
                                                       const void *troupe_config_)                 \
    {                                                                                              \
        if (troupe_hooks_##loop.stage == NULL)                                                     \
            return TROUPE_OK;                                                                      \
        return troupe_hooks_##loop.stage(troupe_at_,                                               \
                                         (const troupe_config_##loop *)troupe_config_);            \
    }

#define TROUPE_STAGE_PLAN_(loop)                                                                   \
    static troupe_status troupe_stage_plan_##loop(                                                 \
        troupe_rank *troupe_at_, const void *troupe_config_, troupe_plan *troupe_plan_)            \
    {                                                                                              \
        if (troupe_hooks_##loop.plan == NULL)                                                      \
            return TROUPE_OK;                                                                      \
        return troupe_hooks_##loop.plan(troupe_at_, (const troupe_config_##loop *)troupe_config_,  \
                                        troupe_plan_);                                             \
    }

#define TROUPE_STAGE_SET_(stage, loop)                                                             \
    troupe_stages_##loop.stage = troupe_hooks_##loop.stage ? troupe_stage_##stage##_##loop : NULL

#define TROUPE_TRAINER_STAGES_(loop, T, ...)                                                       \
    static troupe_status troupe_loop_##loop(troupe_rank *troupe_me_, const void *troupe_config_)   \
    {                                                                                              \
        return loop(troupe_me_, (const T *)troupe_config_);                                        \
    }                                                                                              \
    TROUPE_TRAINER_TABLE_(loop, troupe_loop_##loop, T, __VA_ARGS__)
#define TROUPE_TRAINER_TABLE_(loop, run_, T, ...)                                                  \
    typedef T troupe_config_##loop;                                                                \
    static const struct {                                                                          \
        troupe_status (*setup)(troupe_setup *, const troupe_config_##loop *);                      \
        troupe_status (*on_start)(troupe_group *, const troupe_config_##loop *);                   \
        troupe_status (*on_shutdown)(troupe_group *, const troupe_config_##loop *);                \
        troupe_status (*rank_setup)(troupe_rank *, const troupe_config_##loop *);                  \
        troupe_status (*rank_teardown)(troupe_rank *, const troupe_config_##loop *);               \
        troupe_status (*plan)(troupe_rank *, const troupe_config_##loop *, troupe_plan *);         \
        troupe_status (*before_epoch)(troupe_rank *, const troupe_config_##loop *);                \
        troupe_status (*before_batch)(troupe_rank *, const troupe_config_##loop *);                \
        troupe_status (*step)(troupe_rank *, const troupe_config_##loop *);                        \
        troupe_status (*after_batch)(troupe_rank *, const troupe_config_##loop *);                 \
        troupe_status (*after_epoch)(troupe_rank *, const troupe_config_##loop *);                 \
        bool reshards;                                                                             \
        bool saves_when_due;                                                                       \
        const char *allowed_options;                                                               \
        const char *live;                                                                          \
        int unused_;                                                                               \
    } troupe_hooks_##loop = {__VA_ARGS__};                                                         \
    TROUPE_STAGE_(setup, troupe_setup, loop)                                                       \
    TROUPE_STAGE_(on_start, troupe_group, loop)                                                    \
    TROUPE_STAGE_(on_shutdown, troupe_group, loop)                                                 \
    TROUPE_STAGE_(rank_setup, troupe_rank, loop)                                                   \
    TROUPE_STAGE_(rank_teardown, troupe_rank, loop)                                                \
    TROUPE_STAGE_PLAN_(loop)                                                                       \
    TROUPE_STAGE_(before_epoch, troupe_rank, loop)                                                 \
    TROUPE_STAGE_(before_batch, troupe_rank, loop)                                                 \
    TROUPE_STAGE_(step, troupe_rank, loop)                                                         \
    TROUPE_STAGE_(after_batch, troupe_rank, loop)                                                  \
    TROUPE_STAGE_(after_epoch, troupe_rank, loop)                                                  \
    static troupe_stages troupe_stages_##loop;                                                     \
    static const troupe_trainer troupe_trainer_##loop = {                                          \
        TROUPE_ABI, #loop, &troupe_type_##T, run_, &troupe_stages_##loop, NULL, {NULL}};           \
    __attribute__((constructor)) static void troupe_register_trainer_##loop(void)                  \
    {                                                                                              \
        TROUPE_STAGE_SET_(setup, loop);                                                            \
        TROUPE_STAGE_SET_(on_start, loop);                                                         \
        TROUPE_STAGE_SET_(on_shutdown, loop);                                                      \
        TROUPE_STAGE_SET_(rank_setup, loop);                                                       \
        TROUPE_STAGE_SET_(rank_teardown, loop);                                                    \
        TROUPE_STAGE_SET_(plan, loop);                                                             \
        TROUPE_STAGE_SET_(before_epoch, loop);                                                     \
        TROUPE_STAGE_SET_(before_batch, loop);                                                     \
        TROUPE_STAGE_SET_(step, loop);                                                             \
        TROUPE_STAGE_SET_(after_batch, loop);                                                      \
        TROUPE_STAGE_SET_(after_epoch, loop);                                                      \
        troupe_stages_##loop.reshards = troupe_hooks_##loop.reshards;                              \
        troupe_stages_##loop.saves_when_due = troupe_hooks_##loop.saves_when_due;                  \
        troupe_stages_##loop.allowed_options = troupe_hooks_##loop.allowed_options;                \
        troupe_stages_##loop.live = troupe_hooks_##loop.live;                                      \
        (void)troupe_trainer_register(&troupe_trainer_##loop);                                     \
    }                                                                                              \
    _Static_assert(sizeof(troupe_config_##loop) > 0, #T)

#endif
