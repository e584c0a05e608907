// source.h: where the columns of a set come from: as its setup has named them, which is an object
// that ranks are given, and as a rank has opened them.
#ifndef TRP_MODELS_SOURCE_H
#define TRP_MODELS_SOURCE_H

#include <models/mapping.h>
#include <runtime/base/arena.h>
#include <troupe/data.h>

typedef enum trp_source_kind {
    TRP_SOURCE_OBJECT,    // A tensor in the store.
    TRP_SOURCE_FILE,      // Rows in a file.
    TRP_SOURCE_GENERATOR, // Rows that a function makes.
} trp_source_kind;

// A column. Which of the members count follows from its kind.
TROUPE_STRUCT(trp_source, (troupe_text, column), (int, kind), (int, dtype), (int, ndim),
              (size_t, shape, TROUPE_DIMS_MAX), // The first one is the set's rows.
              (troupe_ref, object), (troupe_text, path), (int64_t, bytes),
              (int64_t, changed_ns),              // As it was then.
              (size_t, offset), (size_t, stride), // In bytes, of the first row and from each to the
                                                  // next.
              (troupe_text, generator), (uint64_t, schema), (troupe_bytes, config));
TROUPE_STRUCT(trp_sources, (int64_t, rows), (troupe_array_trp_source, columns));

// A column on a rank.
typedef struct trp_feed {
    const trp_source *source;
    size_t row_bytes;
    const unsigned char *rows; // The set's first one; NULL: they are made.
    size_t stride;             // How far from one to the next.
    troupe_view view;
    trp_mapping mapping;
    const troupe_generator *generator;
    void *config; // Of the generator.
    trp_arena arena;
} trp_feed;

// The tensor of so many of its rows.
troupe_tensor trp_source_tensor(const trp_source *source, const void *data, size_t rows);

// `source` is lent until the feed is closed; the reference in it is not.
troupe_status trp_feed_open(const trp_source *source, trp_feed *feed);
// Whether what it reads is as it was when it was named: to be asked before rows are read.
troupe_status trp_feed_check(const trp_feed *feed);
// Writes `rows` rows, whose numbers are in `order`, one after the other.
troupe_status trp_feed_gather(const trp_feed *feed, const int64_t *order, size_t rows, void *out);
// Harmless on a zeroed one.
void trp_feed_close(trp_feed *feed);

// ---- as a setup names them

// What is kept while the columns of a set are looked at: texts of the descriptions, and the file
// that the last one came from, since the next one often does, too.
typedef struct trp_look {
    trp_arena arena;
    struct trp_csv_file *csv;
} trp_look;

// Sets what is known of a column beside its name. What it makes in the store is source->object,
// which is the caller's then.
troupe_status trp_look_at_idx(trp_look *look, const troupe_from *from, trp_source *source);
troupe_status trp_look_at_csv(trp_look *look, const troupe_from *from, trp_source *source);
troupe_status trp_look_at_safetensors(trp_look *look, const troupe_from *from, trp_source *source);
troupe_status trp_look_at_tokens(trp_look *look, const troupe_from *from, trp_source *source);
troupe_status trp_look_at_generator(trp_look *look, const troupe_from *from, trp_source *source);
void trp_look_end(trp_look *look);

// The generator of that name whose config has that schema hash. NULL with the last error set.
const troupe_generator *trp_generator_find(const char *name, uint64_t schema);

#endif
