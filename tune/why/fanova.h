// fanova.h: how much of a score's variance over the space each dimension is answerable for by
// itself: functional ANOVA over a forest (Hutter, Hoos and Leyton-Brown, ICML 2014).
#ifndef TRP_FANOVA_H
#define TRP_FANOVA_H

#include <tune/why/forest.h>

typedef struct trp_fanova_how {
    int trees, depth;
    uint64_t seed;
} trp_fanova_how;

// For each dimension the share of its marginal's variance in the whole variance, both over the
// space a priori, as a mean over the trees that vary at all: from 0 to 1; what their sum lacks to 1
// is of dimensions together. `points` as in trp_pedanova. Where a dimension does not count, the
// score does not depend on it: the forest sees any value of it there, drawn by the seed. With fewer
// than two scores, and for what has one value, it is 0. TROUPE_NO_MEMORY.
troupe_status trp_fanova(const troupe_dim *dims, size_t dim_count, const double *points,
                         const double *scores, size_t count, const trp_fanova_how *how,
                         double *importance);
// The same of one tree; all 0 and *varies false where it is constant.
troupe_status trp_fanova_tree(const trp_tree *tree, const troupe_dim *dims, size_t dim_count,
                              double *importance, bool *varies);

#endif
