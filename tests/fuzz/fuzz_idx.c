// fuzz_idx.c: any bytes, as an IDX file.
//
// What is accepted is a tensor whose elements are the rest of the bytes.
#include <models/idx.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    trp_idx idx;
    troupe_status status = trp_idx_parse("it", data, size, &idx);
    require(status == TROUPE_OK || status == TROUPE_MALFORMED || status == TROUPE_UNSUPPORTED);
    if (status != TROUPE_OK)
        return 0;
    require(idx.array.data == data + idx.offset && idx.offset + idx.bytes == size);
    require(troupe_tensor_check(&idx.array, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY) == TROUPE_OK);
    require(troupe_tensor_count(&idx.array) * troupe_dtype_size(idx.array.dtype) == idx.bytes);
    void *out = malloc(idx.bytes > 0 ? idx.bytes : 1); // So that a sanitizer sees its end.
    require(out != NULL);
    trp_idx_read(&idx, out);
    free(out);
    return 0;
}
