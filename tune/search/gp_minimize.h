// gp_minimize.h: a smooth function's minimum within bounds, by L-BFGS (Nocedal
// and Wright, Numerical Optimization, chapter 7) on the variables that no bound
// holds.
#ifndef TRP_GP_MINIMIZE_H
#define TRP_GP_MINIMIZE_H

#include <troupe/status.h>

#include <stddef.h>

// The function's value at x, and its gradient; not finite: it is not defined
// there.
typedef double trp_smooth(void *user, const double *x, double *gradient);

// Goes downhill from x, which lies within the bounds, until the gradient's
// components are at most `tolerance` where they are free to go, or after so
// many evaluations. *value: the function's at x.
troupe_status trp_gp_minimize(trp_smooth *function, void *user, size_t n, const double *low,
                              const double *high, double tolerance, int evaluations, double *x,
                              double *value);

#endif
