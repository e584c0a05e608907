// gp_lanes.h: what a Gaussian process spends its time on, for eight points at once, with the widest
// vectors that the processor has. Numbers that belong to eight points, one a lane, lie side by
// side: a column of n such rows has n * TRP_GP_LANES numbers.
//
// A lane comes to the same bits with every set of instructions, in whichever lane it is and however
// a factor's rows were grouped: sums are in the order of their terms, and products are rounded. So
// a process that grew row by row is that which was made at once.
#ifndef TRP_GP_LANES_H
#define TRP_GP_LANES_H

#include <stdbool.h>
#include <stddef.h>

enum { TRP_GP_LANES = 8 };

typedef struct trp_gp_feature {
    size_t length; // Which of the inverse squares of lengths is its.
    bool name;     // Two different ones differ by 1.
} trp_gp_feature;

// Points whose covariances are asked for: `scale` times Matern's with smoothness 5/2 of their
// distance, whose square is the sum over features of `inverse` times the square of the features'
// difference.
typedef struct trp_gp_points {
    const trp_gp_feature *features;
    size_t feature_count;
    const double *points; // Rows of features.
    const double *inverse;
    double scale;
} trp_gp_points;

typedef struct trp_gp_kernels {
    const char *name;
    // `at`: eight points, a row for each feature. Row i of `values` has their covariances with
    // point i, from 0 up to `count`, and row i of `slopes` (NULL: not wanted) the derivatives of
    // these by the square of the distance.
    void (*covary)(const trp_gp_points *of, size_t count, const double *at, double *values,
                   double *slopes);
    // Adds to row f of `sums` the sum over i, up to `count`, of row i of `factors` times the
    // difference of feature f of `at` and of point i (of names, 0), or with `squared` its square.
    void (*spread)(const trp_gp_points *of, size_t count, const double *at, const double *factors,
                   bool squared, double *sums);
    // Replaces the n rows of x by the solutions of L x = b, or of (transposed L) x = b; L's rows
    // are `width` apart.
    void (*solve)(const double *l, size_t n, size_t width, double *x);
    void (*solve_transposed)(const double *l, size_t n, size_t width, double *x);
    // Subtracts from row p of `tile`, which has eight, the sum over i, up to `count`, of number p
    // of row i of a times row i of b.
    void (*subtract)(const double *a, const double *b, size_t count, double *tile);
} trp_gp_kernels;

// Those to use.
const trp_gp_kernels *trp_gp_kernels_best(void);
// For tests: from the widest to the plainest, as far as this processor has them; NULL: no more.
const trp_gp_kernels *trp_gp_kernels_at(size_t index);

// Makes rows `row` up to `row + rows`, eight at most, of the factor L of a covariance matrix, of
// which the rows before are there. `column` has the covariances of these points, one a lane, with
// those from 0 up to row + rows, and room for row + 8; it is used up. False: there is no factor, to
// rounding.
bool trp_gp_factor(const trp_gp_kernels *with, double *l, size_t width, size_t row, size_t rows,
                   double *column);

#endif
