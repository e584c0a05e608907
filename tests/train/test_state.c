// test_state.c: states as safetensors files: of any type and value they come back bit for bit, and
// what is not whole is refused.
#include "shapes.h"
#include "support.h"

#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/codec/safetensors.h>
#include <runtime/codec/tensor.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <train/state.h>
#include <troupe/train.h>

static void pack(const troupe_type *type, const void *value, trp_buffer *packed)
{
    packed->size = 0;
    troupe_status status = trp_state_pack("a state", type, value, packed);
    if (status != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
}

static void expect_same(const troupe_type *type, const void *value, trp_buffer *packed)
{
    trp_arena arena = {0};
    void *read = calloc(1, type->size + 1);
    trp_buffer again = {0};
    pack(type, value, packed);
    troupe_status status =
        trp_state_unpack("a state", packed->data, packed->size, type, &arena, read);
    if (status != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    assert_true(shapes_same(type, value, read));
    pack(type, read, &again);
    assert_int_equal(again.size, packed->size);
    assert_memory_equal(again.data, packed->data, again.size);
    trp_buffer_free(&again);
    trp_arena_clear(&arena);
    free(read);
}

// Any state comes back as it was saved.
static void test_values_of_any_type_come_back_bit_for_bit(void **state)
{
    (void)state;
    enum { ROUNDS = 4000 };
    trp_buffer packed = {0};
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        shapes_random random = {seed};
        shapes_memory memory = {NULL, 0};
        const troupe_type *type =
            seed % 4 == 0 ? &troupe_type_everything : shapes_type(&random, &memory, 4);
        void *value = shapes_take(&memory, type->size);
        shapes_fill(&random, &memory, type, value);
        expect_same(type, value, &packed);
        shapes_free(&memory);
    }
    trp_buffer_free(&packed);
}

// ---- what is not copied

TROUPE_STRUCT(flat, (troupe_array_float, weights), (int64_t, step));
TROUPE_STRUCT(mixed, (troupe_array_float, weights), (troupe_tensor, other));

// Writes the file of a state and reads it; returns how much of the arena it takes.
static size_t come_back(const char *folder, const troupe_type *type, const void *value,
                        trp_arena *arena, void *read, size_t *size)
{
    trp_buffer packed = {0};
    char *path = support_path(folder, "state");
    pack(type, value, &packed);
    support_write_file(path, packed.data, packed.size);
    trp_expected expected = {packed.size, trp_digest(packed.data, packed.size), false};
    troupe_must(trp_state_read(path, type, &expected, arena, read));
    *size = packed.size;
    trp_buffer_free(&packed);
    free(path);
    return trp_arena_size(arena);
}

// To copy a large array takes longer than to read and to verify it: it is used where it was read.
static void test_large_arrays_are_not_copied(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20, SMALL = 1 << 10, SPARE = 4096 };
    char *folder = support_directory_make();
    float *values = calloc(COUNT, sizeof *values);
    trp_arena arena = {0};
    flat read = {0};
    mixed other = {0};
    size_t size;
    assert_non_null(values);
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)i;
    flat saved = {{values, COUNT}, 7};
    size_t held = come_back(folder, &troupe_type_flat, &saved, &arena, &read, &size);
    assert_in_range(held, size, size + SPARE);
    assert_int_equal(read.weights.count, COUNT);
    assert_memory_equal(read.weights.items, values, COUNT * sizeof *values);
    assert_int_equal((uintptr_t)read.weights.items % 16, 0);
    ((float *)read.weights.items)[COUNT - 1] = 1; // It is the reader's.
    trp_arena_clear(&arena);
    // One that is small is, so that the file does not stay in memory for it,
    saved.weights.count = SMALL;
    held = come_back(folder, &troupe_type_flat, &saved, &arena, &read, &size);
    assert_true(held >= SMALL * sizeof *values);
    assert_memory_equal(read.weights.items, values, SMALL * sizeof *values);
    trp_arena_clear(&arena);
    // nor where there is much else.
    mixed both = {{values, COUNT / 2}, troupe_tensor_of(TROUPE_FLOAT32, values, 2, COUNT / 2)};
    held = come_back(folder, &troupe_type_mixed, &both, &arena, &other, &size);
    assert_in_range(held, size - SPARE, size + SPARE);
    assert_memory_equal(other.weights.items, values, COUNT / 2 * sizeof *values);
    trp_arena_clear(&arena);
    free(values);
    support_directory_remove(folder);
}

// ---- what is in the file

TROUPE_STRUCT(part, (troupe_text, name), (int, width), (float, range, 2), (troupe_tensor, weights),
              (troupe_array_uint8_t, mask));
TROUPE_STRUCT(rates, (double, now), (double, next));
TROUPE_STRUCT(moment, (int64_t, at), (float, loss));
TROUPE_STRUCT(odd, (char, tag, 8), (bool, done), (int, step), (rates, rate),
              (troupe_array_moment, history), (troupe_array_part, parts), (troupe_bytes, blob),
              (troupe_tensor, none), (troupe_text, nothing), (char, letter),
              (troupe_array_troupe_text, words), (int, __metadata__));

static const float elements[6] = {1, 2, 3, 4, 5, 6};
static const uint8_t mask[3] = {7, 8, 9};
static const moment moments[2] = {{10, 0.5f}, {11, 0.25f}};
static const char *const words[2] = {"one", "t\"wo\n"};

static odd make(part parts[2])
{
    parts[0] = (part){
        "first \xc3\xa4", 3, {-1, 1}, troupe_tensor_of(TROUPE_FLOAT32, elements, 2, 3), {mask, 3}};
    parts[1] = (part){NULL, 4, {-2, 2}, {.dtype = TROUPE_DTYPE_NONE}, {NULL, 0}};
    return (odd){.tag = "odd",
                 .done = true,
                 .step = -5,
                 .rate = {0.1, 0.2},
                 .history = {moments, 2},
                 .parts = {parts, 2},
                 .blob = {"blob", 4},
                 .letter = 'x',
                 .words = {words, 2},
                 .__metadata__ = 9};
}

static void expect_tensor(const trp_safetensors *file, const trp_buffer *bytes, const char *name,
                          const char *text, const void *data, size_t size)
{
    char found[TRP_TENSOR_TEXT];
    troupe_tensor value;
    const trp_safetensor *tensor = trp_safetensors_find(file, name);
    if (tensor == NULL)
        fail_msg("there is no %s", name);
    assert_int_equal(trp_safetensor_value("a state", tensor, bytes->data + tensor->offset, &value),
                     TROUPE_OK);
    assert_string_equal(trp_tensor_text(&value, found), text);
    assert_int_equal(tensor->size, size);
    assert_memory_equal(bytes->data + tensor->offset, data, size);
    // Each is aligned to its own elements.
    assert_int_equal(tensor->offset % troupe_dtype_size(value.dtype), 0);
}

static void test_members_have_the_names_that_others_look_for(void **state)
{
    (void)state;
    part parts[2];
    odd value = make(parts);
    trp_buffer packed = {0};
    trp_arena arena = {0};
    trp_safetensors file;
    expect_same(&troupe_type_odd, &value, &packed);
    assert_int_equal(trp_safetensors_parse("a state", packed.data, packed.size, &arena, &file),
                     TROUPE_OK);
    assert_int_equal(file.count, 14);
    expect_tensor(&file, &packed, "done", "bool[]", &value.done, 1);
    expect_tensor(&file, &packed, "step", "int32[]", &value.step, 4);
    expect_tensor(&file, &packed, "rate.next", "float64[]", &value.rate.next, 8);
    expect_tensor(&file, &packed, "history.at", "int64[2]", (int64_t[]){10, 11}, 16);
    expect_tensor(&file, &packed, "history.loss", "float32[2]", (float[]){0.5f, 0.25f}, 8);
    expect_tensor(&file, &packed, "parts.width", "int32[2]", (int[]){3, 4}, 8);
    expect_tensor(&file, &packed, "parts.range", "float32[2,2]", (float[]){-1, 1, -2, 2}, 16);
    expect_tensor(&file, &packed, "parts.0.weights", "float32[2,3]", elements, sizeof elements);
    expect_tensor(&file, &packed, "parts.0.mask", "uint8[3]", mask, 3);
    expect_tensor(&file, &packed, "parts.1.mask", "uint8[0]", mask, 0);
    expect_tensor(&file, &packed, "blob", "uint8[4]", "blob", 4);
    expect_tensor(&file, &packed, "letter", "int8[]", "x", 1);
    expect_tensor(&file, &packed, ".__metadata__", "int32[]", &value.__metadata__, 4);
    assert_null(trp_safetensors_find(&file, "parts.1.weights"));
    // What is no number stands in the metadata.
    char *text = strndup(file.metadata.at, file.metadata.size);
    const char *const said[] = {
        "\\\"type\\\": \\\"odd\\\"",
        "\\\"tag\\\": \\\"odd\\\"",
        "\\\"history\\\": 2",
        ("\\\"parts\\\": [{\\\"name\\\": \\\"first \xc3\xa4\\\", \\\"weights\\\": true}, "
         "{\\\"name\\\": null, \\\"weights\\\": false}]"),
        "\\\"none\\\": false",
        "\\\"nothing\\\": null",
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (strstr(text, said[i]) == NULL)
            fail_msg("%s is not in %s", said[i], text);
    free(text);
    trp_arena_clear(&arena);
    trp_buffer_free(&packed);
}

static void test_numbers_keep_every_bit(void **state)
{
    (void)state;
    TROUPE_STRUCT(bits, (float, narrow), (double, wide), (troupe_array_double, many));
    const uint32_t narrow = 0x7fa12345; // A NaN that signals, with a payload.
    const uint64_t wide = 0xfff4000000abcdef, many[3] = {0x8000000000000000, 1, 0x7ff0000000000001};
    bits value = {.many = {(const double *)(const void *)many, 3}}, read = {0};
    memcpy(&value.narrow, &narrow, sizeof narrow);
    memcpy(&value.wide, &wide, sizeof wide);
    trp_buffer packed = {0};
    trp_arena arena = {0};
    pack(&troupe_type_bits, &value, &packed);
    assert_int_equal(
        trp_state_unpack("a state", packed.data, packed.size, &troupe_type_bits, &arena, &read),
        TROUPE_OK);
    assert_memory_equal(&read.narrow, &narrow, sizeof narrow);
    assert_memory_equal(&read.wide, &wide, sizeof wide);
    assert_memory_equal(read.many.items, many, sizeof many);
    trp_arena_clear(&arena);
    trp_buffer_free(&packed);
}

// ---- what is refused

static void expect_refused(const troupe_type *type, const void *value, const char *why)
{
    trp_buffer packed = {0};
    assert_int_equal(trp_state_pack("a state", type, value, &packed), TROUPE_INVALID);
    if (strstr(troupe_last_error()->text, why) == NULL)
        fail_msg("%s is not in: %s", why, troupe_last_error()->text);
    trp_buffer_free(&packed);
}

static void test_what_cannot_be_saved_is_named(void **state)
{
    (void)state;
    part parts[2];
    odd value = make(parts);
    parts[1].name = "\xff";
    expect_refused(&troupe_type_odd, &value, "odd.parts[1].name: expected text in UTF-8");
    value = make(parts);
    memset(value.tag, 'x', sizeof value.tag);
    expect_refused(&troupe_type_odd, &value, "odd.tag: expected a text that ends within its 8");
    value = make(parts);
    parts[1].mask = (troupe_array_uint8_t){NULL, 4};
    expect_refused(&troupe_type_odd, &value, "odd.parts.1.mask: expected 4 items, found a null");
    value = make(parts);
    value.history = (troupe_array_moment){NULL, 4};
    expect_refused(&troupe_type_odd, &value, "odd.history: expected 4 items, found a null");
    value = make(parts);
    parts[0].weights.data = NULL;
    expect_refused(&troupe_type_odd, &value, "odd.parts.0.weights: expected the 24 bytes");
}

static void test_out_of_memory_at_any_place_is_said(void **state)
{
    (void)state;
    part parts[2];
    odd value = make(parts), read = {.step = 1};
    troupe_status status = TROUPE_NO_MEMORY;
    for (long allowed = 0; status != TROUPE_OK; allowed++) {
        trp_buffer packed = {0};
        trp_arena arena = {0};
        trp_memory_fail_after(allowed);
        status = trp_state_pack("a state", &troupe_type_odd, &value, &packed);
        if (status == TROUPE_OK)
            status = trp_state_unpack("a state", packed.data, packed.size, &troupe_type_odd, &arena,
                                      &read);
        trp_memory_fail_after(-1);
        assert_true(status == TROUPE_OK || status == TROUPE_NO_MEMORY);
        assert_int_equal(read.step, status == TROUPE_OK ? -5 : 1);
        trp_arena_clear(&arena);
        trp_buffer_free(&packed);
        assert_true(allowed < 1000);
    }
}

// Any byte of the header that is changed is found, or changes nothing that is read.
static void test_changed_bytes_are_refused_or_harmless(void **state)
{
    (void)state;
    part parts[2];
    odd value = make(parts);
    trp_buffer packed = {0};
    pack(&troupe_type_odd, &value, &packed);
    uint64_t length;
    size_t refused = 0;
    memcpy(&length, packed.data, sizeof length);
    for (size_t at = 0; at < length + 8; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            odd read = {0};
            trp_arena arena = {0};
            packed.data[at] ^= (unsigned char)(1u << bit);
            troupe_status status = trp_state_unpack("a state", packed.data, packed.size,
                                                    &troupe_type_odd, &arena, &read);
            if (status != TROUPE_OK) {
                refused++;
                assert_true(status == TROUPE_CORRUPT || status == TROUPE_WRONG_TYPE ||
                            status == TROUPE_VERSION);
                if (strstr(troupe_last_error()->text, "a state") == NULL)
                    fail_msg("%s", troupe_last_error()->text);
            }
            trp_arena_clear(&arena);
            packed.data[at] ^= (unsigned char)(1u << bit);
        }
    }
    assert_true(refused > length * 4);
    for (size_t cut = 0; cut < packed.size; cut++) {
        odd read = {0};
        trp_arena arena = {0};
        assert_int_equal(
            trp_state_unpack("a state", packed.data, cut, &troupe_type_odd, &arena, &read),
            TROUPE_CORRUPT);
        trp_arena_clear(&arena);
    }
    trp_buffer_free(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_any_type_come_back_bit_for_bit),
        cmocka_unit_test(test_large_arrays_are_not_copied),
        cmocka_unit_test(test_members_have_the_names_that_others_look_for),
        cmocka_unit_test(test_numbers_keep_every_bit),
        cmocka_unit_test(test_what_cannot_be_saved_is_named),
        cmocka_unit_test(test_out_of_memory_at_any_place_is_said),
        cmocka_unit_test(test_changed_bytes_are_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
