// fit.c: the loop that trains a model, on the stages of a trainer. See
// docs/internals/models/models.md.
#include <models/fit.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <stdio.h>
#include <string.h>
#include <train/steps.h>
#include <train/worker.h>

enum { BATCH_MAX = 1 << 30 };

// What a rank has of a model that it trains.
typedef struct fit {
    const trp_model *model;
    troupe_instance *instance;
    troupe_fitting fitting;
    troupe_batches *train, *valid; // NULL: there is none, or nothing to do with it.
    troupe_batch batch;            // Of the step that runs.
    trp_progress begins;           // Where the run goes on.
    double rows;                   // That a note is over.
    const char *prefix;            // Of its name.
    trp_arena arena;               // Of the batch.
    trp_notes notes;
    double waited_s; // For data, up to the last report.
} fit;

// ---- what can be trained

static troupe_status check_range(const trp_model *model, const char *name, int64_t value,
                                 int64_t least, int64_t most, const char *expected)
{
    if (value >= least && value <= most)
        return TROUPE_OK;
    return troupe_fail(TROUPE_INVALID, "%s.%s of model '%s' is %" PRId64 ": expected %s",
                       model->fitting->name, name, model->table->name, value, expected);
}

static troupe_status check_fitting(const trp_model *model, const troupe_fitting *fitting)
{
    const char *positive = "1 or more";
    TROUPE_TRY(check_range(model, "epochs", fitting->epochs, 1, INT64_MAX / 2, positive));
    TROUPE_TRY(check_range(model, "batch", fitting->batch, 1, BATCH_MAX, "1 to 2^30 rows"));
    TROUPE_TRY(check_range(model, "validate_every", fitting->validate_every, TROUPE_NONE,
                           INT64_MAX / 2, "a number of epochs, or TROUPE_NONE"));
    TROUPE_TRY(check_range(model, "report_every", fitting->report_every, 0, INT64_MAX / 2,
                           "a number of steps, or 0"));
    if (fitting->validate_every > 0 && !trp_model_has(model, TROUPE_HOOK_VALIDATE_STEP))
        return troupe_fail(TROUPE_INVALID,
                           "%s.validate_every of model '%s' is %" PRId64
                           ", and the model has no hook validate_step",
                           model->fitting->name, model->table->name, fitting->validate_every);
    return TROUPE_OK;
}

static troupe_status fitting_of(const trp_model *model, const void *config, troupe_fitting *fitting)
{
    const troupe_model *table = model->table;
    if (!trp_model_has(model, TROUPE_HOOK_TRAIN_STEP))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "model '%s' cannot be trained: it has no hook train_step", table->name);
    if (!model->fitting)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "model '%s' cannot be trained: its config %s has no member of type "
                           "troupe_fitting",
                           table->name, table->config->name);
    memcpy(fitting, (const char *)config + model->fitting->offset, sizeof *fitting);
    return check_fitting(model, fitting);
}

troupe_status troupe_fit_check(const troupe_model *model, troupe_setup *at, const void *config)
{
    (void)at;
    TRP_REQUIRE(model);
    TRP_REQUIRE(config);
    const trp_model *found;
    troupe_fitting fitting;
    TROUPE_TRY(trp_model_of(model, &found));
    return fitting_of(found, config, &fitting);
}

// ---- the rank

static fit *fit_of(troupe_rank *me)
{
    void **place = trp_loop_above(me);
    return place ? (fit *)*place : NULL;
}

static void end(fit *it)
{
    troupe_error said;
    trp_error_hold(&said);
    troupe_batches_close(&it->valid);
    troupe_batches_close(&it->train);
    trp_error_restore(&said);
    trp_instance_end(&it->instance);
    trp_arena_clear(&it->arena);
    trp_free(it);
}

static troupe_status open_valid(fit *it, troupe_rank *me, int64_t rows)
{
    if (!trp_model_has(it->model, TROUPE_HOOK_VALIDATE_STEP) ||
        it->fitting.validate_every == TROUPE_NONE)
        return TROUPE_OK;
    troupe_shard shard;
    troupe_status status = troupe_data_shard(me, "valid", &shard);
    if (status == TROUPE_NOT_FOUND && it->fitting.validate_every == 0)
        return trp_error_settled(TROUPE_OK);
    TROUPE_TRY(status);
    if (it->fitting.validate_every == 0)
        it->fitting.validate_every = 1;
    return troupe_batches_open(me, "valid", &it->valid, .batch = rows);
}

static troupe_status open_data(fit *it, troupe_rank *me)
{
    // The same steps, however many ranks there are.
    TROUPE_TRY(troupe_batches_open(me, "train", &it->train, .step_rows = it->fitting.batch,
                                   .seed = it->fitting.seed, .shuffle = true));
    // A hook is given no more rows at once than when the model is trained.
    return open_valid(it, me, (it->fitting.batch + me->world - 1) / me->world);
}

static troupe_status load(fit *it, troupe_rank *me, const void *kept)
{
    const char *folder = troupe_restored_folder(me);
    troupe_checkpoint *checkpoint = NULL;
    troupe_checkpoint_info info = {0};
    char whose[600] = "the commit in memory";
    if (folder) {
        (void)snprintf(whose, sizeof whose, "checkpoint %s", folder);
        TROUPE_TRY(troupe_checkpoint_open(folder, &checkpoint));
        troupe_checkpoint_info_get(checkpoint, &info);
    }
    troupe_status status = trp_instance_load(it->instance, kept, whose, info.config);
    troupe_checkpoint_close(&checkpoint);
    return status;
}

// Takes over what the run goes on from, if there is something.
static troupe_status restore(fit *it, troupe_rank *me)
{
    const trp_model *model = it->model;
    trp_arena draft = {0};
    char *kept = (char *)trp_arena_alloc(&draft, model->kept.size);
    if (!kept)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the weights of '%s'",
                           model->table->name);
    trp_progress *progress = (trp_progress *)(void *)(kept + model->progress_at);
    progress->epoch = -1; // As long as nothing is restored.
    trp_arena *outer = trp_arena_swap(&draft);
    troupe_status status = troupe_restore_as(&model->kept, me, kept);
    (void)trp_arena_swap(outer);
    if (status == TROUPE_OK && progress->epoch >= 0) {
        it->begins = *progress;
        status = load(it, me, kept);
    }
    trp_arena_clear(&draft);
    return status;
}

static troupe_status begin(fit *it, troupe_rank *me, const void *config)
{
    troupe_use use = {.purpose = TROUPE_FOR_TRAINING, .rank = me->rank, .world = me->world};
    TROUPE_TRY(fitting_of(it->model, config, &it->fitting));
    TROUPE_TRY(trp_instance_make(it->model, use, config, &it->instance));
    TROUPE_TRY(open_data(it, me));
    return restore(it, me);
}

troupe_status troupe_fit_begin(const troupe_model *model, troupe_rank *me, const void *config)
{
    TRP_REQUIRE(model);
    TRP_REQUIRE(me);
    TRP_REQUIRE(config);
    const trp_model *found;
    void **place = trp_loop_above(me);
    TROUPE_TRY(trp_model_of(model, &found));
    if (!place)
        return troupe_last_error()->status;
    fit *it = (fit *)trp_alloc(sizeof *it);
    if (!it)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to train model '%s'", model->name);
    it->model = found;
    it->rows = 1;
    it->prefix = "";
    *place = it;
    troupe_status status = begin(it, me, config);
    if (status != TROUPE_OK) {
        *place = NULL;
        end(it);
    }
    return status;
}

static troupe_status rank_teardown(troupe_rank *me, const void *config)
{
    (void)config;
    void **place = trp_loop_above(me);
    if (place && *place)
        end((fit *)*place);
    if (place)
        *place = NULL;
    return TROUPE_OK;
}

// ---- notes

void troupe_note_over(troupe_rank *me, const char *name, double sum, double count)
{
    fit *it = TRP_IS_NULL(me) ? NULL : fit_of(me);
    if (it)
        trp_notes_add(&it->notes, it->prefix, name, sum, count);
}

void troupe_note(troupe_rank *me, const char *name, double sum)
{
    fit *it = TRP_IS_NULL(me) ? NULL : fit_of(me);
    if (it)
        trp_notes_add(&it->notes, it->prefix, name, sum, it->rows);
}

troupe_status troupe_noted(troupe_rank *me, const char *name, double *mean)
{
    TRP_REQUIRE(me);
    TRP_REQUIRE(name);
    TRP_REQUIRE(mean);
    void **place = trp_loop_above(me);
    if (!place)
        return troupe_last_error()->status;
    if (!*place)
        return troupe_fail(TROUPE_INVALID, "troupe_noted: this is no run of a model");
    return trp_notes_mean_of(&((fit *)*place)->notes, me, name, mean);
}

// Calls a hook, and sees to what it has noted.
static troupe_status call(fit *it, troupe_hook hook, troupe_rank *me, const troupe_batch *batch)
{
    if (!trp_model_has(it->model, hook))
        return TROUPE_OK;
    it->rows = batch ? (double)batch->rows : 1;
    troupe_status status = trp_instance_call(it->instance, hook, me, batch, NULL);
    it->rows = 1;
    if (status == TROUPE_OK)
        status = trp_hook_ended(trp_notes_check(&it->notes), trp_hook_name(hook));
    return status;
}

// The same with the arena of the batch.
static troupe_status call_in_batch(fit *it, troupe_hook hook, troupe_rank *me)
{
    trp_arena *outer = trp_arena_swap(&it->arena);
    troupe_status status = call(it, hook, me, &it->batch);
    (void)trp_arena_swap(outer);
    return status;
}

// ---- reports

static troupe_status save(fit *it, troupe_rank *me, trp_progress next)
{
    const trp_model *model = it->model;
    trp_arena draft = {0};
    char *kept = (char *)trp_arena_alloc(&draft, model->kept.size);
    troupe_status status = kept ? trp_instance_save(it->instance, kept)
                                : troupe_fail(TROUPE_NO_MEMORY, "no memory for the weights of '%s'",
                                              model->table->name);
    if (status == TROUPE_OK) {
        memcpy(kept + model->progress_at, &next, sizeof next);
        status = troupe_save_as(&model->kept, me, kept);
    }
    trp_arena_clear(&draft);
    return status;
}

static double waited_s(const fit *it)
{
    return troupe_batches_waited_s(it->train) +
           (it->valid ? troupe_batches_waited_s(it->valid) : 0);
}

typedef struct report_kind {
    bool validated, last;
} report_kind;

static troupe_status report(fit *it, troupe_rank *me, trp_progress next, report_kind kind)
{
    troupe_metric metrics[TRP_NOTES_MAX + 2];
    size_t count;
    TROUPE_TRY(trp_notes_mean(&it->notes, me, metrics, &count));
    double now = waited_s(it), waited = now - it->waited_s;
    it->waited_s = now;
    TROUPE_TRY(troupe_allreduce(me, &waited, 1, TROUPE_MAX));
    double batches = (double)troupe_batches_count(it->train);
    metrics[count++] = (troupe_metric){"epoch", (double)next.epoch + (double)next.batch / batches};
    metrics[count++] = (troupe_metric){"data_wait_s", waited};
    if (me->rank == 0 && (kind.last || troupe_checkpoint_due(me)))
        TROUPE_TRY(save(it, me, next));
    troupe_status status = troupe_report_metrics_tagged(
        me, kind.validated ? "validate_step" : "train_step", metrics, count);
    trp_notes_clear(&it->notes);
    return status;
}

// ---- the loop

static troupe_status plan(troupe_rank *me, const void *config, troupe_plan *plan)
{
    fit *it = fit_of(me);
    (void)config;
    plan->epochs = it->fitting.epochs;
    plan->batches = troupe_batches_count(it->train);
    plan->epoch = it->begins.epoch;
    // With a larger batch, or fewer rows, an epoch has fewer batches than it had.
    plan->batch = it->begins.batch < plan->batches ? it->begins.batch : plan->batches;
    if (plan->epoch >= plan->epochs && me->rank == 0)
        trp_log(TRP_WARN,
                "nothing is left to train of model '%s': %" PRId64 " of %" PRId64
                " epochs are done in the checkpoint; %s.epochs counts those, too",
                it->model->table->name, it->begins.epoch, plan->epochs, it->model->fitting->name);
    return TROUPE_OK;
}

static troupe_status before_epoch(troupe_rank *me, const void *config)
{
    fit *it = fit_of(me);
    (void)config;
    TROUPE_TRY(troupe_batches_begin(it->train, me->epoch, me->batch));
    return call(it, TROUPE_HOOK_BEFORE_EPOCH, me, NULL);
}

static troupe_status before_batch(troupe_rank *me, const void *config)
{
    fit *it = fit_of(me);
    (void)config;
    TROUPE_TRY(troupe_batches_next(it->train, &it->batch));
    return call_in_batch(it, TROUPE_HOOK_BEFORE_BATCH, me);
}

static troupe_status step(troupe_rank *me, const void *config)
{
    (void)config;
    return call_in_batch(fit_of(me), TROUPE_HOOK_TRAIN_STEP, me);
}

static troupe_status after_batch(troupe_rank *me, const void *config)
{
    fit *it = fit_of(me);
    (void)config;
    // Of a step that has answered later.
    TROUPE_TRY(trp_hook_ended(trp_notes_check(&it->notes), trp_hook_name(TROUPE_HOOK_TRAIN_STEP)));
    TROUPE_TRY(call_in_batch(it, TROUPE_HOOK_AFTER_BATCH, me));
    trp_arena_clear(&it->arena);
    int64_t done = me->batch + 1, every = it->fitting.report_every;
    if (every == 0 || done % every != 0 || done == troupe_batches_count(it->train))
        return TROUPE_OK;
    return report(it, me, (trp_progress){me->epoch, done}, (report_kind){false, false});
}

static bool validation_is_due(const fit *it, int64_t epoch)
{
    return it->valid &&
           ((epoch + 1) % it->fitting.validate_every == 0 || epoch + 1 == it->fitting.epochs);
}

static troupe_status validate(fit *it, troupe_rank *me)
{
    int64_t count = troupe_batches_count(it->valid);
    TROUPE_TRY(troupe_batches_begin(it->valid, me->epoch, 0));
    troupe_status status = TROUPE_OK;
    it->prefix = TRP_NOTE_VALID;
    for (int64_t i = 0; i < count && status == TROUPE_OK; i++) {
        status = troupe_batches_next(it->valid, &it->batch);
        if (status == TROUPE_OK)
            status = call_in_batch(it, TROUPE_HOOK_VALIDATE_STEP, me);
        trp_arena_clear(&it->arena);
    }
    it->prefix = "";
    return status;
}

static troupe_status after_epoch(troupe_rank *me, const void *config)
{
    fit *it = fit_of(me);
    (void)config;
    trp_progress next = {me->epoch + 1, 0};
    report_kind kind = {validation_is_due(it, me->epoch), next.epoch >= it->fitting.epochs};
    if (kind.validated)
        TROUPE_TRY(validate(it, me));
    troupe_status done = call(it, TROUPE_HOOK_AFTER_EPOCH, me, NULL);
    if (done != TROUPE_OK && done != TROUPE_STOPPED)
        return done;
    kind.last = kind.last || done == TROUPE_STOPPED;
    TROUPE_TRY(report(it, me, next, kind));
    return done;
}

void troupe_fit_stages(troupe_stages *stages)
{
    if (TRP_IS_NULL(stages))
        return;
    stages->rank_teardown = rank_teardown;
    stages->plan = plan;
    stages->before_epoch = before_epoch;
    stages->before_batch = before_batch;
    stages->step = step;
    stages->after_batch = after_batch;
    stages->after_epoch = after_epoch;
    stages->saves_when_due = true;
}
