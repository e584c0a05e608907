// batch.h: the columns of a batch, as they are inside.
#ifndef TRP_MODELS_BATCH_H
#define TRP_MODELS_BATCH_H

#include <troupe/data.h>

typedef struct trp_column {
    const char *name;
    troupe_tensor tensor; // Its first dimension is the batch's rows.
} trp_column;

struct troupe_columns {
    size_t count;
    const trp_column *items;
};

#endif
