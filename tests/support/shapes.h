// shapes.h: types and values for tests of everything that walks a type's table: one struct with a
// field of every kind, types and values made at random from a seed, and a deep comparison.
#ifndef TROUPE_TEST_SHAPES_H
#define TROUPE_TEST_SHAPES_H

#include <stdlib.h>
#include <string.h>
#include <troupe/tensor.h>

// A typed handle, as TROUPE_ACTOR declares it.
typedef struct clerk_actor {
    troupe_actor address;
} clerk_actor;
TROUPE_ARRAY_DECLARE_(clerk_actor);
static const troupe_type troupe_type_clerk_actor = {
    TROUPE_ABI, TROUPE_KIND_ACTOR, "clerk_actor", sizeof(clerk_actor), NULL, 0, NULL, NULL, {NULL}};
static const troupe_type troupe_type_troupe_array_clerk_actor = {TROUPE_ABI,
                                                                 TROUPE_KIND_ARRAY,
                                                                 "troupe_array_clerk_actor",
                                                                 sizeof(troupe_array_clerk_actor),
                                                                 NULL,
                                                                 0,
                                                                 &troupe_type_clerk_actor,
                                                                 NULL,
                                                                 {NULL}};

TROUPE_STRUCT(point, (float, x), (float, y));
TROUPE_STRUCT(layer, (troupe_text, name), (double, rate), (point, corners, 2),
              (troupe_array_int32_t, sizes));
TROUPE_STRUCT(everything, (bool, yes), (int8_t, i8), (int16_t, i16), (int32_t, i32), (int64_t, i64),
              (uint8_t, u8), (uint16_t, u16), (uint32_t, u32), (uint64_t, u64), (int, i),
              (size_t, z), (float, f), (double, d), (troupe_text, text), (troupe_bytes, bytes),
              (troupe_ref, ref), (troupe_actor, actor), (clerk_actor, typed), (layer, nested),
              (double, matrix, 6), (bool, flags, 3), (troupe_text, names, 2), (layer, layers, 2),
              (troupe_array_bool, bools), (troupe_array_int8_t, i8s), (troupe_array_uint16_t, u16s),
              (troupe_array_int, ints), (troupe_array_size_t, sizes), (troupe_array_float, floats),
              (troupe_array_double, doubles), (troupe_array_troupe_text, texts),
              (troupe_array_troupe_bytes, blobs), (troupe_array_troupe_ref, refs),
              (troupe_array_clerk_actor, clerks), (troupe_array_layer, stack),
              (troupe_tensor, tensor), (troupe_array_troupe_tensor, tensors));

// ---- random numbers: splitmix64, the same everywhere for the same seed

typedef struct shapes_random {
    uint64_t state;
} shapes_random;

TROUPE_UNUSED static uint64_t shapes_next(shapes_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

TROUPE_UNUSED static size_t shapes_below(shapes_random *random, size_t limit)
{
    return (size_t)(shapes_next(random) % limit);
}

// ---- memory of a test: chained, freed at once

typedef struct shapes_memory {
    void **blocks;
    size_t count;
} shapes_memory;

TROUPE_UNUSED static void *shapes_take(shapes_memory *memory, size_t size)
{
    void **more = (void **)realloc((void *)memory->blocks, (memory->count + 1) * sizeof(void *));
    void *block = calloc(1, size ? size : 1);
    if (!more || !block)
        abort();
    memory->blocks = more;
    memory->blocks[memory->count++] = block;
    return block;
}

TROUPE_UNUSED static void shapes_free(shapes_memory *memory)
{
    for (size_t i = 0; i < memory->count; i++)
        free(memory->blocks[i]);
    free((void *)memory->blocks);
    *memory = (shapes_memory){NULL, 0};
}

// ---- random types

static const troupe_type *const shapes_leaves[] = {
    &troupe_type_bool,         &troupe_type_int8_t,      &troupe_type_int16_t,
    &troupe_type_int32_t,      &troupe_type_int64_t,     &troupe_type_uint8_t,
    &troupe_type_uint16_t,     &troupe_type_uint32_t,    &troupe_type_uint64_t,
    &troupe_type_float,        &troupe_type_double,      &troupe_type_troupe_text,
    &troupe_type_troupe_bytes, &troupe_type_troupe_ref,  &troupe_type_troupe_actor,
    &troupe_type_clerk_actor,  &troupe_type_troupe_none, &troupe_type_troupe_tensor,
};

TROUPE_UNUSED static size_t shapes_align(const troupe_type *type)
{
    if (type->kind >= TROUPE_KIND_BOOL && type->kind <= TROUPE_KIND_FLOAT)
        return type->size;
    return type->kind == TROUPE_KIND_NONE ? 1 : 8;
}

// A type that nests at most `depth` levels.
TROUPE_UNUSED static const troupe_type *shapes_type(shapes_random *random, shapes_memory *memory,
                                                    int depth)
{
    size_t leaves = sizeof(shapes_leaves) / sizeof(shapes_leaves[0]);
    size_t choice = shapes_below(random, depth > 0 ? leaves + 12 : leaves);
    if (choice < leaves)
        return shapes_leaves[choice];
    troupe_type *type = (troupe_type *)shapes_take(memory, sizeof(*type));
    type->abi = TROUPE_ABI;
    type->hash = (uint64_t *)shapes_take(memory, sizeof(uint64_t));
    if (choice < leaves + 4) {
        type->kind = TROUPE_KIND_ARRAY;
        type->name = "some_array";
        type->size = sizeof(troupe_array_double);
        type->item = shapes_type(random, memory, depth - 1);
        return type;
    }
    type->kind = TROUPE_KIND_RECORD;
    type->name = "some_record";
    type->field_count = 1 + shapes_below(random, 20);
    troupe_field *fields = (troupe_field *)shapes_take(memory, type->field_count * sizeof(*fields));
    for (size_t i = 0; i < type->field_count; i++) {
        troupe_field *field = &fields[i];
        char *name = (char *)shapes_take(memory, 8);
        name[0] = 'a', name[1] = (char)('a' + i);
        field->name = name;
        // A quarter of the fields are not leaves of their own accord; keep the whole small.
        field->type = shapes_type(random, memory, shapes_below(random, 3) ? 0 : depth - 1);
        field->count = shapes_below(random, 4) ? 0 : 1 + shapes_below(random, 3);
        size_t align = shapes_align(field->type);
        type->size = (type->size + align - 1) / align * align;
        field->offset = type->size;
        type->size += field->type->size * (field->count ? field->count : 1);
    }
    type->size = (type->size + 15) / 16 * 16;
    type->fields = fields;
    return type;
}

// ---- random values

TROUPE_UNUSED static char *shapes_text(shapes_random *random, shapes_memory *memory)
{
    static const char *const parts[] = {
        "a",  "zebra", "\xc3\xa4",        "\xe2\x82\xac", "\xf0\x9f\x8e\xad",
        "\n", "\"",    "0123456789abcdef"};
    char *text = (char *)shapes_take(memory, 200);
    for (size_t i = shapes_below(random, 6); i > 0; i--)
        strcat(text, parts[shapes_below(random, 8)]);
    return text;
}

TROUPE_UNUSED static void shapes_fill(shapes_random *random, shapes_memory *memory,
                                      const troupe_type *type, void *value);

// Small, but one in many is large enough to be padded when it is packed.
TROUPE_UNUSED static void shapes_fill_tensor(shapes_random *random, shapes_memory *memory,
                                             troupe_tensor *tensor)
{
    tensor->dtype = (troupe_dtype)shapes_below(random, TROUPE_FLOAT64 + 1);
    tensor->ndim = tensor->dtype ? (uint32_t)shapes_below(random, TROUPE_DIMS_MAX + 1) : 0;
    for (uint32_t i = 0; i < tensor->ndim; i++)
        tensor->shape[i] = shapes_below(random, tensor->ndim == 2 ? 64 : 4);
    size_t size = troupe_tensor_count(tensor) * troupe_dtype_size(tensor->dtype);
    unsigned char *bytes = size > 0 ? (unsigned char *)shapes_take(memory, size) : NULL;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(shapes_next(random) & (tensor->dtype == TROUPE_BOOL ? 1 : 255));
    tensor->data = bytes;
}

TROUPE_UNUSED static void shapes_fill_items(shapes_random *random, shapes_memory *memory,
                                            const troupe_type *item, void *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        shapes_fill(random, memory, item, (char *)items + i * item->size);
}

// Fills a zeroed value; half of the numbers are small, the others any bits (NaN and infinity too).
TROUPE_UNUSED static void shapes_fill(shapes_random *random, shapes_memory *memory,
                                      const troupe_type *type, void *value)
{
    uint64_t bits = shapes_next(random);
    if (shapes_below(random, 2))
        bits >>= 57;
    struct {
        void *items;
        size_t count;
    } array = {NULL, 0};
    switch (type->kind) {
    case TROUPE_KIND_NONE:
        break;
    case TROUPE_KIND_BOOL:
        *(unsigned char *)value = bits & 1;
        break;
    case TROUPE_KIND_CHAR:
    case TROUPE_KIND_INT:
    case TROUPE_KIND_UINT:
    case TROUPE_KIND_FLOAT:
        memcpy(value, &bits, type->size);
        break;
    case TROUPE_KIND_TEXT:
        if (shapes_below(random, 4))
            *(troupe_text *)value = shapes_text(random, memory);
        break;
    case TROUPE_KIND_BYTES:
        array.count = shapes_below(random, 3) ? shapes_below(random, 300) : 0;
        array.items = array.count ? shapes_take(memory, array.count) : NULL;
        for (size_t i = 0; i < array.count; i++)
            ((unsigned char *)array.items)[i] = (unsigned char)shapes_next(random);
        memcpy(value, &array, sizeof(array));
        break;
    case TROUPE_KIND_TENSOR:
        shapes_fill_tensor(random, memory, (troupe_tensor *)value);
        break;
    case TROUPE_KIND_REF:
        *(troupe_ref *)value = (troupe_ref){bits, shapes_next(random)};
        break;
    case TROUPE_KIND_ACTOR: // The options stay 0: they do not travel.
        *(troupe_actor *)value = (troupe_actor){
            .id = bits, .incarnation = shapes_next(random), .node = (uint32_t)shapes_next(random)};
        break;
    case TROUPE_KIND_ARRAY:
        array.count = shapes_below(random, 5);
        array.items = array.count ? shapes_take(memory, array.count * type->item->size) : NULL;
        shapes_fill_items(random, memory, type->item, array.items, array.count);
        memcpy(value, &array, sizeof(array));
        break;
    case TROUPE_KIND_RECORD:
        for (size_t i = 0; i < type->field_count; i++) {
            const troupe_field *field = &type->fields[i];
            shapes_fill_items(random, memory, field->type, (char *)value + field->offset,
                              field->count ? field->count : 1);
        }
        break;
    }
}

// ---- comparison: numbers bit by bit, pointers by what they point to and never the same pointer

TROUPE_UNUSED static bool shapes_same(const troupe_type *type, const void *a, const void *b);

TROUPE_UNUSED static bool shapes_same_tensor(const troupe_tensor *a, const troupe_tensor *b)
{
    size_t size = troupe_tensor_count(a) * troupe_dtype_size(a->dtype);
    if (a->dtype != b->dtype || a->ndim != b->ndim ||
        memcmp(a->shape, b->shape, a->ndim * sizeof(a->shape[0])) != 0)
        return false;
    if (size == 0)
        return !b->data;
    return a->data != b->data && (uintptr_t)b->data % 64 == 0 &&
           memcmp(a->data, b->data, size) == 0;
}

TROUPE_UNUSED static bool shapes_same_items(const troupe_type *item, const void *a, const void *b,
                                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!shapes_same(item, (const char *)a + i * item->size, (const char *)b + i * item->size))
            return false;
    }
    return true;
}

TROUPE_UNUSED static bool shapes_same(const troupe_type *type, const void *a, const void *b)
{
    troupe_array_uint8_t one, two;
    switch (type->kind) {
    case TROUPE_KIND_NONE:
        return true;
    case TROUPE_KIND_TEXT: {
        troupe_text left = *(const troupe_text *)a, right = *(const troupe_text *)b;
        return !left || !right ? left == right : left != right && strcmp(left, right) == 0;
    }
    case TROUPE_KIND_BYTES:
    case TROUPE_KIND_ARRAY:
        memcpy(&one, a, sizeof(one));
        memcpy(&two, b, sizeof(two));
        if (one.count != two.count || (one.count > 0 && one.items == two.items))
            return false;
        if (one.count == 0)
            return !two.items;
        return type->kind == TROUPE_KIND_BYTES
                   ? memcmp(one.items, two.items, one.count) == 0
                   : shapes_same_items(type->item, one.items, two.items, one.count);
    case TROUPE_KIND_TENSOR:
        return shapes_same_tensor((const troupe_tensor *)a, (const troupe_tensor *)b);
    case TROUPE_KIND_RECORD:
        for (size_t i = 0; i < type->field_count; i++) {
            const troupe_field *field = &type->fields[i];
            if (!shapes_same_items(field->type, (const char *)a + field->offset,
                                   (const char *)b + field->offset,
                                   field->count ? field->count : 1))
                return false;
        }
        return true;
    default:
        return memcmp(a, b, type->size) == 0;
    }
}

#endif
