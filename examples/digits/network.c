// network.c: the passes through the network, forward and back, as matrix products of BLAS. Every
// sum runs in an order that depends on the shapes alone: the same numbers in give the same bits
// out.
#include "network.h"

#include "random.h"

#include <troupe/wire.h>

#include <cblas.h>
#include <math.h>
#include <string.h>

// The parts of an array of parameters (or of a gradient).
typedef struct parts {
    float *filters, *filter_offsets, *first, *first_offsets, *second, *second_offsets;
} parts;

static parts parts_of(const network *net, float *all)
{
    parts p;
    p.filters = all;
    p.filter_offsets = p.filters + net->front.channels * CONVOLUTION_TAPS;
    p.first = p.filter_offsets + net->front.channels;
    p.first_offsets = p.first + net->hidden * net->inputs;
    p.second = p.first_offsets + net->hidden;
    p.second_offsets = p.second + NETWORK_OUTPUTS * net->hidden;
    return p;
}

static network network_of(const network_shape *shape)
{
    network net = {.front = {shape->width, shape->height, shape->channels},
                   .hidden = shape->hidden};
    net.inputs =
        shape->channels > 0 ? convolution_outputs(&net.front) : shape->width * shape->height;
    net.count = shape->channels * (CONVOLUTION_TAPS + 1) + net.hidden * (net.inputs + 1) +
                NETWORK_OUTPUTS * (net.hidden + 1);
    return net;
}

size_t network_count(const network_shape *shape)
{
    return network_of(shape).count;
}

static void fill(float *weights, size_t count, size_t inputs, uint64_t *random)
{
    float reach = sqrtf(6.0f / (float)inputs); // A variance of 2 / inputs.
    for (size_t i = 0; i < count; i++)
        weights[i] = random_between(random, -reach, reach);
}

void network_init(network *net, const network_shape *shape, float *weights, uint64_t *random)
{
    *net = network_of(shape);
    net->weights = weights;
    if (!random)
        return;
    parts p = parts_of(net, weights);
    memset(weights, 0, net->count * sizeof *weights);
    fill(p.filters, shape->channels * CONVOLUTION_TAPS, CONVOLUTION_TAPS, random);
    fill(p.first, net->hidden * net->inputs, net->inputs, random);
    fill(p.second, NETWORK_OUTPUTS * net->hidden, net->hidden, random);
}

static float *floats(size_t rows, size_t width)
{
    return troupe_arena_alloc((rows * width + 1) * sizeof(float));
}

troupe_status network_batch_init(network_batch *batch, const network *net, size_t rows)
{
    size_t area = net->front.width * net->front.height, channels = net->front.channels;
    *batch = (network_batch){
        .pixels = floats(rows, area),
        .labels = troupe_arena_alloc(rows + 1),
        .trace = {floats(rows, channels ? area * CONVOLUTION_TAPS : 0),
                  floats(rows, channels * area),
                  troupe_arena_alloc((rows * net->inputs + 1) * sizeof(uint32_t))},
        .features = floats(rows, net->inputs),
        .hidden = floats(rows, net->hidden),
        .scores = floats(rows, NETWORK_OUTPUTS),
        .slopes = floats(rows, net->hidden),
        .feature_slopes = floats(rows, net->inputs),
    };
    if (batch->pixels && batch->labels && batch->trace.patches && batch->trace.maps &&
        batch->trace.peaks && batch->features && batch->hidden && batch->scores && batch->slopes &&
        batch->feature_slopes)
        return TROUPE_OK;
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a batch of %zu images", rows);
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

// What the perceptron sees.
static const float *inputs_of(const network *net, const network_batch *batch)
{
    return net->front.channels > 0 ? batch->features : batch->pixels;
}

void network_forward(const network *net, network_batch *batch, size_t rows)
{
    parts p = parts_of(net, net->weights);
    if (rows == 0)
        return;
    if (net->front.channels > 0)
        convolution_forward(&net->front, p.filters, p.filter_offsets, batch->pixels, rows,
                            &batch->trace, batch->features);
    affine(inputs_of(net, batch), rows, net->inputs, p.first, p.first_offsets, net->hidden,
           batch->hidden);
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

// back (rows x deep) = slopes (rows x wide) * weights (wide x deep).
static void affine_back(const float *slopes, size_t rows, size_t wide, const float *weights,
                        size_t deep, float *back)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)deep, (int)wide, 1,
                slopes, (int)wide, weights, (int)deep, 0, back, (int)deep);
}

float network_gradient(const network *net, network_batch *batch, size_t rows, float *gradient)
{
    if (rows == 0) {
        memset(gradient, 0, net->count * sizeof *gradient);
        return 0;
    }
    parts p = parts_of(net, net->weights), g = parts_of(net, gradient);
    float loss = 0;
    network_forward(net, batch, rows);
    for (size_t row = 0; row < rows; row++)
        loss += cross_entropy(batch->scores + row * NETWORK_OUTPUTS, batch->labels[row]);

    affine_gradient(batch->hidden, rows, net->hidden, batch->scores, NETWORK_OUTPUTS, g.second,
                    g.second_offsets);
    affine_back(batch->scores, rows, NETWORK_OUTPUTS, p.second, net->hidden, batch->slopes);
    for (size_t i = 0; i < rows * net->hidden; i++)
        if (batch->hidden[i] <= 0)
            batch->slopes[i] = 0;
    affine_gradient(inputs_of(net, batch), rows, net->inputs, batch->slopes, net->hidden, g.first,
                    g.first_offsets);
    if (net->front.channels > 0) {
        affine_back(batch->slopes, rows, net->hidden, p.first, net->inputs, batch->feature_slopes);
        convolution_gradient(&net->front, batch->features, batch->feature_slopes, rows,
                             &batch->trace, g.filters, g.filter_offsets);
    }
    return loss;
}

int network_class(const float *scores)
{
    int best = 0;
    for (int i = 1; i < NETWORK_OUTPUTS; i++)
        best = scores[i] > scores[best] ? i : best;
    return best;
}

void network_step(network *net, const float *gradient, float *velocity, network_pace pace)
{
    for (size_t i = 0; i < net->count; i++) {
        float slope = gradient[i] + pace.weight_decay * net->weights[i];
        velocity[i] = pace.momentum * velocity[i] - pace.rate * slope;
        net->weights[i] += velocity[i];
    }
}
