// 7_model.c: a line as a model: it learns from points on two ranks, and is asked afterwards.
#include <stdio.h>
#include <troupe.h>

// ---- data: sets of rows, in columns with names

enum { POINTS = 200 };
TROUPE_STRUCT(points, (double, slope), (double, offset));

static troupe_status points_setup(troupe_data *data, const points *on)
{
    double x[POINTS], y[POINTS];
    for (int i = 0; i < POINTS; i++) {
        x[i] = (double)i / POINTS;
        y[i] = on->slope * x[i] + on->offset;
    }
    troupe_tensor xs = troupe_tensor_of(TROUPE_FLOAT64, x, POINTS);
    troupe_tensor ys = troupe_tensor_of(TROUPE_FLOAT64, y, POINTS);
    return troupe_data_columns(data, "train", TROUPE_SPLIT,
                               troupe_from_tensor("x", troupe_put(troupe_tensor, &xs)),
                               troupe_from_tensor("y", troupe_put(troupe_tensor, &ys)));
}
TROUPE_DATA(points, points, points_setup);

// ---- the model: its config, the struct itself, which is what a checkpoint holds, and its hooks

TROUPE_STRUCT(line_config, (double, rate), (troupe_fitting, fitting));
TROUPE_STRUCT(line, (double, a), (double, b));

static troupe_status line_setup(line *self, const line_config *config, troupe_use *use)
{
    (void)self, (void)config, (void)use; // It begins as zeros.
    return TROUPE_OK;
}

static troupe_status line_forward(line *self, const troupe_tensor *x, troupe_tensor *y)
{
    const double *in = x->data;
    double *out = troupe_arena_alloc(x->shape[0] * sizeof *out);
    for (size_t i = 0; out && i < x->shape[0]; i++)
        out[i] = self->a * in[i] + self->b;
    *y = troupe_tensor_of(TROUPE_FLOAT64, out, x->shape[0]);
    return out ? TROUPE_OK : TROUPE_NO_MEMORY;
}

// One step, with this rank's rows of a batch.
static troupe_status line_train_step(line *self, troupe_rank *me, const troupe_batch *batch)
{
    troupe_tensor xs, ys;
    TROUPE_TRY(troupe_column(batch, "x", TROUPE_FLOAT64, 1, &xs));
    TROUPE_TRY(troupe_column(batch, "y", TROUPE_FLOAT64, 1, &ys));
    const double *x = xs.data, *y = ys.data;
    double loss = 0, sums[3] = {0, 0, (double)batch->rows};
    for (size_t i = 0; i < batch->rows; i++) {
        double error = self->a * x[i] + self->b - y[i];
        sums[0] += 2 * error * x[i];
        sums[1] += 2 * error;
        loss += error * error;
    }
    troupe_note(me, "loss", loss); // Its mean over all rows of all ranks is reported.
    TROUPE_TRY(troupe_allreduce(me, sums, 3, TROUPE_SUM));
    double rate = troupe_live(line_config, me)->rate;
    self->a -= rate * sums[0] / sums[2];
    self->b -= rate * sums[1] / sums[2];
    return TROUPE_OK;
}

TROUPE_MODEL(line, line_config, line, line_setup, line_forward, .train_step = line_train_step,
             .defaults = {.rate = 0.5, .fitting = {.epochs = 10, .batch = 10, .seed = 1}},
             .input = {TROUPE_FLOAT64, 0, {0}}, .live = "rate");

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));

    line_config config = troupe_defaults(line);
    config.fitting.epochs = 20;
    const points source = {.slope = 2, .offset = -1};
    troupe_result *result; // A model is a trainer.
    troupe_must(troupe_train(line, &config, &result, .ranks = 2, .cpus_per_rank = 0.5,
                             .storage = "runs", .name = "line", .keep = 2, .restarts = 3,
                             .data = troupe_data_with(points, &source)));

    troupe_instance *instance; // The checkpoint alone makes it.
    double at[] = {0, 10};
    troupe_tensor x = troupe_tensor_of(TROUPE_FLOAT64, at, 2), y;
    troupe_must(troupe_model_open(line, troupe_result_checkpoint(result), NULL, &instance));
    troupe_must(troupe_model_forward(instance, &x, &y));
    const double *out = y.data;
    printf("y(0) = %.1f, y(10) = %.1f after %d epochs\n", out[0], out[1],
           troupe_result_reports(result));
    troupe_model_close(&instance);
    troupe_result_free(&result);
    return troupe_stop();
}
