// trainer.c: every worker holds the same network and a share of every batch. Gradients are summed
// over the workers and each takes the same step; the sum has the same bits on all of them, so the
// networks never drift apart and no rank has to send weights around.
#include "trainer.h"

#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN_MAX = 4096, BATCH_MAX = 65536, CLASSIFIED_AT_ONCE = 256 };

typedef struct run {
    digits data;
    network net;
    network_batch batch;
    float *velocity;
    float *gradient; // One more than the network's weights: the last is the loss.
    uint32_t *order; // The training set in this epoch's order.
    uint64_t random;
    int64_t epoch;
} run;

static troupe_status check(const digits_config *config)
{
    if (!(config->rate > 0) || !isfinite(config->rate))
        return troupe_fail(TROUPE_INVALID, "rate is %g, must be above 0", config->rate);
    if (config->hidden < 1 || config->hidden > HIDDEN_MAX)
        return troupe_fail(TROUPE_INVALID, "hidden is %lld, must be 1 to %d",
                           (long long)config->hidden, HIDDEN_MAX);
    if (config->batch < 1 || config->batch > BATCH_MAX)
        return troupe_fail(TROUPE_INVALID, "batch is %lld, must be 1 to %d",
                           (long long)config->batch, BATCH_MAX);
    if (config->epochs < 1)
        return troupe_fail(TROUPE_INVALID, "epochs is %lld, must be above 0",
                           (long long)config->epochs);
    if (!(config->momentum >= 0 && config->momentum < 1))
        return troupe_fail(TROUPE_INVALID, "momentum is %g, must be 0 to below 1",
                           config->momentum);
    if (!(config->weight_decay >= 0) || !isfinite(config->weight_decay))
        return troupe_fail(TROUPE_INVALID, "weight_decay is %g, must be 0 or above",
                           config->weight_decay);
    return TROUPE_OK;
}

// Where a rank's share of `count` things begins; the next rank's beginning is its end.
static size_t share(size_t count, int rank, int world)
{
    return count * (size_t)rank / (size_t)world;
}

static troupe_status check_state(const digits_state *state)
{
    if (state->inputs < 1 || state->inputs > UINT32_MAX || state->hidden < 1 ||
        state->hidden > HIDDEN_MAX)
        return troupe_fail(TROUPE_CORRUPT, "the checkpoint's network has the shape %lld x %lld",
                           (long long)state->inputs, (long long)state->hidden);
    size_t count = network_count((size_t)state->inputs, (size_t)state->hidden);
    if (state->weights.count != count || state->velocity.count != count)
        return troupe_fail(TROUPE_CORRUPT, "the checkpoint has %zu weights instead of %zu",
                           state->weights.count, count);
    return TROUPE_OK;
}

troupe_status digits_network(const digits_state *state, network *net)
{
    TROUPE_TRY(check_state(state));
    uint64_t random = 0;
    TROUPE_TRY(network_init(net, (size_t)state->inputs, (size_t)state->hidden, &random));
    memcpy(net->weights, state->weights.items, net->count * sizeof *net->weights);
    return TROUPE_OK;
}

// Goes on from a checkpoint if there is one.
static troupe_status restore(run *r, troupe_rank *me)
{
    digits_state state = {0};
    TROUPE_TRY(troupe_restore(digits_state, me, &state));
    if (state.epoch == 0)
        return TROUPE_OK;
    TROUPE_TRY(check_state(&state));
    if ((size_t)state.inputs != r->net.inputs || (size_t)state.hidden != r->net.hidden)
        return troupe_fail(
            TROUPE_WRONG_TYPE, "the checkpoint's network is %lld x %lld, the run's is %zu x %zu",
            (long long)state.inputs, (long long)state.hidden, r->net.inputs, r->net.hidden);
    memcpy(r->net.weights, state.weights.items, r->net.count * sizeof(float));
    memcpy(r->velocity, state.velocity.items, r->net.count * sizeof(float));
    r->random = state.random;
    r->epoch = state.epoch;
    return TROUPE_OK;
}

static troupe_status begin(run *r, troupe_rank *me, const digits_config *config)
{
    TROUPE_TRY(check(config));
    TROUPE_TRY(digits_load(config->data, config->seed, &r->data));
    r->random = config->seed;
    TROUPE_TRY(network_init(&r->net, r->data.inputs, (size_t)config->hidden, &r->random));

    size_t rows_max = (size_t)config->batch / (size_t)me->world + 1;
    rows_max = rows_max > CLASSIFIED_AT_ONCE ? rows_max : CLASSIFIED_AT_ONCE;
    TROUPE_TRY(network_batch_init(&r->batch, &r->net, rows_max));
    r->velocity = calloc(r->net.count, sizeof(float));
    r->gradient = calloc(r->net.count + 1, sizeof(float));
    r->order = calloc(r->data.train.count, sizeof *r->order);
    if (!r->velocity || !r->gradient || !r->order)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a run of %zu weights", r->net.count);
    return restore(r, me);
}

static void end(run *r)
{
    digits_free(&r->data);
    network_deinit(&r->net);
    network_batch_deinit(&r->batch);
    free(r->velocity);
    free(r->gradient);
    free(r->order);
}

// Brings a rank's share of a batch to the network: `rows` images from place `at` in the epoch's
// order, each nudged by a die of that place, so that it does not matter which rank looks at it.
static void fetch(run *r, size_t at, size_t rows)
{
    digits_gather(&r->data, r->order + at, rows, r->batch.pixels, r->batch.labels);
    for (size_t i = 0; i < rows; i++) {
        uint64_t random = r->random + at + i;
        digits_nudge(&r->data, r->batch.pixels + i * r->data.inputs, random_next(&random));
    }
}

// One pass over the training set in a fresh order, at a rate that falls to nothing over the epochs;
// *loss becomes its mean loss.
static troupe_status learn(run *r, troupe_rank *me, const digits_config *config, double *loss)
{
    const digits_set *train = &r->data.train;
    double rate = config->rate * (1 - (double)r->epoch / (double)config->epochs);
    const network_pace pace = {(float)rate, (float)config->momentum, (float)config->weight_decay};
    // Shuffled from the same beginning each time: the random state alone tells the order, and a
    // restarted worker needs no more than that to see the images as the lost one would have.
    memcpy(r->order, train->rows, train->count * sizeof *r->order);
    random_shuffle(&r->random, r->order, train->count);

    double sum = 0;
    for (size_t at = 0; at < train->count; at += (size_t)config->batch) {
        size_t left = train->count - at;
        size_t count = left < (size_t)config->batch ? left : (size_t)config->batch;
        size_t first = share(count, me->rank, me->world);
        size_t rows = share(count, me->rank + 1, me->world) - first;
        fetch(r, at + first, rows);
        r->gradient[r->net.count] = network_gradient(&r->net, &r->batch, rows, r->gradient);

        TROUPE_TRY(troupe_allreduce(me, r->gradient, r->net.count + 1, TROUPE_SUM));
        sum += (double)r->gradient[r->net.count];
        for (size_t i = 0; i < r->net.count; i++)
            r->gradient[i] /= (float)count;
        network_step(&r->net, r->gradient, r->velocity, pace);
    }
    *loss = sum / (double)train->count;
    return TROUPE_OK;
}

// The share of the validation images that the network gets right; each rank tries its part of them.
static troupe_status validate(run *r, troupe_rank *me, double *accuracy)
{
    const digits_set *set = &r->data.validation;
    size_t at = share(set->count, me->rank, me->world);
    size_t stop = share(set->count, me->rank + 1, me->world);
    uint8_t classes[CLASSIFIED_AT_ONCE];
    int64_t right = 0;
    while (at < stop) {
        size_t rows = stop - at < CLASSIFIED_AT_ONCE ? stop - at : CLASSIFIED_AT_ONCE;
        digits_gather(&r->data, set->rows + at, rows, r->batch.pixels, r->batch.labels);
        network_classify(&r->net, &r->batch, rows, classes);
        for (size_t i = 0; i < rows; i++)
            right += classes[i] == r->batch.labels[i];
        at += rows;
    }
    TROUPE_TRY(troupe_allreduce(me, &right, 1, TROUPE_SUM));
    *accuracy = (double)right / (double)set->count;
    return TROUPE_OK;
}

static troupe_status save(const run *r, troupe_rank *me)
{
    const digits_state state = {
        .inputs = (int64_t)r->net.inputs,
        .hidden = (int64_t)r->net.hidden,
        .epoch = r->epoch,
        .random = r->random,
        .weights = {r->net.weights, r->net.count},
        .velocity = {r->velocity, r->net.count},
    };
    return troupe_save(digits_state, me, &state);
}

static troupe_status train(run *r, troupe_rank *me, const digits_config *config)
{
    while (r->epoch < config->epochs) {
        double loss = 0, accuracy = 0;
        TROUPE_TRY(learn(r, me, config, &loss));
        TROUPE_TRY(validate(r, me, &accuracy));
        r->epoch++;
        TROUPE_TRY(save(r, me));
        TROUPE_TRY(troupe_report(me, {"loss", loss}, {DIGITS_METRIC, accuracy},
                                 {"epoch", (double)r->epoch}));
    }
    return TROUPE_OK;
}

troupe_status fit_digits(troupe_rank *me, const digits_config *config)
{
    run r = {0};
    troupe_status status = begin(&r, me, config);
    if (status == TROUPE_OK)
        status = train(&r, me, config);
    end(&r);
    return status;
}
