// test_pack.c: values packed and unpacked again, of every kind and at random; what is refused when
// packing; every failing allocation.
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/type.h>
#include <runtime/codec/unpack.h>
#include <shapes.h>
#include <stdio.h>
#include <support.h>

// Packs, unpacks from an unaligned place, compares, and packs what came out to the same bytes.
static void round_trip(const troupe_type *type, const void *value, uint64_t seed)
{
    trp_buffer packed = {0}, again = {0};
    trp_arena arena = {0};
    shapes_memory memory = {NULL, 0};
    assert_int_equal(trp_pack(type, value, &packed), TROUPE_OK);
    unsigned char *moved = (unsigned char *)shapes_take(&memory, packed.size + 1) + 1;
    memcpy(moved, packed.data, packed.size);
    void *back = shapes_take(&memory, type->size);
    troupe_status status = trp_unpack_whole(type, moved, packed.size, &arena, back);
    if (status != TROUPE_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, troupe_last_error()->text);
    if (!shapes_same(type, value, back))
        fail_msg("seed %llu: another value came back", (unsigned long long)seed);
    assert_int_equal(trp_pack(type, back, &again), TROUPE_OK);
    assert_int_equal(again.size, packed.size);
    assert_memory_equal(again.data, packed.data, packed.size);
    trp_buffer_free(&packed);
    trp_buffer_free(&again);
    trp_arena_clear(&arena);
    shapes_free(&memory);
}

static void test_every_kind_comes_back(void **state)
{
    (void)state;
    everything value;
    memset(&value, 0, sizeof(value));
    round_trip(&troupe_type_everything, &value, 0);
    for (uint64_t seed = 1; seed <= 200; seed++) {
        shapes_random random = {seed};
        shapes_memory memory = {NULL, 0};
        memset(&value, 0, sizeof(value));
        shapes_fill(&random, &memory, &troupe_type_everything, &value);
        round_trip(&troupe_type_everything, &value, seed);
        shapes_free(&memory);
    }
}

static void test_random_types_come_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        shapes_random random = {seed * 7919};
        shapes_memory memory = {NULL, 0};
        const troupe_type *type = shapes_type(&random, &memory, 1 + (int)(seed % 4));
        void *value = shapes_take(&memory, type->size);
        shapes_fill(&random, &memory, type, value);
        round_trip(type, value, seed);
        shapes_free(&memory);
    }
}

TROUPE_STRUCT(call, (int64_t, row), (double, rate), (troupe_text, name), (bool, last),
              (troupe_array_double, weights));

static void expect_packed(const troupe_type *type, const void *value, const char *hex)
{
    trp_buffer packed = {0};
    char found[512] = "";
    assert_int_equal(trp_pack(type, value, &packed), TROUPE_OK);
    assert_true(packed.size < 250);
    for (size_t i = 0; i < packed.size; i++)
        snprintf(found + 2 * i, 3, "%02x", packed.data[i]);
    assert_string_equal(found, hex);
    trp_buffer_free(&packed);
}

// Other languages read this: it must not change by accident.
static void test_the_packed_form_is_fixed(void **state)
{
    (void)state;
    call value = {
        .row = 3, .rate = 0.5, .name = "ab", .last = true, .weights = {(double[]){1.0, -2.0}, 2}};
    expect_packed(&troupe_type_call, &value,
                  "9503cb3fe0000000000000a26162c3c410000000000000f03f00000000000000c0");
    layer inner = {.rate = 1, .corners = {{1, 2}, {3, 4}}, .sizes = {(int32_t[]){258}, 1}};
    expect_packed(&troupe_type_layer, &inner,
                  "94c0cb3ff00000000000009292ca3f800000ca4000000092ca40400000ca40800000"
                  "c40402010000");
    troupe_ref ref = {5, 6};
    troupe_actor actor = {1, 2, 3, 4, 1000, TROUPE_STATUS_COUNT};
    troupe_none none = {0};
    expect_packed(&troupe_type_troupe_ref, &ref, "920506");
    expect_packed(&troupe_type_troupe_actor, &actor, "9401020304");
    expect_packed(&troupe_type_troupe_none, &none, "c0");
}

static void test_options_of_calls_do_not_travel(void **state)
{
    (void)state;
    troupe_actor actor = {
        .id = 1, .incarnation = 2, .node = 3, .process = 4, .deadline_ms = 1000, .flags = 1};
    unsigned char packed[64];
    size_t size = 0;
    assert_int_equal(troupe_pack(troupe_actor, &actor, packed, sizeof(packed), &size), TROUPE_OK);
    assert_int_equal(troupe_unpack(troupe_actor, packed, size, &actor), TROUPE_OK);
    assert_int_equal(actor.id, 1);
    assert_int_equal(actor.process, 4);
    assert_int_equal(actor.deadline_ms, 0);
    assert_int_equal(actor.flags, 0);
}

static void test_the_size_is_told_when_it_does_not_fit(void **state)
{
    (void)state;
    call value = {.row = 1, .name = "some text"};
    unsigned char packed[64];
    size_t full = 0;
    assert_int_equal(troupe_pack(call, &value, packed, sizeof(packed), &full), TROUPE_OK);
    for (size_t capacity = 0; capacity < full; capacity++) {
        size_t size = 0;
        assert_int_equal(troupe_pack(call, &value, capacity ? packed : NULL, capacity, &size),
                         TROUPE_TOO_LARGE);
        assert_int_equal(size, full);
    }
    size_t size = 0;
    assert_int_equal(troupe_pack(call, &value, packed, full, &size), TROUPE_OK);
    assert_int_equal(size, full);
}

static void expect_refused(const troupe_type *type, const void *value, troupe_status status,
                           const char *sentence)
{
    trp_buffer packed = {0};
    trp_write_int(&packed, 1);
    assert_int_equal(trp_pack(type, value, &packed), status);
    assert_string_equal(troupe_last_error()->text, sentence);
    assert_int_equal(packed.size, 1); // What was there stays, and nothing half is added.
    trp_buffer_free(&packed);
}

static void test_what_could_not_be_read_is_not_packed(void **state)
{
    (void)state;
    everything value;
    memset(&value, 0, sizeof(value));
    value.names[1] = "caf\xe9";
    expect_refused(&troupe_type_everything, &value, TROUPE_INVALID,
                   "everything.names[1]: expected text in UTF-8, found another byte after 3 bytes "
                   "of it");
    value.names[1] = NULL;
    value.bytes.size = 3;
    expect_refused(&troupe_type_everything, &value, TROUPE_INVALID,
                   "everything.bytes: expected 3 bytes, found a null pointer");
    value.bytes.size = 0;
    layer stack[2];
    memset(stack, 0, sizeof(stack));
    stack[1].sizes.count = 4;
    value.stack = (troupe_array_layer){stack, 2};
    expect_refused(&troupe_type_everything, &value, TROUPE_INVALID,
                   "everything.stack[1].sizes: expected 4 items, found a null pointer");
    value.stack = (troupe_array_layer){NULL, 0};
    troupe_bytes huge = {&value, (size_t)UINT32_MAX + 1};
    expect_refused(&troupe_type_troupe_bytes, &huge, TROUPE_TOO_LARGE,
                   "troupe_bytes: 4294967296 bytes are more than the 2^32 - 1 that can be packed");
    troupe_array_double many = {(const double *)(const void *)&value, SIZE_MAX / 8 + 2};
    trp_buffer packed = {0};
    assert_int_equal(trp_pack(&troupe_type_troupe_array_double, &many, &packed), TROUPE_TOO_LARGE);
    trp_buffer_free(&packed);
}

static void test_wrong_arguments_are_refused(void **state)
{
    (void)state;
    int64_t value = 1;
    unsigned char packed[16];
    size_t size = 0;
    assert_int_equal(troupe_pack_as(NULL, &value, packed, 16, &size), TROUPE_INVALID);
    assert_int_equal(troupe_pack(int64_t, NULL, packed, 16, &size), TROUPE_INVALID);
    assert_int_equal(troupe_pack(int64_t, &value, NULL, 16, &size), TROUPE_INVALID);
    assert_int_equal(troupe_pack(int64_t, &value, packed, 16, NULL), TROUPE_INVALID);
    assert_int_equal(troupe_unpack(int64_t, NULL, 3, &value), TROUPE_INVALID);
    assert_int_equal(troupe_unpack(int64_t, packed, 1, NULL), TROUPE_INVALID);
    troupe_type other = troupe_type_int64_t;
    other.abi = TROUPE_ABI + 1;
    assert_int_equal(troupe_pack_as(&other, &value, packed, 16, &size), TROUPE_VERSION);
    assert_int_equal(troupe_unpack_as(&other, packed, 1, &value), TROUPE_VERSION);
    other = troupe_type_int64_t;
    other.kind = (troupe_kind)99;
    assert_int_equal(troupe_pack_as(&other, &value, packed, 16, &size), TROUPE_INVALID);
    assert_int_equal(troupe_unpack_as(&other, "\1", 1, &value), TROUPE_INVALID);
}

// Arrays nested `levels` deep, each of one item, around a text.
enum { LEVELS = TRP_DEPTH_MAX + 3 };
static troupe_type nest[LEVELS + 1];
static trp_counted nest_values[LEVELS + 1];

static void make_nest(void)
{
    static troupe_text text = "deep";
    nest[0] = troupe_type_troupe_text;
    for (int i = 1; i <= LEVELS; i++) {
        nest[i] = (troupe_type){
            TROUPE_ABI, TROUPE_KIND_ARRAY, "nest", sizeof(trp_counted), NULL, 0, &nest[i - 1], NULL,
            {NULL}};
        nest_values[i] =
            (trp_counted){i == 1 ? (const void *)&text : (const void *)&nest_values[i - 1], 1};
    }
}

static void test_nesting_is_bounded(void **state)
{
    (void)state;
    make_nest();
    round_trip(&nest[TRP_DEPTH_MAX], &nest_values[TRP_DEPTH_MAX], 0);
    trp_buffer packed = {0};
    trp_arena arena = {0};
    trp_counted back = {NULL, 0};
    for (int i = TRP_DEPTH_MAX + 1; i <= LEVELS; i++) {
        assert_int_equal(trp_pack(&nest[i], &nest_values[i], &packed), TROUPE_INVALID);
        unsigned char bytes[LEVELS + 1];
        memset(bytes, 0x91, sizeof(bytes));
        bytes[i] = 0xa0;
        assert_int_equal(trp_unpack_whole(&nest[i], bytes, (size_t)i + 1, &arena, &back),
                         TROUPE_MALFORMED);
        assert_non_null(strstr(troupe_last_error()->text, "nested deeper than 16 levels"));
        (void)troupe_type_hash(&nest[i]);
        assert_false(trp_type_is_flat(&nest[i]));
        char line[64];
        assert_true(troupe_print_as(&nest[i], &nest_values[i], line, sizeof(line)) > 0);
    }
    trp_buffer_free(&packed);
    trp_arena_clear(&arena);
}

static void test_every_failing_allocation_is_told(void **state)
{
    (void)state;
    shapes_random random = {11};
    shapes_memory memory = {NULL, 0};
    everything value, back;
    memset(&value, 0, sizeof(value));
    shapes_fill(&random, &memory, &troupe_type_everything, &value);
    trp_buffer packed = {0};
    troupe_status status = TROUPE_NO_MEMORY;
    long failures = 0;
    for (; status != TROUPE_OK; failures++) {
        trp_buffer_free(&packed);
        trp_memory_fail_after(failures);
        status = trp_pack(&troupe_type_everything, &value, &packed);
        trp_memory_fail_after(-1);
        assert_true(status == TROUPE_OK || status == TROUPE_NO_MEMORY);
        assert_true(status == TROUPE_OK || packed.size == 0);
    }
    assert_true(failures > 2);
    status = TROUPE_NO_MEMORY;
    for (failures = 0; status != TROUPE_OK; failures++) {
        trp_arena arena = {0};
        memset(&back, 0x5a, sizeof(back));
        trp_memory_fail_after(failures);
        status = trp_unpack_whole(&troupe_type_everything, packed.data, packed.size, &arena, &back);
        trp_memory_fail_after(-1);
        if (status == TROUPE_OK) {
            assert_true(shapes_same(&troupe_type_everything, &value, &back));
        } else {
            assert_int_equal(status, TROUPE_NO_MEMORY);
            for (size_t i = 0; i < sizeof(back); i++)
                assert_true(((unsigned char *)&back)[i] == 0x5a);
        }
        trp_arena_clear(&arena);
    }
    assert_true(failures > 1);
    size_t size = 0;
    trp_memory_fail_after(0);
    status = troupe_pack(everything, &value, NULL, 0, &size);
    trp_memory_fail_after(-1);
    assert_int_equal(status, TROUPE_NO_MEMORY);
    trp_buffer_free(&packed);
    shapes_free(&memory);
}

TROUPE_STRUCT(wide, (double, numbers, 2000), (troupe_text, text));

// Larger than what is read on the stack.
static void test_large_values_come_back(void **state)
{
    (void)state;
    static wide value = {.text = "after the numbers"};
    for (int i = 0; i < 2000; i++)
        value.numbers[i] = sqrt(i);
    round_trip(&troupe_type_wide, &value, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_comes_back),
        cmocka_unit_test(test_random_types_come_back),
        cmocka_unit_test(test_the_packed_form_is_fixed),
        cmocka_unit_test(test_options_of_calls_do_not_travel),
        cmocka_unit_test(test_the_size_is_told_when_it_does_not_fit),
        cmocka_unit_test(test_what_could_not_be_read_is_not_packed),
        cmocka_unit_test(test_wrong_arguments_are_refused),
        cmocka_unit_test(test_nesting_is_bounded),
        cmocka_unit_test(test_every_failing_allocation_is_told),
        cmocka_unit_test(test_large_values_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
