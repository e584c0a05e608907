// gradients.h: averaging the gradients of a model over the ranks of a group, while the backward
// pass goes on. Part of train.h; called inside a loop.
//
//     troupe_gradients *all = troupe_gradients_open(me);          // NULL: the last error says why
//     TROUPE_TRY(troupe_gradients_add(all, "weights", net.w, grad.w, n));
//     TROUPE_TRY(troupe_gradients_add(all, "bias", net.b, grad.b, 10));
//     ...
//         TROUPE_TRY(troupe_gradients_begin(all, rows));
//         forward_and_backward(&net, &grad, batch, rows);         // sums over this rank's rows
//         TROUPE_TRY(troupe_gradients_average(all));              // means over all ranks' rows
//         update(&net, &grad);
//
// A gradient is the sum over the rows that this rank has computed; it becomes the sum over those of
// all ranks, divided by their number. So a batch may be shared unevenly, and what comes out is what
// one process with the whole batch would compute. All ranks begin with rank 0's values: with the
// same updates their parameters stay equal to the bit.
#ifndef TROUPE_GRADIENTS_H
#define TROUPE_GRADIENTS_H

#include <troupe/train.h>

TROUPE_BEGIN_C

// The parameters of a model. Owned by the library, lives as long as the loop, used by its thread.
typedef struct troupe_gradients troupe_gradients;

// One without parameters. NULL, with the last error set: TROUPE_INVALID (not called inside a loop),
// TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL troupe_gradients *troupe_gradients_open(troupe_rank *me);

// Registers a parameter, in the order in which the forward pass uses them, before the first step:
// `count` values and as many of its gradient. The name has 1 to 63 bytes; both arrays stay the
// program's, and where they are. Gradients that lie in memory of troupe_shared_alloc, each behind
// the one registered before, are averaged there; others are copied to such memory and back, which
// takes several times as long. All ranks register the same. TROUPE_INVALID: a name or a gradient
// that is registered, another type than float32 or float64, a step has been begun;
// TROUPE_UNSUPPORTED: memory of a GPU; TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_gradients_add_as(troupe_gradients *all, const char *name, void *values, void *gradient,
                        size_t count, troupe_dtype dtype);
// `values` and `gradient` are float * or double *, both the same.
#define troupe_gradients_add(all, name, values, gradient, count)                                   \
    troupe_gradients_add_as((all), (name), (values), 1 ? (gradient) : (values), (count),           \
                            _Generic((values), float *                                             \
                                     : TROUPE_FLOAT32, double *                                    \
                                     : TROUPE_FLOAT64))

// Begins a step, before its forward pass. `rows`: how many rows this rank's gradients will be sums
// over, 0 or more. All ranks begin equally many steps. The first one compares the parameters of all
// ranks, and copies rank 0's values to all. TROUPE_INVALID: no parameter is registered, the last
// step has not ended, or the parameters of ranks differ (on all ranks; the text names the first
// that does); TROUPE_NO_MEMORY; TROUPE_PEER_LOST.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_gradients_begin(troupe_gradients *all,
                                                                         size_t rows);

// Ends the step: each gradient becomes its mean over the rows of all ranks; 0 where they have none.
// TROUPE_INVALID: there is no step; TROUPE_PEER_LOST.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_gradients_average(troupe_gradients *all);

// ---- While the backward pass goes on ----
//
//     TROUPE_TRY(troupe_gradients_begin(all, rows));
//     ...
//     backward_of_last_layer(...);
//     TROUPE_TRY(troupe_gradients_ready(all, grad.b));
//     backward_of_first_layer(...);   // Meanwhile those that are ready are summed.
//     TROUPE_TRY(troupe_gradients_ready(all, grad.w));
//     TROUPE_TRY(troupe_gradients_wait(all));
//
// Gradients are summed in buckets, the first one of up to 1 MiB and the others of up to 25 MiB, in
// the reverse order of registration: each as soon as all in it and in those before it are ready.
// Where the loops of all ranks leave no CPU for that, they are summed when the step ends.

// Says that the gradient registered at that address is complete: it is not to be touched until
// troupe_gradients_wait has returned. TROUPE_INVALID: there is none at that address, it was said
// before in this step, or there is no step.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_gradients_ready(troupe_gradients *all,
                                                                         const void *gradient);
// Ends a step as troupe_gradients_average, of which each gradient has been said to be ready.
// TROUPE_INVALID: there is no step, or a gradient is not ready (the text names it; the step goes
// on, and the other ranks wait); TROUPE_PEER_LOST.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_gradients_wait(troupe_gradients *all);

TROUPE_END_C

#endif
