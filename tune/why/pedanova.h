// pedanova.h: which dimensions mattered for being among the best: PED-ANOVA (Watanabe, Bansal and
// Hutter, IJCAI 2023, arXiv 2304.10255).
#ifndef TRP_PEDANOVA_H
#define TRP_PEDANOVA_H

#include <troupe/space.h>

typedef struct trp_pedanova_how {
    double quantile; // The best ones: this share of all.
    double region;   // What they are compared with: the best ones of this larger share.
} trp_pedanova_how;

// For each dimension the Pearson divergence between the density of the best points and that of the
// region, each a Parzen estimator on a grid, times the square of the best ones' share (section 4,
// theorem 1). `points` has dim_count coordinates a point, NaN where a dimension does not count;
// lower scores are better; points without a finite score are left out. With fewer than two, and for
// what has one value, it is 0. TROUPE_INVALID: not 0 < quantile < region <= 1; TROUPE_NO_MEMORY.
troupe_status trp_pedanova(const troupe_dim *dims, size_t dim_count, const double *points,
                           const double *scores, size_t count, const trp_pedanova_how *how,
                           double *importance);

#endif
