// test_type.c: schema hashes, flatness, deep copies, references inside values, printing.
#include <math.h>
#include <pthread.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/type.h>
#include <shapes.h>
#include <support.h>

uint64_t twin_hash(void); // Of the same `everything` in test_type.twin.c.

// Each differs from `base` in one thing.
TROUPE_STRUCT(base, (int32_t, a), (double, b));
TROUPE_STRUCT(renamed_type, (int32_t, a), (double, b));
TROUPE_STRUCT(other_name, (int32_t, a), (double, c));
TROUPE_STRUCT(other_order, (double, b), (int32_t, a));
TROUPE_STRUCT(other_width, (int64_t, a), (double, b));
TROUPE_STRUCT(other_sign, (uint32_t, a), (double, b));
TROUPE_STRUCT(other_kind, (int32_t, a), (troupe_text, b));
TROUPE_STRUCT(narrow, (int32_t, a), (float, b));
TROUPE_STRUCT(fixed_1, (int32_t, a), (double, b, 1));
TROUPE_STRUCT(fixed_2, (int32_t, a), (double, b, 2));
TROUPE_STRUCT(counted, (int32_t, a), (troupe_array_double, b));
TROUPE_STRUCT(shorter, (int32_t, a));
TROUPE_STRUCT(longer, (int32_t, a), (double, b), (bool, c));
TROUPE_STRUCT(glued, (int32_t, ab), (double, c));
TROUPE_STRUCT(unglued, (int32_t, a), (double, bc));
TROUPE_STRUCT(inner_1, (base, inner));
TROUPE_STRUCT(inner_2, (other_name, inner));
TROUPE_STRUCT(inner_array, (troupe_array_base, inner));

static void test_hashes_tell_types_apart(void **state)
{
    (void)state;
    const troupe_type *const types[] = {
        &troupe_type_base,
        &troupe_type_other_name,
        &troupe_type_other_order,
        &troupe_type_other_width,
        &troupe_type_other_sign,
        &troupe_type_other_kind,
        &troupe_type_narrow,
        &troupe_type_fixed_1,
        &troupe_type_fixed_2,
        &troupe_type_counted,
        &troupe_type_shorter,
        &troupe_type_longer,
        &troupe_type_glued,
        &troupe_type_unglued,
        &troupe_type_inner_1,
        &troupe_type_inner_2,
        &troupe_type_inner_array,
        &troupe_type_troupe_array_base,
        &troupe_type_troupe_none,
        &troupe_type_bool,
        &troupe_type_int8_t,
        &troupe_type_int64_t,
        &troupe_type_uint64_t,
        &troupe_type_double,
        &troupe_type_float,
        &troupe_type_troupe_text,
        &troupe_type_troupe_bytes,
        &troupe_type_troupe_ref,
        &troupe_type_troupe_actor,
        &troupe_type_troupe_array_bool,
        &troupe_type_troupe_array_double,
        &troupe_type_everything,
    };
    enum { COUNT = sizeof(types) / sizeof(types[0]) };
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(troupe_type_hash(types[i]) != 0);
        assert_true(troupe_type_hash(types[i]) == troupe_type_hash(types[i]));
        for (size_t k = 0; k < i; k++)
            assert_true(troupe_type_hash(types[i]) != troupe_type_hash(types[k]));
    }
}

static void test_hashes_depend_on_nothing_else(void **state)
{
    (void)state;
    assert_true(troupe_type_hash(&troupe_type_base) == troupe_type_hash(&troupe_type_renamed_type));
    assert_true(troupe_type_hash(&troupe_type_int) == troupe_type_hash(&troupe_type_int32_t));
    assert_true(troupe_type_hash(&troupe_type_size_t) == troupe_type_hash(&troupe_type_uint64_t));
    assert_true(troupe_type_hash(&troupe_type_clerk_actor) ==
                troupe_type_hash(&troupe_type_troupe_actor));
    // The other translation unit has a table of its own.
    assert_true(twin_hash() == troupe_type_hash(&troupe_type_everything));
    // Where nothing is kept, the same comes out.
    troupe_type bare = troupe_type_base;
    bare.hash = NULL;
    assert_true(troupe_type_hash(&bare) == troupe_type_hash(&troupe_type_base));
}

// Schema hashes are stored with objects and checkpoints: they must not change by accident.
static void test_hashes_stay_what_they_are(void **state)
{
    (void)state;
    assert_true(troupe_type_hash(&troupe_type_int64_t) == 0x1df28391dea3e5efu);
    assert_true(troupe_type_hash(&troupe_type_base) == 0xb181dc706bc3da44u);
}

static void *hash_it(void *type)
{
    static _Thread_local uint64_t hash;
    hash = troupe_type_hash((const troupe_type *)type);
    return hash == troupe_type_hash((const troupe_type *)type) ? type : NULL;
}

static void test_threads_may_ask_at_once(void **state)
{
    (void)state;
    troupe_type fresh = troupe_type_everything;
    uint64_t place = 0;
    fresh.hash = &place;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hash_it, &fresh), 0);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
    }
    assert_true(place == troupe_type_hash(&troupe_type_everything));
}

TROUPE_STRUCT(flat, (base, b), (point, p, 3), (troupe_ref, ref), (clerk_actor, who), (bool, yes));

static void test_flat_types_have_no_pointers(void **state)
{
    (void)state;
    assert_true(trp_type_is_flat(&troupe_type_flat));
    assert_true(trp_type_is_flat(&troupe_type_troupe_none));
    assert_true(trp_type_is_flat(&troupe_type_double));
    assert_false(trp_type_is_flat(&troupe_type_everything));
    assert_false(trp_type_is_flat(&troupe_type_layer));
    assert_false(trp_type_is_flat(&troupe_type_troupe_text));
    assert_false(trp_type_is_flat(&troupe_type_troupe_bytes));
    assert_false(trp_type_is_flat(&troupe_type_troupe_array_double));
    assert_false(trp_type_is_flat(&troupe_type_inner_array));
}

static void test_copies_are_deep(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        shapes_random random = {seed};
        shapes_memory memory = {NULL, 0};
        trp_arena arena = {0};
        const troupe_type *type =
            seed % 3 ? shapes_type(&random, &memory, 4) : &troupe_type_everything;
        void *value = shapes_take(&memory, type->size);
        void *copy = shapes_take(&memory, type->size);
        shapes_fill(&random, &memory, type, value);
        assert_int_equal(trp_value_copy(type, value, &arena, copy), TROUPE_OK);
        if (!shapes_same(type, value, copy))
            fail_msg("seed %llu: the copy differs or shares memory", (unsigned long long)seed);
        shapes_free(&memory);
        trp_arena_clear(&arena);
    }
}

static void test_a_copy_fails_cleanly_at_each_allocation(void **state)
{
    (void)state;
    shapes_random random = {5};
    shapes_memory memory = {NULL, 0};
    everything value, copy;
    memset(&value, 0, sizeof(value));
    shapes_fill(&random, &memory, &troupe_type_everything, &value);
    long failures = 0;
    for (;; failures++) {
        trp_arena arena = {0};
        memset(&copy, 0xee, sizeof(copy));
        trp_memory_fail_after(failures);
        troupe_status status = trp_value_copy(&troupe_type_everything, &value, &arena, &copy);
        trp_memory_fail_after(-1);
        bool done = status == TROUPE_OK;
        if (done)
            assert_true(shapes_same(&troupe_type_everything, &value, &copy));
        else
            assert_null(copy.text); // No pointer into the original.
        trp_arena_clear(&arena);
        if (done)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_int_equal(troupe_last_error()->status, TROUPE_NO_MEMORY);
    }
    assert_true(failures > 0);
    shapes_free(&memory);
}

static void sum_ids(troupe_ref *ref, void *sum)
{
    *(uint64_t *)sum += ref->id;
    ref->schema++;
}

TROUPE_STRUCT(holder, (troupe_ref, one), (int64_t, gap), (troupe_ref, fixed, 2),
              (troupe_array_troupe_ref, many));
TROUPE_STRUCT(holders, (troupe_array_holder, all), (holder, last));

static void test_references_are_found_everywhere(void **state)
{
    (void)state;
    troupe_ref many[] = {{10, 0}, {0, 0}, {20, 0}};
    holder inner[] = {{.one = {100, 0}}, {.fixed = {{0, 0}, {200, 0}}}};
    holders value = {
        .all = {inner, 2},
        .last = {.one = {1, 0}, .gap = 7, .fixed = {{2, 0}, {3, 0}}, .many = {many, 3}}};
    uint64_t sum = 0;
    trp_value_refs(&troupe_type_holders, &value, sum_ids, &sum);
    assert_int_equal(sum, 1 + 2 + 3 + 10 + 20 + 100 + 200);
    assert_int_equal(value.last.one.schema, 1); // The visitor gets the references themselves,
    assert_int_equal(many[2].schema, 1);
    assert_int_equal(many[1].schema, 0); // and no empty one.
}

static void expect_print(const troupe_type *type, const void *value, const char *expected)
{
    char line[512];
    assert_int_equal(troupe_print_as(type, value, line, sizeof(line)), strlen(expected));
    assert_string_equal(line, expected);
    for (size_t capacity = 0; capacity <= strlen(expected) + 1; capacity++) {
        memset(line, '#', sizeof(line));
        assert_int_equal(troupe_print_as(type, value, capacity ? line : NULL, capacity),
                         strlen(expected));
        if (capacity > 0) {
            assert_int_equal(strlen(line), capacity - 1);
            assert_int_equal(strncmp(line, expected, capacity - 1), 0);
        }
        assert_int_equal(line[capacity], '#');
    }
}

static void test_values_print_as_one_line(void **state)
{
    (void)state;
    int8_t small = -7;
    uint64_t large = UINT64_MAX;
    bool yes = true;
    double tenth = 0.1, third = 1.0 / 3, none = -INFINITY;
    float tenth_f = 0.1f;
    troupe_text quoted = "a \"b\"\n\\\x01";
    troupe_text null = NULL;
    expect_print(&troupe_type_int8_t, &small, "-7");
    expect_print(&troupe_type_uint64_t, &large, "18446744073709551615");
    expect_print(&troupe_type_bool, &yes, "true");
    expect_print(&troupe_type_double, &tenth, "0.1");
    expect_print(&troupe_type_double, &third, "0.3333333333333333");
    expect_print(&troupe_type_double, &none, "-inf");
    expect_print(&troupe_type_float, &tenth_f, "0.1");
    expect_print(&troupe_type_troupe_text, &quoted, "\"a \\\"b\\\"\\n\\\\\\u0001\"");
    expect_print(&troupe_type_troupe_text, &null, "null");
    layer value = {.name = "first",
                   .rate = 0.5,
                   .corners = {{1, 2}, {3, 4}},
                   .sizes = {(int32_t[]){8, 16}, 2}};
    expect_print(&troupe_type_layer, &value,
                 "{\"name\": \"first\", \"rate\": 0.5, \"corners\": [{\"x\": 1, \"y\": 2}, "
                 "{\"x\": 3, \"y\": 4}], \"sizes\": [8, 16]}");
    assert_int_equal(troupe_print_as(NULL, NULL, NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hashes_tell_types_apart),
        cmocka_unit_test(test_hashes_depend_on_nothing_else),
        cmocka_unit_test(test_hashes_stay_what_they_are),
        cmocka_unit_test(test_threads_may_ask_at_once),
        cmocka_unit_test(test_flat_types_have_no_pointers),
        cmocka_unit_test(test_copies_are_deep),
        cmocka_unit_test(test_a_copy_fails_cleanly_at_each_allocation),
        cmocka_unit_test(test_references_are_found_everywhere),
        cmocka_unit_test(test_values_print_as_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
