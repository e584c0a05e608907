// fronts.h: sets of points by several objectives, all of which are minimised: which are better than
// others, how far apart they lie, and what volume they cover.
//
// Scores stand point after point, `objectives` of each. NaN counts as positive infinity.
#ifndef TRP_FRONTS_H
#define TRP_FRONTS_H

#include <stdbool.h>
#include <stddef.h>
#include <troupe/status.h>

// Whether a is no worse than b by each objective, and better by one.
bool trp_dominates(const double *a, const double *b, size_t objectives);

// The front of each point: 0 of those that no other dominates, 1 of those that only points of front
// 0 dominate, and so on. `violations` (NULL: none violates anything): of two points, one that
// violates less dominates; only among those that violate nothing do scores count (Deb et al. 2002,
// section VI).
troupe_status trp_fronts(const double *scores, const double *violations, size_t count,
                         size_t objectives, int *ranks);

// The crowding distance (Deb et al. 2002, section III-B) of those points whose numbers are in
// `members`, which should be of one front: larger where neighbours are farther, infinite at the
// ends of an objective.
troupe_status trp_crowding(const double *scores, size_t objectives, const int *members,
                           size_t count, double *distances);

// The volume of what the points dominate, up to the reference point; one that is not better than
// the reference by every objective adds nothing. Exact; its cost grows with the square of the
// points for 3 objectives, and steeply above.
troupe_status trp_hypervolume(const double *scores, size_t count, size_t objectives,
                              const double *reference, double *volume);
// A reference point a little worse than the worst of the points: 1.1 times it, or 0.9 times where
// it is negative.
void trp_hypervolume_reference(const double *scores, size_t count, size_t objectives,
                               double *reference);
// Fills `chosen` with `wanted` (at most count) of the points, each the one that adds most to the
// volume of those before it; of equals the first (Guerreiro, Fonseca and Paquete, "Greedy
// hypervolume subset selection in low dimensions", 2016, with bounds as in Minoux 1978). What is
// chosen covers at least 1 - 1/e of the best choice.
troupe_status trp_hypervolume_choose(const double *scores, size_t count, size_t objectives,
                                     const double *reference, size_t wanted, int *chosen);

#endif
