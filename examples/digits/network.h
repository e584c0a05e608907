// network.h: a perceptron with one hidden layer, which tells ten classes apart.
//
//     pixels (inputs) -> affine -> ReLU (hidden) -> affine -> softmax (10) -> cross-entropy
//
// All parameters lie in one array of floats, so that one allreduce sums a gradient over the workers
// and one array of a checkpoint holds the network.
#ifndef DIGITS_NETWORK_H
#define DIGITS_NETWORK_H

#include <troupe/status.h>

#include <stddef.h>
#include <stdint.h>

enum { NETWORK_OUTPUTS = 10 };

typedef struct network {
    size_t inputs, hidden;
    size_t count; // Of the parameters.
    float *
        weights; // hidden x inputs, then hidden; 10 x hidden, then 10: each layer with its offsets.
} network;

// Some images on their way through a network: the caller fills `pixels` and `labels`.
typedef struct network_batch {
    size_t rows_max;
    float *pixels;   // rows x inputs
    uint8_t *labels; // rows
    float *hidden;   // rows x hidden: after ReLU
    float *scores;   // rows x 10
    float *slopes;   // rows x hidden: of the loss, by the hidden layer
} network_batch;

// How many parameters such a network has.
size_t network_count(size_t inputs, size_t hidden);

// Makes a network with random weights (He et al., "Delving Deep into Rectifiers", ICCV 2015) drawn
// from *random. The caller ends it with network_deinit. TROUPE_NO_MEMORY.
TROUPE_MUST_USE troupe_status network_init(network *net, size_t inputs, size_t hidden,
                                           uint64_t *random);
void network_deinit(network *net);

// Makes room for batches of up to `rows_max` images. Ended with network_batch_deinit.
// TROUPE_NO_MEMORY.
TROUPE_MUST_USE troupe_status network_batch_init(network_batch *batch, const network *net,
                                                 size_t rows_max);
void network_batch_deinit(network_batch *batch);

// Sets `gradient` (net->count values) to the sum over the batch's first `rows` images of the loss's
// gradient, and returns the sum of their losses.
float network_gradient(const network *net, network_batch *batch, size_t rows, float *gradient);

// Writes the likeliest class of each of the first `rows` images to `classes`.
void network_classify(const network *net, network_batch *batch, size_t rows, uint8_t *classes);

typedef struct network_pace {
    float rate, momentum, weight_decay;
} network_pace;

// One step of gradient descent with momentum: `velocity` and the weights change; `gradient` is the
// mean over a batch.
void network_step(network *net, const float *gradient, float *velocity, network_pace pace);

#endif
