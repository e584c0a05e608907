// state.h: the file that troupe_save makes: a safetensors file, which other programs read, with a
// text "troupe" in its metadata: what the state is, and what of it no tensor can hold.
//
//     {"format": 1, "library": "0.2.0", "type": "model", "schema": "892e4420a8ec601f",
//      "values": {"note": "a text", "layers": [{"name": "first"}, {"name": null}]}}
//
// state_walk.h says which tensors there are. In "values" a record is an object of those members of
// which something remains, in their order; a text is a text or null, a troupe_tensor whether it is
// one, an array what remains of each item, or their number where nothing does.
#ifndef TRP_STATE_H
#define TRP_STATE_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <train/sealed.h>
#include <troupe/wire.h>

// Appends the file of a state to `out`, which is empty; `path` is for error texts. Each element is
// copied once.
troupe_status trp_state_pack(const char *path, const troupe_type *type, const void *value,
                             trp_buffer *out);

// Reads and verifies the file of a state, also one that an earlier library sealed; `expected` is
// what it must be. Pointers in *value go to `arena`. TROUPE_WRONG_TYPE names both types. *value is
// set only on success.
troupe_status trp_state_read(const char *path, const troupe_type *type,
                             const trp_expected *expected, trp_arena *arena, void *value);

// The same of bytes in memory; `path` is for error texts.
troupe_status trp_state_unpack(const char *path, const void *data, size_t size,
                               const troupe_type *type, trp_arena *arena, void *value);

// What a file says of its state, in the text "troupe".
#define TRP_STATE_TEXT "troupe"
enum { TRP_STATE_FORMAT = 1 };

#endif
