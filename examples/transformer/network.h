// network.h: a decoder-only transformer that says, for each place of a text, which character comes
// next: GPT-2's (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019) with
// learned places, normalisation before each half of a block, and the embeddings of the characters
// used again for the scores (Press and Wolf, arXiv 1608.05859).
//
//     x = character's row + place's row
//     in each block:  x += merge(attend(normalise(x)))
//                     x += shrink(gelu(grow(normalise(x))))
//     scores = normalise(x) times the characters' rows
//
// All parameters lie in one array, and so does their gradient. Both belong to the caller, who may
// put them where a group of processes adds them up. Nothing here knows of other processes.
#ifndef TRANSFORMER_NETWORK_H
#define TRANSFORMER_NETWORK_H

#include "kernels.h"

enum { TRANSFORMER_LAYERS_MAX = 32 };

typedef struct transformer_shape {
    size_t vocabulary, context; // Characters that there are; places of a sequence.
    size_t width, heads;        // Of a place's row; `heads` divides `width`.
    size_t layers;              // Blocks: at most TRANSFORMER_LAYERS_MAX.
} transformer_shape;

size_t transformer_count(transformer_shape shape); // Of the parameters.

// Draws the parameters of an untrained network from *random.
void transformer_draw(transformer_shape shape, float *weights, uint64_t *random);

// The parameters in parts whose gradients are ready together: part 0 has the embeddings, part i the
// i-th block, the last one, part layers + 1, the final normalisation. They follow each other in the
// array.
typedef struct transformer_part {
    size_t first, count;
} transformer_part;
transformer_part transformer_part_of(transformer_shape shape, size_t part);

// Room for what sequences leave behind on their way forward, which the way back needs. NULL: there
// is no memory.
typedef struct transformer_pass transformer_pass;
transformer_pass *transformer_pass_new(transformer_shape shape, size_t sequences_max);
void transformer_pass_free(transformer_pass *pass);

// Runs sequences through the network. Each is context + 1 characters, of which the last is not read
// here. Returns the scores: sequences x context x vocabulary; they are the pass's.
float *transformer_forward(transformer_pass *pass, const float *weights, const uint8_t *text,
                           size_t sequences);

// After it: the sum of the losses of all places, each of which should have said the character that
// follows it in the same text. The scores are used up.
double transformer_loss(transformer_pass *pass, const uint8_t *text);

// After that, for each part from the last to the first: completes the part's gradient, which is the
// sum over all places. The last part begins with a cleared gradient.
void transformer_back(transformer_pass *pass, const float *weights, float *gradient,
                      const uint8_t *text, size_t part);

#endif
