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

static troupe_status named(const trp_steps *steps, troupe_status status, const char *hook,
                           bool in_batch)
{
    char where[96];
    const troupe_rank *me = steps->me;
    if (in_batch)
        snprintf(where, sizeof where, "%s of epoch %" PRId64 ", batch %" PRId64, hook, me->epoch,
                 me->batch);
    else
        snprintf(where, sizeof where, "%s of epoch %" PRId64, hook, me->epoch);
    return trp_hook_ended(status, where);
}

// What a hook runs in: its values live until it returns, and what it writes to the loop's counters
// is lost.
typedef struct frame {
    trp_arena *outer;
    int64_t epoch, batch;
} frame;

static frame enter(trp_steps *steps)
{
    return (frame){trp_arena_swap(&steps->arena), steps->me->epoch, steps->me->batch};
}

static void leave(trp_steps *steps, const frame *in)
{
    (void)trp_arena_swap(in->outer);
    trp_arena_clear(&steps->arena);
    steps->me->epoch = in->epoch;
    steps->me->batch = in->batch;
}

static troupe_status call(trp_steps *steps, rank_hook what, const char *name, bool in_batch)
{
    if (!what)
        return TROUPE_OK;
    frame in = enter(steps);
    troupe_status status = what(steps->me, steps->config);
    leave(steps, &in);
    return named(steps, status, name, in_batch);
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
    steps->planned = true;
    steps->me->epoch = plan->epoch;
    steps->me->batch = plan->batch;
    return TROUPE_OK;
}

// ---- the loop, by what comes next

static trp_steps_turn over(trp_steps *steps, troupe_status status)
{
    steps->status = status;
    return TRP_STEPS_OVER;
}

// The step has returned: it has failed, is over, or answers later.
static trp_steps_turn step_returned(trp_steps *steps, troupe_status status)
{
    bool later = steps->later && status == TROUPE_OK;
    steps->later = steps->stepping = false;
    if (later)
        return TRP_STEPS_PENDING;
    return trp_steps_answer(steps, status);
}

static trp_steps_turn run_batch(trp_steps *steps)
{
    const troupe_stages *stages = steps->stages;
    troupe_status status = call(steps, stages->before_batch, "before_batch", true);
    if (status != TROUPE_OK)
        return over(steps, status);
    frame in = enter(steps);
    steps->stepping = true;
    status = stages->step(steps->me, steps->config);
    leave(steps, &in);
    return step_returned(steps, status);
}

trp_steps_turn trp_steps_answer(trp_steps *steps, troupe_status status)
{
    troupe_rank *me = steps->me;
    status = named(steps, status, "step", true);
    if (status == TROUPE_OK)
        status = call(steps, steps->stages->after_batch, "after_batch", true);
    if (status != TROUPE_OK)
        return over(steps, status);
    me->batch++;
    return TRP_STEPS_AGAIN;
}

trp_steps_turn trp_steps_continue(trp_steps *steps, trp_step_next next, troupe_ref ref)
{
    frame in = enter(steps);
    steps->stepping = true;
    troupe_status status = next(steps->me, ref);
    leave(steps, &in);
    return step_returned(steps, status);
}

static troupe_status begin_epoch(trp_steps *steps)
{
    steps->in_epoch = true;
    return call(steps, steps->stages->before_epoch, "before_epoch", false);
}

static troupe_status end_epoch(trp_steps *steps)
{
    TROUPE_TRY(call(steps, steps->stages->after_epoch, "after_epoch", false));
    steps->in_epoch = false;
    steps->me->epoch++;
    steps->me->batch = 0;
    return TROUPE_OK;
}

trp_steps_turn trp_steps_run(trp_steps *steps)
{
    troupe_rank *me = steps->me;
    troupe_status status;
    if (!steps->planned) {
        status = make_plan(steps);
    } else if (!steps->in_epoch) {
        if (me->epoch >= steps->plan.epochs)
            return over(steps, TROUPE_OK);
        status = begin_epoch(steps);
    } else if (me->batch < steps->plan.batches) {
        return run_batch(steps);
    } else {
        status = end_epoch(steps);
    }
    return status == TROUPE_OK ? TRP_STEPS_AGAIN : over(steps, status);
}
