// gp_minimize.c: see tune/search/gp_minimize.h.
#include <tune/search/gp_minimize.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <tune/search/linear.h>

enum { PAIRS = TRP_DESCENT_PAIRS };

static bool held(const trp_descent *d, size_t i)
{
    return (d->x[i] <= d->low[i] && d->gradient[i] > 0) ||
           (d->x[i] >= d->high[i] && d->gradient[i] < 0);
}

static double steepest(const trp_descent *d)
{
    double most = 0;
    for (size_t i = 0; i < d->n; i++)
        most = held(d, i) ? most : fmax(most, fabs(d->gradient[i]));
    return most;
}

// Minus the inverse curvature times the gradient: algorithm 7.4.
static void set_direction(trp_descent *d)
{
    double weights[PAIRS], *q = d->direction;
    size_t known = d->pairs < PAIRS ? d->pairs : PAIRS;
    for (size_t i = 0; i < d->n; i++)
        q[i] = held(d, i) ? 0 : -d->gradient[i];
    for (size_t k = 0; k < known; k++) {
        size_t at = (d->pairs - 1 - k) % PAIRS;
        weights[at] = trp_dot(d->steps + at * d->n, q, d->n) / d->along[at];
        for (size_t i = 0; i < d->n; i++)
            q[i] -= weights[at] * d->changes[at * d->n + i];
    }
    if (known > 0) {
        size_t at = (d->pairs - 1) % PAIRS;
        const double *change = d->changes + at * d->n;
        double scale = d->along[at] / trp_dot(change, change, d->n);
        for (size_t i = 0; i < d->n; i++)
            q[i] *= scale;
    }
    for (size_t k = known; k-- > 0;) {
        size_t at = (d->pairs - 1 - k) % PAIRS;
        double back = weights[at] - trp_dot(d->changes + at * d->n, q, d->n) / d->along[at];
        for (size_t i = 0; i < d->n; i++)
            q[i] += back * d->steps[at * d->n + i];
    }
    for (size_t i = 0; i < d->n; i++) {
        if (held(d, i))
            q[i] = 0;
    }
}

// Where the step of this length along the direction, bent at the bounds, leads to.
static void try_step(trp_descent *d)
{
    d->down = 0;
    for (size_t i = 0; i < d->n; i++) {
        double to = d->x[i] + d->length * d->direction[i];
        d->next[i] = fmin(fmax(to, d->low[i]), d->high[i]);
        d->down += d->gradient[i] * (d->next[i] - d->x[i]);
    }
}

// From x, along a new direction. False: it is over.
static bool set_out(trp_descent *d)
{
    if (d->left <= 0 || !(steepest(d) > d->tolerance))
        return false;
    set_direction(d);
    d->slope = trp_dot(d->gradient, d->direction, d->n);
    if (!(d->slope < 0)) { // The curvature misleads: downhill plainly.
        d->pairs = 0;
        set_direction(d);
        d->slope = trp_dot(d->gradient, d->direction, d->n);
    }
    d->length = 1;
    if (d->pairs == 0)
        d->length = fmin(1, 1 / sqrt(trp_dot(d->direction, d->direction, d->n)));
    if (!(d->slope < 0))
        return false;
    try_step(d);
    return true;
}

// No step lowers the function enough: once more, straight downhill.
static bool start_over(trp_descent *d)
{
    if (d->pairs == 0)
        return false;
    d->pairs = 0;
    return set_out(d);
}

static void take_step(trp_descent *d)
{
    size_t at = d->pairs % PAIRS;
    double *moved = d->steps + at * d->n, *change = d->changes + at * d->n;
    for (size_t i = 0; i < d->n; i++) {
        moved[i] = d->next[i] - d->x[i];
        change[i] = d->next_gradient[i] - d->gradient[i];
    }
    d->along[at] = trp_dot(moved, change, d->n);
    if (d->along[at] > 1e-10 * trp_dot(change, change, d->n)) // Curved upwards.
        d->pairs++;
    memcpy(d->x, d->next, d->n * sizeof *d->x);
    memcpy(d->gradient, d->next_gradient, d->n * sizeof *d->gradient);
}

void trp_descent_begin(trp_descent *d, size_t n, const double *low, const double *high,
                       double tolerance, int evaluations, double *x, double *numbers)
{
    *d = (trp_descent){.n = n,
                       .low = low,
                       .high = high,
                       .tolerance = tolerance,
                       .left = evaluations,
                       .x = x,
                       .gradient = numbers,
                       .direction = numbers + n,
                       .next = numbers + 2 * n,
                       .next_gradient = numbers + 3 * n,
                       .steps = numbers + 4 * n,
                       .changes = numbers + (4 + PAIRS) * n};
    memcpy(d->next, x, n * sizeof *x);
}

bool trp_descent_tell(trp_descent *d, double value, const double *gradient)
{
    d->left--;
    memcpy(d->next_gradient, gradient, d->n * sizeof *gradient);
    if (!d->begun) {
        d->begun = true;
        d->value = value;
        memcpy(d->gradient, gradient, d->n * sizeof *gradient);
        return isfinite(value) && set_out(d);
    }
    if (isfinite(value) && value <= d->value + 1e-4 * d->down) {
        d->value = value;
        if (!(d->down < 0))
            return start_over(d);
        take_step(d);
        return set_out(d);
    }
    // The minimum of the parabola through what is known, but neither much nor little less.
    double least = isfinite(value) ? -d->down / (2 * (value - d->value - d->down)) : 0.1;
    d->length *= fmin(fmax(least, 0.1), 0.5);
    if (d->length < 1e-12)
        return start_over(d);
    if (d->left <= 0)
        return false;
    try_step(d);
    return true;
}

troupe_status trp_gp_minimize(trp_smooth *function, void *user, size_t n, const double *low,
                              const double *high, double tolerance, int evaluations, double *x,
                              double *value)
{
    double *numbers = trp_alloc((TRP_DESCENT_NUMBERS(n) + n + 1) * sizeof *numbers);
    if (numbers == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a descent in %zu dimensions", n);
    double *gradient = numbers + TRP_DESCENT_NUMBERS(n), got;
    trp_descent descent;
    trp_descent_begin(&descent, n, low, high, tolerance, evaluations, x, numbers);
    do
        got = function(user, descent.next, gradient);
    while (trp_descent_tell(&descent, got, gradient));
    *value = descent.value;
    trp_free(numbers);
    return TROUPE_OK;
}
