// data.h: what a loop learns from, as batches: some rows of a set, in typed columns with names.
//
// In the setup of a run's data (TROUPE_DATA) a set is made of columns:
//
//     TROUPE_TRY(troupe_data_columns(data, "train", TROUPE_SHARE_BY_NAME,
//                                    troupe_from_idx("image", "train-images-idx3-ubyte"),
//                                    troupe_from_idx("label", "train-labels-idx1-ubyte")));
//
// In a loop each rank goes through its part of it, which is a part of each step:
//
//     troupe_batches *batches;
//     troupe_batch batch;
//     TROUPE_TRY(troupe_batches_open(me, "train", &batches, .batch = 32, .shuffle = true));
//     for (int64_t epoch = 0; epoch < 10; epoch++) {
//         TROUPE_TRY(troupe_batches_begin(batches, epoch, 0));
//         while ((status = troupe_batches_next(batches, &batch)) == TROUPE_OK) {
//             troupe_tensor images;
//             TROUPE_TRY(troupe_column(&batch, "image", TROUPE_UINT8, 3, &images));
//             ...                                             // batch.rows by 28 by 28
//         }
//     }
//     troupe_batches_close(&batches);
#ifndef TROUPE_DATA_H
#define TROUPE_DATA_H

#include <troupe/tensor.h>
#include <troupe/train.h>

TROUPE_BEGIN_C

// ---- A set made of columns ----

// Where a column comes from: made by one of the macros below, which take the column's name (1 to 63
// bytes) first. Zeroed members are defaults.
typedef struct troupe_from {
    size_t size; // sizeof(troupe_from)
    int kind_;
    const char *column;
    troupe_ref object;   // Of a tensor.
    const char *path;    // Of a file.
    const char *name;    // Of a file's tensor; the fields of a CSV file.
    troupe_dtype dtype;  // Of a CSV file's numbers, and of tokens.
    char separator;      // Of a CSV file's fields; default ','.
    bool no_header;      // A CSV file's first line has values: its fields are called 1, 2, ...
    size_t length;       // Tokens of a row,
    size_t stride;       // and from the first one of a row to that of the next; default: length.
    size_t skip_bytes;   // In front of the first token.
    troupe_tensor shape; // Of what a generator makes.
    const struct troupe_generator *generator;
    const void *config; // Of the generator.
    int unused_;
} troupe_from;

#define TROUPE_FROM_(kind_of, ...)                                                                 \
    ((troupe_from){.size = sizeof(troupe_from), .kind_ = TROUPE_FROM_##kind_of##_, __VA_ARGS__})
enum {
    TROUPE_FROM_TENSOR_ = 1,
    TROUPE_FROM_IDX_,
    TROUPE_FROM_CSV_,
    TROUPE_FROM_SAFETENSORS_,
    TROUPE_FROM_TOKENS_,
    TROUPE_FROM_GENERATOR_,
};

// Ranks map files that can be read as they are, all the same pages: nothing is copied. Other files
// are read once, by the setup, into the store. A file that has changed since the setup has looked
// at it, by its size or the time of its last change, is told before a batch is made of it
// (TROUPE_CORRUPT): replace files by a rename.

// From a tensor in the store, or that a call returns: its first dimension are the rows. Consumes
// the reference, whatever comes of it.
#define troupe_from_tensor(column_, ref_)                                                          \
    TROUPE_FROM_(TENSOR, .column = (column_), .object = (ref_))

// From an IDX file, as the MNIST database has them: its first dimension are the rows. Mapped if its
// elements have one byte. It may be packed by gzip, which takes zlib (libz.so.1) to unpack.
#define troupe_from_idx(column_, path_) TROUPE_FROM_(IDX, .column = (column_), .path = (path_))

// From fields of a CSV file (RFC 4180), as numbers: TROUPE_FLOAT32, _FLOAT64 or _INT64. Several
// make a row of as many numbers, a single one makes a number: troupe_from_csv("x", "homes.csv",
// "rooms, age", TROUPE_FLOAT32). "a..b" are the fields from a to b, NULL all. The first line has
// their names. Each record is a row; empty lines are none; an empty field, or one that is no
// number, is TROUPE_MALFORMED with line and field. Options: .separator, .no_header. May be packed
// by gzip. A set has all records of its files: those to validate with are in a file of their own.
#define troupe_from_csv(...) TROUPE_FROM_CSV_OF_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_FROM_CSV_OF_(column_, path_, fields_, dtype_, ...)                                  \
    TROUPE_FROM_(CSV, .column = (column_), .path = (path_), .name = (fields_), .dtype = (dtype_),  \
                 __VA_ARGS__)

// From a tensor of a safetensors file, by its name: its first dimension are the rows. Mapped.
#define troupe_from_safetensors(column_, path_, tensor_)                                           \
    TROUPE_FROM_(SAFETENSORS, .column = (column_), .path = (path_), .name = (tensor_))

// From a file of nothing but tokens, TROUPE_UINT16 or _UINT32 in this machine's order, in rows of
// `length`: troupe_from_tokens("tokens", "train.bin", TROUPE_UINT16, 1025, .stride = 1024). Tokens
// at the end that make no whole row are left out. Options: .stride, .skip_bytes. Mapped.
#define troupe_from_tokens(...) TROUPE_FROM_TOKENS_OF_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_FROM_TOKENS_OF_(column_, path_, dtype_, length_, ...)                               \
    TROUPE_FROM_(TOKENS, .column = (column_), .path = (path_), .dtype = (dtype_),                  \
                 .length = (length_), __VA_ARGS__)

// A function that makes rows: static, made by TROUPE_GENERATOR.
typedef struct troupe_generator {
    uint32_t abi; // TROUPE_ABI
    const char *name;
    const troupe_type *config;
    troupe_status (*fill)(const void *config, int64_t row, void *out);
    const void *reserved_[3];
} troupe_generator;

// TROUPE_GENERATOR(noise, noise_config, fill_noise): rows that `troupe_status fill_noise(const
// noise_config *, int64_t row, void *out)` makes, each of the same numbers whenever it is made. It
// is called on the ranks, by a thread of the library unless .prefetch is TROUPE_NONE, for one row
// at a time. `out` is aligned to its elements. A failure is that of troupe_batches_next.
#define TROUPE_GENERATOR(name, T, fill_)                                                           \
    typedef T troupe_generator_config_##name;                                                      \
    static troupe_status troupe_generator_fill_##name(const void *troupe_config_,                  \
                                                      int64_t troupe_row_, void *troupe_out_)      \
    {                                                                                              \
        return fill_((const troupe_generator_config_##name *)troupe_config_, troupe_row_,          \
                     troupe_out_);                                                                 \
    }                                                                                              \
    static const troupe_generator troupe_generator_##name = {                                      \
        TROUPE_ABI, #name, &troupe_type_##T, troupe_generator_fill_##name, {NULL}};                \
    __attribute__((constructor)) static void troupe_register_generator_##name(void)                \
    {                                                                                              \
        (void)troupe_generator_register(&troupe_generator_##name);                                 \
    }                                                                                              \
    _Static_assert(sizeof(troupe_generator_config_##name) > 0, #T)

// Makes a generator known under its name; TROUPE_GENERATOR does it before main. Errors as those of
// troupe_class_register.
TROUPE_EXPERIMENTAL troupe_status troupe_generator_register(const troupe_generator *generator);

// From a generator with that config, which may have no references: the type of its numbers, how
// many rows, and the dimensions of a row, if any: troupe_from_generator("x", noise, &config,
// TROUPE_FLOAT32, 1000, 64) are 1000 rows of 64 numbers.
#define troupe_from_generator(column_, name_, config_, dtype_, ...)                                \
    TROUPE_FROM_(GENERATOR, .column = (column_), .generator = &troupe_generator_##name_,           \
                 .config = TROUPE_POINTER(const troupe_generator_config_##name_, config_),         \
                 .shape = troupe_tensor_of((dtype_), NULL, __VA_ARGS__))

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
    size_t rows;    // Of this rank; 0 where the step has fewer rows than there are ranks.
    const struct troupe_columns *columns_;
} troupe_batch;

// Sets *column to the batch's column of that name: its first dimension is batch->rows, its elements
// are borrowed from the batch. Type and number of dimensions are checked as by troupe_tensor_check,
// and the text of TROUPE_WRONG_TYPE has the column's name and both. TROUPE_NOT_FOUND lists the
// columns that there are.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_column(const troupe_batch *batch,
                                                                const char *name,
                                                                troupe_dtype dtype, int ndim,
                                                                troupe_tensor *column);

// The same where the dimensions of a row are known, which are compared too (0: any). `like` has
// them behind the first one, and the type (TROUPE_DTYPE_NONE: any); its data are ignored.
// troupe_column_of(batch, "image", &images, TROUPE_UINT8, 28, 28): rows of 28 by 28. TROUPE_INVALID
// also: `like` has not 1 to 8 dimensions.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_column_like(const troupe_batch *batch,
                                                                     const char *name,
                                                                     const troupe_tensor *like,
                                                                     troupe_tensor *column);
#define troupe_column_of(batch, name, column, dtype, ...)                                          \
    troupe_column_like((batch), (name), &troupe_tensor_of((dtype), NULL, 0, __VA_ARGS__), (column))

typedef struct troupe_batches_options {
    size_t size;   // sizeof(troupe_batches_options): the macro sets it.
    int64_t batch; // Rows of each rank in a step, but for the last one of an epoch; default 32.
    // In place of .batch: rows of all ranks together in a step. Then a step has the same rows
    // however many ranks there are, and a run that goes on with another number of them repeats no
    // row and misses none. Of a set that is whole each rank has them all.
    int64_t step_rows;
    uint64_t seed; // Of the shuffles.
    // Each epoch has the rows in an order of its own, which follows from seed and epoch alone: all
    // ranks know the same order of the whole set, of which each has its part. Else the rows come as
    // they are in the set.
    bool shuffle;
    // How many batches are made ahead of use, by a thread; 1 to 64, default 2; TROUPE_NONE: none,
    // and no thread. Rows that lie one after the other in memory need none: their batches are lent,
    // and not copied. Where the ranks use all CPUs, batches that are copied within 50 us are not
    // made ahead either.
    int prefetch;
    int unused_;
} troupe_batches_options;

// The batches of a set that a rank has. Used by one thread at a time. Step b of an epoch has the
// rows from b * G to (b + 1) * G of the epoch's order, G being those of all ranks together. A split
// set's are divided among the ranks, in their order and equally within one row, in each step and
// over the epoch: these are other rows than those of troupe_data_shard, which follow each other in
// the set. Of a whole set each rank has all rows of each step.
typedef struct troupe_batches troupe_batches;

// In a loop: opens the run's set with that key, which has to consist of columns. What the loop has
// not closed goes with it, after its hooks. All ranks give the same options. TROUPE_NOT_FOUND lists
// the keys that there are; TROUPE_WRONG_TYPE: the set was named by troupe_data_set; TROUPE_INVALID:
// an option out of its range, or both .batch and .step_rows; TROUPE_NO_MEMORY; or the failure to
// read a column.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_batches_open_with(
    troupe_rank *me, const char *key, troupe_batches **batches, const troupe_batches_options *how);
#define troupe_batches_open(...) TROUPE_BATCHES_OPEN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_BATCHES_OPEN_(me, key, batches, ...)                                                \
    troupe_batches_open_with(                                                                      \
        (me), (key), (batches),                                                                    \
        &(troupe_batches_options){.size = sizeof(troupe_batches_options), __VA_ARGS__})

// How many batches an epoch has: the same on all ranks, one for each step. At least 1. (NULL: 0.)
TROUPE_EXPERIMENTAL int64_t troupe_batches_count(const troupe_batches *batches);

// How many rows this rank has in each epoch, and the whole set has. (NULL: 0.)
TROUPE_EXPERIMENTAL int64_t troupe_batches_rows(const troupe_batches *batches);
TROUPE_EXPERIMENTAL int64_t troupe_batches_all_rows(const troupe_batches *batches);

// The next batch is number `first` of that epoch, however far the one before has got: ranks that
// go on there have the same rows as without an interruption. What was lent ends. `first` may
// be the count of batches: the epoch has none left. Not calling it is beginning with 0 and 0.
// TROUPE_INVALID: out of range.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_batches_begin(troupe_batches *batches,
                                                                       int64_t epoch,
                                                                       int64_t first);

// Lends the next batch of the epoch; the one before ends. The ranks' batches of an epoch have
// together each row of a split set once. Elements of a column are aligned to their own size; those
// of rows that had to be gathered to 64 bytes. TROUPE_END: the epoch has no more; or the failure to
// read a column.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_batches_next(troupe_batches *batches,
                                                                      troupe_batch *batch);

// How long troupe_batches_next has waited for data, in seconds since the open. (NULL: 0.)
TROUPE_EXPERIMENTAL double troupe_batches_waited_s(const troupe_batches *batches);

// Ends all that was lent, and clears *batches. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_batches_close(troupe_batches **batches);

TROUPE_END_C

#endif
