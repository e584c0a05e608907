// ranges.c: see tune/space/ranges.h.
#include <tune/space/ranges.h>

#include <float.h>
#include <math.h>
#include <tune/space/dims.h>
#include <tune/space/fields.h>

// Above these, neighbouring whole numbers are no longer different doubles (floats).
static const double WHOLE_DOUBLE_MAX = 0x1p53;
static const double WHOLE_FLOAT_MAX = 0x1p24;
// What a normal distribution is cut at.
static const double DEVIATIONS = 6;

static bool is_single(const troupe_type *type)
{
    return type->kind == TROUPE_KIND_FLOAT && type->size == sizeof(float);
}

static bool is_whole(double value)
{
    return isfinite(value) && floor(value) == value;
}

// Steps have to lead from one number of the field to another.
static troupe_status check_step(const troupe_dim *dim, const troupe_type *type)
{
    double width = dim->high - dim->low;
    if (!isfinite(dim->step) || dim->step < 0)
        return troupe_fail(TROUPE_INVALID, "step is %g, must be finite and positive", dim->step);
    if (dim->step == 0)
        return TROUPE_OK;
    if (dim->step > width)
        return troupe_fail(TROUPE_INVALID, "step is %g, and the range from %g to %g is only %g",
                           dim->step, dim->low, dim->high, width);
    double most = fmax(fabs(dim->low), fabs(dim->high));
    double apart = is_single(type) ? (double)(nextafterf((float)most, INFINITY) - (float)most)
                                   : nextafter(most, HUGE_VAL) - most;
    if (dim->step < apart || width / dim->step >= WHOLE_DOUBLE_MAX)
        return troupe_fail(TROUPE_INVALID,
                           "step is %g, which is lost beside %g in a field of type "
                           "%s",
                           dim->step, most, type->name);
    return TROUPE_OK;
}

static troupe_status make_real(const troupe_param *p, const troupe_type *type, troupe_dim *dim)
{
    if (type->kind != TROUPE_KIND_FLOAT)
        return troupe_fail(TROUPE_INVALID,
                           "a range of real numbers needs a float or double field, this is %s; use "
                           "TROUPE_INTEGER or TROUPE_CHOICE",
                           type->name);
    if (!isfinite(p->low) || !isfinite(p->high) || !(p->low < p->high))
        return troupe_fail(TROUPE_INVALID,
                           "low is %g and high is %g; both must be finite and low below high",
                           p->low, p->high);
    dim->log = p->draw == TROUPE_DRAW_LOG_UNIFORM;
    if (dim->log && p->low <= 0)
        return troupe_fail(TROUPE_INVALID, "low is %g, must be positive for a log-uniform draw",
                           p->low);
    if (is_single(type)) {
        if (fabs(p->low) > (double)FLT_MAX || fabs(p->high) > (double)FLT_MAX ||
            (double)trp_float_from(p->low) >= p->high)
            return troupe_fail(TROUPE_INVALID, "no float lies between %.17g and %.17g", p->low,
                               p->high);
        if (p->step == 0)
            dim->low = (double)trp_float_from(p->low);
    }
    return check_step(dim, type);
}

static troupe_status make_integer(const troupe_param *p, const troupe_type *type, troupe_dim *dim)
{
    double most = is_single(type) ? WHOLE_FLOAT_MAX : WHOLE_DOUBLE_MAX;
    if (!is_whole(p->low) || !is_whole(p->high) || p->low > p->high)
        return troupe_fail(
            TROUPE_INVALID,
            "low is %.17g and high is %.17g; both must be whole and low not above high", p->low,
            p->high);
    if (!trp_field_fits(type, p->low) || !trp_field_fits(type, p->high) || fabs(p->low) > most ||
        fabs(p->high) > most)
        return troupe_fail(TROUPE_INVALID, "a field of type %s does not hold all of %.17g to %.17g",
                           type->name, p->low, p->high);
    if (p->log && p->low <= 0)
        return troupe_fail(TROUPE_INVALID, "low is %g, must be positive for a log-uniform draw",
                           p->low);
    if (!is_whole(p->step) || p->step < 0)
        return troupe_fail(TROUPE_INVALID, "step is %g, must be whole and positive", p->step);
    dim->kind = TROUPE_DIM_INTEGER;
    dim->log = p->log;
    TROUPE_TRY(check_step(dim, type));
    dim->step = fmax(p->step, 1);
    return TROUPE_OK;
}

// Puts the bounds of a normal distribution on numbers of the field, and on multiples of its step.
static troupe_status bound_normal(const troupe_param *p, const troupe_type *type, troupe_dim *dim)
{
    double low = dim->low, high = dim->high;
    if (dim->step > 0) { // A multiple stays what it is, also where the quotient is rounded.
        dim->low = ceil(low / dim->step - 1e-9) * dim->step + 0.0; // Not -0.
        dim->high = floor(high / dim->step + 1e-9) * dim->step + 0.0;
    } else if (is_single(type)) {
        dim->low = (double)trp_float_from(low);
        dim->high = (double)trp_float_to(high);
    }
    double most = is_single(type) ? (double)FLT_MAX : 0x1p1000;
    if (!trp_field_fits(type, dim->low) || !trp_field_fits(type, dim->high) ||
        fmax(fabs(low), fabs(high)) > most)
        return troupe_fail(TROUPE_INVALID,
                           "a field of type %s does not hold all of %.17g to %.17g, which it may "
                           "draw: .low and .high bound it",
                           type->name, low, high);
    bool some = dim->step > 0 ? dim->low <= dim->high : dim->low < dim->high;
    if (!some)
        return troupe_fail(
            TROUPE_INVALID,
            "nothing that a normal draw of mean %g and deviation %g has lies between "
            "its bounds",
            p->mean, p->deviation);
    return dim->low < dim->high ? check_step(dim, type) : TROUPE_OK;
}

static troupe_status make_normal(const troupe_param *p, const troupe_type *type, troupe_dim *dim)
{
    bool bounded = p->low != 0 || p->high != 0, whole = type->kind != TROUPE_KIND_FLOAT;
    if (!isfinite(p->mean) || !isfinite(p->deviation) || !(p->deviation > 0))
        return troupe_fail(
            TROUPE_INVALID,
            "mean is %g and deviation is %g; both must be finite, and the deviation positive",
            p->mean, p->deviation);
    if (bounded && (!isfinite(p->low) || !isfinite(p->high) || !(p->low < p->high)))
        return troupe_fail(TROUPE_INVALID,
                           "low is %g and high is %g; both must be finite and low below high",
                           p->low, p->high);
    if (!isfinite(p->step) || p->step < 0 || (whole && !is_whole(p->step)))
        return troupe_fail(TROUPE_INVALID, "step is %g, must be %s and positive", p->step,
                           whole ? "whole" : "finite");
    dim->mean = p->mean;
    dim->deviation = p->deviation;
    dim->low = p->mean - DEVIATIONS * p->deviation;
    dim->high = p->mean + DEVIATIONS * p->deviation;
    if (bounded) {
        dim->low = fmax(dim->low, p->low);
        dim->high = fmin(dim->high, p->high);
    }
    if (whole) {
        dim->kind = TROUPE_DIM_INTEGER;
        dim->step = fmax(dim->step, 1);
    }
    return bound_normal(p, type, dim);
}

troupe_status trp_range_make(const troupe_param *param, const troupe_type *type, troupe_dim *dim)
{
    *dim = (troupe_dim){.kind = TROUPE_DIM_REAL,
                        .low = param->low,
                        .high = param->high,
                        .step = param->step,
                        .parent = -1};
    if (param->log && param->draw != TROUPE_DRAW_INTEGER)
        return troupe_fail(TROUPE_INVALID,
                           "it has .log, which is for an integer: real numbers are log-uniform");
    switch (param->draw) {
    case TROUPE_DRAW_INTEGER:
        return make_integer(param, type, dim);
    case TROUPE_DRAW_NORMAL:
        return make_normal(param, type, dim);
    default:
        return make_real(param, type, dim);
    }
}

double trp_range_held(const troupe_dim *dim, const troupe_type *type, double value)
{
    if (!is_single(type) || dim->kind != TROUPE_DIM_REAL || dim->step > 0)
        return value;
    float f = (float)value, low = (float)dim->low; // A float already.
    if (dim->deviation > 0)
        f = fminf(f, (float)dim->high);
    else if ((double)f >= dim->high)
        f = nextafterf(trp_float_from(dim->high), -INFINITY);
    return (double)fmaxf(f, low);
}
