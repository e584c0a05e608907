// data.h: what a loop learns from, as batches: some rows of a set, in typed columns with names.
//
//     troupe_tensor images;
//     TROUPE_TRY(troupe_column(batch, "image", TROUPE_FLOAT32, 2, &images)); // batch->rows by 64
#ifndef TROUPE_DATA_H
#define TROUPE_DATA_H

#include <troupe/tensor.h>
#include <troupe/train.h>

TROUPE_BEGIN_C

// Rows of a set, in columns. Owned by who made it, which also says how long it lives.
typedef struct troupe_batch {
    int64_t epoch;  // From 0.
    int64_t number; // Within the epoch, from 0.
    size_t rows;    // Of this rank; 0 where other ranks have some left and this one has not.
    const struct troupe_columns *columns_;
} troupe_batch;

// Sets *column to the batch's column of that name: its first dimension is batch->rows, its elements
// are borrowed from the batch. Type and dimensions are checked as by troupe_tensor_check, and the
// text of TROUPE_WRONG_TYPE has the column's name and both. TROUPE_NOT_FOUND lists the columns that
// there are.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_column(const troupe_batch *batch,
                                                                const char *name,
                                                                troupe_dtype dtype, int ndim,
                                                                troupe_tensor *column);

TROUPE_END_C

#endif
