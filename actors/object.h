// object.h: reading objects of the store as typed values.
#ifndef TRP_ACTORS_OBJECT_H
#define TRP_ACTORS_OBJECT_H

#include <actors/class.h>
#include <runtime/buffer.h>
#include <runtime/store.h>

// Reads the value of an object that is ready into the thread's arena. The holds are untouched.
troupe_status trp_object_read(trp_object object, const trp_shape *shape, void *value);
// Appends the value as MessagePack.
troupe_status trp_object_pack(trp_object object, trp_buffer *out);
// Sets the failure that an object is in place of a value.
troupe_status trp_object_failure(const trp_object_info *info);
// TROUPE_WRONG_TYPE with both names unless the hashes are equal.
troupe_status trp_schema_check(uint64_t wanted, uint64_t found);

#endif
