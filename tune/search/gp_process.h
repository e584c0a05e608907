// gp_process.h: a Gaussian process over points whose features are numbers, or
// names that are alike or not: its hyperparameters' likelihood, and what it
// expects where.
#ifndef TRP_GP_PROCESS_H
#define TRP_GP_PROCESS_H

#include <troupe/status.h>

#include <stdbool.h>
#include <stddef.h>

// The covariance of two points is `scale` times Matern's with smoothness 5/2 of
// their distance, whose square is the sum over features of `inverse` times the
// square of the features' difference.
typedef struct trp_gp_feature {
    size_t length; // Which of the inverse squares of lengths is its.
    bool name;     // Two different ones differ by 1.
} trp_gp_feature;

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
    double *factor;  // Cholesky's, of the covariances: rows of `capacity`.
    double *weights; // The expected value is the sum of these times the covariances.
    size_t seen;     // Points that it is of; the others, behind them, only lower the
                     // variance.
} trp_gp_process;

// On failure there is nothing to close. Hyperparameters are 1, and the noise a
// tenth.
troupe_status trp_gp_process_open(trp_gp_process *process, const trp_gp_feature *features,
                                  size_t count, size_t lengths);
void trp_gp_process_close(trp_gp_process *process);
// Adds a point: features are copied.
troupe_status trp_gp_process_add(trp_gp_process *process, const double *features);

// Minus the logarithm of the likelihood of the first n points' targets, and of
// the hyperparameters' prior (that of Optuna's GPSampler), less a constant.
// `raw` are the logarithms of the hyperparameters (length_count + 2: of the
// noise, what it is above its least). *gradient: by these.
troupe_status trp_gp_process_loss(trp_gp_process *process, size_t n, const double *targets,
                                  const double *raw, double *loss, double *gradient);
// Sets the hyperparameters to the most likely ones, beginning with those that
// it has, and, if `anew`, with two others as well.
troupe_status trp_gp_process_fit(trp_gp_process *process, size_t n, const double *targets,
                                 bool anew);
// The same, from those that it has, by at most `most` of more points than that: the best third of
// these, and others evenly from all.
troupe_status trp_gp_process_fit_part(trp_gp_process *process, size_t n, const double *targets,
                                      size_t most);

// Makes it the process given the targets of its first n points.
troupe_status trp_gp_process_condition(trp_gp_process *process, size_t n, const double *targets);
// Supposes that the points behind these turn out as expected.
troupe_status trp_gp_process_suppose(trp_gp_process *process);
// What is expected at a point, and its variance. `mean_slope` and
// `variance_slope`: by each feature (of a name: 0); both NULL: not wanted.
// `scratch`: 2 * count numbers.
void trp_gp_process_predict(const trp_gp_process *process, const double *features, double *mean,
                            double *variance, double *mean_slope, double *variance_slope,
                            double *scratch);
// The same for TRP_GP_LANES points at once; `scratch`: TRP_GP_LANES *
// count numbers.
enum { TRP_GP_LANES = 8 };
void trp_gp_process_predict_lanes(const trp_gp_process *process, const double *features,
                                  double *mean, double *variance, double *scratch);

#endif
