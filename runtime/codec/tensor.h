// tensor.h: tensors as bytes: in MessagePack, and as objects of the store.
//
// In MessagePack: [element type, shape, padding, elements], for instance ["float32", [3, 4], bin,
// bin of 48 bytes]; nil for the type of a tensor that is none. The padding (less than 64 bytes,
// which mean nothing) brings the elements of larger ones to a multiple of 64 bytes from the start
// of the buffer, so that a reader of the buffer in shared memory need not copy them. In the store:
//
//     0             type, ndim, shape           128             128 + bytes of the elements
//     |-------------- head ----------------------|--- elements ---|
#ifndef TRP_CODEC_TENSOR_H
#define TRP_CODEC_TENSOR_H

#include <runtime/base/arena.h>
#include <runtime/codec/msgpack.h>
#include <troupe/tensor.h>

enum {
    TRP_TENSOR_ALIGN = 64,
    TRP_TENSOR_HEAD = 128,
    TRP_TENSOR_PADDED_MIN = 4096, // Elements that take less are not worth the padding.
    TRP_TENSOR_TEXT = 192,
};

// The bytes of the elements. TROUPE_INVALID: an unknown type, too many dimensions or elements.
troupe_status trp_tensor_size(const troupe_tensor *tensor, size_t *size);
// The same where `data` must be there, too.
troupe_status trp_tensor_good(const troupe_tensor *tensor, size_t *size);
// "float32[3,4]", whatever the value.
const char *trp_tensor_text(const troupe_tensor *tensor, char out[TRP_TENSOR_TEXT]);

// `size` bytes at a multiple of TRP_TENSOR_ALIGN, of the arena; TRP_TENSOR_SLACK more are taken.
enum { TRP_TENSOR_SLACK = TRP_TENSOR_ALIGN - 16 };
static inline void *trp_tensor_aligned(void *block)
{
    uintptr_t up = -(uintptr_t)block & (TRP_TENSOR_ALIGN - 1);
    return (unsigned char *)block + up;
}
// Replaces the pointer to the elements by one to a copy of them.
troupe_status trp_tensor_own(troupe_tensor *tensor, trp_arena *arena);

troupe_status trp_tensor_pack(const troupe_tensor *tensor, trp_buffer *out);
// Reads a packed one; the elements (`size` bytes) stay where they are, unaligned perhaps.
troupe_status trp_tensor_unpack(trp_reader *in, troupe_tensor *tensor, size_t *size);

// Writes an object's head.
void trp_tensor_head(const troupe_tensor *tensor, void *object);
// The tensor that an object of `size` bytes is. TROUPE_MALFORMED: it is none.
troupe_status trp_tensor_open(const void *object, size_t size, troupe_tensor *tensor);

#endif
