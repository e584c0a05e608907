// extend.h: a space as a part of a larger one: which rows may have become wider, and where points
// of the one lie in the other.
//
// Each row of the earlier space is there, in their order: a range that holds the earlier one (with
// the same steps), a list of choices that begins with the earlier ones, and of what was fixed any
// row that can draw its value. Rows that the earlier space lacks need a value that its points had,
// where they count at such a point; and a row that was fixed counts at such a point if it did.
#ifndef TRP_SPACE_EXTEND_H
#define TRP_SPACE_EXTEND_H

#include <tune/space/space.h>

// A row of which no coordinate of an earlier point shows whether it counted there.
typedef struct trp_extension_fixed {
    const trp_space_row *row; // Of the larger space.
    bool is_new;              // It did not, and its value is not what it was before.
    int parent;               // Else it counted where this dimension of the earlier space had one
    uint32_t when;            // of these choices; negative: everywhere.
} trp_extension_fixed;

typedef struct trp_extension {
    size_t dims;           // Of the earlier space,
    uint64_t combinations; // and of its grids.
    trp_arena arena;
    trp_extension_fixed *fixed;
    size_t fixed_count;
    int *from; // For each dimension of the larger one, which it is in the earlier; -1: none. Then
    double *known; // all points of that have this coordinate; NaN: not known.
} trp_extension;

// `earlier`: its description. `before`: objects of JSON with values of rows that it lacks, of which
// the first that has a name counts. TROUPE_EXISTS: it is no part of this space, and in what.
troupe_status trp_extension_open(const troupe_space *space, trp_json earlier,
                                 const trp_json *before, size_t before_count, trp_extension *made);
void trp_extension_close(trp_extension *extension);
// The point of the larger space: x has its dimensions, `of` those of the earlier one; they may not
// overlap. TROUPE_EXISTS: a row counts there, and has no value.
troupe_status trp_extension_map(const troupe_space *space, const trp_extension *extension,
                                const double *of, double *x);
// Writes an object of what rows that the earlier space lacks were before: what the base has, or
// what JSON says; those of which nothing is known are left out.
void trp_extension_before(const troupe_space *space, trp_json earlier, trp_buffer *out);

#endif
