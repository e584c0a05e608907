// batches.h: the batches of a set that a rank has.
#ifndef TRP_MODELS_BATCHES_H
#define TRP_MODELS_BATCHES_H

#include <troupe/data.h>

// Among whom the rows of each step are divided.
typedef struct trp_division {
    int rank, world; // 0 and 1: they are not.
} trp_division;

// The first row, within the set's order, that rank `rank` has of the places [from, end), which the
// ranks have one after the other; `rank` may be `world`: where the last one's end. With any
// division of [0, n) into steps the ranks' rows are equal within one, in each step and in all.
int64_t trp_division_at(int rank, int world, int64_t from, int64_t end);

// Of a set of `rows` rows that consists of columns. `key` is the set's, for texts; options are in
// their ranges, and not both of `batch` and `step_rows` are given.
troupe_status trp_batches_open(const char *key, troupe_ref set, int64_t rows, trp_division among,
                               const troupe_batches_options *how, troupe_batches **batches);

// ---- for tests

// How many batches were made when they were asked for, though there is a thread.
int64_t trp_batches_made_by_user(const troupe_batches *batches);

#endif
