// gp_targets.h: scores as targets of a Gaussian process, which takes them for
// draws of a normal distribution.
#ifndef TRP_GP_TARGETS_H
#define TRP_GP_TARGETS_H

#include <stdbool.h>
#include <stddef.h>

// Writes targets of mean 0 and deviation 1, in the order of the scores (lower
// is better); scores that are infinite are as the most or the least that is
// not. Where they are skewed they are bent by the power of Yeo and Johnson ("A
// new family of power transformations", Biometrika 87, 2000) that makes them
// most like normal ones, as in HEBO (Cowen-Rivers et al., JAIR 74, 2022).
// False: there is no finite score.
bool trp_gp_targets(const double *scores, size_t n, double *targets);

#endif
