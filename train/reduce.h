// reduce.h: reducing arrays element by element, with the widest vectors that the processor has.
#ifndef TRP_REDUCE_H
#define TRP_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <troupe/collective.h>

// What is reduced: `count` elements of each source, combined in the order of sources, are written
// to each target. A target may be a source; otherwise none overlap.
typedef struct trp_reduction {
    const void *const *from;
    int sources; // 1 or more.
    void *const *to;
    int targets;
    size_t count;
    double divisor; // Of a mean of floats that are not 16 bits wide; 0: the number of sources.
} trp_reduction;

typedef void (*trp_reducer)(const trp_reduction *what);

// For numbers alone: NULL for another type. Sums of integers wrap around, means truncate; a NaN
// goes through, of equal values the first one stays. Numbers of 16 bits are reduced as float32 and
// rounded once, to the nearest, even at ties.
trp_reducer trp_reducer_of(troupe_dtype element, troupe_reduction how);

// memcpy, for what another processor's cache takes over next: the C library's may use instructions
// (rep movsb) that are several times slower there.
void trp_copy_values(void *to, const void *from, size_t size);

// ---- for tests: the kernels of one set of instructions

enum { TRP_REDUCTIONS = TROUPE_MAX + 1, TRP_DTYPES = TROUPE_FLOAT64 + 1 };

typedef struct trp_reducers {
    const char *name;
    trp_reducer of[TRP_DTYPES][TRP_REDUCTIONS]; // NULL: none; means of integers are elsewhere.
} trp_reducers;

// From the widest to the plainest, as far as this processor has them; NULL: no more.
const trp_reducers *trp_reducers_at(size_t index);

#endif
