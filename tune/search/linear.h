// linear.h: small dense linear algebra for searchers. A matrix is its rows one after another, each
// `width` numbers from the next; sizes are up to a few hundred.
#ifndef TRP_LINEAR_H
#define TRP_LINEAR_H

#include <stddef.h>

double trp_dot(const double *a, const double *b, size_t n);

// Replaces b by the solution x of L x = b, or of (transposed L) x = b, where L is lower triangular:
// what is above its diagonal is not read.
void trp_solve_lower(const double *l, size_t n, size_t width, double *b);
void trp_solve_lower_transposed(const double *l, size_t n, size_t width, double *b);

// The eigenvalues of a symmetric matrix (n rows of n numbers), and in the columns of `vectors` its
// orthonormal eigenvectors: A = V diag(values) transposed V. A is used up.
void trp_eigen(double *a, size_t n, double *values, double *vectors);

#endif
