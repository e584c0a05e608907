// dims.c: see tune/space/dims.h.
#include <tune/space/dims.h>

#include <math.h>

bool trp_dim_counts(const troupe_dim *dims, size_t index, const double *x)
{
    const troupe_dim *dim = &dims[index];
    if (dim->parent < 0)
        return true;
    double chosen = x[dim->parent]; // NaN, if that one does not count.
    return chosen >= 0 && chosen < 32 && (dim->when >> (unsigned)chosen & 1) != 0;
}

// The distance between neighbours; 0: a continuum.
static double step_of(const troupe_dim *dim)
{
    if (dim->kind == TROUPE_DIM_REAL)
        return dim->step;
    return dim->kind == TROUPE_DIM_INTEGER && dim->step > 1 ? dim->step : 1;
}

double trp_dim_values(const troupe_dim *dim)
{
    double step = step_of(dim);
    if (dim->kind == TROUPE_DIM_CHOICE)
        return dim->choices;
    return step > 0 ? floor((dim->high - dim->low) / step + 1e-9) + 1 : 0;
}

// The last one may round to more than the upper bound: 3 * 0.1 > 0.3.
static double value_at(const troupe_dim *dim, double index)
{
    return fmin(dim->low + step_of(dim) * index, dim->high);
}

double trp_dim_snap(const troupe_dim *dim, double value)
{
    double step = step_of(dim);
    if (isnan(value))
        value = dim->low;
    if (step > 0) {
        double most = trp_dim_values(dim) - 1;
        double at = rint((value - dim->low) / step);
        return value_at(dim, fmin(fmax(at, 0), most));
    }
    if (value >= dim->high) // A range excludes its end.
        value = dim->deviation > 0 ? dim->high : nextafter(dim->high, -INFINITY);
    return fmax(value, dim->low);
}

double trp_dim_scaled(const troupe_dim *dim, double value)
{
    return dim->log ? log(value) : value;
}

double trp_dim_unscaled(const troupe_dim *dim, double scaled)
{
    return dim->log ? exp(scaled) : scaled;
}

void trp_dim_bounds(const troupe_dim *dim, double *low, double *high)
{
    double step = step_of(dim), first = dim->low, last = dim->high;
    if (step > 0) {
        last = dim->low + step * (trp_dim_values(dim) - 1) + step / 2;
        first = dim->low - step / 2;
        if (dim->log && first <= 0) // The step may be as large as the least value.
            first = dim->low / 2;
    }
    *low = trp_dim_scaled(dim, first);
    *high = trp_dim_scaled(dim, last);
}

double trp_normal_below(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

// Newton's steps on an approximation (Abramowitz and Stegun, 26.2.23).
double trp_normal_at(double p)
{
    double tail = fmin(p, 1 - p);
    if (tail <= 0)
        return p > 0.5 ? 40 : -40;
    double t = sqrt(-2 * log(tail));
    double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    z = -z; // Of the lower tail.
    for (int i = 0; i < 3; i++) {
        double density = exp(-z * z / 2) / sqrt(2 * acos(-1.0));
        if (density > 0)
            z -= (trp_normal_below(z) - tail) / density;
    }
    return p > 0.5 ? -z : z;
}

// What of the normal distribution lies below a dimension's bounds.
static void normal_bounds(const troupe_dim *dim, double *below_low, double *below_high)
{
    double low, high;
    trp_dim_bounds(dim, &low, &high);
    *below_low = trp_normal_below((low - dim->mean) / dim->deviation);
    *below_high = trp_normal_below((high - dim->mean) / dim->deviation);
}

double trp_dim_at(const troupe_dim *dim, double unit)
{
    if (dim->kind == TROUPE_DIM_CHOICE)
        return fmin(floor(unit * dim->choices), dim->choices - 1);
    double low, high;
    if (dim->deviation > 0) {
        normal_bounds(dim, &low, &high);
        return trp_dim_snap(dim,
                            dim->mean + dim->deviation * trp_normal_at(low + unit * (high - low)));
    }
    trp_dim_bounds(dim, &low, &high);
    // Weighted rather than low + unit * (high - low), whose difference may be beyond a double.
    return trp_dim_snap(dim, trp_dim_unscaled(dim, low * (1 - unit) + high * unit));
}

double trp_dim_unit(const troupe_dim *dim, double value)
{
    double low, high, unit;
    if (dim->kind == TROUPE_DIM_CHOICE)
        return (value + 0.5) / dim->choices;
    if (dim->deviation > 0) {
        normal_bounds(dim, &low, &high);
        unit = (trp_normal_below((value - dim->mean) / dim->deviation) - low) / (high - low);
    } else {
        trp_dim_bounds(dim, &low, &high);
        double scaled = trp_dim_scaled(dim, value); // Halves, since a range may be beyond a double.
        unit = high > low ? (scaled / 2 - low / 2) / (high / 2 - low / 2) : 0.5;
    }
    return fmin(fmax(unit, 0), nextafter(1, 0));
}

double trp_dim_draw(const troupe_dim *dim, trp_random *random)
{
    double values = trp_dim_values(dim);
    bool uniform = !dim->log && !(dim->deviation > 0);
    if (values > 0 && values < 0x1p53 && uniform) // Without bias, however many.
        return value_at(dim, (double)trp_random_below(random, (uint64_t)values));
    return trp_dim_at(dim, trp_random_unit(random));
}

void trp_dims_draw(const troupe_dim *dims, size_t count, trp_random *random, double *x)
{
    for (size_t i = 0; i < count; i++) {
        double drawn = trp_dim_draw(&dims[i], random); // Also where it does not count: the draws
        x[i] = trp_dim_counts(dims, i, x) ? drawn : (double)NAN; // of others stay what they are.
    }
}

void trp_dims_snap(const troupe_dim *dims, size_t count, double *x)
{
    for (size_t i = 0; i < count; i++) {
        if (!trp_dim_counts(dims, i, x))
            x[i] = (double)NAN;
        else
            x[i] = isnan(x[i]) ? trp_dim_at(&dims[i], 0.5) : trp_dim_snap(&dims[i], x[i]);
    }
}
