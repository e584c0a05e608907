// idx.h: IDX files, in which the MNIST database comes: one array of numbers.
//
//     0   two zero bytes, element type, number of dimensions
//     4   the dimensions, uint32 each, big-endian
//     ..  the elements, big-endian, the last dimension varying fastest
#ifndef TRP_MODELS_IDX_H
#define TRP_MODELS_IDX_H

#include <troupe/tensor.h>

typedef struct trp_idx {
    troupe_tensor array; // Its elements are in the file's bytes, as they are there.
    size_t offset, bytes;
} trp_idx;

// Checks the bytes of a whole file; `path` is for texts. TROUPE_MALFORMED: another format, or not
// as long as it says; TROUPE_UNSUPPORTED: more dimensions than a tensor has.
troupe_status trp_idx_parse(const char *path, const void *data, size_t size, trp_idx *idx);
// Writes its elements to `out`, as this machine has them.
void trp_idx_read(const trp_idx *idx, void *out);

#endif
