// network.c: the passes through the network, forward and back, as matrix products of BLAS. Every
// sum runs in an order that depends on the shapes alone: the same numbers in give the same bits
// out.
#include "network.h"

#include "random.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The four parts of an array of parameters (or of a gradient).
typedef struct parts {
    float *first, *first_offsets, *second, *second_offsets;
} parts;

static parts parts_of(const network *net, float *all)
{
    parts p;
    p.first = all;
    p.first_offsets = p.first + net->hidden * net->inputs;
    p.second = p.first_offsets + net->hidden;
    p.second_offsets = p.second + NETWORK_OUTPUTS * net->hidden;
    return p;
}

size_t network_count(size_t inputs, size_t hidden)
{
    return hidden * inputs + hidden + NETWORK_OUTPUTS * hidden + NETWORK_OUTPUTS;
}

static void fill(float *weights, size_t count, size_t inputs, uint64_t *random)
{
    float reach = sqrtf(6.0f / (float)inputs); // A variance of 2 / inputs.
    for (size_t i = 0; i < count; i++)
        weights[i] = random_between(random, -reach, reach);
}

troupe_status network_init(network *net, size_t inputs, size_t hidden, uint64_t *random)
{
    net->inputs = inputs;
    net->hidden = hidden;
    net->count = network_count(inputs, hidden);
    net->weights = calloc(net->count, sizeof *net->weights);
    if (!net->weights)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a network of %zu weights", net->count);
    parts p = parts_of(net, net->weights);
    fill(p.first, hidden * inputs, inputs, random);
    fill(p.second, NETWORK_OUTPUTS * hidden, hidden, random);
    return TROUPE_OK;
}

void network_deinit(network *net)
{
    free(net->weights);
    memset(net, 0, sizeof *net);
}

troupe_status network_batch_init(network_batch *batch, const network *net, size_t rows_max)
{
    batch->rows_max = rows_max;
    batch->pixels = malloc(rows_max * net->inputs * sizeof(float));
    batch->labels = malloc(rows_max);
    batch->hidden = malloc(rows_max * net->hidden * sizeof(float));
    batch->scores = malloc(rows_max * NETWORK_OUTPUTS * sizeof(float));
    batch->slopes = malloc(rows_max * net->hidden * sizeof(float));
    if (batch->pixels && batch->labels && batch->hidden && batch->scores && batch->slopes)
        return TROUPE_OK;
    network_batch_deinit(batch);
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a batch of %zu images", rows_max);
}

void network_batch_deinit(network_batch *batch)
{
    free(batch->pixels);
    free(batch->labels);
    free(batch->hidden);
    free(batch->scores);
    free(batch->slopes);
    memset(batch, 0, sizeof *batch);
}

// out (rows x wide) = in (rows x deep) * transposed weights (wide x deep) + offsets in every row.
static void affine(const float *in, size_t rows, size_t deep, const float *weights,
                   const float *offsets, size_t wide, float *out)
{
    for (size_t row = 0; row < rows; row++)
        memcpy(out + row * wide, offsets, wide * sizeof *out);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)wide, (int)deep, 1, in,
                (int)deep, weights, (int)deep, 1, out, (int)wide);
}

// The gradient of an affine layer: weights (wide x deep) = transposed slopes (rows x wide) * in
// (rows x deep), offsets = column sums of the slopes.
static void affine_gradient(const float *in, size_t rows, size_t deep, const float *slopes,
                            size_t wide, float *weights, float *offsets)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)wide, (int)deep, (int)rows, 1, slopes,
                (int)wide, in, (int)deep, 0, weights, (int)deep);
    memset(offsets, 0, wide * sizeof *offsets);
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < wide; i++)
            offsets[i] += slopes[row * wide + i];
}

static void forward(const network *net, network_batch *batch, size_t rows)
{
    parts p = parts_of(net, net->weights);
    affine(batch->pixels, rows, net->inputs, p.first, p.first_offsets, net->hidden, batch->hidden);
    for (size_t i = 0; i < rows * net->hidden; i++)
        if (batch->hidden[i] < 0)
            batch->hidden[i] = 0;
    affine(batch->hidden, rows, net->hidden, p.second, p.second_offsets, NETWORK_OUTPUTS,
           batch->scores);
}

// Turns a row of scores into the loss's slopes by them (softmax minus the one-hot label) and
// returns the loss. The largest score is taken off first, so that no exponential overflows.
static float cross_entropy(float *scores, uint8_t label)
{
    float top = scores[0], sum = 0;
    for (int i = 1; i < NETWORK_OUTPUTS; i++)
        top = scores[i] > top ? scores[i] : top;
    float own = scores[label] - top;
    for (int i = 0; i < NETWORK_OUTPUTS; i++)
        sum += scores[i] = expf(scores[i] - top);
    for (int i = 0; i < NETWORK_OUTPUTS; i++)
        scores[i] /= sum;
    scores[label] -= 1;
    return logf(sum) - own;
}

float network_gradient(const network *net, network_batch *batch, size_t rows, float *gradient)
{
    if (rows == 0) {
        memset(gradient, 0, net->count * sizeof *gradient);
        return 0;
    }
    parts p = parts_of(net, net->weights), g = parts_of(net, gradient);
    float loss = 0;
    forward(net, batch, rows);
    for (size_t row = 0; row < rows; row++)
        loss += cross_entropy(batch->scores + row * NETWORK_OUTPUTS, batch->labels[row]);

    affine_gradient(batch->hidden, rows, net->hidden, batch->scores, NETWORK_OUTPUTS, g.second,
                    g.second_offsets);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)net->hidden,
                NETWORK_OUTPUTS, 1, batch->scores, NETWORK_OUTPUTS, p.second, (int)net->hidden, 0,
                batch->slopes, (int)net->hidden);
    for (size_t i = 0; i < rows * net->hidden; i++)
        if (batch->hidden[i] <= 0)
            batch->slopes[i] = 0;
    affine_gradient(batch->pixels, rows, net->inputs, batch->slopes, net->hidden, g.first,
                    g.first_offsets);
    return loss;
}

void network_classify(const network *net, network_batch *batch, size_t rows, uint8_t *classes)
{
    if (rows == 0)
        return;
    forward(net, batch, rows);
    for (size_t row = 0; row < rows; row++) {
        const float *scores = batch->scores + row * NETWORK_OUTPUTS;
        int best = 0;
        for (int i = 1; i < NETWORK_OUTPUTS; i++)
            if (scores[i] > scores[best])
                best = i;
        classes[row] = (uint8_t)best;
    }
}

void network_step(network *net, const float *gradient, float *velocity, network_pace pace)
{
    for (size_t i = 0; i < net->count; i++) {
        float slope = gradient[i] + pace.weight_decay * net->weights[i];
        velocity[i] = pace.momentum * velocity[i] - pace.rate * slope;
        net->weights[i] += velocity[i];
    }
}
