// 03_sweep.c: looks for the rate at which line.h learns best; trials that lag behind are stopped
// early.
#include "line.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));

    const troupe_param space[] = {
        TROUPE_LOG_UNIFORM(settings, rate, 1e-3, 1.0),
        TROUPE_FIXED(settings, epochs, 27),
    };
    troupe_sweep *sweep;
    troupe_must(troupe_tune(fit, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                            .trials = 18, .name = "line-rate",
                            .scheduler = troupe_asha(.grace = 1, .reduction = 3, .limit = 27),
                            .train = TROUPE_OPTIONS(troupe_train_options, .ranks = 2,
                                                    .cpus_per_rank = 0.5, .storage = "runs")));

    troupe_sweep_print(sweep, stdout);
    printf("best rate %.3f, loss %.1e, %zu of %zu trials stopped early\n",
           troupe_best(fit, sweep)->rate, troupe_sweep_best(sweep)->best_metric,
           troupe_sweep_stopped(sweep), troupe_sweep_count(sweep));
    troupe_sweep_free(&sweep);
    return troupe_stop();
}
