// line_model.h: the least that a model is: a line through the origin, in thirty lines.
#ifndef LINE_MODEL_H
#define LINE_MODEL_H

#include <troupe.h>

enum { LINE_MODEL_BEGINS = __LINE__ };
TROUPE_STRUCT(line_config, (double, rate), (troupe_fitting, fitting));
TROUPE_STRUCT(line, (double, rate), (double, slope));
static troupe_status line_setup(line *self, const line_config *config, troupe_use *use)
{
    self->rate = config->rate / use->world;
    return TROUPE_OK;
}
static troupe_status line_forward(line *self, const troupe_tensor *x, troupe_tensor *y)
{
    double *out = troupe_arena_alloc(x->shape[0] * sizeof *out);
    for (size_t i = 0; out && i < x->shape[0]; i++)
        out[i] = self->slope * ((const double *)x->data)[i];
    *y = troupe_tensor_of(TROUPE_FLOAT64, out, x->shape[0]);
    return out ? TROUPE_OK : TROUPE_NO_MEMORY;
}
static troupe_status line_train_step(line *self, troupe_rank *me, const troupe_batch *batch)
{
    troupe_tensor points;
    double gradient = 0, loss = 0;
    TROUPE_TRY(troupe_column(batch, "point", TROUPE_FLOAT64, 2, &points));
    for (const double *at = points.data, *end = at + 2 * batch->rows; at < end; at += 2) {
        double error = self->slope * at[0] - at[1];
        gradient += error * at[0], loss += error * error;
    }
    troupe_note(me, "loss", loss);
    TROUPE_TRY(troupe_allreduce(me, &gradient, 1, TROUPE_SUM));
    self->slope -= self->rate * gradient;
    return TROUPE_OK;
}
TROUPE_MODEL(line, line_config, line, line_setup, line_forward, .train_step = line_train_step);
enum { LINE_MODEL_LINES = __LINE__ - LINE_MODEL_BEGINS - 1 };

#endif
