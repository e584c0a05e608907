// parzen.h: a density of points that is estimated from some of them (Parzen's estimator): a mixture
// of products of kernels, one for each point, and one that is the prior. As TPE needs it.
//
// Coordinates of numbers are in units, 0 to 1: their place in the prior's distribution.
#ifndef TRP_PARZEN_H
#define TRP_PARZEN_H

#include <troupe/status.h>
#include <tune/space/dims.h>

typedef enum trp_axis_kind {
    TRP_AXIS_REAL,   // A truncated normal density around the coordinate.
    TRP_AXIS_CELLS,  // Its mass over the cell of a value: of numbers that have few values.
    TRP_AXIS_CHOICE, // Choices without an order.
} trp_axis_kind;

// What is known of one dimension: the coordinates of all points, and what of their kernels need not
// be worked out again until a neighbour comes or goes.
typedef struct trp_axis {
    const troupe_dim *dim;
    trp_axis_kind kind;
    double *at; // Of each point: its unit, or choice; NaN: the dimension does not count there.
    int *order; // Those where it counts, rising.
    size_t count, ordered, room;
    double *width, *constant; // The kernel's deviation, and the logarithm of its constant factor.
} trp_axis;

void trp_axis_open(trp_axis *axis, const troupe_dim *dim);
// A coordinate in the dimension's own unit as it is kept; NaN stays NaN.
double trp_axis_coordinate(const trp_axis *axis, double x);
// Makes room for one more point.
troupe_status trp_axis_reserve(trp_axis *axis);
// Adds the next point's coordinate, in the dimension's own unit; there must be room.
void trp_axis_add(trp_axis *axis, double x);
void trp_axis_close(trp_axis *axis);

typedef struct trp_parzen {
    trp_axis **axes; // Borrowed.
    size_t axis_count;
    size_t count, room; // Kernels; the prior's is the last.
    double *weights;    // Their sum is 1.
    double *constants;
    double *at, *inverse; // room of them for each axis: centres, and 1 / deviation.
    int *pair;            // The same: which of the kernels that are alike in a dimension of cells.
    int *sorted;
    size_t *pair_counts;            // Of each axis.
    double *pair_at, *pair_inverse; // room of them for each axis.
    double *choice_bonus; // Of each axis: what a kernel's own choice has more than others.
} trp_parzen;

enum { TRP_PARZEN_ALIKE_MAX = 25 }; // So many of the newest have the full weight.

// Builds the density over one or more axes of `members`, points in the order of their age, oldest
// first, at which all axes count. `place` says of each point where it stands among them, or -1.
// `fading`: older ones weigh less.
troupe_status trp_parzen_build(trp_parzen *parzen, trp_axis **axes, size_t axis_count,
                               const int *members, size_t count, const int *place, bool fading);
void trp_parzen_close(trp_parzen *parzen);

// A candidate has a coordinate for each axis: a unit; of cells the value; a choice.
void trp_parzen_draw(const trp_parzen *parzen, trp_random *random, double *candidate);
// The coordinate in the dimension's own unit.
double trp_axis_value(const trp_axis *axis, double coordinate);
// The logarithms of the density at `count` candidates, which stand one after the other.
troupe_status trp_parzen_log(const trp_parzen *parzen, const double *candidates, size_t count,
                             double *logs);

#endif
