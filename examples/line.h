// line.h: a training loop: gradient descent that fits a line to points, shared among any number of
// workers.
#ifndef LINE_H
#define LINE_H

#include <troupe.h>

TROUPE_STRUCT(settings, (double, rate), (int64_t, epochs));
TROUPE_STRUCT(line, (double, slope), (double, offset), (int64_t, epoch));

enum { POINTS = 1000 };

// Every worker runs this function on its own share of the points, which lie on y = 3 x + 2.
static troupe_status fit(troupe_rank *me, const settings *config)
{
    line model = {0};
    TROUPE_TRY(troupe_restore(line, me, &model)); // Where a lost group stopped; else still zeros.

    while (model.epoch < config->epochs) {
        double sums[3] = {0}; // d loss / d slope, d loss / d offset, loss
        for (int i = me->rank; i < POINTS; i += me->world) {
            double x = (double)i / POINTS, y = 3 * x + 2;
            double error = model.slope * x + model.offset - y;
            sums[0] += 2 * error * x / POINTS;
            sums[1] += 2 * error / POINTS;
            sums[2] += error * error / POINTS;
        }
        TROUPE_TRY(troupe_allreduce(me, sums, 3, TROUPE_SUM)); // The same on all workers now.
        model.slope -= config->rate * sums[0];
        model.offset -= config->rate * sums[1];
        model.epoch++;

        TROUPE_TRY(troupe_save(line, me, &model)); // A checkpoint, together with the report.
        TROUPE_TRY(troupe_report(me, {"loss", sums[2]}, {"slope", model.slope}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fit, settings);

#endif
