// 6_sweep.c: tries nine rates for the loop of curve.h and stops those early that learn slowly.
#include "curve.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));

    const troupe_param space[] = {
        TROUPE_LOG_UNIFORM(settings, rate, 1e-3, 1.0),
        TROUPE_FIXED(settings, steps, 9),
    };
    troupe_sweep *sweep;
    troupe_must(troupe_tune(fit_curve, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                            .trials = 9, .name = "rates", .seed = 1, .progress = stdout,
                            .scheduler = troupe_asha(.grace = 1, .reduction = 3, .limit = 9),
                            .train = TROUPE_OPTIONS(troupe_train_options, .ranks = 2,
                                                    .cpus_per_rank = 0.25, .storage = "runs")));

    printf("%zu trials, best rate above 0.1: %s\n", troupe_sweep_count(sweep),
           troupe_best(fit_curve, sweep)->rate > 0.1 ? "yes" : "no");
    troupe_sweep_free(&sweep);
    return troupe_stop();
}
