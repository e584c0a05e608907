// convolution.c: the layer as matrix products: an image's surroundings are laid out as rows of
// nine, which the filters are multiplied with (Chellapilla, Puri and Simard, "High Performance
// Convolutional Neural Networks for Document Processing", 2006).
#include "convolution.h"

#include <cblas.h>
#include <string.h>

// Beyond the image's edge there are zeros.
static void lay_out(const convolution *layer, const float *image, float *patches)
{
    long wide = (long)layer->width, high = (long)layer->height;
    for (long y = 0; y < high; y++)
        for (long x = 0; x < wide; x++)
            for (long dy = -1; dy <= 1; dy++)
                for (long dx = -1; dx <= 1; dx++) {
                    long row = y + dy, column = x + dx;
                    int inside = row >= 0 && row < high && column >= 0 && column < wide;
                    *patches++ = inside ? image[row * wide + column] : 0;
                }
}

// The largest of each 2 x 2 of a map, if it is positive.
static void pool(const convolution *layer, const float *map, uint32_t first, uint32_t *peaks,
                 float *out)
{
    size_t wide = layer->width;
    for (size_t y = 0; y + 1 < layer->height; y += 2)
        for (size_t x = 0; x + 1 < wide; x += 2) {
            size_t at = y * wide + x;
            const size_t places[] = {at, at + 1, at + wide, at + wide + 1};
            size_t peak = at;
            for (size_t i = 1; i < 4; i++)
                peak = map[places[i]] > map[peak] ? places[i] : peak;
            *peaks++ = first + (uint32_t)peak;
            *out++ = map[peak] > 0 ? map[peak] : 0;
        }
}

void convolution_forward(const convolution *layer, const float *filters, const float *offsets,
                         const float *pixels, size_t rows, convolution_trace *trace, float *out)
{
    size_t area = layer->width * layer->height, channels = layer->channels;
    size_t pooled = (layer->width / 2) * (layer->height / 2);
    for (size_t row = 0; row < rows; row++) {
        float *patches = trace->patches + row * area * CONVOLUTION_TAPS;
        float *maps = trace->maps + row * channels * area;
        lay_out(layer, pixels + row * area, patches);
        for (size_t i = 0; i < channels * area; i++)
            maps[i] = offsets[i / area];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)channels, (int)area,
                    CONVOLUTION_TAPS, 1, filters, CONVOLUTION_TAPS, patches, CONVOLUTION_TAPS, 1,
                    maps, (int)area);
        for (size_t channel = 0; channel < channels; channel++) {
            size_t at = (row * channels + channel) * pooled;
            pool(layer, maps + channel * area, (uint32_t)(channel * area), trace->peaks + at,
                 out + at);
        }
    }
}

void convolution_gradient(const convolution *layer, const float *out, const float *slopes,
                          size_t rows, convolution_trace *trace, float *filters, float *offsets)
{
    size_t area = layer->width * layer->height, channels = layer->channels;
    size_t outputs = convolution_outputs(layer);
    memset(filters, 0, channels * CONVOLUTION_TAPS * sizeof *filters);
    memset(offsets, 0, channels * sizeof *offsets);
    for (size_t row = 0; row < rows; row++) {
        float *maps = trace->maps + row * channels * area; // They become the slopes by them.
        memset(maps, 0, channels * area * sizeof *maps);
        for (size_t i = row * outputs; i < (row + 1) * outputs; i++) {
            float slope = out[i] > 0 ? slopes[i] : 0;
            maps[trace->peaks[i]] = slope;
            offsets[trace->peaks[i] / area] += slope;
        }
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)channels, CONVOLUTION_TAPS,
                    (int)area, 1, maps, (int)area, trace->patches + row * area * CONVOLUTION_TAPS,
                    CONVOLUTION_TAPS, 1, filters, CONVOLUTION_TAPS);
    }
}
