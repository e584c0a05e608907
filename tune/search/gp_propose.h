// gp_propose.h: the point at which a Gaussian process expects the largest
// improvement.
#ifndef TRP_GP_PROPOSE_H
#define TRP_GP_PROPOSE_H

#include <tune/search/gp_features.h>
#include <tune/space/random.h>

// The logarithm of the improvement on `least` that is expected at features;
// `slope` (NULL: not wanted): by each feature. `scratch`: 2 * (process->count +
// features) numbers.
double trp_gp_log_improvement(const trp_gp_process *process, double least, const double *features,
                              double *slope, double *scratch);

// Fills x with the point where that is largest, as far as it is found: random
// points, and searches downhill from the best of them and from `best` (a
// point). Points that `tried` are no proposal, nor any that may not be tried,
// unless nothing else is found, which is TROUPE_END.
troupe_status trp_gp_propose(const trp_gp_process *process, const trp_gp_features *features,
                             double least, const double *best, trp_random *random, double *x);

#endif
