// format.h: the two file formats that the digits come in. Inner to data.c: the readers fill the
// images and labels of a `digits`, whole or not at all, and leave its sets alone.
#ifndef DIGITS_FORMAT_H
#define DIGITS_FORMAT_H

#include "data.h"

// Reads a CSV file; *data must be cleared.
TROUPE_MUST_USE troupe_status format_read_csv(const char *path, digits *data);

// Reads the pairs train-* and t10k-* of a folder, in this order; *data must be cleared.
// *train_count says how many of the images belong to the first pair.
TROUPE_MUST_USE troupe_status format_read_idx(const char *folder, digits *data,
                                              size_t *train_count);

#endif
