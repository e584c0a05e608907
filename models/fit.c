// fit.c: the loop that trains a model, on the stages of a trainer.
#include <models/model.h>

#include <runtime/base/require.h>

static troupe_status no_plan(troupe_rank *me, const void *config, troupe_plan *plan)
{
    (void)me, (void)config, (void)plan;
    return TROUPE_UNSUPPORTED;
}

static troupe_status no_step(troupe_rank *me, const void *config)
{
    (void)me, (void)config;
    return TROUPE_UNSUPPORTED;
}

void troupe_fit_stages(troupe_stages *stages)
{
    if (TRP_IS_NULL(stages))
        return;
    stages->plan = no_plan;
    stages->step = no_step;
}

troupe_status troupe_fit_check(const troupe_model *model, troupe_setup *at, const void *config)
{
    (void)at;
    TRP_REQUIRE(model);
    TRP_REQUIRE(config);
    return troupe_fail(TROUPE_UNSUPPORTED, "model '%s' cannot be trained", model->name);
}

troupe_status troupe_fit_begin(const troupe_model *model, troupe_rank *me, const void *config)
{
    TRP_REQUIRE(model);
    TRP_REQUIRE(me);
    TRP_REQUIRE(config);
    return troupe_fail(TROUPE_UNSUPPORTED, "model '%s' cannot be trained", model->name);
}

void troupe_note(troupe_rank *me, const char *name, double sum)
{
    troupe_note_over(me, name, sum, 1);
}

void troupe_note_over(troupe_rank *me, const char *name, double sum, double count)
{
    (void)me, (void)name, (void)sum, (void)count;
}
