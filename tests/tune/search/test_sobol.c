// test_sobol.c: Sobol's sequence: points of the published one, nets, scrambling, and the searcher.
#include <points.h>
#include <string.h>
#include <tune/search/sobol.h>

enum { BITS = 8, POINTS = 1 << BITS };

// Points of scipy.stats.qmc.Sobol(64, scramble=False), which takes the indices in Gray's order.
static void test_points_are_those_of_joe_and_kuo(void **state)
{
    (void)state;
    const size_t dims[] = {0, 1, 2, 7, 31, 63};
    const struct {
        uint32_t index, x[6];
    } rows[] = {
        {1, {2147483648, 2147483648, 2147483648, 2147483648, 2147483648, 2147483648}},
        {2, {3221225472, 1073741824, 1073741824, 3221225472, 1073741824, 3221225472}},
        {3, {1073741824, 3221225472, 3221225472, 1073741824, 3221225472, 1073741824}},
        {5, {3758096384, 3758096384, 536870912, 1610612736, 2684354560, 2684354560}},
        {100, {1778384896, 1107296256, 3321888768, 2046820352, 1778384896, 2785017856}},
        {777, {2973761536, 4022337536, 700448768, 3275751424, 3862953984, 1832910848}},
    };
    for (size_t d = 0; d < 6; d++) {
        trp_sobol sobol;
        trp_sobol_open(&sobol, dims[d]);
        assert_int_equal(trp_sobol_at(&sobol, 0), 0);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert_int_equal(trp_sobol_at(&sobol, rows[i].index ^ rows[i].index >> 1),
                             rows[i].x[d]);
    }
}

static uint32_t coordinate(const trp_sobol *sobol, uint32_t index, uint32_t seed)
{
    uint32_t x = trp_sobol_at(sobol, index);
    return seed == 0 ? x : trp_sobol_scrambled(x, seed);
}

// Each dimension's points lie one in each of as many equal parts.
static void test_every_dimension_is_hit_evenly(void **state)
{
    (void)state;
    for (size_t dim = 0; dim < TRP_SOBOL_DIMS; dim++) {
        trp_sobol sobol;
        trp_sobol_open(&sobol, dim);
        for (uint32_t seed = 0; seed < 3; seed++)
            for (uint32_t block = 0; block < 3; block++) {
                int hits[POINTS] = {0};
                for (uint32_t i = 0; i < POINTS; i++)
                    hits[coordinate(&sobol, block * POINTS + i, seed) >> (32 - BITS)]++;
                for (int i = 0; i < POINTS; i++)
                    assert_int_equal(hits[i], 1);
            }
    }
}

// The first two dimensions are a (0, m, 2)-net, scrambled or not: of each shape of 2^m equal
// boxes, one point lies in each box.
static void test_two_dimensions_are_a_net(void **state)
{
    (void)state;
    trp_sobol first, second;
    trp_sobol_open(&first, 0);
    trp_sobol_open(&second, 1);
    for (uint32_t seed = 0; seed < 4; seed++)
        for (int wide = 1; wide < BITS; wide++) {
            int hits[POINTS] = {0};
            for (uint32_t i = 0; i < POINTS; i++) {
                uint32_t a = coordinate(&first, i, seed) >> (32 - wide),
                         b = coordinate(&second, i, seed * 77) >> (32 - (BITS - wide));
                hits[a << (BITS - wide) | b]++;
            }
            for (int i = 0; i < POINTS; i++)
                assert_int_equal(hits[i], 1);
        }
}

// Where two coordinates first differ stays; what lies below it is drawn anew for each prefix.
static void test_scrambling_exchanges_halves_of_halves(void **state)
{
    (void)state;
    uint32_t flips[8] = {0};
    for (uint32_t seed = 1; seed <= 2000; seed++) {
        uint32_t a = trp_sobol_scrambled(0x40000000, seed),
                 b = trp_sobol_scrambled(0x40000000 ^ 0x00010000, seed);
        assert_int_equal(a ^ (b & 0xffff0000), ((a ^ b) & 0x00010000) | (a & 0xffff));
        for (int i = 0; i < 8; i++)
            flips[i] += (a ^ 0x40000000) >> (31 - i) & 1;
    }
    for (int i = 0; i < 8; i++) // Half of the seeds: five deviations.
        assert_in_range(flips[i], 1000 - 112, 1000 + 112);
}

static void test_the_searcher_gives_these_points(void **state)
{
    (void)state;
    const troupe_dim dims[] = {
        REAL(0, 1),
        CHOICE(4),
        LOGGED(1e-3, 1e3),
        {.kind = TROUPE_DIM_REAL, .low = 5, .high = 6, .parent = 1, .when = 3}};
    troupe_problem problem = PROBLEM(dims), other = PROBLEM(dims);
    other.seed = 2;
    troupe_searcher *sobol = points_begun(troupe_search_sobol(), &problem),
                    *second = points_begun(troupe_search_sobol(), &other);
    int hits[POINTS] = {0}, choices[4] = {0}, decades[2] = {0}, counts = 0, alike = 0;
    for (int i = 0; i < POINTS; i++) {
        double x[4], y[4], again[4];
        assert_int_equal(sobol->suggest(sobol, i, x), TROUPE_OK);
        assert_int_equal(second->suggest(second, i, y), TROUPE_OK);
        points_observe(sobol, i, x, 0);
        assert_int_equal(sobol->suggest(sobol, i, again), TROUPE_OK);
        assert_true(points_same(x, again, 4));
        points_assert_valid(&problem, x);
        hits[(int)(x[0] * POINTS)]++;
        choices[(int)x[1]]++;
        decades[x[2] >= 1]++;
        counts += !isnan(x[3]);
        alike += x[0] == y[0];
    }
    for (int i = 0; i < POINTS; i++)
        assert_int_equal(hits[i], 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(choices[i], POINTS / 4);
    assert_int_equal(decades[0], POINTS / 2);
    assert_int_equal(counts, POINTS / 2);
    assert_true(alike < 5);
    troupe_searcher_free(&sobol);
    troupe_searcher_free(&second);
}

static bool is_low(const void *user, const double *x)
{
    (void)user;
    return x[0] < 0.25;
}

static void test_what_it_cannot_search(void **state)
{
    (void)state;
    troupe_dim many[TRP_SOBOL_DIMS + 1];
    for (int i = 0; i <= TRP_SOBOL_DIMS; i++)
        many[i] = (troupe_dim)REAL(0, 1);
    troupe_problem problem = PROBLEM(many);
    troupe_searcher *sobol = troupe_search_sobol();
    assert_int_equal(sobol->begin(sobol, &problem), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "65 dimensions"));
    problem.dim_count = TRP_SOBOL_DIMS;
    assert_int_equal(sobol->begin(sobol, &problem), TROUPE_OK);
    problem.allowed = is_low;
    for (int i = 0; i < 100; i++) {
        double x[TRP_SOBOL_DIMS];
        assert_int_equal(sobol->suggest(sobol, i, x), TROUPE_OK);
        assert_true(x[0] < 0.25);
    }
    troupe_searcher_free(&sobol);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_are_those_of_joe_and_kuo),
        cmocka_unit_test(test_every_dimension_is_hit_evenly),
        cmocka_unit_test(test_two_dimensions_are_a_net),
        cmocka_unit_test(test_scrambling_exchanges_halves_of_halves),
        cmocka_unit_test(test_the_searcher_gives_these_points),
        cmocka_unit_test(test_what_it_cannot_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
