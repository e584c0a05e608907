// cmaes_margin.c: see tune/search/cmaes_margin.h.
#include <tune/search/cmaes_margin.h>

#include <math.h>
#include <tune/space/dims.h>

bool trp_margin_has_cells(const troupe_dim *dim)
{
    double values = trp_dim_values(dim);
    return values > 0 && values <= 1e6;
}

void trp_margin_cell(const troupe_dim *dim, double unit, double *low, double *high)
{
    unit = fmin(fmax(unit, 0), nextafter(1, 0));
    double value = trp_dim_at(dim, unit), values = trp_dim_values(dim);
    double step = dim->step > 0 ? dim->step : 1, index = rint((value - dim->low) / step);
    *low = -INFINITY;
    *high = INFINITY;
    if (dim->kind == TROUPE_DIM_CHOICE) {
        index = value;
        if (index > 0)
            *low = index / values;
        if (index < values - 1)
            *high = (index + 1) / values;
        return;
    }
    if (index > 0)
        *low = trp_dim_unit(dim, value - step / 2);
    if (index < values - 1)
        *high = trp_dim_unit(dim, value + step / 2);
}

void trp_margin_keep(const troupe_dim *dim, double deviation, double margin, double *mean,
                     double *scale)
{
    double low, high, spread = deviation * *scale;
    trp_margin_cell(dim, *mean, &low, &high);
    if (isinf(low) && isinf(high))
        return;
    if (isinf(low) || isinf(high)) { // Equation 8: the edge stays within reach.
        double edge = isinf(low) ? high : low, reach = trp_normal_at(1 - margin) * spread;
        *mean = edge + fmin(fmax(*mean - edge, -reach), reach);
        return;
    }
    double below = trp_normal_below((low - *mean) / spread);
    double above = trp_normal_below((*mean - high) / spread), least = margin / 2;
    if (below >= least && above >= least)
        return;
    // Equations 11 to 18: both get the least, and what that is too much is taken from what has
    // more.
    double inside = 1 - below - above, low_share = fmax(below, least);
    double high_share = fmax(above, least), sum = low_share + high_share + inside;
    double excess = (1 - sum) / (sum - 3 * least);
    double low_z = -trp_normal_at(low_share + excess * (low_share - least));
    double high_z = -trp_normal_at(high_share + excess * (high_share - least));
    if (!(low_z + high_z > 0))
        return;
    *mean = low + low_z * (high - low) / (low_z + high_z);
    *scale = (high - low) / (deviation * (low_z + high_z));
}
