// result.h: how a call ended, kept until it is fetched (see ref/call_table.h).
#ifndef TRP_REF_RESULT_H
#define TRP_REF_RESULT_H

#include <actors/ref/call_table.h>

void trp_result_fail(trp_result *result, const troupe_error *failure);

// Takes a flat value's memory, as it came from another process.
void trp_result_image(trp_result *result, uint64_t schema, const void *image, size_t size);

// Copies a value, whose references become the result's. Many bytes go to the store at once, where
// there is room, so that views lend them.
void trp_result_copy(trp_result *result, const trp_shape *shape, const void *value);

// Of a SMALL or VALUE: where it is, and its type (NULL: not known in this process).
const void *trp_result_value(const trp_result *result);
size_t trp_result_size(const trp_result *result);
const troupe_type *trp_result_type(const trp_result *result);
void trp_result_free(trp_result *result);

// As the body of a frame. On failure what came with it is given back.
troupe_status trp_result_receive(trp_result *result, const trp_frame *frame);

#endif
