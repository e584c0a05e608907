// gp_improvement.h: the logarithm of the expected improvement, where the
// improvement itself is too small for a number (Ament et al., "Unexpected
// Improvements to Expected Improvement for Bayesian Optimization", NeurIPS
// 2023).
#ifndef TRP_GP_IMPROVEMENT_H
#define TRP_GP_IMPROVEMENT_H

// log h(z), where h(z) = density(z) + z * below(z) of the standard normal
// distribution is what a deviation of 1 is expected to improve on a value z
// above its mean. *slope: its derivative.
double trp_log_h(double z, double *slope);

#endif
