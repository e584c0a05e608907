// decoder.c: see decoder.h. Each forward step stands above the backward step that undoes it.
#include "decoder.h"

#include <digits/random.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Where the parameters of a block, or their gradients, lie.
typedef struct block {
    float *gain1, *offset1;      // width
    float *qkv, *qkv_offset;     // 3 width x width
    float *merge, *merge_offset; // width x width
    float *gain2, *offset2;
    float *grow, *grow_offset;     // 4 width x width
    float *shrink, *shrink_offset; // width x 4 width
} block;

typedef struct parameters {
    float *characters; // vocabulary x width
    float *places;     // context x width
    block blocks[DECODER_LAYERS_MAX];
    float *gain, *offset; // width
} parameters;

// What the rows (a place of a sequence each) leave in a block.
typedef struct trace {
    float *in, *stats1, *normal1, *qkv, *shares, *heads;
    float *middle, *stats2, *normal2, *grown, *active;
} trace;

struct decoder_pass {
    decoder_shape shape;
    size_t sequences, rows;
    trace blocks[DECODER_LAYERS_MAX];
    float *out, *stats, *normal, *scores;
    float *dx, *dnormal, *dwide, *dshares; // On the way back.
    float *memory;
};

// Memory to be divided; where there is none yet, it is only counted.
typedef struct room {
    float *memory;
    size_t used;
} room;

static float *take(room *at, size_t count)
{
    float *taken = at->memory ? at->memory + at->used : NULL;
    at->used += count;
    return taken;
}

static block block_in(room *at, size_t width)
{
    block b;
    b.gain1 = take(at, width);
    b.offset1 = take(at, width);
    b.qkv = take(at, 3 * width * width);
    b.qkv_offset = take(at, 3 * width);
    b.merge = take(at, width * width);
    b.merge_offset = take(at, width);
    b.gain2 = take(at, width);
    b.offset2 = take(at, width);
    b.grow = take(at, 4 * width * width);
    b.grow_offset = take(at, 4 * width);
    b.shrink = take(at, 4 * width * width);
    b.shrink_offset = take(at, width);
    return b;
}

static parameters parameters_in(decoder_shape shape, float *all)
{
    parameters p;
    room at = {all, 0};
    p.characters = take(&at, shape.vocabulary * shape.width);
    p.places = take(&at, shape.context * shape.width);
    for (size_t i = 0; i < shape.layers; i++)
        p.blocks[i] = block_in(&at, shape.width);
    p.gain = take(&at, shape.width);
    p.offset = take(&at, shape.width);
    return p;
}

decoder_part decoder_part_of(decoder_shape shape, size_t part)
{
    size_t embeddings = (shape.vocabulary + shape.context) * shape.width;
    size_t in_block = 12 * shape.width * shape.width + 13 * shape.width;
    if (part == 0)
        return (decoder_part){0, embeddings};
    return (decoder_part){embeddings + (part - 1) * in_block,
                          part <= shape.layers ? in_block : 2 * shape.width};
}

size_t decoder_count(decoder_shape shape)
{
    decoder_part last = decoder_part_of(shape, shape.layers + 1);
    return last.first + last.count;
}

// Weights by which `ins` numbers are added up: the sum is to be as large as they are.
static void fill(float *weights, size_t count, size_t ins, float share, uint64_t *random)
{
    float reach = share / sqrtf((float)ins);
    for (size_t i = 0; i < count; i++)
        weights[i] = random_between(random, -reach, reach);
}

static void set(float *values, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        values[i] = value;
}

void decoder_draw(decoder_shape shape, float *weights, uint64_t *random)
{
    size_t width = shape.width, square = width * width;
    // Both halves of each block add to x: the more there are, the less of it each, as in GPT-2.
    const float share = 1 / sqrtf(2 * (float)shape.layers);
    parameters p = parameters_in(shape, weights);
    memset(weights, 0, decoder_count(shape) * sizeof *weights);
    fill(p.characters, shape.vocabulary * width, width, 1, random);
    fill(p.places, shape.context * width, width, 1, random);
    for (size_t i = 0; i < shape.layers; i++) {
        const block *b = &p.blocks[i];
        set(b->gain1, width, 1);
        fill(b->qkv, 3 * square, width, 1, random);
        fill(b->merge, square, width, share, random);
        set(b->gain2, width, 1);
        fill(b->grow, 4 * square, width, 1, random);
        fill(b->shrink, 4 * square, 4 * width, share, random);
    }
    set(p.gain, width, 1);
}

// Divides the pass's memory, and returns how many numbers that takes.
static size_t lay_out(decoder_pass *pass, size_t sequences)
{
    room at = {pass->memory, 0};
    const decoder_shape *s = &pass->shape;
    size_t rows = sequences * s->context, width = rows * s->width;
    size_t shares = sequences * s->heads * s->context * s->context;
    for (size_t i = 0; i < s->layers; i++) {
        trace *t = &pass->blocks[i];
        t->in = take(&at, width);
        t->stats1 = take(&at, 2 * rows);
        t->normal1 = take(&at, width);
        t->qkv = take(&at, 3 * width);
        t->shares = take(&at, shares);
        t->heads = take(&at, width);
        t->middle = take(&at, width);
        t->stats2 = take(&at, 2 * rows);
        t->normal2 = take(&at, width);
        t->grown = take(&at, 4 * width);
        t->active = take(&at, 4 * width);
    }
    pass->out = take(&at, width);
    pass->stats = take(&at, 2 * rows);
    pass->normal = take(&at, width);
    pass->scores = take(&at, rows * s->vocabulary);
    pass->dx = take(&at, width);
    pass->dnormal = take(&at, width);
    pass->dwide = take(&at, 4 * width);
    pass->dshares = take(&at, s->context * s->context);
    return at.used;
}

decoder_pass *decoder_pass_new(decoder_shape shape, size_t sequences_max)
{
    decoder_pass *pass = calloc(1, sizeof *pass);
    if (!pass)
        return NULL;
    pass->shape = shape;
    pass->memory = calloc(lay_out(pass, sequences_max), sizeof *pass->memory);
    if (!pass->memory) {
        free(pass);
        return NULL;
    }
    lay_out(pass, sequences_max);
    return pass;
}

void decoder_pass_free(decoder_pass *pass)
{
    if (pass)
        free(pass->memory);
    free(pass);
}

static attention attention_of(const decoder_pass *pass)
{
    const decoder_shape *s = &pass->shape;
    return (attention){pass->sequences, s->context, s->width, s->heads};
}

static void embed(const parameters *p, decoder_pass *pass, const uint16_t *text)
{
    size_t context = pass->shape.context, width = pass->shape.width;
    for (size_t row = 0; row < pass->rows; row++) {
        size_t place = row % context;
        const float *character = p->characters + text[row + row / context] * width;
        float *x = pass->blocks[0].in + row * width;
        for (size_t i = 0; i < width; i++)
            x[i] = character[i] + p->places[place * width + i];
    }
}

static void embed_back(const parameters *d, const decoder_pass *pass, const uint16_t *text)
{
    size_t context = pass->shape.context, width = pass->shape.width;
    for (size_t row = 0; row < pass->rows; row++) {
        float *character = d->characters + text[row + row / context] * width;
        float *place = d->places + row % context * width;
        const float *dx = pass->dx + row * width;
        for (size_t i = 0; i < width; i++) {
            character[i] += dx[i];
            place[i] += dx[i];
        }
    }
}

static void add(float *to, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += values[i];
}

static void block_forward(const block *b, trace *t, float *out, const decoder_pass *pass)
{
    size_t rows = pass->rows, width = pass->shape.width;
    normalise(t->normal1, t->stats1, t->in, b->gain1, b->offset1, rows, width);
    affine(t->qkv, t->normal1, b->qkv, b->qkv_offset, rows, width, 3 * width);
    attend(t->heads, t->shares, t->qkv, attention_of(pass));
    affine(t->middle, t->heads, b->merge, b->merge_offset, rows, width, width);
    add(t->middle, t->in, rows * width);

    normalise(t->normal2, t->stats2, t->middle, b->gain2, b->offset2, rows, width);
    affine(t->grown, t->normal2, b->grow, b->grow_offset, rows, width, 4 * width);
    gelu(t->active, t->grown, rows * 4 * width);
    affine(out, t->active, b->shrink, b->shrink_offset, rows, 4 * width, width);
    add(out, t->middle, rows * width);
}

// dx: on entry the gradient by what the block gave, in the end by what it was given.
static void block_back(const block *b, const block *d, const trace *t, decoder_pass *pass)
{
    size_t rows = pass->rows, width = pass->shape.width;
    float *dx = pass->dx, *dnormal = pass->dnormal, *dwide = pass->dwide;
    affine_back(dwide, d->shrink, d->shrink_offset, dx, t->active, b->shrink, rows, 4 * width,
                width);
    gelu_back(dwide, t->grown, rows * 4 * width);
    affine_back(dnormal, d->grow, d->grow_offset, dwide, t->normal2, b->grow, rows, width,
                4 * width);
    normalise_back(dx, d->gain2, d->offset2, dnormal, t->middle, t->stats2, b->gain2, rows, width);

    affine_back(dnormal, d->merge, d->merge_offset, dx, t->heads, b->merge, rows, width, width);
    attend_back(dwide, dnormal, t->shares, t->qkv, pass->dshares, attention_of(pass));
    affine_back(dnormal, d->qkv, d->qkv_offset, dwide, t->normal1, b->qkv, rows, width, 3 * width);
    normalise_back(dx, d->gain1, d->offset1, dnormal, t->in, t->stats1, b->gain1, rows, width);
}

float *decoder_forward(decoder_pass *pass, const float *weights, const uint16_t *text,
                       size_t sequences)
{
    const decoder_shape *s = &pass->shape;
    parameters p = parameters_in(*s, (float *)weights);
    pass->sequences = sequences;
    pass->rows = sequences * s->context;
    embed(&p, pass, text);
    for (size_t i = 0; i < s->layers; i++)
        block_forward(&p.blocks[i], &pass->blocks[i],
                      i + 1 < s->layers ? pass->blocks[i + 1].in : pass->out, pass);
    normalise(pass->normal, pass->stats, pass->out, p.gain, p.offset, pass->rows, s->width);
    affine(pass->scores, pass->normal, p.characters, NULL, pass->rows, s->width, s->vocabulary);
    return pass->scores;
}

double decoder_loss(decoder_pass *pass, const uint16_t *text)
{
    const decoder_shape *s = &pass->shape;
    double loss = 0;
    for (size_t i = 0; i < pass->sequences; i++)
        loss += cross_entropy(pass->scores + i * s->context * s->vocabulary,
                              text + i * (s->context + 1) + 1, s->context, s->vocabulary);
    return loss;
}

void decoder_back(decoder_pass *pass, const float *weights, float *gradient, const uint16_t *text,
                  size_t part)
{
    const decoder_shape *s = &pass->shape;
    parameters p = parameters_in(*s, (float *)weights), d = parameters_in(*s, gradient);
    if (part == 0) {
        embed_back(&d, pass, text);
    } else if (part <= s->layers) {
        block_back(&p.blocks[part - 1], &d.blocks[part - 1], &pass->blocks[part - 1], pass);
    } else {
        memset(gradient, 0, decoder_count(*s) * sizeof *gradient);
        memset(pass->dx, 0, pass->rows * s->width * sizeof *pass->dx);
        affine_back(pass->dnormal, d.characters, NULL, pass->scores, pass->normal, p.characters,
                    pass->rows, s->width, s->vocabulary);
        normalise_back(pass->dx, d.gain, d.offset, pass->dnormal, pass->out, pass->stats, p.gain,
                       pass->rows, s->width);
    }
}
