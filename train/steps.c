// steps.c: see steps.h.
#include <inttypes.h>
#include <runtime/base/error.h>
#include <stdio.h>
#include <train/steps.h>

typedef troupe_status (*rank_hook)(troupe_rank *me, const void *config);

bool trp_steps_are_there(const troupe_trainer *trainer)
{
    return trainer->run == NULL && trainer->stages != NULL && trainer->stages->step != NULL;
}

troupe_status trp_steps_check(const troupe_trainer *trainer)
{
    static const troupe_stages none;
    const troupe_stages *stages = trainer->stages ? trainer->stages : &none;
    const struct {
        const char *name;
        bool there;
    } hooks[] = {
        {"plan", stages->plan != NULL},
        {"before_epoch", stages->before_epoch != NULL},
        {"before_batch", stages->before_batch != NULL},
        {"step", stages->step != NULL},
        {"after_batch", stages->after_batch != NULL},
        {"after_epoch", stages->after_epoch != NULL},
    };
    if (!trainer->run && !stages->step)
        return troupe_fail(TROUPE_INVALID,
                           "trainer '%s' has no loop: its hook 'run' is missing, or 'step' where "
                           "the library's loop is to run",
                           trainer->name);
    if (!trainer->run && !stages->plan)
        return troupe_fail(
            TROUPE_INVALID,
            "trainer '%s' has no end: its hook 'plan' is missing, which 'step' needs",
            trainer->name);
    for (size_t i = 0; trainer->run && i < sizeof hooks / sizeof *hooks; i++)
        if (hooks[i].there)
            return troupe_fail(TROUPE_INVALID,
                               "trainer '%s' has a loop function, which never calls its hook '%s': "
                               "expected the one or the other",
                               trainer->name, hooks[i].name);
    return TROUPE_OK;
}

troupe_status trp_hook_ended(troupe_status status, const char *hook)
{
    const troupe_error *last = troupe_last_error();
    if (status == TROUPE_OK || status == TROUPE_STOPPED)
        return status;
    if (last->status != status || !last->text[0])
        return troupe_fail(status, "%s: %s", hook, troupe_strerror(status));
    return trp_error_prefix("%s", hook);
}

// Runs a hook, whose values live until it returns.
static troupe_status call(trp_steps *steps, rank_hook what, const char *name, bool in_batch)
{
    char where[96];
    troupe_rank *me = steps->me;
    int64_t epoch = me->epoch, batch = me->batch;
    if (!what)
        return TROUPE_OK;
    trp_arena *outer = trp_arena_swap(&steps->arena);
    troupe_status status = what(me, steps->config);
    (void)trp_arena_swap(outer);
    trp_arena_clear(&steps->arena);
    me->epoch = epoch; // Whatever it wrote there.
    me->batch = batch;
    if (in_batch)
        snprintf(where, sizeof where, "%s of epoch %" PRId64 ", batch %" PRId64, name, epoch,
                 batch);
    else
        snprintf(where, sizeof where, "%s of epoch %" PRId64, name, epoch);
    return trp_hook_ended(status, where);
}

static troupe_status make_plan(trp_steps *steps)
{
    troupe_plan *plan = &steps->plan;
    *plan = (troupe_plan){0};
    TROUPE_TRY(trp_hook_ended(steps->stages->plan(steps->me, steps->config, plan), "plan"));
    if (plan->epochs < 0 || plan->batches < 0)
        return troupe_fail(TROUPE_INVALID,
                           "plan: %" PRId64 " epochs of %" PRId64 " batches: expected 0 or more",
                           plan->epochs, plan->batches);
    if (plan->epoch < 0 || plan->batch < 0 || plan->batch > plan->batches)
        return troupe_fail(TROUPE_INVALID,
                           "plan: it begins with epoch %" PRId64 ", batch %" PRId64
                           ": expected 0 or more, and at most %" PRId64 " batches",
                           plan->epoch, plan->batch, plan->batches);
    return TROUPE_OK;
}

static troupe_status run_batch(trp_steps *steps)
{
    const troupe_stages *stages = steps->stages;
    TROUPE_TRY(call(steps, stages->before_batch, "before_batch", true));
    TROUPE_TRY(call(steps, stages->step, "step", true));
    return call(steps, stages->after_batch, "after_batch", true);
}

static troupe_status run_epoch(trp_steps *steps)
{
    const troupe_stages *stages = steps->stages;
    troupe_rank *me = steps->me;
    TROUPE_TRY(call(steps, stages->before_epoch, "before_epoch", false));
    for (; me->batch < steps->plan.batches; me->batch++)
        TROUPE_TRY(run_batch(steps));
    return call(steps, stages->after_epoch, "after_epoch", false);
}

troupe_status trp_steps_run(trp_steps *steps)
{
    troupe_rank *me = steps->me;
    TROUPE_TRY(make_plan(steps));
    me->batch = steps->plan.batch;
    for (me->epoch = steps->plan.epoch; me->epoch < steps->plan.epochs; me->epoch++) {
        TROUPE_TRY(run_epoch(steps));
        me->batch = 0;
    }
    return TROUPE_OK;
}
