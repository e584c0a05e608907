// unpack.h: reading packed values by their type's table.
#ifndef TRP_CODEC_UNPACK_H
#define TRP_CODEC_UNPACK_H

#include <runtime/codec/msgpack.h>

// Reads one value; pointers in it go to `arena`. *value is set only on success. What it takes from
// the arena is bounded by TRP_GROWTH_MAX times the bytes left: nothing is reserved for items that
// those bytes could not hold. TROUPE_MALFORMED, TROUPE_NO_MEMORY.
troupe_status trp_unpack(const troupe_type *type, trp_reader *in, trp_arena *arena, void *value);

// As trp_unpack, of bytes that stay where they are as long as the value is used: the elements of a
// tensor that lie aligned there are not copied.
troupe_status trp_unpack_lent(const troupe_type *type, trp_reader *in, trp_arena *arena,
                              void *value);

// As trp_unpack, of bytes that hold exactly one value.
troupe_status trp_unpack_whole(const troupe_type *type, const void *data, size_t size,
                               trp_arena *arena, void *value);

#endif
