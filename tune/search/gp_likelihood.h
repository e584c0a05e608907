// gp_likelihood.h: how likely a Gaussian process' hyperparameters are, and the most likely ones.
#ifndef TRP_GP_LIKELIHOOD_H
#define TRP_GP_LIKELIHOOD_H

#include <tune/search/gp_process.h>

// Minus the logarithm of the likelihood of the first n points' targets, and of
// the hyperparameters' prior (that of Optuna's GPSampler), less a constant.
// `raw` are the logarithms of the hyperparameters (length_count + 2: of the
// noise, what it is above its least). *gradient: by these.
troupe_status trp_gp_loss(trp_gp_process *process, size_t n, const double *targets,
                          const double *raw, double *loss, double *gradient);

// Sets the hyperparameters to the most likely ones of the first n points. They depend on nothing
// else: a part of the points (64) is searched from fixed beginnings, and what is found from there
// by all of them, or of many (256) by a part again.
troupe_status trp_gp_fit(trp_gp_process *process, size_t n, const double *targets);

#endif
