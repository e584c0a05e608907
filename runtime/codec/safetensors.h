// safetensors.h: the format of safetensors files, which other programs read and write too: named
// tensors and some texts.
//
//     0                8              8 + n
//     | n, uint64 (LE) | header, JSON | data
//
// The header has for each tensor its type, shape and place in the data, which they fill without a
// hole and without sharing a byte: {"__metadata__": {"text": "text"}, "weights": {"dtype": "F32",
// "shape": [3, 4], "data_offsets": [0, 48]}}.
#ifndef TRP_CODEC_SAFETENSORS_H
#define TRP_CODEC_SAFETENSORS_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>
#include <troupe/safetensors.h>

#define TRP_SAFETENSORS_METADATA "__metadata__" // No tensor can have this name.

// ---- reading

typedef struct trp_safetensor {
    const char *name;
    const char *type;   // As the file says it: "F32".
    troupe_dtype dtype; // TROUPE_DTYPE_NONE: a troupe_tensor cannot have such elements.
    size_t ndim;
    const uint64_t *shape;
    size_t offset, size; // Of its bytes, from the beginning of the file.
} trp_safetensor;

typedef struct trp_safetensors {
    const trp_safetensor *items; // In the order of names.
    size_t count;
    trp_json metadata; // An object of texts, in the file's bytes; its size is 0: there is none.
} trp_safetensors;

// Checks the bytes of a whole file and says what is in it; `path` is for error texts. All but the
// metadata goes to `arena`. TROUPE_CORRUPT: anything but one well-formed file.
troupe_status trp_safetensors_parse(const char *path, const void *data, size_t size,
                                    trp_arena *arena, trp_safetensors *file);

// The tensor of that name; NULL: there is none.
const trp_safetensor *trp_safetensors_find(const trp_safetensors *file, const char *name);

// One as a value; its elements, at `data`, are not copied. TROUPE_UNSUPPORTED: a type or a number
// of dimensions that a troupe_tensor cannot have.
troupe_status trp_safetensor_value(const char *path, const trp_safetensor *tensor, const void *data,
                                   troupe_tensor *value);

// ---- writing

// A tensor to be written: `count` runs of `each` bytes that lie `stride` bytes apart.
typedef struct trp_safetensor_source {
    const char *name;
    troupe_dtype dtype;
    uint32_t ndim;
    size_t shape[TROUPE_DIMS_MAX];
    const void *data;
    size_t each, count, stride;
    size_t offset; // From the beginning of the file: set by trp_safetensors_head.
    size_t order;
} trp_safetensor_source;

// Appends the bytes before the data to `out`, which is empty, and puts the tensors in the order in
// which their data follow: those with larger elements first, so that each is aligned to its own.
// Names differ, and all is in UTF-8. *size is that of the file. Out of memory: `out->failed`.
void trp_safetensors_head(trp_safetensor_source *tensors, size_t count,
                          const troupe_named_text *metadata, size_t texts, trp_buffer *out,
                          size_t *size);

#endif
