// explore.c: see tune/schedule/explore.h.
#include <tune/schedule/explore.h>

#include <math.h>
#include <string.h>
#include <tune/space/dims.h>

enum { TRIES = 100 };

static double neighbour(const troupe_dim *dim, double value, bool up)
{
    return fmin(fmax(value + (up ? 1 : -1), 0), dim->choices - 1);
}

static double perturbed(const trp_explore *how, const troupe_dim *dim, double value, bool up)
{
    if (dim->kind == TROUPE_DIM_CHOICE)
        return dim->ordered ? neighbour(dim, value, up) : value;
    double moved = trp_dim_snap(dim, value * (up ? how->up : how->down));
    double step = dim->kind == TROUPE_DIM_INTEGER && !(dim->step > 1) ? 1 : dim->step;
    if (moved == value && step > 0) // A fifth of a small number would be rounded away.
        moved = trp_dim_snap(dim, value + (up ? step : -step));
    return moved;
}

static void explore(const trp_explore *how, const troupe_problem *problem, trp_random *random,
                    double *x)
{
    for (size_t i = 0; i < problem->dim_count; i++) {
        const troupe_dim *dim = &problem->dims[i];
        // Drawn in any case, so that one coordinate's luck is not another's.
        double drawn = trp_dim_draw(dim, random), chance = trp_random_unit(random);
        bool up = trp_random_below(random, 2) == 1;
        bool changes = how->mutates == NULL || how->mutates[i];
        if (!trp_dim_counts(problem->dims, i, x))
            x[i] = (double)NAN;
        else if (isnan(x[i]) || (changes && chance < how->resample))
            x[i] = drawn;
        else if (changes)
            x[i] = perturbed(how, dim, x[i], up);
    }
}

void trp_explore_point(const trp_explore *how, const troupe_problem *problem, trp_random *random,
                       double *x, double *room)
{
    size_t size = problem->dim_count * sizeof *x;
    for (int i = 0; i < TRIES; i++) {
        memcpy(room, x, size);
        explore(how, problem, random, room);
        if (problem->allowed == NULL || problem->allowed(problem->allowed_user, room)) {
            memcpy(x, room, size);
            return;
        }
    }
}
