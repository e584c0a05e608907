// test_own.c: spaces that trainers bring along: which rows are theirs, and which one holds.
#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <tune/space/own.h>

TROUPE_STRUCT(settings, (double, rate), (int, width));
TROUPE_STRUCT(others, (double, rate), (int, depth));

static troupe_status run(troupe_rank *me, const void *config)
{
    (void)me, (void)config;
    return TROUPE_OK;
}

static const troupe_trainer with = {
    .abi = TROUPE_ABI, .name = "with", .config = &troupe_type_settings, .run = run};
static const troupe_trainer without = {
    .abi = TROUPE_ABI, .name = "without", .config = &troupe_type_settings, .run = run};

static const troupe_param first[] = {TROUPE_UNIFORM(settings, rate, 0, 1)};
static const troupe_param rows[] = {
    TROUPE_UNIFORM(settings, rate, 0, 2),
    TROUPE_INTEGER(others, depth, 1, 9), // The config has it not.
    TROUPE_CHOICE(troupe_train_options, ranks, 1, 2),
    TROUPE_ONLY_WHEN(others, depth, rate, 1),
    TROUPE_INTEGER(settings, width, 1, 9),
};

static troupe_own_space registered(const troupe_param *of, size_t count)
{
    return (troupe_own_space){sizeof(troupe_own_space), &with, of, count, NULL};
}

static void test_the_last_one_holds(void **state)
{
    (void)state;
    static troupe_own_space one, other;
    troupe_param *own;
    size_t count = 7;
    assert_int_equal(trp_space_own_rows(&with, &own, &count), TROUPE_OK);
    assert_true(own == NULL && count == 0);
    one = registered(first, 1);
    troupe_space_register(&one);
    assert_int_equal(trp_space_own_rows(&with, &own, &count), TROUPE_OK);
    assert_true(count == 1 && own[0].high == 1);
    trp_free(own);
    other = registered(rows, sizeof rows / sizeof *rows);
    troupe_space_register(&other);
    assert_int_equal(trp_space_own_rows(&with, &own, &count), TROUPE_OK);
    assert_int_equal(count, 3);
    assert_true(own[0].high == 2);
    assert_string_equal(own[1].name, "ranks");
    assert_string_equal(own[2].name, "width");
    trp_free(own);
    assert_int_equal(trp_space_own_rows(&without, &own, &count), TROUPE_OK);
    assert_true(own == NULL && count == 0);
}

static void test_short_memory_is_told(void **state)
{
    (void)state;
    troupe_param *own;
    size_t count = 7;
    trp_memory_fail_after(0);
    troupe_status status = trp_space_own_rows(&with, &own, &count);
    trp_memory_fail_after(-1);
    assert_int_equal(status, TROUPE_NO_MEMORY);
    assert_true(own == NULL && count == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_one_holds),
        cmocka_unit_test(test_short_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
