// fuzz_route.c: any bytes, as what a client or a service sends on a route's socket. The first byte
// says which, and how many come at once.
//
// What is accepted as a tensor has the bytes that its type and dimensions take.
#include <serve/route_frame.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_frame(const trp_route_reader *reader)
{
    const trp_route_head *head = &reader->head;
    if (reader->dropped)
        return;
    require(reader->body[head->size] == '\0');
    if (head->kind == TRP_ROUTE_FAILURE) {
        require(!reader->from_client && head->status != TROUPE_OK);
        return;
    }
    troupe_tensor it = trp_route_tensor(reader);
    size_t size = troupe_tensor_count(&it) * troupe_dtype_size(it.dtype);
    require(troupe_tensor_check(&it, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY) == TROUPE_OK);
    require(size == head->size);
    void *copy = malloc(size + 1); // So that a sanitizer sees its end.
    require(copy != NULL);
    memcpy(copy, it.data, size);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    _Atomic uint64_t held = 0;
    trp_route_reader reader = {.from_client = (data[0] & 1) != 0, .held = &held};
    size_t step = 1 + (size_t)data[0] / 2;
    for (size_t at = 1, used; at < size; at += used) {
        size_t now = size - at < step ? size - at : step;
        if (trp_route_read(&reader, data + at, now, &used) != TROUPE_OK)
            break;
        require(used > 0 && used <= now);
        if (reader.whole)
            check_frame(&reader);
    }
    trp_route_reader_clear(&reader);
    require(held == 0);
    return 0;
}
