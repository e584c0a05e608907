// gp_features.h: points of a space as features of a Gaussian process. A number,
// or an ordered choice, is its place in the unit interval; any other choice is
// a name. A dimension that does not always count has a second feature, which
// says whether it does; where it does not, the first is the middle.
#ifndef TRP_GP_FEATURES_H
#define TRP_GP_FEATURES_H

#include <troupe/search.h>
#include <tune/search/gp_process.h>

typedef struct trp_gp_features {
    const troupe_problem *problem;
    trp_gp_feature *features;
    size_t *first; // Of each dimension.
    size_t count;
} trp_gp_features;

// On failure there is nothing to close.
troupe_status trp_gp_features_open(trp_gp_features *features, const troupe_problem *problem);
void trp_gp_features_close(trp_gp_features *features);
// Fills count numbers.
void trp_gp_features_of(const trp_gp_features *features, const double *x, double *out);

#endif
