// gp_propose.h: the point at which a Gaussian process expects the largest
// improvement.
#ifndef TRP_GP_PROPOSE_H
#define TRP_GP_PROPOSE_H

#include <tune/search/gp_features.h>
#include <tune/space/random.h>

// The logarithms of the improvements on `least` that are expected at TRP_GP_LANES points, of which
// `at` has a row for each feature; `slopes` (NULL: not wanted): by these, in rows as well.
// `scratch`: TRP_GP_SCRATCH numbers, and a row for each feature.
void trp_gp_log_improvements(const trp_gp_process *process, double least, const double *at,
                             double *worths, double *slopes, double *scratch);

// Fills x with the point where that is largest, as far as it is found: random
// points, and searches downhill from the best of them and from `best` (a
// point). Points that the process has are no proposal, nor any that may not be tried,
// unless nothing else is found, which is TROUPE_END.
troupe_status trp_gp_propose(const trp_gp_process *process, const trp_gp_features *features,
                             double least, const double *best, trp_random *random, double *x);

#endif
