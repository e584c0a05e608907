// data.h: what a loop learns from, as batches: some rows of a set, in typed columns with names.
//
// In the setup of a run's data (TROUPE_DATA) a set is made of columns:
//
//     TROUPE_TRY(troupe_data_columns(data, "train", TROUPE_SHARE_BY_NAME,
//                                    troupe_from_tensor("image", images),
//                                    troupe_from_tensor("label", labels)));
//
// In a loop each rank goes through its part of it:
//
//     troupe_batches *batches;
//     troupe_batch batch;
//     TROUPE_TRY(troupe_batches_open(me, "train", &batches, .batch = 32, .shuffle = true));
//     for (int64_t epoch = 0; epoch < 10; epoch++) {
//         TROUPE_TRY(troupe_batches_begin(batches, epoch, 0));
//         while ((status = troupe_batches_next(batches, &batch)) == TROUPE_OK) {
//             troupe_tensor images;
//             TROUPE_TRY(troupe_column(&batch, "image", TROUPE_FLOAT32, 2, &images));
//             ...                                             // batch.rows by 64
//         }
//     }
//     troupe_batches_close(&batches);
#ifndef TROUPE_DATA_H
#define TROUPE_DATA_H

#include <troupe/tensor.h>
#include <troupe/train.h>

TROUPE_BEGIN_C

// ---- A set made of columns ----

// Where a column comes from: made by one of the macros below. Names have 1 to 63 bytes.
typedef struct troupe_from {
    size_t size; // sizeof(troupe_from)
    int kind;
    const char *column;
    troupe_ref object;
} troupe_from;

enum { TROUPE_FROM_TENSOR_ = 1 };

// From a tensor in the store, or that a call returns: its first dimension are the rows. Consumes
// the reference, whatever comes of it.
#define troupe_from_tensor(column_, ref_)                                                          \
    ((troupe_from){.size = sizeof(troupe_from),                                                    \
                   .kind = TROUPE_FROM_TENSOR_,                                                    \
                   .column = (column_),                                                            \
                   .object = (ref_)})

// In a setup of data: names a set of columns, which all have the same number of rows, at least one:
// troupe_data_columns(data, "train", TROUPE_SHARE_BY_NAME, troupe_from_tensor("image", images)).
// Waits for the results of calls among them. TROUPE_INVALID names the set and the column: rows
// differ or are none, a tensor has no dimension, a name is missing, too long or there twice, or
// what troupe_data_set refuses; TROUPE_WRONG_TYPE: no tensor; or the failure of a call.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_data_columns_from(troupe_data *data, const char *key, troupe_sharing how,
                         const troupe_from *columns, size_t count);
#define troupe_data_columns(data, key, how, ...)                                                   \
    troupe_data_columns_from((data), (key), (how), (const troupe_from[]){__VA_ARGS__},             \
                             TROUPE_COUNT(__VA_ARGS__))

// ---- Batches ----

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

typedef struct troupe_batches_options {
    size_t size; // sizeof(troupe_batches_options): the macro sets it.
    int64_t
        batch; // Rows of each, but for the last one of an epoch, which may have fewer; default 32.
    uint64_t seed; // Of the shuffles.
    // Each epoch has the rows in an order of its own, which follows from seed and epoch alone: all
    // ranks know the same order of the whole set, of which each has its part. Else the rows come as
    // they are in the set.
    bool shuffle;
    // How many batches are made ahead of use, by a thread; 1 to 64, default 2; TROUPE_NONE: none,
    // and no thread. Rows that lie one after the other in memory need none: their batches are lent,
    // and not copied.
    int prefetch;
    int unused_;
} troupe_batches_options;

// The batches of a rank's part of a set. Used by one thread at a time.
typedef struct troupe_batches troupe_batches;

// In a loop: opens this rank's part of the run's set with that key, which has to consist of
// columns. To be closed before the loop returns. A part may have fewer rows than a batch, or none
// where the set has fewer rows than there are ranks. TROUPE_NOT_FOUND lists the keys that there
// are; TROUPE_WRONG_TYPE: the set was named by troupe_data_set; TROUPE_INVALID: an option out of
// its range; TROUPE_NO_MEMORY; or the failure to read a column.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_batches_open_with(
    troupe_rank *me, const char *key, troupe_batches **batches, const troupe_batches_options *how);
#define troupe_batches_open(...) TROUPE_BATCHES_OPEN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_BATCHES_OPEN_(me, key, batches, ...)                                                \
    troupe_batches_open_with(                                                                      \
        (me), (key), (batches),                                                                    \
        &(troupe_batches_options){.size = sizeof(troupe_batches_options), __VA_ARGS__})

// How many batches an epoch has: the same on all ranks, that of the largest part. A rank with fewer
// rows has fewer in its last batch, or 0. At least 1. (NULL: 0.)
TROUPE_EXPERIMENTAL int64_t troupe_batches_count(const troupe_batches *batches);

// How many rows this rank has in each epoch, and the whole set has. (NULL: 0.)
TROUPE_EXPERIMENTAL int64_t troupe_batches_rows(const troupe_batches *batches);
TROUPE_EXPERIMENTAL int64_t troupe_batches_all_rows(const troupe_batches *batches);

// The next batch is number `first` of that epoch, however far the one before has got: a run that
// goes on there has the same rows as one that was not interrupted. What was lent ends. `first` may
// be the count of batches: the epoch has none left. Not calling it is beginning with 0 and 0.
// TROUPE_INVALID: out of range.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_batches_begin(troupe_batches *batches,
                                                                       int64_t epoch,
                                                                       int64_t first);

// Lends the next batch of the epoch; the one before ends. An epoch has each row of the part once.
// Elements of a column are aligned to their own size; those of rows that had to be gathered to 64
// bytes. TROUPE_END: the epoch has no more; or the failure to read a column.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_batches_next(troupe_batches *batches,
                                                                      troupe_batch *batch);

// How long troupe_batches_next has waited for data, in seconds since the open. (NULL: 0.)
TROUPE_EXPERIMENTAL double troupe_batches_waited_s(const troupe_batches *batches);

// Ends all that was lent, and clears *batches. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_batches_close(troupe_batches **batches);

TROUPE_END_C

#endif
