// fuzz_json.c: any bytes, as a JSON text that is checked, walked, read by a type and written again.
//
// What is accepted has a canonical form that is accepted and its own canonical form; what is read
// by a type is written as a text that reads back as the same; memory stays within bounds.
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <shapes.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool same(const trp_buffer *a, const trp_buffer *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

static void check_canonical(trp_json text)
{
    trp_buffer once = {0}, twice = {0};
    trp_json again;
    if (trp_json_canonical(text, &once) == TROUPE_OK) {
        require(trp_json_parse((const char *)once.data, once.size, &again) == TROUPE_OK);
        require(trp_json_canonical(again, &twice) == TROUPE_OK);
        require(same(&once, &twice));
    }
    trp_buffer_free(&once);
    trp_buffer_free(&twice);
}

static void check_value(const troupe_type *type, const void *value, void *other)
{
    trp_arena arena = {NULL};
    trp_buffer once = {0}, twice = {0};
    trp_json text;
    trp_json_value(&once, type, value);
    require(trp_json_parse((const char *)once.data, once.size, &text) == TROUPE_OK);
    require(trp_json_read(type, text, &arena, other) == TROUPE_OK);
    trp_json_value(&twice, type, other);
    require(same(&once, &twice));
    trp_buffer_free(&once);
    trp_buffer_free(&twice);
    trp_arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const troupe_type *const types[] = {&troupe_type_everything, &troupe_type_layer,
                                               &troupe_type_troupe_array_layer,
                                               &troupe_type_troupe_array_double};
    trp_json text, name, value;
    if (trp_json_parse((const char *)data, size, &text) != TROUPE_OK)
        return 0;
    for (trp_json at = {0}; trp_json_next_member(text, &at, &name, &value);)
        require(value.at + value.size <= (const char *)data + size);
    for (trp_json item = {0}; trp_json_next_item(text, &item);)
        require(item.at + item.size <= (const char *)data + size);
    check_canonical(text);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        _Alignas(16) static unsigned char made[sizeof(everything)], other[sizeof(everything)];
        trp_arena arena = {NULL};
        memset(made, 0, sizeof(made));
        memset(other, 0, sizeof(other));
        if (trp_json_read(types[i], text, &arena, made) == TROUPE_OK)
            check_value(types[i], made, other);
        require(trp_arena_size(&arena) <= 2 * (1024 * size + (1 << 16)) + 4096);
        trp_arena_clear(&arena);
    }
    return 0;
}
