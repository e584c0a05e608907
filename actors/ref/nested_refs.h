// nested_refs.h: values with references that become objects: what they name, and reading them.
#ifndef TRP_REF_NESTED_REFS_H
#define TRP_REF_NESTED_REFS_H

#include <actors/class/class.h>
#include <runtime/base/buffer.h>
#include <runtime/store/store.h>

// Objects that a value names, in the order of a walk over it, with a hold of this process each.
typedef struct trp_naming {
    trp_object *ids;
    uint32_t count, room;
} trp_naming;

// Packs a value whose references become objects' ids, as in a message, and notes these; the value's
// own are untouched.
troupe_status trp_naming_pack(const trp_shape *shape, const void *value, trp_naming *named,
                              trp_buffer *packed);
// Notes one more, of which a hold is taken.
troupe_status trp_naming_add(trp_naming *named, trp_object object);
// Makes an object of a packed value, or a list for a promise (NO_MEMORY: without waiting for room),
// which has the holds from then on.
troupe_status trp_naming_put(trp_naming *named, const trp_buffer *packed, uint64_t schema,
                             trp_object *object);
troupe_status trp_naming_list(trp_naming *named, trp_object *list);
// Gives back what is left.
void trp_naming_drop(trp_naming *named);

// Makes the references in a value that was read from an object its reader's own.
troupe_status trp_naming_own(const trp_object_info *info, const troupe_type *type, void *value);
// Takes a hold of each object that one names, for who reads it packed.
troupe_status trp_naming_hold(const trp_object_info *info);

#endif
