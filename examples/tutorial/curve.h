// curve.h: the loop of the tutorial's training: it finds a and b of y = a x + b by descent.
#ifndef CURVE_H
#define CURVE_H

#include <troupe.h>

TROUPE_STRUCT(settings, (double, rate), (int64_t, steps));
TROUPE_STRUCT(model, (double, a), (double, b), (int64_t, step));

enum { POINTS = 200 };

// Runs once on each rank, in a process of its own; each takes its share of the points.
static troupe_status fit_curve(troupe_rank *me, const settings *how)
{
    model now = {0};
    TROUPE_TRY(troupe_restore(model, me, &now)); // After a crash: the newest checkpoint.

    while (now.step < how->steps) {
        double sums[3] = {0}; // The slope of the error by a, by b, and the error.
        for (int i = me->rank; i < POINTS; i += me->world) {
            double x = (double)i / POINTS, error = now.a * x + now.b - (2 * x - 1);
            sums[0] += 2 * error * x / POINTS;
            sums[1] += 2 * error / POINTS;
            sums[2] += error * error / POINTS;
        }
        TROUPE_TRY(troupe_allreduce(me, sums, 3, TROUPE_SUM)); // The same sums on all ranks.
        now.a -= how->rate * sums[0];
        now.b -= how->rate * sums[1];
        now.step++;

        TROUPE_TRY(troupe_save(model, me, &now)); // A checkpoint, with the report that follows.
        TROUPE_TRY(troupe_report(me, {"loss", sums[2]}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fit_curve, settings);

#endif
