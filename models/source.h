// source.h: where the columns of a set come from: as its setup has named them, which is an object
// that ranks are given, and as a rank has opened them.
#ifndef TRP_MODELS_SOURCE_H
#define TRP_MODELS_SOURCE_H

#include <troupe/data.h>

// A column. What `kind` says decides which of the members count.
TROUPE_STRUCT(trp_source, (troupe_text, column), (int, kind), (int, dtype), (int, ndim),
              (size_t, shape, TROUPE_DIMS_MAX), // The first one is the set's rows.
              (troupe_ref, object));
TROUPE_STRUCT(trp_sources, (int64_t, rows), (troupe_array_trp_source, columns));

// A column on a rank.
typedef struct trp_feed {
    const trp_source *source;
    size_t row_bytes;
    const unsigned char *rows; // The set's first one,
    size_t stride;             // and how far from one to the next.
    troupe_view view;
} trp_feed;

// The tensor of so many of its rows.
troupe_tensor trp_source_tensor(const trp_source *source, const void *data, size_t rows);

// `source` is lent until the feed is closed; the reference in it is not.
troupe_status trp_feed_open(const trp_source *source, trp_feed *feed);
// Harmless on a zeroed one.
void trp_feed_close(trp_feed *feed);

#endif
