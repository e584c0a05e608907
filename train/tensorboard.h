// tensorboard.h: TensorBoard's event files. Pure: bytes to be appended to a file whose name has
// "tfevents" in it.
//
//     length (8 bytes) | masked CRC-32C of the length | record | masked CRC-32C of the record
//
// All numbers are little-endian; a record is an Event in Protocol Buffers' encoding.
#ifndef TRP_TENSORBOARD_H
#define TRP_TENSORBOARD_H

#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>
#include <stdint.h>
#include <troupe/train.h>

// What a file begins with; `wall_s` counts from 1970.
void trp_tensorboard_begin(double wall_s, trp_buffer *out);
// A report, whose number is the step: each metric is a scalar under its own name, behind
// "<source>/" where it has one.
void trp_tensorboard_report(double wall_s, const troupe_report_event *report, trp_buffer *out);

// For the HParams page: that a session (a run) has begun with these hyperparameters, an object,
// whose numbers, texts and flags are shown, of nested ones as "fitting/rate" (false: without any,
// nothing is added); and how one that was begun so has ended.
bool trp_tensorboard_params(double wall_s, trp_json params, trp_buffer *out);
void trp_tensorboard_end(double wall_s, bool well, trp_buffer *out);

uint32_t trp_crc32c(const void *data, size_t size);

#endif
