// 5_training.c: runs the loop of curve.h on two ranks and reads the model from its checkpoint.
#include "curve.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));

    settings how = {.rate = 0.7, .steps = 100};
    troupe_result *result;
    // Up to three times the group is started again where a rank died.
    troupe_must(troupe_train(fit_curve, &how, &result, .ranks = 2, .cpus_per_rank = 0.5,
                             .storage = "runs", .name = "curve", .keep = 2, .restarts = 3));

    model best;
    troupe_must(troupe_checkpoint_load(model, troupe_result_checkpoint(result), 0, &best));
    printf("y = %.1f x + %.1f after %d reports\n", best.a, best.b, troupe_result_reports(result));
    troupe_result_free(&result);
    return troupe_stop();
}
