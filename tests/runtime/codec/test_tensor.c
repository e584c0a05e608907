// test_tensor.c: element types and shapes, what is refused and how that is said, the packed form
// byte by byte, and where elements lie after each way of moving them.
#include <runtime/base/memory.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/tensor.h>
#include <runtime/codec/type.h>
#include <runtime/codec/unpack.h>
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <troupe/tensor.h>

static const troupe_dtype none_asked = TROUPE_DTYPE_NONE;
enum { ANY = TROUPE_DIMS_ANY };

static void expect_sentence(troupe_status status, troupe_status wanted, const char *sentence)
{
    assert_int_equal(status, wanted);
    assert_string_equal(troupe_last_error()->text, sentence);
}

static void expect_packed(troupe_dtype dtype, size_t size, const char *name)
{
    assert_int_equal(troupe_dtype_size(dtype), size);
    assert_string_equal(troupe_dtype_text(dtype), name);
}

static void test_types_have_names_and_sizes(void **state)
{
    (void)state;
    expect_packed(TROUPE_BOOL, 1, "bool");
    expect_packed(TROUPE_INT8, 1, "int8");
    expect_packed(TROUPE_INT16, 2, "int16");
    expect_packed(TROUPE_INT32, 4, "int32");
    expect_packed(TROUPE_INT64, 8, "int64");
    expect_packed(TROUPE_UINT8, 1, "uint8");
    expect_packed(TROUPE_UINT16, 2, "uint16");
    expect_packed(TROUPE_UINT32, 4, "uint32");
    expect_packed(TROUPE_UINT64, 8, "uint64");
    expect_packed(TROUPE_FLOAT16, 2, "float16");
    expect_packed(TROUPE_BFLOAT16, 2, "bfloat16");
    expect_packed(TROUPE_FLOAT32, 4, "float32");
    expect_packed(TROUPE_FLOAT64, 8, "float64");
    expect_packed(TROUPE_DTYPE_NONE, 0, "none");
    expect_packed((troupe_dtype)(TROUPE_FLOAT64 + 1), 0, "none");
    expect_packed((troupe_dtype)-1, 0, "none");
}

static void test_shapes_are_in_c_order(void **state)
{
    (void)state;
    float data[24] = {0};
    troupe_tensor cube = troupe_tensor_of(TROUPE_FLOAT32, data, 2, 3, 4);
    assert_int_equal(cube.ndim, 3);
    assert_ptr_equal(cube.data, data);
    assert_int_equal(troupe_tensor_count(&cube), 24);
    assert_int_equal(troupe_tensor_stride(&cube, 0), 12);
    assert_int_equal(troupe_tensor_stride(&cube, 1), 4);
    assert_int_equal(troupe_tensor_stride(&cube, 2), 1);
    assert_int_equal(troupe_tensor_stride(&cube, 3), 0);
    troupe_tensor scalar = {.data = data, .dtype = TROUPE_FLOAT32};
    assert_int_equal(troupe_tensor_count(&scalar), 1);
    assert_int_equal(troupe_tensor_stride(&scalar, 0), 0);
    troupe_tensor empty = troupe_tensor_of(TROUPE_FLOAT32, NULL, 5, 0, 7);
    assert_int_equal(troupe_tensor_count(&empty), 0);
    assert_int_equal(troupe_tensor_stride(&empty, 1), 7);
    troupe_tensor none = {0};
    assert_int_equal(troupe_tensor_count(&none), 0);
    assert_int_equal(troupe_tensor_count(NULL), 0);
    troupe_tensor deep = {.dtype = TROUPE_INT8, .ndim = 9};
    assert_int_equal(troupe_tensor_count(&deep), 0);
    assert_int_equal(troupe_tensor_stride(&deep, 0), 0);
}

static void test_what_was_asked_is_said(void **state)
{
    (void)state;
    float data[12] = {0};
    troupe_tensor table = troupe_tensor_of(TROUPE_FLOAT32, data, 3, 4), none = {0};
    assert_int_equal(troupe_tensor_check(&table, TROUPE_FLOAT32, 2), TROUPE_OK);
    assert_int_equal(troupe_tensor_check(&table, none_asked, 2), TROUPE_OK);
    assert_int_equal(troupe_tensor_check(&table, TROUPE_FLOAT32, ANY), TROUPE_OK);
    assert_int_equal(troupe_tensor_check(&none, none_asked, ANY), TROUPE_OK);
    expect_sentence(troupe_tensor_check(&table, TROUPE_FLOAT64, 1), TROUPE_WRONG_TYPE,
                    "float32[3,4] where float64[?] was expected");
    expect_sentence(troupe_tensor_check(&table, TROUPE_FLOAT32, 3), TROUPE_WRONG_TYPE,
                    "float32[3,4] where float32[?,?,?] was expected");
    expect_sentence(troupe_tensor_check(&table, none_asked, 0), TROUPE_WRONG_TYPE,
                    "float32[3,4] where any[] was expected");
    expect_sentence(troupe_tensor_check(&table, TROUPE_BFLOAT16, ANY), TROUPE_WRONG_TYPE,
                    "float32[3,4] where bfloat16[...] was expected");
    expect_sentence(troupe_tensor_check(&none, TROUPE_INT8, 1), TROUPE_WRONG_TYPE,
                    "none[] where int8[?] was expected");
    // The longest that there can be is not cut.
    troupe_tensor long_one = {.dtype = TROUPE_BFLOAT16, .ndim = 8};
    for (int i = 0; i < 7; i++)
        long_one.shape[i] = SIZE_MAX;
    expect_sentence(troupe_tensor_check(&long_one, none_asked, ANY), TROUPE_INVALID,
                    "bfloat16[18446744073709551615,18446744073709551615,18446744073709551615,"
                    "18446744073709551615,18446744073709551615,18446744073709551615,"
                    "18446744073709551615,0] has more elements than memory can hold");
}

static void test_what_is_no_tensor_is_refused(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_arena arena = {0};
    troupe_tensor copy;
    float data[12] = {0};
    static const struct {
        troupe_tensor tensor;
        const char *sentence;
    } rows[] = {
        {{.dtype = (troupe_dtype)77}, "a tensor's element type is 77, which is not known"},
        {{.dtype = TROUPE_INT8, .ndim = 9}, "a tensor has 9 dimensions, more than 8"},
        {{.ndim = 1}, "a tensor has 1 dimensions, but no element type"},
        {{.dtype = TROUPE_FLOAT64, .ndim = 2, .shape = {(size_t)1 << 32, (size_t)1 << 32}},
         "float64[4294967296,4294967296] has more elements than memory can hold"},
        {{.dtype = TROUPE_FLOAT64, .ndim = 1, .shape = {SIZE_MAX / 8 + 1}},
         "float64[2305843009213693952] has more elements than memory can hold"},
        {{.dtype = TROUPE_FLOAT32, .ndim = 2, .shape = {3, 4}},
         "expected the 48 bytes of float32[3,4], found a null pointer"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char sentence[300];
        const troupe_tensor *odd = &rows[i].tensor;
        expect_sentence(troupe_tensor_check(odd, none_asked, ANY), TROUPE_INVALID,
                        rows[i].sentence);
        snprintf(sentence, sizeof sentence, "troupe_tensor: %s", rows[i].sentence);
        expect_sentence(trp_pack(&troupe_type_troupe_tensor, odd, &out), TROUPE_INVALID, sentence);
        assert_int_equal(out.size, 0);
        assert_int_equal(trp_value_copy(&troupe_type_troupe_tensor, odd, &arena, &copy),
                         TROUPE_INVALID);
        assert_null(copy.data);
        assert_int_equal(copy.ndim, 0);
    }
    assert_int_equal(troupe_tensor_check(NULL, none_asked, ANY), TROUPE_INVALID);
    troupe_tensor huge = troupe_tensor_of(TROUPE_UINT8, data, (size_t)1 << 32);
    expect_sentence(trp_pack(&troupe_type_troupe_tensor, &huge, &out), TROUPE_TOO_LARGE,
                    "troupe_tensor: uint8[4294967296] takes 4294967296 bytes, more than the "
                    "2^32 - 1 that can be packed: put it in the store by itself");
    trp_buffer_free(&out);
    trp_arena_clear(&arena);
}

static void test_the_packed_form(void **state)
{
    (void)state;
    static const uint16_t data[6] = {1, 2, 3, 4, 5, 0x1234};
    troupe_tensor table = troupe_tensor_of(TROUPE_FLOAT16, data, 2, 3), none = {0};
    trp_buffer out = {0};
    static const unsigned char expected[] = {0x94, 0xa7, 'f',  'l', 'o',  'a', 't',  '1', '6', 0x92,
                                             2,    3,    0xc4, 0,   0xc4, 12,  1,    0,   2,   0,
                                             3,    0,    4,    0,   5,    0,   0x34, 0x12};
    assert_int_equal(trp_pack(&troupe_type_troupe_tensor, &table, &out), TROUPE_OK);
    assert_int_equal(out.size, sizeof expected);
    assert_memory_equal(out.data, expected, sizeof expected);
    out.size = 0;
    static const unsigned char nothing[] = {0x94, 0xc0, 0x90, 0xc4, 0, 0xc4, 0};
    assert_int_equal(trp_pack(&troupe_type_troupe_tensor, &none, &out), TROUPE_OK);
    assert_int_equal(out.size, sizeof nothing);
    assert_memory_equal(out.data, nothing, sizeof nothing);
    trp_buffer_free(&out);
    char line[40];
    assert_int_equal(troupe_print(troupe_tensor, &table, line, sizeof line), 14);
    assert_string_equal(line, "<float16[2,3]>");
    troupe_print(troupe_tensor, &none, line, sizeof line);
    assert_string_equal(line, "null");
    troupe_tensor odd = {.dtype = (troupe_dtype)77, .ndim = 99};
    troupe_print(troupe_tensor, &odd, line, sizeof line);
    assert_string_equal(line, "<unknown[...]>");
}

TROUPE_STRUCT(holder, (troupe_text, label), (troupe_tensor, first), (troupe_tensor, pair, 2),
              (troupe_array_troupe_tensor, more));

static unsigned char elements[3][5000];

// Three of different sizes behind texts of any length, so that they begin anywhere.
static holder make_holder(const char *label, troupe_tensor more[2])
{
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof elements[k]; i++)
            elements[k][i] = (unsigned char)(i * (k + 1));
    more[0] = troupe_tensor_of(TROUPE_UINT8, elements[0] + 3, 4096);
    more[1] = (troupe_tensor){0};
    return (holder){label,
                    troupe_tensor_of(TROUPE_INT16, elements[1] + 2, 50, 50),
                    {troupe_tensor_of(TROUPE_UINT8, elements[2], 4095),
                     troupe_tensor_of(TROUPE_FLOAT64, NULL, 0, 9)},
                    {more, 2}};
}

static bool lies_in(const void *data, const trp_buffer *buffer)
{
    const unsigned char *at = data;
    return at >= buffer->data && at < buffer->data + buffer->size;
}

static void check_holder(const holder *value, const holder *wanted)
{
    const troupe_tensor *large = &value->more.items[0];
    assert_string_equal(value->label, wanted->label);
    assert_int_equal(value->more.count, 2);
    assert_int_equal((uintptr_t)value->first.data % 64, 0);
    assert_int_equal((uintptr_t)value->pair[0].data % 64, 0);
    assert_int_equal((uintptr_t)large->data % 64, 0);
    assert_memory_equal(value->first.data, wanted->first.data, 5000);
    assert_memory_equal(value->pair[0].data, wanted->pair[0].data, 4095);
    assert_memory_equal(large->data, wanted->more.items[0].data, 4096);
    assert_int_equal(value->first.shape[1], 50);
    assert_null(value->pair[1].data);
    assert_int_equal(value->pair[1].shape[1], 9);
    assert_int_equal(value->more.items[1].dtype, none_asked);
}

// Elements of 4 KiB and more can be read where they lie in memory that begins aligned; elsewhere
// they are copied, as all smaller ones are.
static void test_large_ones_are_read_where_they_lie(void **state)
{
    (void)state;
    static char label[70];
    for (size_t length = 0; length < 65; length++) {
        memset(label, 'x', length);
        label[length] = 0;
        troupe_tensor more[2];
        holder wanted = make_holder(label, more), value;
        trp_buffer packed = {0};
        trp_arena arena = {0};
        assert_int_equal(trp_pack(&troupe_type_holder, &wanted, &packed), TROUPE_OK);
        unsigned char *block = trp_alloc(packed.size + 128);
        trp_buffer there = {.data = trp_tensor_aligned(block), .size = packed.size};
        for (size_t shift = 0; shift <= 16; shift += 16) {
            there.data += shift;
            memcpy(there.data, packed.data, packed.size);
            trp_reader in = trp_reader_of(there.data, there.size);
            assert_int_equal(trp_unpack_lent(&troupe_type_holder, &in, &arena, &value), TROUPE_OK);
            check_holder(&value, &wanted);
            assert_int_equal(lies_in(value.first.data, &there), shift == 0);
            assert_int_equal(lies_in(value.more.items[0].data, &there), shift == 0);
            assert_false(lies_in(value.pair[0].data, &there) && shift != 0);
        }
        assert_int_equal(
            trp_unpack_whole(&troupe_type_holder, there.data, there.size, &arena, &value),
            TROUPE_OK);
        check_holder(&value, &wanted);
        assert_false(lies_in(value.first.data, &there));
        holder copy;
        assert_int_equal(trp_value_copy(&troupe_type_holder, &value, &arena, &copy), TROUPE_OK);
        check_holder(&copy, &wanted);
        assert_ptr_not_equal(copy.first.data, value.first.data);
        trp_free(block);
        trp_buffer_free(&packed);
        trp_arena_clear(&arena);
    }
}

static void expect_malformed(const void *bytes, size_t size, const char *sentence)
{
    trp_arena arena = {0};
    troupe_tensor value = {.ndim = 42};
    unsigned char *exact = trp_alloc(size); // A sanitizer sees any byte that is read beyond.
    memcpy(exact, bytes, size);
    expect_sentence(trp_unpack_whole(&troupe_type_troupe_tensor, exact, size, &arena, &value),
                    TROUPE_MALFORMED, sentence);
    assert_int_equal(value.ndim, 42);
    assert_int_equal(trp_arena_size(&arena), 0);
    trp_free(exact);
}
#define MALFORMED(bytes, sentence) expect_malformed(bytes, sizeof(bytes) - 1, sentence)

static void test_odd_messages_are_refused(void **state)
{
    (void)state;
    MALFORMED("\x93\xa4int8\x90\xc4\x00",
              "troupe_tensor: expected a tensor as an array of 4, found 3 at byte 0");
    MALFORMED("\x94\xa4int7\x90\xc4\x00\xc4\x01"
              "a",
              "troupe_tensor: expected a tensor's element type, found 'int7' at byte 1");
    MALFORMED("\x94\xa4none\x90\xc4\x00\xc4\x00",
              "troupe_tensor: expected a tensor's element type, found 'none' at byte 1");
    MALFORMED("\x94\x05\x90\xc4\x00\xc4\x00",
              "troupe_tensor: expected text, found an integer at byte 1");
    MALFORMED("\x94\xa4int8\x99\x01\x01\x01\x01\x01\x01\x01\x01\x01\xc4\x00\xc4\x01"
              "a",
              "troupe_tensor: found a tensor of 9 dimensions at byte 6, more than 8");
    MALFORMED("\x94\xa4int8\x91\xff\xc4\x00\xc4\x01"
              "a",
              "troupe_tensor: expected an integer from 0 up, found -1 at byte 7");
    MALFORMED("\x94\xa5int16\x92\xce\xff\xff\xff\xff\xcf\x80\x00\x00\x00\x00\x00\x00\x00\xc4\x00"
              "\xc4\x02"
              "ab",
              "troupe_tensor: int16[4294967295,9223372036854775808] has more elements than memory "
              "can hold");
    MALFORMED("\x94\xa5int16\x91\x02\xc4\x00\xc4\x03"
              "abc",
              "troupe_tensor: expected the 4 bytes of int16[2], found 3 (and 0 of padding) at byte "
              "11");
    MALFORMED("\x94\xa5int16\x92\x00\x02\xc4\x00\xc4\x02"
              "ab",
              "troupe_tensor: expected the 0 bytes of int16[0,2], found 2 (and 0 of padding) at "
              "byte 12");
    MALFORMED("\x94\xc0\x91\x01\xc4\x00\xc4\x00",
              "troupe_tensor: a tensor has 1 dimensions, but no element type");
    MALFORMED("\x94\xa4"
              "bool\x91\x02\xc4\x00\xc4\x02\x01\x02",
              "troupe_tensor: expected a bool (0 or 1), found 2 as element 1 of a tensor at byte "
              "10");
    MALFORMED("\x94\xa4int8\x90\xa0\xc4\x01"
              "a",
              "troupe_tensor: expected bytes, found text at byte 7");
    unsigned char padded[9 + 64 + 3] = "\x94\xa4int8\x90\xc4\x40";
    memcpy(padded + 9 + 64, "\xc4\x01", 2);
    expect_malformed(padded, sizeof padded,
                     "troupe_tensor: expected the 1 bytes of int8[], found 1 (and 64 of padding) "
                     "at byte 73");
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    troupe_tensor more[2], back;
    holder wanted = make_holder("cut", more);
    trp_buffer packed = {0};
    assert_int_equal(trp_pack(&troupe_type_troupe_tensor, &wanted.first, &packed), TROUPE_OK);
    for (size_t size = 0; size < packed.size; size++) {
        trp_arena arena = {0};
        unsigned char *exact = trp_alloc(size);
        if (size > 0)
            memcpy(exact, packed.data, size);
        assert_int_equal(trp_unpack_whole(&troupe_type_troupe_tensor, exact, size, &arena, &back),
                         TROUPE_MALFORMED);
        trp_free(exact);
        trp_arena_clear(&arena);
    }
    trp_buffer_free(&packed);
}

// An honest array of tensors that are none is read, however long; a claimed one costs nothing.
static void test_many_are_within_the_bounds(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    troupe_tensor *items = trp_alloc(COUNT * sizeof items[0]);
    troupe_array_troupe_tensor array = {items, COUNT}, back;
    trp_buffer packed = {0};
    trp_arena arena = {0};
    const troupe_type *type = &troupe_type_troupe_array_troupe_tensor;
    assert_int_equal(trp_pack(type, &array, &packed), TROUPE_OK);
    assert_int_equal(trp_unpack_whole(type, packed.data, packed.size, &arena, &back), TROUPE_OK);
    assert_int_equal(back.count, COUNT);
    trp_arena_clear(&arena);
    assert_int_equal(trp_unpack_whole(type, packed.data, packed.size - 1, &arena, &back),
                     TROUPE_MALFORMED);
    assert_int_equal(trp_arena_size(&arena), 0);
    trp_buffer_free(&packed);
    trp_free(items);
}

static void test_objects_are_believed_only_if_they_fit(void **state)
{
    (void)state;
    _Alignas(64) unsigned char object[TRP_TENSOR_HEAD + 48];
    troupe_tensor wanted = troupe_tensor_of(TROUPE_FLOAT32, elements[0], 3, 4), found;
    memset(object, 0x5a, sizeof object);
    trp_tensor_head(&wanted, object);
    assert_int_equal(trp_tensor_open(object, sizeof object, &found), TROUPE_OK);
    assert_ptr_equal(found.data, object + TRP_TENSOR_HEAD);
    assert_int_equal(found.shape[1], 4);
    assert_int_equal(found.shape[2], 0);
    expect_sentence(trp_tensor_open(object, sizeof object - 1, &found), TROUPE_MALFORMED,
                    "expected the 48 bytes of float32[3,4] in an object, found 47");
    expect_sentence(trp_tensor_open(object, TRP_TENSOR_HEAD - 1, &found), TROUPE_MALFORMED,
                    "an object of 127 bytes is not a tensor");
    uint32_t ndim = 9;
    memcpy(object + 4, &ndim, sizeof ndim);
    expect_sentence(trp_tensor_open(object, sizeof object, &found), TROUPE_MALFORMED,
                    "a tensor has 9 dimensions, more than 8");
    troupe_tensor empty = troupe_tensor_of(TROUPE_INT64, NULL, 0);
    trp_tensor_head(&empty, object);
    assert_int_equal(trp_tensor_open(object, TRP_TENSOR_HEAD, &found), TROUPE_OK);
    assert_null(found.data);
}

static void test_every_failing_allocation_is_told(void **state)
{
    (void)state;
    troupe_tensor more[2];
    holder wanted = make_holder("short of memory", more), value;
    trp_buffer packed = {0};
    assert_int_equal(trp_pack(&troupe_type_holder, &wanted, &packed), TROUPE_OK);
    troupe_status read = TROUPE_NO_MEMORY, copied = TROUPE_NO_MEMORY;
    for (long n = 0; read != TROUPE_OK || copied != TROUPE_OK; n++) {
        assert_true(n < 100);
        trp_arena arena = {0};
        trp_memory_fail_after(n);
        read = trp_unpack_whole(&troupe_type_holder, packed.data, packed.size, &arena, &value);
        trp_memory_fail_after(-1);
        trp_arena_clear(&arena);
        trp_memory_fail_after(n);
        copied = trp_value_copy(&troupe_type_holder, &wanted, &arena, &value);
        trp_memory_fail_after(-1);
        trp_arena_clear(&arena);
        assert_true(read == TROUPE_OK || read == TROUPE_NO_MEMORY);
        assert_true(copied == TROUPE_OK || copied == TROUPE_NO_MEMORY);
    }
    trp_buffer_free(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_have_names_and_sizes),
        cmocka_unit_test(test_shapes_are_in_c_order),
        cmocka_unit_test(test_what_was_asked_is_said),
        cmocka_unit_test(test_what_is_no_tensor_is_refused),
        cmocka_unit_test(test_the_packed_form),
        cmocka_unit_test(test_large_ones_are_read_where_they_lie),
        cmocka_unit_test(test_odd_messages_are_refused),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_many_are_within_the_bounds),
        cmocka_unit_test(test_objects_are_believed_only_if_they_fit),
        cmocka_unit_test(test_every_failing_allocation_is_told),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
