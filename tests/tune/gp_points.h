// gp_points.h: a Gaussian process over a few points, for its tests.
#ifndef TEST_TUNE_GP_POINTS_H
#define TEST_TUNE_GP_POINTS_H

#include <math.h>
#include <support.h>
#include <tune/search/gp_process.h>
#include <tune/space/random.h>

enum { N = 20, FEATURES = 4, LENGTHS = 3 };

// Two numbers that share a length, as a dimension that does not always count; a number; a name.
static const trp_gp_feature features[FEATURES] = {
    {.length = 0}, {.length = 0}, {.length = 1}, {.length = 2, .name = true}};

static inline double matern(double distance)
{
    double r = sqrt(5) * distance;
    return (1 + r + r * r / 3) * exp(-r);
}

// N points at random, with targets of a smooth function.
static inline void make(trp_gp_process *process, double *targets)
{
    trp_random random;
    trp_random_seed(&random, 7, 0);
    assert_int_equal(trp_gp_process_open(process, features, FEATURES, LENGTHS), TROUPE_OK);
    for (size_t i = 0; i < N; i++) {
        double x[FEATURES];
        for (size_t f = 0; f + 1 < FEATURES; f++)
            x[f] = trp_random_unit(&random);
        x[3] = (double)trp_random_below(&random, 3);
        targets[i] = sin(4 * x[0]) + x[1] * x[1] - 0.5 * x[2] + (x[3] == 1);
        assert_int_equal(trp_gp_process_add(process, x), TROUPE_OK);
    }
    process->inverse[0] = 3;
    process->inverse[1] = 0.5;
    process->inverse[2] = 1.5;
    process->scale = 1.7;
    process->noise = 0.01;
}

#endif
