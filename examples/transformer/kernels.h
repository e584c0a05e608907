// kernels.h: the operations that a transformer is made of, forward and backward, on plain arrays in
// row-major order. Matrix products are those of BLAS.
//
// `dx` is the gradient of the loss by `x`. Backward functions add to the gradients of parameters,
// and set those of activations where nothing else is said. Every sum runs in an order that depends
// on the shapes alone: the same numbers in give the same bits out.
#ifndef TRANSFORMER_KERNELS_H
#define TRANSFORMER_KERNELS_H

#include <stddef.h>
#include <stdint.h>

// out (rows x outs) = in (rows x ins) times weights (outs x ins) transposed, plus offsets (outs;
// NULL: none).
void affine(float *out, const float *in, const float *weights, const float *offsets, size_t rows,
            size_t ins, size_t outs);
void affine_back(float *din, float *dweights, float *doffsets, const float *dout, const float *in,
                 const float *weights, size_t rows, size_t ins, size_t outs);

// Layer normalisation: Ba, Kiros and Hinton, arXiv 1607.06450. Each row gets mean 0 and variance 1,
// then a gain and an offset a column. `stats` (rows x 2) keeps the mean and one over the deviation.
void normalise(float *out, float *stats, const float *in, const float *gain, const float *offsets,
               size_t rows, size_t width);
// Adds to din, where a gradient came by the residual connection already.
void normalise_back(float *din, float *dgain, float *doffsets, const float *dout, const float *in,
                    const float *stats, const float *gain, size_t rows, size_t width);

// The Gaussian error linear unit in its approximation by tanh: Hendrycks and Gimpel, arXiv
// 1606.08415.
void gelu(float *out, const float *in, size_t count);
void gelu_back(float *dout_to_din, const float *in, size_t count);

// Causal self-attention with several heads: Vaswani et al., "Attention Is All You Need", 2017. A
// row of qkv has the query, the key and the value of one place, each `width` wide and divided among
// the heads; a place sees itself and those before it. `shares` (sequences x heads x context x
// context) keeps how much each place looks at each other one.
typedef struct attention {
    size_t sequences, context, width, heads;
} attention;
void attend(float *out, float *shares, const float *qkv, attention a);
// `scratch` has room for context x context numbers.
void attend_back(float *dqkv, const float *dout, const float *shares, const float *qkv,
                 float *scratch, attention a);

// Makes probabilities of a row of scores. The largest is taken off first, so that no exponential
// overflows.
void softmax(float *scores, size_t count);

// Turns rows of scores into the gradient of the cross-entropy by them, and returns the sum of the
// rows' losses.
double cross_entropy(float *scores, const uint16_t *targets, size_t rows, size_t classes);

// One step of AdamW: Loshchilov and Hutter, arXiv 1711.05101. `first` and `second` are the running
// means of the gradient and of its square, zeros at first; `step` counts from 1.
typedef struct adamw {
    float rate, beta1, beta2, decay;
} adamw;
void adamw_step(float *weights, float *first, float *second, const float *gradient, size_t count,
                adamw how, int64_t step);

#endif
