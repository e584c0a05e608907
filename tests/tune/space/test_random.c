// test_random.c: the generator against the numbers that its authors' programs give.
#include <support.h>
#include <tune/space/random.h>

static void test_splitmix_gives_the_published_numbers(void **state)
{
    (void)state;
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
                                        9817491932198370423u, 4593380528125082431u,
                                        16408922859458223821u};
    uint64_t seed = 1234567;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(trp_random_split(&seed), expected[i]);
}

static void test_xoshiro_gives_the_published_numbers(void **state)
{
    (void)state;
    static const uint64_t expected[] = {11520,
                                        0,
                                        1509978240,
                                        1215971899390074240,
                                        1216172134540287360,
                                        607988272756665600,
                                        16172922978634559625u,
                                        8476171486693032832,
                                        10595114339597558777u,
                                        2904607092377533576};
    trp_random random = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(trp_random_next(&random), expected[i]);
}

static void test_seeds_and_streams_are_different_sequences(void **state)
{
    (void)state;
    trp_random first, again, seed, stream;
    trp_random_seed(&first, 7, 3);
    trp_random_seed(&again, 7, 3);
    trp_random_seed(&seed, 8, 3);
    trp_random_seed(&stream, 7, 4);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = trp_random_next(&first);
        assert_int_equal(x, trp_random_next(&again));
        assert_int_not_equal(x, trp_random_next(&seed));
        assert_int_not_equal(x, trp_random_next(&stream));
    }
}

static void test_neighbouring_streams_do_not_correlate(void **state)
{
    (void)state;
    enum { STREAMS = 20000 };
    double sum = 0, product = 0, squares = 0, previous = 0;
    for (uint64_t i = 0; i < STREAMS; i++) {
        trp_random random;
        trp_random_seed(&random, 1, i);
        double x = trp_random_unit(&random) - 0.5;
        sum += x;
        squares += x * x;
        product += x * previous;
        previous = x;
    }
    // Means of 20000: standard deviations are 0.29 / 141 and, of the correlation, 1 / 141.
    assert_true(sum / STREAMS < 0.01 && sum / STREAMS > -0.01);
    assert_true(product / squares < 0.035 && product / squares > -0.035);
    assert_true(squares / STREAMS > 0.0820 && squares / STREAMS < 0.0847); // 1/12
}

static void test_units_are_below_one(void **state)
{
    (void)state;
    trp_random random = {{0, UINT64_MAX, 0, 0}};
    trp_random_seed(&random, 1, 0);
    for (int i = 0; i < 100000; i++) {
        double x = trp_random_unit(&random);
        assert_true(x >= 0 && x < 1);
    }
}

static void test_numbers_below_a_bound_are_uniform(void **state)
{
    (void)state;
    enum { BOUND = 7, DRAWS = 70000 };
    int seen[BOUND] = {0};
    trp_random random;
    trp_random_seed(&random, 1, 0);
    for (int i = 0; i < DRAWS; i++)
        seen[trp_random_below(&random, BOUND)]++;
    double chi = 0;
    for (int i = 0; i < BOUND; i++) {
        double off = seen[i] - DRAWS / (double)BOUND;
        chi += off * off / (DRAWS / (double)BOUND);
    }
    assert_true(chi < 22.5); // 6 degrees of freedom: one in a thousand is above.
    assert_int_equal(trp_random_below(&random, 1), 0);
}

static void test_a_bound_that_wastes_half_the_numbers_stays_unbiased(void **state)
{
    (void)state;
    // Of 2^64 numbers, those below 2^64 mod bound are drawn again; a plain remainder would favour
    // the lower half of such a bound two to one.
    uint64_t bound = (UINT64_MAX / 3) * 2;
    int low = 0;
    trp_random random;
    trp_random_seed(&random, 1, 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t x = trp_random_below(&random, bound);
        assert_true(x < bound);
        low += x < bound / 2;
    }
    assert_in_range(low, 9700, 10300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splitmix_gives_the_published_numbers),
        cmocka_unit_test(test_xoshiro_gives_the_published_numbers),
        cmocka_unit_test(test_seeds_and_streams_are_different_sequences),
        cmocka_unit_test(test_neighbouring_streams_do_not_correlate),
        cmocka_unit_test(test_units_are_below_one),
        cmocka_unit_test(test_numbers_below_a_bound_are_uniform),
        cmocka_unit_test(test_a_bound_that_wastes_half_the_numbers_stays_unbiased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
