// model.h: the decoder as a model: what a run trains, data-parallel, with a text of the data
// `corpus`, and what then says which character comes next. A run goes on from a checkpoint to the
// same weights, bit for bit, as one that nothing disturbed.
#ifndef TRANSFORMER_MODEL_H
#define TRANSFORMER_MODEL_H

#include "corpus.h"
#include "decoder.h"

// What a run is told.
TROUPE_STRUCT(transformer_config, (int64_t, context), // Places of a sequence.
              (int64_t, width),                       // Of a place's row.
              (int64_t, heads),                       // Of the attention; divides the width.
              (int64_t, layers),                      // Blocks.
              (double, rate),                         // Of learning, at its highest,
              (int64_t, warm_up),                     // which it reaches after so many steps.
              (uint64_t, seed),                       // Of the first weights.
              (troupe_fitting, fitting));

// What a checkpoint holds.
TROUPE_STRUCT(transformer_state, (int64_t, step), // Steps done.
              (troupe_tensor, weights),           // As decoder.h lays them out.
              (troupe_tensor, first),             // Moments of AdamW.
              (troupe_tensor, second));

typedef struct transformer {
    const transformer_config *config;
    decoder_shape shape;
    size_t count; // Of the weights.
    float *weights, *gradient, *first, *second;
    int64_t step;
    decoder_pass *pass;
    troupe_gradients *parts; // NULL until the first step.
} transformer;

// TROUPE_INVALID names a setting out of range.
troupe_status transformer_setup(transformer *self, const transformer_config *config,
                                troupe_use *use);
// x: rows of characters, at most `context` each. y: for each row the scores of all characters to
// come next.
troupe_status transformer_forward(transformer *self, const troupe_tensor *x, troupe_tensor *y);
// Notes "loss", in nats a character.
troupe_status transformer_train_step(transformer *self, troupe_rank *me, const troupe_batch *batch);
troupe_status transformer_save(transformer *self, transformer_state *state);
troupe_status transformer_load(transformer *self, const transformer_state *state);
void transformer_deinit(transformer *self);

TROUPE_MODEL(transformer, transformer_config, transformer_state, transformer_setup,
             transformer_forward,
             .defaults = {.context = 64,
                          .width = 128,
                          .heads = 4,
                          .layers = 4,
                          .rate = 3e-3,
                          .warm_up = 50,
                          .seed = 1,
                          .fitting = {.epochs = 3, .batch = 32, .seed = 1, .report_every = 10}},
             .input = {TROUPE_UINT16, 1, {0}}, .train_step = transformer_train_step,
             .save = transformer_save, .load = transformer_load, .deinit = transformer_deinit);

#endif
