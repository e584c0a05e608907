// test_search.c: the searchers give the same configs whatever the order of asking.
#include <string.h>
#include <support.h>
#include <tune/search/search.h>

TROUPE_STRUCT(settings, (double, rate), (int, hidden));

static const troupe_param rows[] = {TROUPE_LOG_UNIFORM(settings, rate, 1e-4, 1.0),
                                    TROUPE_CHOICE(settings, hidden, 1, 2, 3)};

static void opened(trp_space *space)
{
    assert_int_equal(trp_space_open(space, &troupe_type_settings, rows, 2, NULL), TROUPE_OK);
}

static void test_random_configs_do_not_depend_on_the_order_of_asking(void **state)
{
    (void)state;
    enum { TRIALS = 100 };
    trp_space space;
    opened(&space);
    trp_search *forwards = trp_search_random(&space, 42),
               *backwards = trp_search_random(&space, 42), *other = trp_search_random(&space, 43);
    settings a[TRIALS], b[TRIALS], c[TRIALS];
    int same = 0;
    for (int i = 0; i < TRIALS; i++) {
        assert_true(forwards->suggest(forwards, i, &a[i]));
        assert_true(backwards->suggest(backwards, TRIALS - 1 - i, &b[TRIALS - 1 - i]));
        assert_true(other->suggest(other, i, &c[i]));
        forwards->observe(forwards, i, i);
    }
    for (int i = 0; i < TRIALS; i++) {
        assert_true(a[i].rate == b[i].rate && a[i].hidden == b[i].hidden);
        same += a[i].rate == c[i].rate;
        for (int j = 0; j < i; j++)
            same += a[i].rate == a[j].rate;
    }
    assert_int_equal(same, 0);
    trp_search_destroy(&forwards);
    trp_search_destroy(&backwards);
    trp_search_destroy(&other);
    assert_null(forwards);
    trp_search_destroy(&forwards);
    trp_space_close(&space);
}

static void test_a_grid_ends(void **state)
{
    (void)state;
    trp_space space;
    opened(&space);
    trp_search *grid = trp_search_grid(&space, 4);
    settings config;
    int count = 0;
    while (grid->suggest(grid, count, &config))
        count++;
    assert_int_equal(count, 12);
    assert_true(grid->suggest(grid, 11, &config));
    assert_int_equal(config.hidden, 3);
    grid->observe(grid, 11, 1);
    trp_search_destroy(&grid);
    trp_space_close(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_configs_do_not_depend_on_the_order_of_asking),
        cmocka_unit_test(test_a_grid_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
