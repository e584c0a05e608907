// convolution.h: a layer of 3 x 3 filters over an image, with ReLU, and the largest of each 2 x 2
// of what they say: as many maps of a quarter of the image's size as there are filters.
#ifndef DIGITS_CONVOLUTION_H
#define DIGITS_CONVOLUTION_H

#include <stddef.h>
#include <stdint.h>

enum { CONVOLUTION_TAPS = 9 };

typedef struct convolution {
    size_t width, height; // Of an image.
    size_t channels;      // Filters.
} convolution;

// What comes out for an image.
static inline size_t convolution_outputs(const convolution *layer)
{
    return layer->channels * (layer->width / 2) * (layer->height / 2);
}

// What a pass forward leaves for the pass back: for each image its 3 x 3 surroundings of each
// pixel, the maps, and which of each four was the largest.
typedef struct convolution_trace {
    float *patches;  // rows x pixels x 9
    float *maps;     // rows x channels x pixels
    uint32_t *peaks; // rows x outputs: places in the image's maps.
} convolution_trace;

// pixels (rows x pixels of an image) -> out (rows x outputs).
void convolution_forward(const convolution *layer, const float *filters, const float *offsets,
                         const float *pixels, size_t rows, convolution_trace *trace, float *out);

// Sets the gradients of filters (channels x 9) and offsets (channels), from the slopes of the loss
// by what came out, which was `out`.
void convolution_gradient(const convolution *layer, const float *out, const float *slopes,
                          size_t rows, convolution_trace *trace, float *filters, float *offsets);

#endif
