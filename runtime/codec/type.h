// type.h: the tables of the primitive types, and what can be said of a value by its table alone.
#ifndef TRP_CODEC_TYPE_H
#define TRP_CODEC_TYPE_H

#include <runtime/codec/msgpack.h>

// Whether values hold no pointers, so that a memcpy is a copy. References and handles are flat.
bool trp_type_is_flat(const troupe_type *type);

// Copies a value deeply; pointers in the copy go to `arena`.
troupe_status trp_value_copy(const troupe_type *type, const void *value, trp_arena *arena,
                             void *copy);

// Calls `visit` for each non-empty troupe_ref inside the value (counted arrays included).
void trp_value_refs(const troupe_type *type, void *value,
                    void (*visit)(troupe_ref *ref, void *user), void *user);

// Calls `visit` for the address of each actor inside the value.
void trp_value_actors(const troupe_type *type, void *value,
                      void (*visit)(troupe_actor *actor, void *user), void *user);

#endif
