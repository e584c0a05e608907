// gp_minimize.c: see tune/search/gp_minimize.h.
#include <tune/search/gp_minimize.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <stdbool.h>
#include <string.h>
#include <tune/search/linear.h>

enum { PAIRS = 8 }; // Steps and changes of the gradient that stand for the curvature.

typedef struct descent {
    trp_smooth *function;
    void *user;
    size_t n;
    const double *low, *high;
    double *x, *gradient, *direction, *next, *next_gradient;
    double *steps, *changes; // PAIRS rows of n: a ring.
    double along[PAIRS];     // Of each, step times change.
    size_t pairs;            // So far.
    int left;                // Evaluations.
} descent;

static bool held(const descent *d, size_t i)
{
    return (d->x[i] <= d->low[i] && d->gradient[i] > 0) ||
           (d->x[i] >= d->high[i] && d->gradient[i] < 0);
}

static double steepest(const descent *d)
{
    double most = 0;
    for (size_t i = 0; i < d->n; i++)
        most = held(d, i) ? most : fmax(most, fabs(d->gradient[i]));
    return most;
}

// Minus the inverse curvature times the gradient: algorithm 7.4.
static void set_direction(descent *d)
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

// Goes along the direction, bent at the bounds, by a step that lowers the
// function enough; false: there is none.
static bool step(descent *d, double *value)
{
    double slope = trp_dot(d->gradient, d->direction, d->n), length = 1;
    if (!(slope < 0)) { // The curvature misleads: downhill plainly.
        d->pairs = 0;
        set_direction(d);
        slope = trp_dot(d->gradient, d->direction, d->n);
    }
    if (d->pairs == 0)
        length = fmin(1, 1 / sqrt(trp_dot(d->direction, d->direction, d->n)));
    while (d->left > 0 && slope < 0) {
        double down = 0;
        for (size_t i = 0; i < d->n; i++) {
            double to = d->x[i] + length * d->direction[i];
            d->next[i] = fmin(fmax(to, d->low[i]), d->high[i]);
            down += d->gradient[i] * (d->next[i] - d->x[i]);
        }
        d->left--;
        double got = d->function(d->user, d->next, d->next_gradient);
        if (isfinite(got) && got <= *value + 1e-4 * down) {
            *value = got;
            return down < 0;
        }
        // The minimum of the parabola through what is known, but neither much nor
        // little less.
        double least = isfinite(got) ? -down / (2 * (got - *value - down)) : 0.1;
        length *= fmin(fmax(least, 0.1), 0.5);
        if (length < 1e-12)
            break;
    }
    return false;
}

static void take_step(descent *d)
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

troupe_status trp_gp_minimize(trp_smooth *function, void *user, size_t n, const double *low,
                              const double *high, double tolerance, int evaluations, double *x,
                              double *value)
{
    double *memory = trp_alloc((4 + 2 * PAIRS) * (n + 1) * sizeof *memory);
    if (memory == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a descent in %zu dimensions", n);
    descent d = {.function = function,
                 .user = user,
                 .n = n,
                 .low = low,
                 .high = high,
                 .x = x,
                 .gradient = memory,
                 .direction = memory + n,
                 .next = memory + 2 * n,
                 .next_gradient = memory + 3 * n,
                 .steps = memory + 4 * n,
                 .changes = memory + (4 + PAIRS) * n,
                 .left = evaluations - 1};
    *value = function(user, x, d.gradient);
    while (isfinite(*value) && d.left > 0 && steepest(&d) > tolerance) {
        set_direction(&d);
        if (step(&d, value))
            take_step(&d);
        else if (d.pairs > 0)
            d.pairs = 0; // Once more, straight downhill.
        else
            break;
    }
    trp_free(memory);
    return TROUPE_OK;
}
