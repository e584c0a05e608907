// ranges.h: rows that draw a number of a range, as dimensions.
#ifndef TRP_RANGES_H
#define TRP_RANGES_H

#include <troupe/space.h>

// Fills a dimension (but for its name and parent) from a row whose field, a number, has that type.
// One that has a single value has low == high. TROUPE_INVALID says what is wrong, without the row's
// name.
troupe_status trp_range_make(const troupe_param *param, const troupe_type *type, troupe_dim *dim);
// The value that a field of the type holds once it is given one of the dimension.
double trp_range_held(const troupe_dim *dim, const troupe_type *type, double value);

#endif
