// test_unpack.c: what a reader must survive: cut, changed, random and malicious messages, and that
// every refusal says what was wrong and where.
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/unpack.h>
#include <shapes.h>
#include <stdio.h>
#include <support.h>

TROUPE_STRUCT(settings, (double, rate), (int8_t, small), (uint16_t, port), (troupe_text, name),
              (double, matrix, 3), (bool, flags, 2), (troupe_array_int32_t, sizes),
              (troupe_array_bool, marks), (troupe_array_layer, layers), (troupe_ref, ref),
              (clerk_actor, who), (point, points, 2), (troupe_bytes, blob));

// A message in memory of exactly its size, so that a sanitizer sees any byte that is read beyond.
static troupe_status unpack_exact(const troupe_type *type, const void *data, size_t size,
                                  trp_arena *arena, void *value)
{
    void *exact = trp_alloc(size);
    assert_non_null(exact);
    if (size > 0)
        memcpy(exact, data, size);
    troupe_status status = trp_unpack_whole(type, exact, size, arena, value);
    trp_free(exact);
    return status;
}

static void pack_everything(uint64_t seed, shapes_memory *memory, trp_buffer *packed)
{
    shapes_random random = {seed};
    everything value;
    memset(&value, 0, sizeof(value));
    shapes_fill(&random, memory, &troupe_type_everything, &value);
    assert_int_equal(trp_pack(&troupe_type_everything, &value, packed), TROUPE_OK);
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        shapes_memory memory = {NULL, 0};
        trp_buffer packed = {0};
        pack_everything(seed, &memory, &packed);
        everything before, value;
        memset(&before, 0x5a, sizeof(before));
        for (size_t size = 0; size < packed.size; size++) {
            trp_arena arena = {0};
            memcpy(&value, &before, sizeof(value));
            assert_int_equal(
                unpack_exact(&troupe_type_everything, packed.data, size, &arena, &value),
                TROUPE_MALFORMED);
            assert_memory_equal(&value, &before, sizeof(value));
            trp_arena_clear(&arena);
        }
        // One byte too many is refused as well.
        trp_buffer_append(&packed, "", 1);
        trp_arena arena = {0};
        assert_int_equal(
            unpack_exact(&troupe_type_everything, packed.data, packed.size, &arena, &value),
            TROUPE_MALFORMED);
        trp_arena_clear(&arena);
        trp_buffer_free(&packed);
        shapes_free(&memory);
    }
}

// What was accepted in spite of a change is a value like any other: it can be packed and read.
static void check_accepted(const troupe_type *type, const void *value)
{
    trp_buffer packed = {0};
    trp_arena arena = {0};
    shapes_memory memory = {NULL, 0};
    void *back = shapes_take(&memory, type->size);
    assert_int_equal(trp_pack(type, value, &packed), TROUPE_OK);
    assert_int_equal(trp_unpack_whole(type, packed.data, packed.size, &arena, back), TROUPE_OK);
    assert_true(shapes_same(type, value, back));
    trp_buffer_free(&packed);
    trp_arena_clear(&arena);
    shapes_free(&memory);
}

static void test_every_changed_byte_is_survived(void **state)
{
    (void)state;
    shapes_memory memory = {NULL, 0};
    trp_buffer packed = {0};
    pack_everything(3, &memory, &packed);
    static const unsigned char masks[] = {0x01, 0x10, 0x20, 0x40, 0x80, 0xff, 0x7f};
    size_t refused = 0, taken = 0;
    for (size_t at = 0; at < packed.size; at++) {
        for (size_t i = 0; i < sizeof(masks); i++) {
            trp_arena arena = {0};
            everything value;
            packed.data[at] ^= masks[i];
            troupe_status status =
                unpack_exact(&troupe_type_everything, packed.data, packed.size, &arena, &value);
            packed.data[at] ^= masks[i];
            assert_true(status == TROUPE_OK || status == TROUPE_MALFORMED);
            if (status == TROUPE_OK && at % 16 == 0)
                check_accepted(&troupe_type_everything, &value);
            *(status == TROUPE_OK ? &taken : &refused) += 1;
            trp_arena_clear(&arena);
        }
    }
    assert_true(refused > packed.size / 4); // Heads, and texts that stop being UTF-8.
    assert_true(taken > packed.size / 4);   // Other bytes in numbers and blobs.
    trp_buffer_free(&packed);
    shapes_free(&memory);
}

static void test_random_bytes_are_survived(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        shapes_random random = {seed * 104729};
        shapes_memory memory = {NULL, 0};
        const troupe_type *type = shapes_type(&random, &memory, 3);
        unsigned char bytes[64];
        size_t size = shapes_below(&random, sizeof(bytes));
        // Half of the bytes are heads of small things, which gets further than any byte does.
        for (size_t i = 0; i < size; i++)
            bytes[i] =
                shapes_below(&random, 2)
                    ? (unsigned char)shapes_next(&random)
                    : (unsigned char)"\x91\x92\x90\xa1\xc4\x01\xc0\xc3"[shapes_below(&random, 8)];
        void *value = shapes_take(&memory, type->size);
        trp_arena arena = {0};
        if (unpack_exact(type, bytes, size, &arena, value) == TROUPE_OK)
            check_accepted(type, value);
        trp_arena_clear(&arena);
        shapes_free(&memory);
    }
}

static settings sample(void)
{
    static const int32_t sizes[] = {1, 2};
    static const layer layers[] = {{.name = "one"}, {.name = "two"}};
    return (settings){.name = "x", .sizes = {sizes, 2}, .layers = {layers, 2}};
}

// Replaces the `count` bytes at the first place of `from` in the packed sample by `to`.
static void expect_refusal(const char *from, size_t from_size, const char *to, size_t to_size,
                           const char *sentence)
{
    settings value = sample();
    trp_buffer packed = {0}, changed = {0};
    trp_arena arena = {0};
    assert_int_equal(trp_pack(&troupe_type_settings, &value, &packed), TROUPE_OK);
    unsigned char *at = (unsigned char *)memmem(packed.data, packed.size, from, from_size);
    assert_non_null(at);
    size_t before = (size_t)(at - packed.data);
    trp_buffer_append(&changed, packed.data, before);
    trp_buffer_append(&changed, to, to_size);
    trp_buffer_append(&changed, at + from_size, packed.size - before - from_size);
    assert_int_equal(
        unpack_exact(&troupe_type_settings, changed.data, changed.size, &arena, &value),
        TROUPE_MALFORMED);
    assert_string_equal(troupe_last_error()->text, sentence);
    trp_buffer_free(&packed);
    trp_buffer_free(&changed);
    trp_arena_clear(&arena);
}
#define REFUSAL(from, to, sentence)                                                                \
    expect_refusal(from, sizeof(from) - 1, to, sizeof(to) - 1, sentence)
#define RATE "\x9d\xcb\0\0\0\0\0\0\0\0" // 13 fields, the first a double
#define MATRIX "\xc4\x18"               // 24 bytes
#define FLAGS "\xc4\x02\0\0"
#define SIZES "\xc4\x08\x01\0\0\0\x02\0\0\0"

static void test_refusals_name_the_field(void **state)
{
    (void)state;
    REFUSAL(RATE, "\x9d\xa1y", "settings.rate: expected a number, found text at byte 1");
    REFUSAL(RATE, "\x9d\x05",
            "settings.rate: expected a float or a double, found an integer at byte 1");
    REFUSAL("\x9d", "\x9c",
            "settings: expected an array of 13 fields (settings), found one of 12 at byte 0");
    REFUSAL("\x9d", "\x9e",
            "settings: expected an array of 13 fields (settings), found one of 14 at byte 0");
    REFUSAL("\x9d", "\xc0", "settings: expected an array, found nil at byte 0");
    REFUSAL(RATE "\0", RATE "\xcc\x80",
            "settings.small: expected int8_t (-128 to 127), found 128 at byte 10");
    REFUSAL(RATE "\0", RATE "\xd1\xff\x7f",
            "settings.small: expected int8_t (-128 to 127), found -129 at byte 10");
    REFUSAL(RATE "\0\0", RATE "\0\xce\0\x01\0\0",
            "settings.port: expected uint16_t (0 to 65535), found 65536 at byte 11");
    REFUSAL(RATE "\0\0", RATE "\0\xff",
            "settings.port: expected an integer from 0 up, found -1 at byte 11");
    REFUSAL("\xa1x", "\xa3x\0y", "settings.name: expected text, found a NUL inside it at byte 14");
    REFUSAL("\xa1x", "\xa2x\xff",
            "settings.name: expected text in UTF-8, found another byte at byte 14");
    REFUSAL("\xa1x", "\xc4\1x", "settings.name: expected text, found bytes at byte 12");
    REFUSAL(MATRIX, "\xc4\x20\0\0\0\0\0\0\0\0",
            "settings.matrix: expected 24 bytes (3 of double), found 32 at byte 14");
    REFUSAL(MATRIX "\0", "\xc4\x17",
            "settings.matrix: expected bytes in items of 8 (double), found 23 bytes at byte 14");
    REFUSAL(FLAGS, "\xc4\x02\0\2",
            "settings.flags: expected a bool (0 or 1), found 2 as item 1 at byte 40");
    REFUSAL(SIZES, "\xc4\x07\x01\0\0\0\x02\0\0",
            "settings.sizes: expected bytes in items of 4 (int32_t), found 7 bytes at byte 44");
    REFUSAL("\xa3two", "\xc2", "settings.layers[1].name: expected text, found a bool at byte 97");
    REFUSAL("\x92\x94", "\xce\0\0\0\1\x94",
            "settings.layers: expected an array, found an integer at byte 56");
    REFUSAL("\x92\0\0", "\x93\0\0\0",
            "settings.ref: expected a reference as an array of 2, found 3 at byte 135");
    REFUSAL("\x94\0\0\0\0", "\x94\0\0\xcf\0\0\0\1\0\0\0\0\0",
            "settings.who: expected uint32_t (0 to 4294967295), found 4294967296 at byte 141");
    REFUSAL("\x92\x92\xca\0\0\0\0\xca\0\0\0\0\x92\xca\0\0\0\0\xca\0\0\0\0\xc4\0",
            "\x92\x92\xca\0\0\0\0\xca\0\0\0\0\x92\xca\0\0\0\0\xcb\0\0\0\0\0\0\0\0\xc4\0",
            "settings.layers[0].corners[1].y: expected a float, found a double at byte 89");
}

// ---- bombs: short messages that claim much

TROUPE_STRUCT(hollow, (troupe_array_settings, all), (troupe_text, texts, 200));
TROUPE_STRUCT(cheap, (troupe_array_troupe_text, a), (troupe_array_troupe_text, b));
TROUPE_STRUCT(cheaper, (troupe_array_cheap, items));
TROUPE_STRUCT(heavy, (troupe_array_hollow, items));

// Unpacks, and checks that it took no more memory than the message's size allows.
static troupe_status unpack_bomb(const troupe_type *type, const void *data, size_t size)
{
    trp_arena arena = {0};
    shapes_memory memory = {NULL, 0};
    void *value = shapes_take(&memory, type->size);
    troupe_status status = unpack_exact(type, data, size, &arena, value);
    // Blocks are up to twice what is taken of them, and the first has a size of its own.
    assert_in_range(trp_arena_size(&arena), 0, 2 * (TRP_GROWTH_MAX * size + 4096));
    trp_arena_clear(&arena);
    shapes_free(&memory);
    return status;
}

static void test_a_nest_of_arrays_reserves_nothing(void **state)
{
    (void)state;
    // 31 array heads of 2^32 - 1 items each in 155 bytes.
    unsigned char bytes[155];
    for (size_t i = 0; i < sizeof(bytes); i += 5)
        memcpy(bytes + i, "\xdd\xff\xff\xff\xff", 5);
    assert_int_equal(unpack_bomb(&troupe_type_heavy, bytes, sizeof(bytes)), TROUPE_MALFORMED);
    assert_int_equal(unpack_bomb(&troupe_type_troupe_array_heavy, bytes, sizeof(bytes)),
                     TROUPE_MALFORMED);
    assert_int_equal(unpack_bomb(&troupe_type_troupe_array_troupe_text, bytes, sizeof(bytes)),
                     TROUPE_MALFORMED);
    trp_reader in = trp_reader_of(bytes, sizeof(bytes));
    assert_int_equal(trp_read_skip(&in), TROUPE_MALFORMED);
}

// An array that claims as many items as bytes are left, of items that need more bytes than that.
static void test_counts_are_checked_by_the_least_an_item_takes(void **state)
{
    (void)state;
    enum { SIZE = 60000 };
    unsigned char *bytes = (unsigned char *)trp_alloc(SIZE);
    assert_non_null(bytes);
    const troupe_type *const types[] = {&troupe_type_troupe_array_hollow,
                                        &troupe_type_troupe_array_settings,
                                        &troupe_type_troupe_array_everything};
    for (size_t i = 0; i < 3; i++) {
        memset(bytes, 0xc0, SIZE);
        bytes[0] = 0xdc, bytes[1] = (SIZE - 3) >> 8, bytes[2] = (SIZE - 3) & 0xff;
        assert_int_equal(unpack_bomb(types[i], bytes, SIZE), TROUPE_MALFORMED);
        assert_non_null(strstr(troupe_last_error()->text, "bytes left can hold"));
    }
    trp_free(bytes);
}

// Arrays in arrays that each claim all that is left, so that every level would reserve for it.
static void test_claims_of_nested_arrays_do_not_add_up(void **state)
{
    (void)state;
    enum { SIZE = 60000, LEVELS = 12 };
    static troupe_type nest[LEVELS + 1];
    nest[0] = troupe_type_troupe_text;
    for (int i = 1; i <= LEVELS; i++)
        nest[i] = (troupe_type){
            TROUPE_ABI, TROUPE_KIND_ARRAY, "nest", sizeof(trp_counted), NULL, 0, &nest[i - 1], NULL,
            {NULL}};
    unsigned char *bytes = (unsigned char *)trp_alloc(SIZE);
    assert_non_null(bytes);
    memset(bytes, 0xc0, SIZE);
    for (size_t i = 0; i < LEVELS; i++) {
        size_t left = SIZE - 3 * (i + 1);
        bytes[3 * i] = 0xdc, bytes[3 * i + 1] = (unsigned char)(left >> 8);
        bytes[3 * i + 2] = (unsigned char)left;
    }
    assert_int_equal(unpack_bomb(&nest[LEVELS], bytes, SIZE), TROUPE_MALFORMED);
    assert_non_null(strstr(troupe_last_error()->text, "more than 64 bytes of memory for each"));
    trp_free(bytes);
}

// The costliest honest messages are far from that bound.
static void test_honest_messages_are_not_taken_for_bombs(void **state)
{
    (void)state;
    enum { SIZE = 60003 };
    unsigned char *bytes = (unsigned char *)trp_alloc(SIZE);
    assert_non_null(bytes);
    const unsigned char fills[] = {0xa0, 0x90}; // Empty texts, empty arrays: a byte each.
    const troupe_type *const types[] = {&troupe_type_troupe_array_troupe_text,
                                        &troupe_type_troupe_array_cheaper};
    for (size_t i = 0; i < 2; i++) {
        memset(bytes, fills[i], SIZE);
        size_t items = 60000;
        if (i == 1) { // cheaper is [[ ]]: two bytes.
            for (size_t k = 3; k < SIZE; k += 2)
                bytes[k] = 0x91;
            items = 30000;
        }
        bytes[0] = 0xdc, bytes[1] = (unsigned char)(items >> 8), bytes[2] = (unsigned char)items;
        troupe_status status = unpack_bomb(types[i], bytes, SIZE);
        if (status != TROUPE_OK)
            fail_msg("%s", troupe_last_error()->text);
    }
    trp_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_changed_byte_is_survived),
        cmocka_unit_test(test_random_bytes_are_survived),
        cmocka_unit_test(test_refusals_name_the_field),
        cmocka_unit_test(test_a_nest_of_arrays_reserves_nothing),
        cmocka_unit_test(test_counts_are_checked_by_the_least_an_item_takes),
        cmocka_unit_test(test_claims_of_nested_arrays_do_not_add_up),
        cmocka_unit_test(test_honest_messages_are_not_taken_for_bombs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
