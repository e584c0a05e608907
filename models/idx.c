// idx.c: see idx.h.
#include <models/idx.h>

#include <endian.h>
#include <inttypes.h>
#include <runtime/codec/tensor.h>
#include <string.h>

enum {
    MAGIC = 4, // Bytes before the dimensions.
    DIMENSION = 4,
};

static troupe_dtype dtype_of(unsigned char code)
{
    switch (code) {
    case 0x08:
        return TROUPE_UINT8;
    case 0x09:
        return TROUPE_INT8;
    case 0x0b:
        return TROUPE_INT16;
    case 0x0c:
        return TROUPE_INT32;
    case 0x0d:
        return TROUPE_FLOAT32;
    case 0x0e:
        return TROUPE_FLOAT64;
    default:
        return TROUPE_DTYPE_NONE;
    }
}

static uint32_t big_endian(const unsigned char *at)
{
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return be32toh(number);
}

// The array that the header describes, and how many bytes its elements take.
static troupe_status read_head(const char *path, const unsigned char *at, size_t size, trp_idx *idx)
{
    if (size < MAGIC || at[0] != 0 || at[1] != 0 || dtype_of(at[2]) == TROUPE_DTYPE_NONE)
        return troupe_fail(TROUPE_MALFORMED,
                           "%s: no IDX file: expected two zero bytes, and 8 to 14 for the type of "
                           "its elements",
                           path);
    size_t ndim = at[3];
    if (ndim < 1 || ndim > TROUPE_DIMS_MAX)
        return troupe_fail(TROUPE_UNSUPPORTED, "%s: %zu dimensions: expected 1 to %d", path, ndim,
                           TROUPE_DIMS_MAX);
    idx->offset = MAGIC + DIMENSION * ndim;
    if (size < idx->offset)
        return troupe_fail(TROUPE_MALFORMED, "%s: %zu bytes, where its header alone has %zu", path,
                           size, idx->offset);
    idx->array = (troupe_tensor){.dtype = dtype_of(at[2]), .ndim = (uint32_t)ndim};
    for (size_t i = 0; i < ndim; i++)
        idx->array.shape[i] = big_endian(at + MAGIC + DIMENSION * i);
    if (trp_tensor_size(&idx->array, &idx->bytes) != TROUPE_OK)
        return troupe_fail(TROUPE_MALFORMED, "%s: its header says more than memory can hold", path);
    return TROUPE_OK;
}

troupe_status trp_idx_parse(const char *path, const void *data, size_t size, trp_idx *idx)
{
    trp_idx found = {0};
    TROUPE_TRY(read_head(path, (const unsigned char *)data, size, &found));
    if (size - found.offset != found.bytes)
        return troupe_fail(TROUPE_MALFORMED,
                           "%s: %zu bytes follow its header: expected %zu by its dimensions", path,
                           size - found.offset, found.bytes);
    found.array.data = (const unsigned char *)data + found.offset;
    *idx = found;
    return TROUPE_OK;
}

void trp_idx_read(const trp_idx *idx, void *out)
{
    size_t each = troupe_dtype_size(idx->array.dtype);
    const unsigned char *from = (const unsigned char *)idx->array.data;
    unsigned char *to = (unsigned char *)out;
    for (size_t i = 0; i < idx->bytes; i += each) {
        uint16_t two;
        uint32_t four;
        uint64_t eight;
        if (each == sizeof two) {
            memcpy(&two, from + i, sizeof two);
            two = be16toh(two);
            memcpy(to + i, &two, sizeof two);
        } else if (each == sizeof four) {
            memcpy(&four, from + i, sizeof four);
            four = be32toh(four);
            memcpy(to + i, &four, sizeof four);
        } else if (each == sizeof eight) {
            memcpy(&eight, from + i, sizeof eight);
            eight = be64toh(eight);
            memcpy(to + i, &eight, sizeof eight);
        } else {
            to[i] = from[i];
        }
    }
}
