// model.c: see model.h. All ranks begin with the same weights, and the mean of their gradients has
// the same bits on each: they never drift apart.
#include "model.h"

#include <digits/random.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CONTEXT_MAX = 4096, WIDTH_MAX = 4096, BATCH_MAX = 65536 };

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
    TROUPE_TRY(check_number("layers", config->layers, DECODER_LAYERS_MAX));
    TROUPE_TRY(check_number("fitting.batch", config->fitting.batch, BATCH_MAX));
    TROUPE_TRY(check_number("warm_up", config->warm_up, INT64_MAX));
    if (config->width % config->heads != 0)
        return troupe_fail(TROUPE_INVALID, "heads is %lld, must divide the width, %lld",
                           (long long)config->heads, (long long)config->width);
    if (!(config->rate > 0) || !isfinite(config->rate))
        return troupe_fail(TROUPE_INVALID, "rate is %g, must be above 0", config->rate);
    return TROUPE_OK;
}

troupe_status transformer_setup(transformer *self, const transformer_config *config,
                                troupe_use *use)
{
    TROUPE_TRY(check(config));
    self->shape = (decoder_shape){CORPUS_CHARACTERS, (size_t)config->context, (size_t)config->width,
                                  (size_t)config->heads, (size_t)config->layers};
    self->config = config;
    self->count = decoder_count(self->shape);
    self->weights = troupe_use_alloc(use, self->count * sizeof(float));
    self->first = troupe_use_alloc(use, self->count * sizeof(float));
    self->second = troupe_use_alloc(use, self->count * sizeof(float));
    if (!self->weights || !self->first || !self->second)
        return TROUPE_NO_MEMORY;
    size_t sequences = use->purpose == TROUPE_FOR_TRAINING
                           ? (size_t)config->fitting.batch / (size_t)use->world + 1
                           : 1;
    self->pass = decoder_pass_new(self->shape, sequences);
    if (!self->pass)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu sequences", sequences);
    uint64_t random = config->seed;
    decoder_draw(self->shape, self->weights, &random);
    return TROUPE_OK;
}

void transformer_deinit(transformer *self)
{
    decoder_pass_free(self->pass);
}

static troupe_status check_text(const troupe_tensor *text)
{
    const uint16_t *characters = text->data;
    for (size_t i = 0; i < text->shape[0] * text->shape[1]; i++)
        if (characters[i] >= CORPUS_CHARACTERS)
            return troupe_fail(TROUPE_INVALID, "the text has a character %d, must be below %d",
                               characters[i], CORPUS_CHARACTERS);
    return TROUPE_OK;
}

troupe_status transformer_forward(transformer *self, const troupe_tensor *x, troupe_tensor *y)
{
    size_t rows = x->shape[0], known = x->shape[1], context = self->shape.context;
    uint16_t text[CONTEXT_MAX + 1] = {0};
    if (known < 1 || known > context)
        return troupe_fail(TROUPE_INVALID, "a text of %zu characters, must be 1 to %zu", known,
                           context);
    TROUPE_TRY(check_text(x));
    float(*scores)[CORPUS_CHARACTERS] = troupe_arena_alloc((rows + 1) * sizeof *scores);
    if (!scores)
        return TROUPE_NO_MEMORY;
    for (size_t row = 0; row < rows; row++) {
        memcpy(text, (const uint16_t *)x->data + row * known, known * sizeof *text);
        const float *all = decoder_forward(self->pass, self->weights, text, 1);
        memcpy(scores[row], all + (known - 1) * CORPUS_CHARACTERS, sizeof *scores);
    }
    *y = troupe_tensor_of(TROUPE_FLOAT32, scores, rows, CORPUS_CHARACTERS);
    return TROUPE_OK;
}

// Up in a line, then down with one over the root of the steps: the schedule of Vaswani et al.
static float rate_at(const transformer *self, int64_t step)
{
    double done = (double)step / (double)self->config->warm_up;
    return (float)(self->config->rate * fmin(done, 1 / sqrt(done)));
}

// Makes the parts of the network known for averaging, in the order of the forward pass. Their
// gradients lie where the other ranks reach them: nothing is copied.
static troupe_status open_gradients(transformer *self, troupe_rank *me)
{
    troupe_gradients *parts = troupe_gradients_open(me);
    self->gradient = parts ? troupe_shared_alloc(me, self->count * sizeof(float)) : NULL;
    if (!self->gradient)
        return troupe_last_error()->status;
    for (size_t i = 0; i < self->shape.layers + 2; i++) {
        char name[32];
        decoder_part part = decoder_part_of(self->shape, i);
        snprintf(name, sizeof name, "part %zu", i);
        TROUPE_TRY(troupe_gradients_add(parts, name, self->weights + part.first,
                                        self->gradient + part.first, part.count));
    }
    self->parts = parts;
    return TROUPE_OK;
}

troupe_status transformer_train_step(transformer *self, troupe_rank *me, const troupe_batch *batch)
{
    troupe_tensor text;
    TROUPE_TRY(troupe_column_of(batch, "text", &text, TROUPE_UINT16, self->shape.context + 1));
    TROUPE_TRY(check_text(&text));

    size_t places = batch->rows * self->shape.context;
    if (!self->parts)
        TROUPE_TRY(open_gradients(self, me));
    TROUPE_TRY(troupe_gradients_begin(self->parts, places));
    decoder_forward(self->pass, self->weights, text.data, batch->rows);
    troupe_note_over(me, "loss", decoder_loss(self->pass, text.data), (double)places);
    // A part whose gradient is complete is summed over the ranks while the others are computed.
    for (size_t i = self->shape.layers + 2; i-- > 0;) {
        decoder_back(self->pass, self->weights, self->gradient, text.data, i);
        size_t first = decoder_part_of(self->shape, i).first;
        TROUPE_TRY(troupe_gradients_ready(self->parts, self->gradient + first));
    }
    TROUPE_TRY(troupe_gradients_wait(self->parts));
    self->step++;
    adamw how = {rate_at(self, self->step), 0.9f, 0.95f, 0.01f};
    adamw_step(self->weights, self->first, self->second, self->gradient, self->count, how,
               self->step);
    return TROUPE_OK;
}

troupe_status transformer_save(transformer *self, transformer_state *state)
{
    state->step = self->step;
    state->weights = troupe_tensor_of(TROUPE_FLOAT32, self->weights, self->count);
    state->first = troupe_tensor_of(TROUPE_FLOAT32, self->first, self->count);
    state->second = troupe_tensor_of(TROUPE_FLOAT32, self->second, self->count);
    return TROUPE_OK;
}

troupe_status transformer_load(transformer *self, const transformer_state *state)
{
    self->step = state->step;
    memcpy(self->weights, state->weights.data, self->count * sizeof(float));
    memcpy(self->first, state->first.data, self->count * sizeof(float));
    memcpy(self->second, state->second.data, self->count * sizeof(float));
    return TROUPE_OK;
}
