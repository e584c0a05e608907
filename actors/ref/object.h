// object.h: reading objects of the store as typed values.
#ifndef TRP_REF_OBJECT_H
#define TRP_REF_OBJECT_H

#include <actors/class/class.h>
#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <runtime/store/store.h>

// Makes a sealed object of a value without references, held by this process.
troupe_status trp_object_put(const trp_shape *shape, const void *value, trp_object *object);
// Reads the value of an object that is ready into the thread's arena. The holds are untouched.
troupe_status trp_object_read(trp_object object, const trp_shape *shape, void *value);
// As trp_object_read for a method's arguments, which may lie in the object itself: `room` has room
// for one, what else they need comes from the arena. On success the object is pinned until
// trp_store_unpin.
troupe_status trp_object_lend_args(trp_object object, const trp_shape *shape, trp_arena *arena,
                                   void *room, void **args);
// The value as MessagePack, in the thread's arena. The references in it are the caller's own.
troupe_status trp_object_pack(trp_object object, troupe_bytes *value);
// Copies what was packed into the thread's arena.
troupe_status trp_packed_give(const trp_buffer *packed, troupe_bytes *value);
// Sets the failure that an object is in place of a value.
troupe_status trp_object_failure(const trp_object_info *info);
// TROUPE_WRONG_TYPE with both names unless the hashes are equal.
troupe_status trp_schema_check(uint64_t wanted, uint64_t found);

#endif
