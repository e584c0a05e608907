// curve_model.h: for tests of runs: a polynomial as a model with every hook, which logs them and
// fails as it is told; and points on a curve, as data.
#ifndef CURVE_MODEL_H
#define CURVE_MODEL_H

#include "support.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

// ---- data

TROUPE_STRUCT(points_source, (int, rows), (int, valid), // Rows of "train" and "valid"; 0: no set.
              (bool, through_origin), (bool, other_name));
#define POINTS_SLOPE 3.0

static inline double points_x(int i)
{
    return (double)(i % 10) / 10;
}

static inline double points_y(int i)
{
    return POINTS_SLOPE * points_x(i) + 2;
}

static troupe_status points_set(troupe_data *data, const char *key, int rows, bool through_origin)
{
    double(*at)[2] = troupe_arena_alloc((size_t)(rows + 1) * sizeof *at);
    if (!at)
        return TROUPE_NO_MEMORY;
    for (int i = 0; i < rows; i++) {
        at[i][0] = points_x(i);
        at[i][1] = points_y(i) - (through_origin ? 2 : 0);
    }
    troupe_tensor table = troupe_tensor_of(TROUPE_FLOAT64, at, (size_t)rows, 2);
    troupe_ref ref = troupe_put(troupe_tensor, &table);
    return troupe_data_columns(data, key, TROUPE_SHARE_BY_NAME, troupe_from_tensor("point", ref));
}

static troupe_status points_setup(troupe_data *data, const points_source *source)
{
    const char *train = source->other_name ? "teach" : "train";
    TROUPE_TRY(points_set(data, train, source->rows, source->through_origin));
    return source->valid > 0 ? points_set(data, "valid", source->valid, false) : TROUPE_OK;
}
TROUPE_DATA(points, points_source, points_setup);

// ---- the model

// What goes wrong, on rank `victim` of the first group, in that step.
enum {
    CURVE_FINE,
    CURVE_FAILS,
    CURVE_DIES, // Once there is a checkpoint of that number.
    CURVE_IS_NAN,
    CURVE_NOTES_ALONE,
    CURVE_FAILS_TO_VALIDATE,
    CURVE_WRONG_COLUMN,
    CURVE_FAILS_TO_START,
};

TROUPE_STRUCT(curve_config, (double, rate), (int64_t, width), (int, trouble), (int, victim),
              (int64_t, epoch), (int64_t, batch), (int, checkpoint), (bool, stops_when_still),
              (bool, later),         // Its steps answer later.
              (double, enough),      // Ends once the mean of val_loss is less.
              (troupe_text, folder), // Where each rank leaves a log; NULL: none.
              (troupe_fitting, fitting));
TROUPE_STRUCT(curve_state, (troupe_tensor, weights), (int64_t, steps));
typedef struct curve {
    size_t width;
    double *weights; // Of 1, x, x^2, ...
    int64_t steps;
    int rank;
    const curve_config *config;
    FILE *log;
} curve;

static void curve_log(curve *self, const char *format, ...) TROUPE_PRINTF(2, 3);
static void curve_log(curve *self, const char *format, ...)
{
    va_list more;
    va_start(more, format);
    if (self->log)
        vfprintf(self->log, format, more);
    va_end(more);
}

static void curve_log_batch(curve *self, const char *hook, const troupe_batch *batch)
{
    curve_log(self, "%s %lld.%lld: %zu\n", hook, (long long)batch->epoch, (long long)batch->number,
              batch->rows);
}

static troupe_status curve_before_setup(curve *self, const curve_config *config, troupe_use *use)
{
    if (config->folder && use->purpose == TROUPE_FOR_TRAINING) {
        char name[32];
        (void)snprintf(name, sizeof name, "log_%d_0", use->rank);
        char *path = support_path(config->folder, name);
        self->log = fopen(path, "a");
        free(path);
    }
    curve_log(self, "before_setup\n");
    return TROUPE_OK;
}

static troupe_status curve_setup(curve *self, const curve_config *config, troupe_use *use)
{
    curve_log(self, "setup\n");
    self->config = config;
    self->width = (size_t)config->width;
    self->weights = troupe_use_alloc(use, self->width * sizeof *self->weights);
    return self->weights ? TROUPE_OK : TROUPE_NO_MEMORY;
}

static double curve_at(const curve *self, double x)
{
    double y = 0;
    for (size_t i = self->width; i-- > 0;)
        y = y * x + self->weights[i];
    return y;
}

static troupe_status curve_forward(curve *self, const troupe_tensor *x, troupe_tensor *y)
{
    double *out = troupe_arena_alloc((x->shape[0] + 1) * sizeof *out);
    if (!out)
        return TROUPE_NO_MEMORY;
    for (size_t i = 0; i < x->shape[0]; i++)
        out[i] = curve_at(self, ((const double *)x->data)[i]);
    *y = troupe_tensor_of(TROUPE_FLOAT64, out, x->shape[0]);
    return TROUPE_OK;
}

static bool curve_await(void *path)
{
    return support_exists((const char *)path);
}

static troupe_status curve_die(troupe_rank *me, int checkpoint)
{
    char path[4096];
    const char *folder;
    TROUPE_TRY(troupe_checkpoint_folder(me, &folder));
    (void)snprintf(path, sizeof path, "%.*s/checkpoint_%06d/manifest.json",
                   (int)(strstr(folder, "/.staging_") - folder), folder, checkpoint);
    if (!support_wait_until(curve_await, path, SUPPORT_SOON_MS))
        return troupe_fail(TROUPE_FAILED, "%s does not come", path);
    kill(getpid(), SIGKILL);
    return TROUPE_OK;
}

static bool curve_troubled(const curve *self, const troupe_rank *me, int trouble)
{
    const curve_config *config = self->config;
    return config->trouble == trouble && me->attempt == 0 && me->rank == config->victim &&
           me->epoch == config->epoch;
}

static troupe_status curve_trouble(curve *self, troupe_rank *me, const troupe_batch *batch)
{
    if (batch->number != self->config->batch)
        return TROUPE_OK;
    if (curve_troubled(self, me, CURVE_FAILS))
        return troupe_fail(TROUPE_FAILED, "the curve is steep");
    if (curve_troubled(self, me, CURVE_DIES))
        return curve_die(me, self->config->checkpoint);
    if (curve_troubled(self, me, CURVE_IS_NAN))
        troupe_note(me, "loss", NAN);
    if (curve_troubled(self, me, CURVE_NOTES_ALONE))
        troupe_note(me, "odd", 1);
    return TROUPE_OK;
}

static troupe_status curve_points(curve *self, troupe_rank *me, const troupe_batch *batch,
                                  troupe_tensor *points)
{
    const char *name = curve_troubled(self, me, CURVE_WRONG_COLUMN) ? "points" : "point";
    return troupe_column(batch, name, TROUPE_FLOAT64, 2, points);
}

static troupe_status curve_train_step(curve *self, troupe_rank *me, const troupe_batch *batch)
{
    double sums[8] = {0}, loss = 0;
    troupe_tensor points;
    curve_log_batch(self, "train_step", batch);
    TROUPE_TRY(curve_trouble(self, me, batch));
    TROUPE_TRY(curve_points(self, me, batch, &points));
    const double *at = points.data;
    for (size_t i = 0; i < batch->rows; i++, at += 2) {
        double error = curve_at(self, at[0]) - at[1], power = 1;
        for (size_t k = 0; k < self->width; k++, power *= at[0])
            sums[k] += error * power;
        loss += error * error;
    }
    troupe_note(me, "loss", loss);
    sums[self->width] = (double)batch->rows;
    TROUPE_TRY(troupe_allreduce(me, sums, self->width + 1, TROUPE_SUM));
    double rate = troupe_live(curve_config, me)->rate;
    if (self->config->stops_when_still && rate == 0)
        return troupe_fail(TROUPE_FAILED, "the rate is 0");
    for (size_t k = 0; k < self->width; k++)
        self->weights[k] -= rate * sums[k] / sums[self->width];
    self->steps++;
    return self->config->later ? troupe_step_done(troupe_step_later(me), TROUPE_OK) : TROUPE_OK;
}

static troupe_status curve_validate_step(curve *self, troupe_rank *me, const troupe_batch *batch)
{
    double loss = 0;
    troupe_tensor points;
    curve_log_batch(self, "validate_step", batch);
    if (curve_troubled(self, me, CURVE_FAILS_TO_VALIDATE))
        return troupe_fail(TROUPE_FAILED, "the curve is steep");
    TROUPE_TRY(curve_points(self, me, batch, &points));
    const double *at = points.data;
    for (size_t i = 0; i < batch->rows; i++, at += 2)
        loss += pow(curve_at(self, at[0]) - at[1], 2);
    troupe_note(me, "loss", loss);
    return TROUPE_OK;
}

static troupe_status curve_before_epoch(curve *self, troupe_rank *me)
{
    curve_log(self, "before_epoch %lld\n", (long long)me->epoch);
    return TROUPE_OK;
}

static troupe_status curve_after_epoch(curve *self, troupe_rank *me)
{
    double loss;
    curve_log(self, "after_epoch %lld\n", (long long)me->epoch);
    if (!(self->config->enough > 0))
        return TROUPE_OK;
    TROUPE_TRY(troupe_noted(me, "val_loss", &loss));
    return loss < self->config->enough ? TROUPE_STOPPED : TROUPE_OK;
}

static troupe_status curve_before_batch(curve *self, troupe_rank *me, const troupe_batch *batch)
{
    (void)me;
    curve_log_batch(self, "before_batch", batch);
    return TROUPE_OK;
}

static troupe_status curve_after_batch(curve *self, troupe_rank *me, const troupe_batch *batch)
{
    (void)me;
    curve_log_batch(self, "after_batch", batch);
    return TROUPE_OK;
}

static troupe_status curve_save(curve *self, curve_state *state)
{
    if (self->steps > 0) // Not where the shapes are compared.
        curve_log(self, "save\n");
    state->weights = troupe_tensor_of(TROUPE_FLOAT64, self->weights, self->width);
    state->steps = self->steps;
    return TROUPE_OK;
}

static troupe_status curve_load(curve *self, const curve_state *state)
{
    curve_log(self, "load\n");
    memcpy(self->weights, state->weights.data, self->width * sizeof *self->weights);
    self->steps = state->steps;
    return TROUPE_OK;
}

static void curve_deinit(curve *self)
{
    curve_log(self, "deinit\n");
    if (self->log)
        fclose(self->log);
}

static troupe_status curve_on_start(troupe_group *group, const curve_config *config)
{
    return config->trouble == CURVE_FAILS_TO_START
               ? troupe_fail(TROUPE_FAILED, "no paper for %d ranks", group->world)
               : TROUPE_OK;
}

TROUPE_MODEL(curve, curve_config, curve_state, curve_setup, curve_forward,
             .defaults = {.rate = 0.1, .width = 2, .fitting = {.epochs = 2, .batch = 4}},
             .input = {TROUPE_FLOAT64, 0, {0}}, .train_step = curve_train_step,
             .validate_step = curve_validate_step, .before_setup = curve_before_setup,
             .before_epoch = curve_before_epoch, .after_epoch = curve_after_epoch,
             .before_batch = curve_before_batch, .after_batch = curve_after_batch,
             .save = curve_save, .load = curve_load, .deinit = curve_deinit,
             .on_start = curve_on_start, .live = "rate");

#endif
