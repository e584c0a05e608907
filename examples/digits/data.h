// data.h: images of handwritten digits with their labels, divided into three sets: the trainer
// learns from `train`, trials are compared on `validation`, and `test` is looked at once, at the
// very end.
//
// Two forms are read: a CSV file (8 x 8 pixels from 0 to 16 and the label in each row: the digits
// of the UCI repository), and a folder of IDX files (MNIST, Fashion-MNIST); both also compressed by
// gzip.
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include <troupe/status.h>

#include <stddef.h>
#include <stdint.h>

enum { DIGITS_CLASSES = 10 };

// Some of the images, by their numbers.
typedef struct digits_set {
    uint32_t *rows;
    size_t count;
} digits_set;

typedef struct digits {
    size_t width, height;
    size_t inputs;   // Pixels of an image: width x height.
    size_t count;    // Images.
    int brightest;   // The largest value that a pixel may have.
    uint8_t *pixels; // count x inputs
    uint8_t *labels; // count, each below DIGITS_CLASSES
    digits_set train, validation, test;
} digits;

// Reads the CSV file or the folder of IDX files at `path` and divides it, always alike for the same
// seed. CSV: 60 % train, 20 % validation, 20 % test of every class. IDX: test is the t10k pair,
// validation a sixth of the train pair. The caller frees *data with digits_free. The last error
// names the file and what is wrong: TROUPE_NOT_FOUND (no such file), TROUPE_CORRUPT (damaged or
// cut gzip), TROUPE_MALFORMED (contents), TROUPE_IO, TROUPE_TOO_LARGE, TROUPE_NO_MEMORY.
TROUPE_MUST_USE troupe_status digits_load(const char *path, uint64_t seed, digits *data);

// Frees what digits_load made and clears *data. Harmless on a cleared one.
void digits_free(digits *data);

// Copies the images with the given numbers, scaled to 0 .. 1, to `pixels` (count x inputs) and
// their labels to `labels`.
void digits_gather(const digits *data, const uint32_t *rows, size_t count, float *pixels,
                   uint8_t *labels);

// Copies a set's images as they are to `pixels` (count x inputs), and their labels to `labels`;
// NULL: not these.
void digits_copy(const digits *data, const digits_set *set, uint8_t *pixels, uint8_t *labels);

// Moves half of the images, as the random number `dice` says, by one pixel up, down, left or right:
// a digit stays the same digit, and a network that has seen it moved learns the shape, not the
// place.
void digits_nudge(const digits *data, float *image, uint64_t dice);

#endif
