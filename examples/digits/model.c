// model.c: every worker holds the same network and a share of every batch. Gradients are averaged
// over the workers and each takes the same step; the mean has the same bits on all of them, so the
// networks never drift apart and no rank has to send weights around.
#include "model.h"

#include "data.h"
#include "random.h"

#include <math.h>
#include <string.h>

static troupe_status check_range(const char *name, int64_t value, int64_t least, int64_t most)
{
    if (value >= least && value <= most)
        return TROUPE_OK;
    return troupe_fail(TROUPE_INVALID, "%s is %lld, must be %lld to %lld", name, (long long)value,
                       (long long)least, (long long)most);
}

static troupe_status check(const reader_config *config)
{
    if (!(config->rate > 0) || !isfinite(config->rate))
        return troupe_fail(TROUPE_INVALID, "rate is %g, must be above 0", config->rate);
    if (!(config->momentum >= 0 && config->momentum < 1))
        return troupe_fail(TROUPE_INVALID, "momentum is %g, must be 0 to below 1",
                           config->momentum);
    if (!(config->weight_decay >= 0) || !isfinite(config->weight_decay))
        return troupe_fail(TROUPE_INVALID, "weight_decay is %g, must be 0 or above",
                           config->weight_decay);
    TROUPE_TRY(check_range("width", config->width, 2, 1024));
    TROUPE_TRY(check_range("height", config->height, 2, 1024));
    TROUPE_TRY(check_range("brightest", config->brightest, 1, 255));
    TROUPE_TRY(check_range("channels", config->channels, 0, 256));
    return check_range("hidden", config->hidden, 1, 4096);
}

troupe_status reader_setup(reader *self, const reader_config *config, troupe_use *use)
{
    TROUPE_TRY(check(config));
    const network_shape shape = {(size_t)config->width, (size_t)config->height,
                                 (size_t)config->channels, (size_t)config->hidden};
    size_t count = network_count(&shape);
    uint64_t random = config->fitting.seed;
    float *weights = troupe_use_alloc(use, count * sizeof *weights);
    self->config = config;
    self->velocity = troupe_use_alloc(use, count * sizeof *self->velocity);
    self->gradient = troupe_use_alloc(use, count * sizeof *self->gradient);
    if (!weights || !self->velocity || !self->gradient)
        return TROUPE_NO_MEMORY;
    network_init(&self->net, &shape, weights, &random);
    return TROUPE_OK;
}

// ---- reading

troupe_status reader_preprocess(reader *self, const troupe_tensor *x, troupe_tensor *y)
{
    size_t count = troupe_tensor_count(x);
    float *out = troupe_arena_alloc((count + 1) * sizeof *out);
    if (!out)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu pixels", count);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((const uint8_t *)x->data)[i] / (float)self->config->brightest;
    *y = *x;
    y->dtype = TROUPE_FLOAT32;
    y->data = out;
    return TROUPE_OK;
}

troupe_status reader_forward(reader *self, const troupe_tensor *x, troupe_tensor *y)
{
    const convolution *front = &self->net.front;
    network_batch work;
    if (x->shape[1] != front->height || x->shape[2] != front->width)
        return troupe_fail(TROUPE_WRONG_TYPE, "images of %zu x %zu pixels, must be %zu x %zu",
                           x->shape[2], x->shape[1], front->width, front->height);
    TROUPE_TRY(network_batch_init(&work, &self->net, x->shape[0]));
    memcpy(work.pixels, x->data, troupe_tensor_count(x) * sizeof *work.pixels);
    network_forward(&self->net, &work, x->shape[0]);
    *y = troupe_tensor_of(TROUPE_FLOAT32, work.scores, x->shape[0], NETWORK_OUTPUTS);
    return TROUPE_OK;
}

troupe_status reader_postprocess(reader *self, const troupe_tensor *x, troupe_tensor *y)
{
    (void)self;
    const float *scores = x->data;
    uint8_t *answers = troupe_arena_alloc(x->shape[0] + 1);
    if (!answers)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu answers", x->shape[0]);
    for (size_t i = 0; i < x->shape[0]; i++)
        answers[i] = (uint8_t)network_class(scores + i * NETWORK_OUTPUTS);
    *y = troupe_tensor_of(TROUPE_UINT8, answers, x->shape[0]);
    return TROUPE_OK;
}

// ---- learning

// The images of a batch, and the digits on them, ready for the network. All of it is of the batch's
// arena.
static troupe_status fetch(reader *self, const troupe_batch *batch, network_batch *work)
{
    troupe_tensor images, labels, scaled;
    const convolution *front = &self->net.front;
    TROUPE_TRY(
        troupe_column_of(batch, "image", &images, TROUPE_UINT8, front->height, front->width));
    TROUPE_TRY(troupe_column(batch, "digit", TROUPE_UINT8, 1, &labels));
    TROUPE_TRY(reader_preprocess(self, &images, &scaled));
    TROUPE_TRY(network_batch_init(work, &self->net, batch->rows));
    memcpy(work->pixels, scaled.data, troupe_tensor_count(&scaled) * sizeof *work->pixels);
    memcpy(work->labels, labels.data, batch->rows);
    return TROUPE_OK;
}

// How an image is moved follows from the seed, the epoch and its row: so it is the same in a run
// that goes on, and on any number of workers.
static troupe_status nudge(const reader *self, const troupe_batch *batch, network_batch *work)
{
    const digits shape = {.width = self->net.front.width,
                          .height = self->net.front.height,
                          .inputs = self->net.front.width * self->net.front.height};
    troupe_tensor rows;
    TROUPE_TRY(troupe_column(batch, "row", TROUPE_INT64, 1, &rows));
    for (size_t i = 0; i < batch->rows; i++) {
        uint64_t random = self->config->fitting.seed + ((uint64_t)batch->epoch << 40) +
                          (uint64_t)((const int64_t *)rows.data)[i];
        digits_nudge(&shape, work->pixels + i * shape.inputs, random_next(&random));
    }
    return TROUPE_OK;
}

troupe_status reader_train_step(reader *self, troupe_rank *me, const troupe_batch *batch)
{
    const reader_config *config = self->config;
    network *net = &self->net;
    network_batch work;
    TROUPE_TRY(fetch(self, batch, &work));
    TROUPE_TRY(nudge(self, batch, &work));
    if (!self->averaged) { // In the first step.
        self->averaged = troupe_gradients_open(me);
        TROUPE_TRY(troupe_gradients_add(self->averaged, "network", net->weights, self->gradient,
                                        net->count));
    }
    TROUPE_TRY(troupe_gradients_begin(self->averaged, batch->rows));
    troupe_note(me, "loss", (double)network_gradient(net, &work, batch->rows, self->gradient));
    TROUPE_TRY(troupe_gradients_average(self->averaged));

    double rate = config->rate * (1 - (double)me->epoch / (double)config->fitting.epochs);
    network_step(net, self->gradient, self->velocity,
                 (network_pace){(float)rate, (float)config->momentum, (float)config->weight_decay});
    return TROUPE_OK;
}

troupe_status reader_validate_step(reader *self, troupe_rank *me, const troupe_batch *batch)
{
    network_batch work;
    TROUPE_TRY(fetch(self, batch, &work));
    network_forward(&self->net, &work, batch->rows);
    int right = 0;
    for (size_t i = 0; i < batch->rows; i++)
        right += network_class(work.scores + i * NETWORK_OUTPUTS) == work.labels[i];
    troupe_note(me, "accuracy", right);
    return TROUPE_OK;
}

// ---- checkpoints

troupe_status reader_save(reader *self, reader_state *state)
{
    state->weights = (troupe_array_float){self->net.weights, self->net.count};
    state->velocity = (troupe_array_float){self->velocity, self->net.count};
    return TROUPE_OK;
}

troupe_status reader_load(reader *self, const reader_state *state)
{
    memcpy(self->net.weights, state->weights.items, self->net.count * sizeof(float));
    memcpy(self->velocity, state->velocity.items, self->net.count * sizeof(float));
    return TROUPE_OK;
}
