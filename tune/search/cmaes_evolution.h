// cmaes_evolution.h: the normal distribution that CMA-ES searches with, and how a generation of
// ranked points changes it. It knows neither trials nor what a coordinate means.
#ifndef TRP_CMAES_EVOLUTION_H
#define TRP_CMAES_EVOLUTION_H

#include <troupe/status.h>
#include <tune/space/random.h>

#include <stdbool.h>
#include <stddef.h>

// A point is mean + sigma * y with y of the normal distribution N(0, covariance).
typedef struct trp_evolution {
    size_t d, population;
    double *mean, *covariance;
    double sigma;
    int generation; // That stands; from 0.
    // What follows from d and population (Hansen, arXiv 1604.00772, table 1).
    double *weights; // One for each rank; those of the worse half are negative.
    double weight_sum, effective, rate_one, rate_mu, rate_path, rate_sigma, damping, length;
    // Where the mean has gone: in the covariance's own axes, and as it is.
    double *path_sigma, *path;
    double *axes, *lengths; // The covariance's eigenvectors, and the roots of its eigenvalues.
    int decomposed;         // The generation that they are of.
    double *scratch;        // d * d + 3 d numbers.
    double sigma_first;
} trp_evolution;

// 4 + floor(3 ln d).
size_t trp_evolution_population(size_t d);
// Begins at a copy of `mean`. On failure there is nothing to close.
troupe_status trp_evolution_open(trp_evolution *evolution, size_t d, size_t population,
                                 const double *mean, double sigma);
void trp_evolution_close(trp_evolution *evolution);

// Draws a y.
void trp_evolution_draw(const trp_evolution *evolution, trp_random *random, double *y);
// Shortens a y that was not drawn from this distribution, so that a far one does not upset it
// (Hansen, arXiv 1110.4181, section 3).
void trp_evolution_shorten(const trp_evolution *evolution, double *y);
// One generation: population ys, the best first.
void trp_evolution_update(trp_evolution *evolution, const double *const *ys);
// Whether it can get no better where it is: its steps are too small for the numbers' precision, or
// its axes' lengths too far apart.
bool trp_evolution_converged(const trp_evolution *evolution);

#endif
