// sealed.h: a file with one packed value that can be verified alone: the manifests and the states
// of checkpoints that earlier libraries made. They are read, and not written any more.
//
//     magic "TRPSEAL\n" | version | schema | payload size | XXH64 of the payload | type's name |
//     XXH64 of the header so far | payload
//
// All numbers are little-endian. The file is exactly as long as it says; a change of any byte, and
// a cut at any place, are found.
#ifndef TRP_SEALED_H
#define TRP_SEALED_H

#include <runtime/base/arena.h>
#include <stdbool.h>
#include <troupe/wire.h>

// What a sealed file says of its payload.
typedef struct trp_seal {
    uint64_t schema, size, checksum;
} trp_seal;

// What a file must be: XXH64 and size of all of it, or of its payload.
typedef struct trp_expected {
    uint64_t size, digest;
    bool payload;
} trp_expected;

// Whether the bytes begin as those of a sealed file.
bool trp_sealed_is(const void *data, size_t size);
// Reads and verifies the file without unpacking it. TROUPE_NOT_FOUND, TROUPE_CORRUPT,
// TROUPE_VERSION.
troupe_status trp_sealed_verify(const char *path, trp_seal *seal);
// Reads, verifies and unpacks; `expected` (may be NULL) is what the file must be. Pointers in
// *value go to `arena`. TROUPE_WRONG_TYPE names both types. *value is set only on success.
troupe_status trp_sealed_read(const char *path, const troupe_type *type,
                              const trp_expected *expected, trp_arena *arena, void *value);
// The same of the file's bytes in memory; `path` is for error texts.
troupe_status trp_sealed_unpack(const char *path, const troupe_type *type, const void *data,
                                size_t size, const trp_expected *expected, trp_arena *arena,
                                void *value);

#endif
