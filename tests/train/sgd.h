// sgd.h: a trainer as a library would offer it, on a data-parallel loop of its own: its user says
// what one rank's part of the sums is. In less than forty lines.
#ifndef SGD_H
#define SGD_H

#include <string.h>
#include <troupe.h>

TROUPE_STRUCT(sgd_state, (int64_t, epoch), (troupe_array_double, weights));

// SGD_TRAINER(name, T, n, part, ...) trains n weights, from 0, by gradient descent, as the members
// `rate` and `epochs` of T say. `double part(const troupe_rank *, const T *, const double *weights,
// double *gradient)` sets this rank's part of the gradient and returns its part of the loss.
#define SGD_TRAINER(name, T, n, part, ...)                                                         \
    static troupe_status name(troupe_rank *me, const T *config)                                    \
    {                                                                                              \
        double weights[n] = {0}, sums[(n) + 1];                                                    \
        sgd_state now = {0, {weights, n}};                                                         \
        TROUPE_TRY(troupe_restore(sgd_state, me, &now));                                           \
        memmove(weights, now.weights.items, sizeof weights);                                       \
        while (now.epoch < config->epochs) {                                                       \
            sums[n] = part(me, config, weights, sums);                                             \
            TROUPE_TRY(troupe_allreduce(me, sums, (n) + 1, TROUPE_SUM));                           \
            for (int i = 0; i < (n); i++)                                                          \
                weights[i] -= config->rate * sums[i];                                              \
            now = (sgd_state){now.epoch + 1, {weights, n}};                                        \
            if (troupe_checkpoint_due(me))                                                         \
                TROUPE_TRY(troupe_save(sgd_state, me, &now));                                      \
            TROUPE_TRY(troupe_report(me, {"loss", sums[n]}));                                      \
        }                                                                                          \
        return TROUPE_OK;                                                                          \
    }                                                                                              \
    TROUPE_TRAINER(name, T, .saves_when_due = true, __VA_ARGS__)

_Static_assert(__LINE__ < 40, "the trainer has grown");
#endif
