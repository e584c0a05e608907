// trainer.h: the training run: data-parallel gradient descent over a group of workers, with a
// checkpoint an epoch from which a run goes on to the same weights, bit for bit, as one that
// nothing disturbed.
#ifndef DIGITS_TRAINER_H
#define DIGITS_TRAINER_H

#include "data.h"
#include "network.h"

#include <troupe.h>

// What a run is told.
TROUPE_STRUCT(digits_config,
              (troupe_text, data),    // A CSV file or a folder of IDX files, see data.h.
              (double, rate),         // Of learning, above 0; it falls to nothing over the epochs.
              (int64_t, hidden),      // Width of the hidden layer, 1 to 4096.
              (int64_t, batch),       // Images a step, over all workers, 1 to 65536.
              (int64_t, epochs),      // Passes over the training set.
              (double, momentum),     // 0 to below 1.
              (double, weight_decay), // 0 or a little more.
              (uint64_t, seed)); // Of the data's division, the first weights, the order of images.

// What a checkpoint holds: enough to go on exactly, and to rebuild the network from it alone.
TROUPE_STRUCT(digits_state, (int64_t, inputs), // Pixels of an image,
              (int64_t, hidden),               // and width of the hidden layer.
              (int64_t, epoch),                // Epochs done.
              (uint64_t, random),              // State of the shuffling.
              (troupe_array_float, weights),   // As struct network lays them out.
              (troupe_array_float, velocity)); // Of the descent with momentum.

// What trials are compared by: the share of the validation set that a network reads right.
#define DIGITS_METRIC "val_accuracy"

// The loop. Reports "loss" (mean over the epoch's training images), DIGITS_METRIC and "epoch" after
// every epoch. TROUPE_INVALID names a setting out of range.
troupe_status fit_digits(troupe_rank *me, const digits_config *config);
TROUPE_TRAINER(fit_digits, digits_config);

// Fills `net` with the network of a checkpoint. The caller ends it with network_deinit.
// TROUPE_CORRUPT: the state's shape and weights do not fit together.
TROUPE_MUST_USE troupe_status digits_network(const digits_state *state, network *net);

#endif
