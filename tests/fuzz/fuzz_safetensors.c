// fuzz_safetensors.c: any bytes, as a safetensors file.
//
// What is accepted lies within the bytes, one tensor behind the other, is found by its name, and is
// the same once it is written again.
#include <runtime/base/memory.h>
#include <runtime/codec/safetensors.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

// What a troupe_tensor can be, as it is to be written; the others are left out.
static size_t take_sources(const trp_safetensors *file, const uint8_t *data,
                           trp_safetensor_source *sources)
{
    size_t count = 0;
    for (size_t i = 0; i < file->count; i++) {
        troupe_tensor value;
        const trp_safetensor *item = &file->items[i];
        if (trp_safetensor_value("it", item, data + item->offset, &value) != TROUPE_OK)
            continue;
        trp_safetensor_source source = {.name = item->name,
                                        .dtype = value.dtype,
                                        .ndim = value.ndim,
                                        .data = value.data,
                                        .each = item->size,
                                        .count = 1};
        memcpy(source.shape, value.shape, sizeof source.shape);
        sources[count++] = source;
    }
    return count;
}

static void write_again(const trp_safetensors *file, const uint8_t *data)
{
    trp_safetensor_source *sources =
        (trp_safetensor_source *)trp_alloc((file->count + 1) * sizeof *sources);
    size_t count = take_sources(file, data, sources), size = 0;
    trp_buffer out = {0};
    trp_arena arena = {NULL};
    trp_safetensors again;
    trp_safetensors_head(sources, count, NULL, 0, &out, &size);
    require(!out.failed && out.size % 8 == 0 && out.size <= size);
    for (size_t i = 0; i < count; i++)
        trp_buffer_append(&out, sources[i].data, sources[i].each);
    require(out.size == size);
    require(trp_safetensors_parse("it", out.data, out.size, &arena, &again) == TROUPE_OK);
    require(again.count == count);
    for (size_t i = 0; i < count; i++) {
        const trp_safetensor *found = trp_safetensors_find(&again, sources[i].name);
        require(found != NULL && found->dtype == sources[i].dtype &&
                found->ndim == sources[i].ndim && found->size == sources[i].each &&
                found->offset == sources[i].offset &&
                found->offset % troupe_dtype_size(found->dtype) == 0);
    }
    trp_arena_clear(&arena);
    trp_buffer_free(&out);
    trp_free(sources);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    trp_arena arena = {NULL};
    trp_safetensors file;
    troupe_status status = trp_safetensors_parse("it", data, size, &arena, &file);
    require(status == TROUPE_OK || status == TROUPE_CORRUPT);
    // Bound by what it was given.
    require(trp_arena_size(&arena) <= 1024 * size + (1 << 16));
    if (status == TROUPE_OK) {
        size_t bytes = 0;
        for (size_t i = 0; i < file.count; i++) {
            const trp_safetensor *item = &file.items[i];
            require(item->offset <= size && item->size <= size - item->offset);
            require(trp_safetensors_find(&file, item->name) == item);
            bytes += item->size;
        }
        require(bytes <= size);
        write_again(&file, data);
    }
    trp_arena_clear(&arena);
    return 0;
}
