// test_parzen.c: densities beside what the rules say, worked out plainly: widths, weights, kernels
// of each kind, masses that sum to 1, and draws that follow the density.
#include <points.h>
#include <runtime/base/memory.h>
#include <tune/search/parzen.h>

enum { DIMS = 5, POINTS = 300 };

static const troupe_dim dims[DIMS] = {
    REAL(-2, 3),
    LOGGED(1e-3, 10),
    WHOLE(1, 6),
    CHOICE(4),
    {.kind = TROUPE_DIM_CHOICE, .high = 4, .choices = 5, .ordered = true, .parent = -1},
};

typedef struct world {
    trp_axis axes[DIMS], *list[DIMS];
    double x[POINTS][DIMS];
    int members[POINTS], place[POINTS];
    size_t count, total;
    trp_parzen density;
} world;

// So many random points, of which every `each`-th is a member.
static void open_world(world *w, size_t total, int each, bool fading)
{
    trp_random random;
    trp_random_seed(&random, 11, total);
    *w = (world){.total = total};
    for (size_t i = 0; i < DIMS; i++) {
        trp_axis_open(&w->axes[i], &dims[i]);
        w->list[i] = &w->axes[i];
    }
    for (size_t p = 0; p < total; p++) {
        trp_dims_draw(dims, DIMS, &random, w->x[p]);
        w->place[p] = p % (size_t)each == 0 ? (int)w->count : -1;
        if (w->place[p] >= 0)
            w->members[w->count++] = (int)p;
        for (size_t i = 0; i < DIMS; i++) {
            assert_int_equal(trp_axis_reserve(&w->axes[i]), TROUPE_OK);
            trp_axis_add(&w->axes[i], w->x[p][i]);
        }
    }
    assert_int_equal(
        trp_parzen_build(&w->density, w->list, DIMS, w->members, w->count, w->place, fading),
        TROUPE_OK);
}

static void close_world(world *w)
{
    for (size_t i = 0; i < DIMS; i++)
        trp_axis_close(&w->axes[i]);
    trp_parzen_close(&w->density);
}

// ---- the rules, plainly

static double scale_of(const troupe_dim *dim, double x)
{
    return dim->log ? log(x) : x;
}

// The ends of a dimension in its scale, half a step wider where it has steps.
static void ends_of(const troupe_dim *dim, double *low, double *high)
{
    double half = dim->kind == TROUPE_DIM_REAL ? 0 : 0.5;
    *low = scale_of(dim, dim->low - half);
    *high = scale_of(dim, dim->high + half);
}

static double width_of(const world *w, size_t axis, size_t member)
{
    double low, high, mine = scale_of(&dims[axis], w->x[w->members[member]][axis]);
    ends_of(&dims[axis], &low, &high);
    double left = -1, right = -1; // Gaps to the neighbours. Of equals the older is the lower.
    for (size_t i = 0; i < w->count; i++) {
        double other = scale_of(&dims[axis], w->x[w->members[i]][axis]);
        if (other < mine || (other == mine && i < member))
            left = left < 0 ? mine - other : fmin(left, mine - other);
        else if (i != member)
            right = right < 0 ? other - mine : fmin(right, other - mine);
    }
    if (left < 0 && right < 0)
        left = mine - low, right = high - mine;
    double width = fmax(left, right), range = high - low;
    return fmin(fmax(width, range / fmin(100, 2 + (double)w->count)), range);
}

static double number_density(const troupe_dim *dim, double centre, double width, double x)
{
    double low, high;
    ends_of(dim, &low, &high);
    double all =
        trp_normal_below((high - centre) / width) - trp_normal_below((low - centre) / width);
    if (dim->kind == TROUPE_DIM_REAL) { // In units, of which the range has one.
        double z = (scale_of(dim, x) - centre) / width;
        return exp(-z * z / 2) / sqrt(2 * acos(-1.0)) / width / all * (high - low);
    }
    return (trp_normal_below((scale_of(dim, x + 0.5) - centre) / width) -
            trp_normal_below((scale_of(dim, x - 0.5) - centre) / width)) /
           all;
}

static double kernel_density(const world *w, size_t member, const double *x)
{
    double product = 1, kernels = (double)w->count + 1;
    for (size_t i = 0; i < DIMS; i++) {
        const troupe_dim *dim = &dims[i];
        bool prior = member == w->count;
        if (dim->kind == TROUPE_DIM_CHOICE && !dim->ordered) {
            double own = !prior && w->x[w->members[member]][i] == x[i];
            product *=
                prior ? 1.0 / dim->choices : (1 / kernels + own) / (dim->choices / kernels + 1);
            continue;
        }
        double low, high;
        ends_of(dim, &low, &high);
        double centre = prior ? (low + high) / 2 : scale_of(dim, w->x[w->members[member]][i]);
        product *= number_density(dim, centre, prior ? high - low : width_of(w, i, member), x[i]);
    }
    return product;
}

static double weight_of(size_t count, size_t member, bool fading)
{
    if (!fading || count < 25 || member >= count - 25)
        return 1;
    size_t ramp = count - 25;
    return ramp == 1 ? 1.0 / (double)count
                     : 1.0 / (double)count +
                           (1 - 1.0 / (double)count) * (double)member / (double)(ramp - 1);
}

static double density_of(const world *w, const double *x, bool fading)
{
    double sum = 0, weights = 0;
    for (size_t k = 0; k <= w->count; k++) {
        double weight = k == w->count ? 1 : weight_of(w->count, k, fading);
        sum += weight * kernel_density(w, k, x);
        weights += weight;
    }
    return sum / weights;
}

// A point as a candidate.
static void candidate_of(const double *x, double *candidate)
{
    for (size_t i = 0; i < DIMS; i++)
        candidate[i] = i < 2 ? trp_dim_unit(&dims[i], x[i]) : x[i];
}

static void test_densities_are_as_the_rules_say(void **state)
{
    (void)state;
    const size_t counts[] = {0, 1, 2, 3, 24, 25, 26, 27, 100, 140, POINTS};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        for (int each = 1; each <= 2; each++) {
            enum { CANDIDATES = 30 };
            world w;
            double x[CANDIDATES][DIMS], candidates[CANDIDATES][DIMS], logs[CANDIDATES];
            open_world(&w, counts[k], each, each == 1);
            trp_random random;
            trp_random_seed(&random, 3, k);
            for (int i = 0; i < CANDIDATES; i++) {
                trp_dims_draw(dims, DIMS, &random, x[i]);
                candidate_of(x[i], candidates[i]);
            }
            assert_int_equal(trp_parzen_log(&w.density, candidates[0], CANDIDATES, logs),
                             TROUPE_OK);
            for (int i = 0; i < CANDIDATES; i++) {
                double expected = log(density_of(&w, x[i], each == 1));
                if (!(fabs(logs[i] - expected) < 1e-9))
                    fail_msg("%zu points: %.15g, expected %.15g", counts[k], logs[i], expected);
            }
            close_world(&w);
        }
}

// Two points, 0.2 and 0.6 of 0 to 1: each is as wide as the gap between them.
static void test_two_kernels_by_hand(void **state)
{
    (void)state;
    const troupe_dim unit = REAL(0, 1);
    trp_axis axis, *list = &axis;
    trp_parzen density = {0};
    const int members[] = {0, 1}, place[] = {0, 1};
    trp_axis_open(&axis, &unit);
    assert_int_equal(trp_axis_reserve(&axis), TROUPE_OK);
    trp_axis_add(&axis, 0.2);
    trp_axis_add(&axis, 0.6);
    assert_int_equal(trp_parzen_build(&density, &list, 1, members, 2, place, true), TROUPE_OK);
    double at = 0.2, log_at;
    assert_int_equal(trp_parzen_log(&density, &at, 1, &log_at), TROUPE_OK);
    // phi(0) / 0.4 / (Phi(2) - Phi(-0.5)) = 0.997356 / 0.668712 = 1.491457,
    // phi(1) / 0.4 / (Phi(1) - Phi(-1.5)) = 0.604927 / 0.774538 = 0.781017,
    // phi(0.3) / 1 / (Phi(0.5) - Phi(-0.5)) = 0.381388 / 0.382925 = 0.995986; a third of the sum.
    assert_true(fabs(exp(log_at) - 1.089487) < 2e-6);
    trp_axis_close(&axis);
    trp_parzen_close(&density);
}

// What a neighbour's coming or going changes is worked out again, and nothing else.
static void test_what_was_worked_out_is_no_matter(void **state)
{
    (void)state;
    world fresh, worn;
    open_world(&fresh, 200, 2, true);
    open_world(&worn, 200, 2, true);
    int all[200], places[200];
    for (int i = 0; i < 200; i++)
        all[i] = places[i] = i;
    assert_int_equal(trp_parzen_build(&worn.density, worn.list, DIMS, all, 200, places, true),
                     TROUPE_OK);
    assert_int_equal(trp_parzen_build(&worn.density, worn.list, DIMS, worn.members, worn.count,
                                      worn.place, true),
                     TROUPE_OK);
    for (int i = 0; i < 200; i++) {
        double candidate[DIMS], a, b;
        candidate_of(fresh.x[i], candidate);
        assert_int_equal(trp_parzen_log(&fresh.density, candidate, 1, &a), TROUPE_OK);
        assert_int_equal(trp_parzen_log(&worn.density, candidate, 1, &b), TROUPE_OK);
        assert_true(a == b);
    }
    close_world(&fresh);
    close_world(&worn);
}

// Of one finite dimension: its masses sum to 1, and draws have these frequencies.
static void check_masses(const troupe_dim *dim, const double *points, size_t count)
{
    enum { DRAWS = 20000, MOST = 20 };
    trp_axis axis, *list = &axis;
    trp_parzen density = {0};
    int members[MOST], place[MOST], values = (int)trp_dim_values(dim);
    trp_axis_open(&axis, dim);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(trp_axis_reserve(&axis), TROUPE_OK);
        trp_axis_add(&axis, points[i]);
        members[i] = place[i] = (int)i;
    }
    assert_int_equal(trp_parzen_build(&density, &list, 1, members, count, place, true), TROUPE_OK);
    double sum = 0, square = 0, candidates[MOST], logs[MOST], hits[MOST] = {0};
    double step = dim->step > 0 ? dim->step : 1;
    for (int i = 0; i < values; i++)
        candidates[i] = trp_dim_snap(dim, dim->low + i * step);
    assert_int_equal(trp_parzen_log(&density, candidates, (size_t)values, logs), TROUPE_OK);
    for (int i = 0; i < values; i++)
        sum += exp(logs[i]);
    assert_true(fabs(sum - 1) < 1e-9);
    trp_random random;
    trp_random_seed(&random, 5, (uint64_t)values);
    for (int i = 0; i < DRAWS; i++) {
        double drawn;
        trp_parzen_draw(&density, &random, &drawn);
        hits[(int)rint((trp_axis_value(&axis, drawn) - dim->low) / step)]++;
    }
    for (int i = 0; i < values; i++)
        square += pow(hits[i] - DRAWS * exp(logs[i]), 2) / (DRAWS * exp(logs[i]));
    assert_true(square < values + 5 * sqrt(2.0 * values)); // Chi square, five deviations.
    trp_axis_close(&axis);
    trp_parzen_close(&density);
}

static void test_masses_sum_to_one_and_draws_follow_them(void **state)
{
    (void)state;
    const troupe_dim stepped = {
        .kind = TROUPE_DIM_REAL, .low = 0, .high = 0.3, .step = 0.1, .parent = -1};
    const troupe_dim logged = {
        .kind = TROUPE_DIM_INTEGER, .low = 1, .high = 12, .step = 1, .log = true, .parent = -1};
    const troupe_dim by_two = {
        .kind = TROUPE_DIM_INTEGER, .low = -3, .high = 6, .step = 2, .parent = -1};
    const troupe_dim normal = {
        .kind = TROUPE_DIM_REAL, .low = -4, .high = 4, .step = 1, .deviation = 1, .parent = -1};
    check_masses(&dims[2], (const double[]){2, 2, 5, 2}, 4);
    check_masses(&dims[2], NULL, 0);
    check_masses(&dims[3], (const double[]){1, 1, 3}, 3);
    check_masses(&dims[4], (const double[]){0, 4, 4}, 3);
    check_masses(&stepped, (const double[]){0.1, 0.3}, 2);
    check_masses(&logged, (const double[]){1, 9, 12}, 3);
    check_masses(&by_two, (const double[]){-3, 3}, 2);
    check_masses(&normal, (const double[]){0, 0, 1}, 3);
}

// Draws of a real dimension fall into twenty parts as the density's integral says.
static void test_real_draws_follow_the_density(void **state)
{
    (void)state;
    enum { PARTS = 20, FINE = 50, DRAWS = 20000 };
    trp_axis axis, *list = &axis;
    trp_parzen density = {0};
    const double points[] = {-1.9, -1.8, 0.5, 2.9};
    const int members[] = {0, 1, 2, 3};
    double expected[PARTS] = {0}, hits[PARTS] = {0}, square = 0, sum = 0;
    trp_axis_open(&axis, &dims[0]);
    assert_int_equal(trp_axis_reserve(&axis), TROUPE_OK);
    for (int i = 0; i < 4; i++)
        trp_axis_add(&axis, points[i]);
    assert_int_equal(trp_parzen_build(&density, &list, 1, members, 4, members, true), TROUPE_OK);
    for (int i = 0; i < PARTS * FINE; i++) {
        double at = (i + 0.5) / (PARTS * FINE), log_at;
        assert_int_equal(trp_parzen_log(&density, &at, 1, &log_at), TROUPE_OK);
        expected[i / FINE] += exp(log_at) / (PARTS * FINE);
    }
    trp_random random;
    trp_random_seed(&random, 6, 0);
    for (int i = 0; i < DRAWS; i++) {
        double drawn;
        trp_parzen_draw(&density, &random, &drawn);
        hits[(int)(drawn * PARTS)]++;
        double x = trp_axis_value(&axis, drawn);
        assert_true(x >= -2 && x < 3);
    }
    for (int i = 0; i < PARTS; i++) {
        square += pow(hits[i] - DRAWS * expected[i], 2) / (DRAWS * expected[i]);
        sum += expected[i];
    }
    assert_true(fabs(sum - 1) < 1e-4);
    assert_true(square < PARTS + 5 * sqrt(2.0 * PARTS));
    trp_axis_close(&axis);
    trp_parzen_close(&density);
}

static void test_kernels_of_many_dimensions_do_not_underflow(void **state)
{
    (void)state;
    enum { MANY = 400 };
    const troupe_dim unit = REAL(0, 1);
    static trp_axis axes[MANY], *list[MANY];
    static double low[MANY], high[MANY];
    int members[300];
    trp_parzen density = {0};
    for (int i = 0; i < MANY; i++) {
        trp_axis_open(&axes[i], &unit);
        list[i] = &axes[i];
        for (int k = 0; k < 300; k++) {
            assert_int_equal(trp_axis_reserve(&axes[i]), TROUPE_OK);
            trp_axis_add(&axes[i], 0.001 * k / 300);
            members[k] = k;
        }
        low[i] = 0.0005;
        high[i] = 0.99;
    }
    assert_int_equal(trp_parzen_build(&density, list, MANY, members, 300, members, false),
                     TROUPE_OK);
    double near_log, far_log;
    assert_int_equal(trp_parzen_log(&density, low, 1, &near_log), TROUPE_OK);
    assert_int_equal(trp_parzen_log(&density, high, 1, &far_log), TROUPE_OK);
    assert_true(near_log > 100 && near_log < 1e4);
    assert_true(far_log < 0 && far_log > -1e3); // The prior's.
    for (int i = 0; i < MANY; i++)
        trp_axis_close(&axes[i]);
    trp_parzen_close(&density);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    world w;
    open_world(&w, 30, 1, true);
    double candidate[DIMS], log_at;
    candidate_of(w.x[0], candidate);
    for (int after = 0;; after++) {
        trp_parzen density = {0};
        trp_memory_fail_after(after);
        troupe_status status =
            trp_parzen_build(&density, w.list, DIMS, w.members, w.count, w.place, true);
        if (status == TROUPE_OK)
            status = trp_parzen_log(&density, candidate, 1, &log_at);
        trp_memory_fail_after(-1);
        trp_parzen_close(&density);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_true(after < 30);
    }
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_densities_are_as_the_rules_say),
        cmocka_unit_test(test_two_kernels_by_hand),
        cmocka_unit_test(test_what_was_worked_out_is_no_matter),
        cmocka_unit_test(test_masses_sum_to_one_and_draws_follow_them),
        cmocka_unit_test(test_real_draws_follow_the_density),
        cmocka_unit_test(test_kernels_of_many_dimensions_do_not_underflow),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
