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

// Whether `rows` are of the type of `like` and of its dimensions behind the first one (0: any).
// TROUPE_WRONG_TYPE: the text has both: "float32[3,2] where float32[?,4] was expected".
troupe_status trp_rows_check(const troupe_tensor *rows, const troupe_tensor *like);

#endif
