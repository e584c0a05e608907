// trainer.c: see trainer.h. All workers begin with the same weights, drawn from the seed, and the
// sum of their gradients has the same bits on each: the networks never drift apart, and no rank has
// to send weights around.
#include "trainer.h"

#include <digits/random.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT_MAX = 4096, WIDTH_MAX = 4096, BATCH_MAX = 65536, WARM_UP = 50 };

typedef struct run {
    corpus corpus;
    transformer_shape shape;
    size_t count; // Of the weights.
    float *weights;
    float *gradient; // One more: the last is the loss.
    float *first, *second;
    uint8_t *sequences; // This rank's of a batch, context + 1 characters each.
    transformer_pass *pass;
    int64_t step; // Steps done.
} run;

static troupe_status check_number(const char *name, int64_t value, int64_t high)
{
    if (value < 1 || value > high)
        return troupe_fail(TROUPE_INVALID, "%s is %lld, must be 1 to %lld", name, (long long)value,
                           (long long)high);
    return TROUPE_OK;
}

static troupe_status check(const transformer_config *config)
{
    TROUPE_TRY(check_number("context", config->context, CONTEXT_MAX));
    TROUPE_TRY(check_number("width", config->width, WIDTH_MAX));
    TROUPE_TRY(check_number("heads", config->heads, config->width));
    TROUPE_TRY(check_number("layers", config->layers, TRANSFORMER_LAYERS_MAX));
    TROUPE_TRY(check_number("batch", config->batch, BATCH_MAX));
    TROUPE_TRY(check_number("steps", config->steps, INT64_MAX));
    TROUPE_TRY(check_number("report_every", config->report_every, INT64_MAX));
    if (config->width % config->heads != 0)
        return troupe_fail(TROUPE_INVALID, "heads is %lld, must divide the width, %lld",
                           (long long)config->heads, (long long)config->width);
    if (!(config->rate > 0) || !isfinite(config->rate))
        return troupe_fail(TROUPE_INVALID, "rate is %g, must be above 0", config->rate);
    return TROUPE_OK;
}

troupe_status transformer_state_shape(const transformer_state *state, transformer_shape *shape)
{
    if (state->context < 1 || state->context > CONTEXT_MAX || state->width < 1 ||
        state->width > WIDTH_MAX || state->heads < 1 || state->width % state->heads != 0 ||
        state->layers < 1 || state->layers > TRANSFORMER_LAYERS_MAX)
        return troupe_fail(TROUPE_CORRUPT, "the checkpoint's network has %lld layers of width %lld",
                           (long long)state->layers, (long long)state->width);
    *shape = (transformer_shape){CORPUS_CHARACTERS, (size_t)state->context, (size_t)state->width,
                                 (size_t)state->heads, (size_t)state->layers};
    size_t count = transformer_count(*shape);
    if (state->weights.count != count || state->first.count != count ||
        state->second.count != count)
        return troupe_fail(TROUPE_CORRUPT, "the checkpoint has %zu weights instead of %zu",
                           state->weights.count, count);
    return TROUPE_OK;
}

// Goes on from a checkpoint if there is one.
static troupe_status restore(run *r, troupe_rank *me)
{
    transformer_state state = {0};
    transformer_shape shape;
    TROUPE_TRY(troupe_restore(transformer_state, me, &state));
    if (state.step == 0)
        return TROUPE_OK;
    TROUPE_TRY(transformer_state_shape(&state, &shape));
    if (memcmp(&shape, &r->shape, sizeof shape) != 0)
        return troupe_fail(TROUPE_WRONG_TYPE, "the checkpoint's network has another shape");
    memcpy(r->weights, state.weights.items, r->count * sizeof(float));
    memcpy(r->first, state.first.items, r->count * sizeof(float));
    memcpy(r->second, state.second.items, r->count * sizeof(float));
    r->step = state.step;
    return TROUPE_OK;
}

// Where a rank's share of `count` things begins; the next rank's beginning is its end.
static size_t share(size_t count, int rank, int world)
{
    return count * (size_t)rank / (size_t)world;
}

static troupe_status begin(run *r, troupe_rank *me, const transformer_config *config)
{
    TROUPE_TRY(check(config));
    TROUPE_TRY(corpus_load(config->text, &r->corpus));
    r->shape =
        (transformer_shape){CORPUS_CHARACTERS, (size_t)config->context, (size_t)config->width,
                            (size_t)config->heads, (size_t)config->layers};
    if (r->corpus.count <= r->shape.context)
        return troupe_fail(TROUPE_INVALID, "%s: the text has %zu characters, a sequence %zu",
                           config->text, r->corpus.count, r->shape.context + 1);
    size_t sequences_max = (size_t)config->batch / (size_t)me->world + 1;
    r->count = transformer_count(r->shape);
    r->weights = calloc(r->count, sizeof(float));
    r->gradient = calloc(r->count + 1, sizeof(float));
    r->first = calloc(r->count, sizeof(float));
    r->second = calloc(r->count, sizeof(float));
    r->sequences = calloc(sequences_max, r->shape.context + 1);
    r->pass = transformer_pass_new(r->shape, sequences_max);
    if (!r->weights || !r->gradient || !r->first || !r->second || !r->sequences || !r->pass)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a network of %zu weights", r->count);
    uint64_t random = config->seed;
    transformer_draw(r->shape, r->weights, &random);
    return restore(r, me);
}

static void end(run *r)
{
    corpus_free(&r->corpus);
    free(r->weights);
    free(r->gradient);
    free(r->first);
    free(r->second);
    free(r->sequences);
    transformer_pass_free(r->pass);
}

// A sequence begins where a number drawn from seed, step and its place in the batch says: it does
// not matter which rank looks at it, nor which steps this process has made.
static void fetch(run *r, const transformer_config *config, size_t first, size_t count)
{
    size_t size = r->shape.context + 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t random = config->seed + (uint64_t)(r->step * config->batch) + first + i;
        size_t at = random_next(&random) % (r->corpus.count - r->shape.context);
        memcpy(r->sequences + i * size, r->corpus.characters + at, size);
    }
}

// Up to the full rate, then down to a tenth of it along half a cosine.
static float rate_at(const transformer_config *config, int64_t step)
{
    double done = (double)step / (double)config->steps;
    double warm = fmin(1, (double)(step + 1) / WARM_UP);
    return (float)(config->rate * warm * (0.55 + 0.45 * cos(done * acos(-1))));
}

// One step of all ranks; *loss becomes its mean.
static troupe_status learn(run *r, troupe_rank *me, const transformer_config *config, double *loss)
{
    size_t batch = (size_t)config->batch, places = batch * r->shape.context;
    size_t first = share(batch, me->rank, me->world);
    size_t count = share(batch, me->rank + 1, me->world) - first;
    fetch(r, config, first, count);
    transformer_forward(r->pass, r->weights, r->sequences, count);
    r->gradient[r->count] = (float)transformer_loss(r->pass, r->sequences);
    for (size_t part = r->shape.layers + 2; part-- > 0;)
        transformer_back(r->pass, r->weights, r->gradient, r->sequences, part);

    TROUPE_TRY(troupe_allreduce(me, r->gradient, r->count + 1, TROUPE_SUM));
    for (size_t i = 0; i <= r->count; i++)
        r->gradient[i] /= (float)places;
    *loss = (double)r->gradient[r->count];
    adamw how = {rate_at(config, r->step), 0.9f, 0.95f, 0.01f};
    adamw_step(r->weights, r->first, r->second, r->gradient, r->count, how, ++r->step);
    return TROUPE_OK;
}

static troupe_status save(const run *r, troupe_rank *me)
{
    const transformer_state state = {
        .context = (int64_t)r->shape.context,
        .width = (int64_t)r->shape.width,
        .heads = (int64_t)r->shape.heads,
        .layers = (int64_t)r->shape.layers,
        .step = r->step,
        .weights = {r->weights, r->count},
        .first = {r->first, r->count},
        .second = {r->second, r->count},
    };
    return troupe_save(transformer_state, me, &state);
}

static troupe_status train(run *r, troupe_rank *me, const transformer_config *config)
{
    while (r->step < config->steps) {
        double loss = 0, sum = 0;
        int64_t begun = r->step;
        do {
            TROUPE_TRY(learn(r, me, config, &loss));
            sum += loss;
        } while (r->step < config->steps && r->step % config->report_every != 0);
        if (me->rank == 0 && (r->step == config->steps || troupe_checkpoint_due(me)))
            TROUPE_TRY(save(r, me));
        TROUPE_TRY(troupe_report(me, {"loss", sum / (double)(r->step - begun)},
                                 {"step", (double)r->step}));
    }
    return TROUPE_OK;
}

troupe_status fit_transformer(troupe_rank *me, const transformer_config *config)
{
    run r = {0};
    troupe_status status = begin(&r, me, config);
    if (status == TROUPE_OK)
        status = train(&r, me, config);
    end(&r);
    return status;
}
