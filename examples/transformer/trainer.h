// trainer.h: the training run: each worker takes a share of every batch of sequences; gradients are
// summed over the workers, and each takes the same step. A run goes on from a checkpoint to the
// same weights, bit for bit, as one that nothing disturbed.
#ifndef TRANSFORMER_TRAINER_H
#define TRANSFORMER_TRAINER_H

#include "corpus.h"
#include "network.h"

#include <troupe.h>

// What a run is told.
TROUPE_STRUCT(transformer_config, (troupe_text, text), // A file or a folder, see corpus.h.
              (int64_t, context),                      // Places of a sequence.
              (int64_t, width),                        // Of a place's row.
              (int64_t, heads),                        // Of the attention; divides the width.
              (int64_t, layers),                       // Blocks.
              (int64_t, batch),                        // Sequences a step, over all workers.
              (int64_t, steps),                        // Of the training.
              (int64_t, report_every),                 // Steps of a report.
              (double, rate),                          // Of learning, at its highest.
              (uint64_t, seed)); // Of the first weights and of where sequences begin.

// What a checkpoint holds: enough to go on exactly, and to rebuild the network from it alone.
TROUPE_STRUCT(transformer_state, (int64_t, context), (int64_t, width), (int64_t, heads),
              (int64_t, layers), (int64_t, step), // Steps done.
              (troupe_array_float, weights),      // As network.h lays them out.
              (troupe_array_float, first),        // Moments of AdamW.
              (troupe_array_float, second));

// Reports "loss" (mean over a report's steps, in nats a character) and "step". TROUPE_INVALID names
// a setting out of range.
troupe_status fit_transformer(troupe_rank *me, const transformer_config *config);
TROUPE_TRAINER(fit_transformer, transformer_config, .saves_when_due = true);

// The shape of a checkpoint's network. TROUPE_CORRUPT: shape and weights do not fit together.
TROUPE_MUST_USE troupe_status transformer_state_shape(const transformer_state *state,
                                                      transformer_shape *shape);

#endif
