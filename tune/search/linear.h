// linear.h: small dense linear algebra for searchers. A matrix is its rows one after another, each
// `width` numbers from the next; sizes are up to a few hundred.
#ifndef TRP_LINEAR_H
#define TRP_LINEAR_H

#include <stdbool.h>
#include <stddef.h>

double trp_dot(const double *a, const double *b, size_t n);

// Replaces the lower triangle of a symmetric matrix A by L, where A = L * transposed L; what is
// above the diagonal is neither read nor written. False: it is not positive definite, to rounding.
bool trp_cholesky(double *a, size_t n, size_t width);
// The same for row `row` alone, where those before it have been replaced: A grows by a row.
bool trp_cholesky_row(double *a, size_t row, size_t width);

// Replaces b by the solution x of L x = b, or of (transposed L) x = b.
void trp_solve_lower(const double *l, size_t n, size_t width, double *b);
void trp_solve_lower_transposed(const double *l, size_t n, size_t width, double *b);
// Replaces L by its inverse, which is lower triangular as well.
void trp_invert_lower(double *l, size_t n, size_t width);

// The eigenvalues of a symmetric matrix (n rows of n numbers), and in the columns of `vectors` its
// orthonormal eigenvectors: A = V diag(values) transposed V. A is used up.
void trp_eigen(double *a, size_t n, double *values, double *vectors);

#endif
