// pack.h: packing values by their type's table.
#ifndef TRP_CODEC_PACK_H
#define TRP_CODEC_PACK_H

#include <runtime/codec/msgpack.h>

// Packs a value at the end of the buffer.
troupe_status trp_pack(const troupe_type *type, const void *value, trp_buffer *out);

#endif
