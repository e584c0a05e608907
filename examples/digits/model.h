// model.h: the model: a network that learns to read digits, data-parallel over a group of workers,
// and that reads them when it is asked.
#ifndef DIGITS_MODEL_H
#define DIGITS_MODEL_H

#include "network.h"

#include <troupe.h>

TROUPE_STRUCT(reader_config,
              (double, rate),         // Of learning, above 0; it falls to nothing over the epochs.
              (int64_t, width),       // Of an image, 2 to 1024,
              (int64_t, height),      // likewise.
              (int64_t, brightest),   // The largest value of a pixel, 1 to 255.
              (int64_t, channels),    // Filters of the convolution, 0 to 256; 0: a perceptron.
              (int64_t, hidden),      // Width of the hidden layer, 1 to 4096.
              (double, momentum),     // 0 to below 1.
              (double, weight_decay), // 0 or a little more.
              (troupe_fitting, fitting));

// What a checkpoint holds.
TROUPE_STRUCT(reader_state, (troupe_array_float, weights), (troupe_array_float, velocity));

typedef struct reader {
    const reader_config *config;
    network net;
    float *velocity; // Of the descent with momentum.
    float *gradient;
    troupe_gradients *averaged; // What averages it over the workers; NULL until the first step.
} reader;

// What trials are compared by: the share of the validation set that a network reads right.
#define READER_METRIC "val_accuracy"

troupe_status reader_setup(reader *self, const reader_config *config, troupe_use *use);
// Bytes (rows x height x width) -> brightness from 0 to 1 -> scores (rows x 10) -> digits (rows).
troupe_status reader_preprocess(reader *self, const troupe_tensor *x, troupe_tensor *y);
troupe_status reader_forward(reader *self, const troupe_tensor *x, troupe_tensor *y);
troupe_status reader_postprocess(reader *self, const troupe_tensor *x, troupe_tensor *y);
troupe_status reader_train_step(reader *self, troupe_rank *me, const troupe_batch *batch);
troupe_status reader_validate_step(reader *self, troupe_rank *me, const troupe_batch *batch);
troupe_status reader_save(reader *self, reader_state *state);
troupe_status reader_load(reader *self, const reader_state *state);
TROUPE_MODEL(reader, reader_config, reader_state, reader_setup, reader_forward,
             .defaults = {.rate = 0.1,
                          .width = 8,
                          .height = 8,
                          .brightest = 16,
                          .hidden = 64,
                          .momentum = 0.9,
                          .weight_decay = 1e-4,
                          .fitting = {.epochs = 54, .batch = 32, .seed = 1}},
             .input = {TROUPE_UINT8, 2, {0, 0}}, .preprocess = reader_preprocess,
             .postprocess = reader_postprocess, .train_step = reader_train_step,
             .validate_step = reader_validate_step, .save = reader_save, .load = reader_load);

#endif
