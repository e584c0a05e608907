// gp_process.h: a Gaussian process over points whose features are numbers, or
// names that are alike or not: what it expects where. Covariances are those of
// gp_lanes.h.
#ifndef TRP_GP_PROCESS_H
#define TRP_GP_PROCESS_H

#include <troupe/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <tune/search/gp_lanes.h>

typedef struct trp_gp_process {
    const trp_gp_feature *features; // Borrowed.
    size_t feature_count, length_count;
    double *points; // Rows of features.
    size_t count, capacity;
    // Hyperparameters: length_count inverse squares of lengths, the scale, the
    // noise's variance.
    double *inverse;
    double scale, noise;
    // What follows from these and the targets, by trp_gp_process_condition.
    double *factor; // Cholesky's, of the covariances: rows of `width`.
    size_t width;
    double *weights; // The expected value is the sum of these times the covariances.
    size_t seen;     // Points that it is of; the others, behind them, only lower the
                     // variance.
    // The factor has so many rows, of the points with these hyperparameters: what it has is not
    // made again. `column`: room to make more.
    size_t factored;
    double *factored_with, factored_noise, *column;
} trp_gp_process;

// On failure there is nothing to close. Hyperparameters are 1, and the noise a
// tenth.
troupe_status trp_gp_process_open(trp_gp_process *process, const trp_gp_feature *features,
                                  size_t count, size_t lengths);
void trp_gp_process_close(trp_gp_process *process);
// Adds a point: features are copied. Those that were behind `count`, which may have been lowered,
// are forgotten.
troupe_status trp_gp_process_add(trp_gp_process *process, const double *features);

// Makes it the process given the targets of its first n points.
troupe_status trp_gp_process_condition(trp_gp_process *process, size_t n, const double *targets);
// Supposes that the points behind these turn out as expected.
troupe_status trp_gp_process_suppose(trp_gp_process *process);

// What is expected at TRP_GP_LANES points, of which `at` has a row for each feature, and the
// variances. `mean_slopes` and `variance_slopes`: by each feature, in rows as well (of a name: 0);
// both NULL: not wanted. `scratch`: TRP_GP_SCRATCH numbers.
void trp_gp_process_predict(const trp_gp_process *process, const double *at, double *mean,
                            double *variance, double *mean_slopes, double *variance_slopes,
                            double *scratch);
#define TRP_GP_SCRATCH(count) (3 * (count)*TRP_GP_LANES)

#endif
