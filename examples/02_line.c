// 02_line.c: trains the line of line.h with four workers, and reads the model from its checkpoint.
#include "line.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));

    settings config = {.rate = 0.7, .epochs = 150};
    troupe_result *result;
    troupe_must(troupe_train(fit, &config, &result, .ranks = 4, .cpus_per_rank = 0.25,
                             .storage = "runs", .name = "line", .keep = 2, .restarts = 3));

    line model;
    troupe_must(troupe_checkpoint_load(line, troupe_result_checkpoint(result), 0, &model));
    printf("y = %.3f x + %.3f, loss %.1e after %d reports\n", model.slope, model.offset,
           troupe_result_metric(result, "loss"), troupe_result_reports(result));
    troupe_result_free(&result);
    return troupe_stop();
}
