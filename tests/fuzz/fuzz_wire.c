// fuzz_wire.c: any bytes, read as a value. The first byte chooses the type, the rest is the
// message.
//
// What is accepted must be a value like any other: it packs, the packed form is read back as the
// same value, a deep copy is the same, and it can be printed; and it took no more memory than
// allowed.
#include <runtime/codec/msgpack.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/type.h>
#include <runtime/codec/unpack.h>
#include <shapes.h>

TROUPE_STRUCT(tree, (troupe_array_everything, all), (troupe_array_layer, layers),
              (troupe_array_troupe_text, texts), (troupe_none, nothing));

static const troupe_type *const types[] = {
    &troupe_type_everything,
    &troupe_type_tree,
    &troupe_type_layer,
    &troupe_type_troupe_array_layer,
    &troupe_type_troupe_text,
    &troupe_type_troupe_array_troupe_text,
    &troupe_type_troupe_bytes,
    &troupe_type_troupe_array_troupe_bytes,
    &troupe_type_troupe_actor,
    &troupe_type_troupe_array_troupe_ref,
    &troupe_type_troupe_array_bool,
    &troupe_type_troupe_array_double,
    &troupe_type_int8_t,
    &troupe_type_uint64_t,
    &troupe_type_float,
    &troupe_type_double,
    &troupe_type_bool,
    &troupe_type_troupe_none,
    &troupe_type_troupe_array_tree,
    &troupe_type_clerk_actor,
    &troupe_type_troupe_tensor,
    &troupe_type_troupe_array_troupe_tensor,
};

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void count_refs(troupe_ref *ref, void *count)
{
    (void)ref;
    ++*(size_t *)count;
}

static void check_value(const troupe_type *type, void *value)
{
    _Alignas(16) static unsigned char other[sizeof(everything) + sizeof(tree)];
    trp_arena arena = {NULL};
    trp_buffer packed = {0}, again = {0};
    require(trp_pack(type, value, &packed) == TROUPE_OK);
    require(trp_unpack_whole(type, packed.data, packed.size, &arena, other) == TROUPE_OK);
    require(shapes_same(type, value, other));
    require(trp_pack(type, other, &again) == TROUPE_OK);
    require(again.size == packed.size && memcmp(again.data, packed.data, packed.size) == 0);
    require(trp_value_copy(type, value, &arena, other) == TROUPE_OK);
    require(shapes_same(type, value, other));
    char line[100];
    require(troupe_print_as(type, value, line, sizeof(line)) >= strlen(line));
    size_t refs = 0;
    trp_value_refs(type, value, count_refs, &refs);
    trp_buffer_free(&packed);
    trp_buffer_free(&again);
    trp_arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const troupe_type *type = types[data[0] % (sizeof(types) / sizeof(types[0]))];
    _Alignas(16) static unsigned char value[sizeof(everything) + sizeof(tree)];
    require(type->size <= sizeof(value));
    trp_arena arena = {NULL};
    troupe_status status = trp_unpack_whole(type, data + 1, size - 1, &arena, value);
    require(trp_arena_size(&arena) <= 2 * (TRP_GROWTH_MAX * size + 4096));
    if (status == TROUPE_OK)
        check_value(type, value);
    else
        require(status == TROUPE_MALFORMED);
    trp_arena_clear(&arena);
    trp_reader in = trp_reader_of(data, size);
    while (trp_read_skip(&in) == TROUPE_OK)
        require(in.at > data && in.at <= data + size);
    return 0;
}
