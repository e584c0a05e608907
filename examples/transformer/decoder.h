// decoder.h: a decoder-only transformer that says, for each place of a text, which character comes
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
#ifndef TRANSFORMER_DECODER_H
#define TRANSFORMER_DECODER_H

#include "kernels.h"

enum { DECODER_LAYERS_MAX = 32 };

typedef struct decoder_shape {
    size_t vocabulary, context; // Characters that there are; places of a sequence.
    size_t width, heads;        // Of a place's row; `heads` divides `width`.
    size_t layers;              // Blocks: at most DECODER_LAYERS_MAX.
} decoder_shape;

size_t decoder_count(decoder_shape shape); // Of the parameters.

// Draws the parameters of an untrained network from *random.
void decoder_draw(decoder_shape shape, float *weights, uint64_t *random);

// The parameters in parts whose gradients are ready together: part 0 has the embeddings, part i the
// i-th block, the last one, part layers + 1, the final normalisation. They follow each other in the
// array.
typedef struct decoder_part {
    size_t first, count;
} decoder_part;
decoder_part decoder_part_of(decoder_shape shape, size_t part);

// Room for what sequences leave behind on their way forward, which the way back needs. NULL: there
// is no memory.
typedef struct decoder_pass decoder_pass;
decoder_pass *decoder_pass_new(decoder_shape shape, size_t sequences_max);
void decoder_pass_free(decoder_pass *pass);

// Runs sequences through the network. Each is context + 1 characters, of which the last is not read
// here. Returns the scores: sequences x context x vocabulary; they are the pass's.
float *decoder_forward(decoder_pass *pass, const float *weights, const uint16_t *text,
                       size_t sequences);

// After it: the sum of the losses of all places, each of which should have said the character that
// follows it in the same text. The scores are used up.
double decoder_loss(decoder_pass *pass, const uint16_t *text);

// After that, for each part from the last to the first: completes the part's gradient, which is the
// sum over all places. The last part begins with a cleared gradient.
void decoder_back(decoder_pass *pass, const float *weights, float *gradient, const uint16_t *text,
                  size_t part);

#endif
