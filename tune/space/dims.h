// dims.h: what searchers do with single dimensions: draw, snap, and map to the unit interval.
#ifndef TRP_DIMS_H
#define TRP_DIMS_H

#include <troupe/space.h>
#include <tune/space/random.h>

// Whether the dimension counts at a point whose earlier coordinates are filled in.
bool trp_dim_counts(const troupe_dim *dims, size_t index, const double *x);
// Values that it can have; 0: a continuum.
double trp_dim_values(const troupe_dim *dim);
// A value of it, a priori: uniform in its own scale, or of its normal distribution.
double trp_dim_draw(const troupe_dim *dim, trp_random *random);
// Draws a whole point, NaN where a dimension does not count.
void trp_dims_draw(const troupe_dim *dims, size_t count, trp_random *random, double *x);
// The nearest value that the dimension can have: within its bounds, on its steps.
double trp_dim_snap(const troupe_dim *dim, double value);
// Snaps a whole point. NaN where a dimension does not count; one that counts and has none gets the
// middle of its prior.
void trp_dims_snap(const troupe_dim *dims, size_t count, double *x);

// A dimension's scale, in which it is searched: its logarithm, or itself. A choice has none.
double trp_dim_scaled(const troupe_dim *dim, double value);
double trp_dim_unscaled(const troupe_dim *dim, double scaled);
// The bounds in that scale. Of a whole or stepped one half a step wider on both sides, so that each
// value has a cell of the same width.
void trp_dim_bounds(const troupe_dim *dim, double *low, double *high);

// The value at `unit` (0 <= unit < 1) of the prior's distribution, and back: the middle of its
// cell.
double trp_dim_at(const troupe_dim *dim, double unit);
double trp_dim_unit(const troupe_dim *dim, double value);

// What of the standard normal distribution lies below z, and back: p = 0 and 1 are far away, but
// finite.
double trp_normal_below(double z);
double trp_normal_at(double p);

#endif
