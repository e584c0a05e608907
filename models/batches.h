// batches.h: the batches of a part of a set.
#ifndef TRP_MODELS_BATCHES_H
#define TRP_MODELS_BATCHES_H

#include <troupe/data.h>

// Of that part of a set that consists of columns; `most` are the rows of the largest part. `key` is
// the set's, for texts; options are in their ranges.
troupe_status trp_batches_open(const char *key, const troupe_shard *part, int64_t most,
                               const troupe_batches_options *how, troupe_batches **batches);

#endif
