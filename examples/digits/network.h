// network.h: a network that tells ten classes apart: a perceptron with one hidden layer, before
// which there may be a convolution.
//
//     pixels -> (convolution ->) affine -> ReLU (hidden) -> affine -> softmax (10) -> cross-entropy
//
// All parameters lie in one array of floats: one gradient is averaged over the workers, and one
// array of a checkpoint holds the network.
#ifndef DIGITS_NETWORK_H
#define DIGITS_NETWORK_H

#include "convolution.h"

#include <troupe/status.h>

#include <stddef.h>
#include <stdint.h>

enum { NETWORK_OUTPUTS = 10 };

typedef struct network_shape {
    size_t width, height; // Of an image.
    size_t channels;      // Of the convolution; 0: there is none.
    size_t hidden;
} network_shape;

typedef struct network {
    convolution front;     // No channels: there is none.
    size_t inputs, hidden; // Of the perceptron.
    size_t count;          // Of the parameters.
    // The convolution's channels x 9, then channels; hidden x inputs, then hidden; 10 x hidden,
    // then 10: each layer with its offsets. Not the network's own.
    float *weights;
} network;

// Some images on their way through a network: the caller fills `pixels` and `labels`. Of the
// thread's arena.
typedef struct network_batch {
    float *pixels;   // rows x pixels of an image
    uint8_t *labels; // rows
    convolution_trace trace;
    float *features; // rows x inputs: of the perceptron
    float *hidden;   // rows x hidden: after ReLU
    float *scores;   // rows x 10
    float *slopes;   // rows x hidden: of the loss, by the hidden layer
    float *feature_slopes;
} network_batch;

// How many parameters such a network has.
size_t network_count(const network_shape *shape);

// Makes a network of `weights` (network_count of them), which become random (He et al., "Delving
// Deep into Rectifiers", ICCV 2015), drawn from *random; NULL: they are left as they are.
void network_init(network *net, const network_shape *shape, float *weights, uint64_t *random);

// Makes room for `rows` images. TROUPE_NO_MEMORY.
TROUPE_MUST_USE troupe_status network_batch_init(network_batch *batch, const network *net,
                                                 size_t rows);

// Sets the scores of the batch's first `rows` images.
void network_forward(const network *net, network_batch *batch, size_t rows);

// Sets `gradient` (net->count values) to the sum over the batch's first `rows` images of the loss's
// gradient, and returns the sum of their losses.
float network_gradient(const network *net, network_batch *batch, size_t rows, float *gradient);

// The likeliest class of an image with these scores.
int network_class(const float *scores);

typedef struct network_pace {
    float rate, momentum, weight_decay;
} network_pace;

// One step of gradient descent with momentum: `velocity` and the weights change; `gradient` is the
// mean over a batch.
void network_step(network *net, const float *gradient, float *velocity, network_pace pace);

#endif
