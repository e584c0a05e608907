// track_batch.h: metrics and parameters of one request to MLflow, which bounds how many it takes
// and how they are called.
#ifndef TRP_SERVER_TRACK_BATCH_H
#define TRP_SERVER_TRACK_BATCH_H

#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>
#include <stdbool.h>

enum {
    TRACK_BATCH_METRICS = 800,    // MLflow takes 1000,
    TRACK_BATCH_PARAMETERS = 100, // and as many of these,
    TRACK_KEY_MAX = 250,          // with such names,
    TRACK_VALUE_MAX = 500,        // and such values.
};

typedef struct track_batch {
    trp_buffer metrics, parameters, body;
    size_t metric_count, parameter_count;
} track_batch;

// A value that a source (NULL) has reported, at a Unix time.
void track_batch_metric(track_batch *batch, const char *source, trp_json name, double value,
                        double time, int step);
// Adds the members of a config that follow *at (which begins as {0}), nested ones as "outer.inner";
// true: it is full, and there may be more.
bool track_batch_parameters(track_batch *batch, trp_json config, trp_json *at);
// The request's body, which is the batch's; NULL: no memory.
const char *track_batch_end(track_batch *batch, const char *run);
// Empties it.
void track_batch_clear(track_batch *batch);

#endif
