// gp_minimize.h: a smooth function's minimum within bounds, by L-BFGS (Nocedal
// and Wright, Numerical Optimization, chapter 7) on the variables that no bound
// holds.
#ifndef TRP_GP_MINIMIZE_H
#define TRP_GP_MINIMIZE_H

#include <troupe/status.h>

#include <stdbool.h>
#include <stddef.h>

enum { TRP_DESCENT_PAIRS = 8 }; // Steps and changes of the gradient that stand for the curvature.

// A descent asks for the function at `next`, and is told: so many of them can be evaluated at once.
typedef struct trp_descent {
    size_t n;
    const double *low, *high;
    double tolerance;
    int left; // Evaluations.
    double *x, value;
    double *next; // Where the function is wanted.
    // Inner.
    double *gradient, *direction, *next_gradient, *steps, *changes;
    double along[TRP_DESCENT_PAIRS], slope, length, down;
    size_t pairs;
    bool begun;
} trp_descent;

#define TRP_DESCENT_NUMBERS(n) ((4 + 2 * TRP_DESCENT_PAIRS) * ((n) + 1))

// Goes downhill from x, which lies within the bounds, until the gradient's components are at most
// `tolerance` where they are free to go, or after so many evaluations, one at least. `numbers`:
// room for TRP_DESCENT_NUMBERS. It borrows all of these.
void trp_descent_begin(trp_descent *descent, size_t n, const double *low, const double *high,
                       double tolerance, int evaluations, double *x, double *numbers);
// The function's value at `next`, and its gradient; a value that is not finite: it is not defined
// there. False: it is over, and x is where it came to; `value` is the function's there.
bool trp_descent_tell(trp_descent *descent, double value, const double *gradient);

typedef double trp_smooth(void *user, const double *x, double *gradient);

// The same with a function. *value: the function's at x.
troupe_status trp_gp_minimize(trp_smooth *function, void *user, size_t n, const double *low,
                              const double *high, double tolerance, int evaluations, double *x,
                              double *value);

#endif
