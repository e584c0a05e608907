// state_walk.h: which tensors a state has in its file, by its type's table; for state.c and
// state_read.c.
//
// A member that is a number, or an array of numbers, is a tensor under its dotted name
// ("optimizer.rate"), as is one of bytes, and a troupe_tensor as what it is. In an array of records
// the numbers of one member are one tensor over all records ("layers.width", of shape [n]); what
// differs in size from record to record has an index in its name ("layers.0.weights"). What remains
// of a state, its texts for instance, is not visited.
#ifndef TRP_STATE_WALK_H
#define TRP_STATE_WALK_H

#include <runtime/base/buffer.h>
#include <troupe/tensor.h>

typedef enum trp_leaf_kind {
    TRP_LEAF_NUMBERS, // In place.
    TRP_LEAF_ARRAY,   // A counted array of numbers, or bytes: both are a pointer and a count.
    TRP_LEAF_TENSOR,
} trp_leaf_kind;

typedef struct trp_leaf {
    const char *name; // Until the visit ends.
    trp_leaf_kind kind;
    troupe_dtype dtype;   // Not of a tensor.
    unsigned char *at;    // The member; of numbers, that of the first record.
    bool over_records;    // Numbers: one tensor for the same member of
    size_t count, stride; // so many records, which lie so far apart.
    size_t width;         // Numbers: how many in a fixed array; 0: a single one.
} trp_leaf;

typedef struct trp_state_walk trp_state_walk;
struct trp_state_walk {
    troupe_status (*visit)(trp_state_walk *walk, const trp_leaf *leaf);
    trp_buffer name; // The walk's.
    int depth;
};

// Calls `visit` for each of them, always in the same order. The value is changed by nobody but
// `visit`. TROUPE_INVALID: an array without items, a type that nests too deep.
troupe_status trp_state_visit(trp_state_walk *walk, const troupe_type *type, void *value);

// Whether values of the type are one number each.
bool trp_state_is_number(const troupe_type *type);
// Whether something of a value remains that no tensor has.
bool trp_state_remains(const troupe_type *type);
// The same of a field.
bool trp_state_field_remains(const troupe_field *field);

#endif
