// sets.h: the digits as data of runs: the images to learn from and those to compare trials by lie
// in the store once, for all trials and all of their workers.
#ifndef DIGITS_SETS_H
#define DIGITS_SETS_H

#include "data.h"

#include <troupe.h>

// Tensors of bytes: images (rows x height x width) and the digits on them (rows).
TROUPE_STRUCT(digits_sets, (int64_t, train_rows), (troupe_ref, train_images),
              (troupe_ref, train_digits), (troupe_ref, valid_images), (troupe_ref, valid_digits));

// Puts two of the sets of `data` into the store. The caller ends *sets with digits_sets_drop.
TROUPE_MUST_USE troupe_status digits_sets_put(const digits *data, digits_sets *sets);
void digits_sets_drop(digits_sets *sets);

// The sets "train" and "valid", of columns "image" and "digit", and the number of the "row" in the
// first one; each worker has its part of both.
troupe_status digits_setup(troupe_data *data, const digits_sets *sets);
TROUPE_DATA(digits_data, digits_sets, digits_setup);

#endif
