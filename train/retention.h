// retention.h: which checkpoints of a run are kept: the best n, and always the newest. Pure.
//
// Better is a higher score; NaN is worse than every number; of two alike the older one is better.
// Without a metric a checkpoint's score is its number: the newest is best.
#ifndef TRP_RETENTION_H
#define TRP_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

typedef struct trp_kept {
    int64_t id;
    double score;
} trp_kept;

typedef struct trp_retention {
    int keep;       // Best ones to keep; 0: all.
    trp_kept *kept; // Oldest first.
    size_t count, capacity;
} trp_retention;

// Adds a checkpoint that was committed; its number is above all before. TROUPE_NO_MEMORY.
troupe_status trp_retention_add(trp_retention *retention, int64_t id, double score);
// Whether the newest is kept for being that alone: as many as are to be kept are better.
bool trp_retention_is_passing(const trp_retention *retention);
// Takes out one that is to be removed now, and gives its number and score; -1: none is.
int64_t trp_retention_evict(trp_retention *retention, double *score);
// Forgets those with higher numbers than `id`, which turned out to be unusable.
void trp_retention_rewind(trp_retention *retention, int64_t id);
// The number of the newest / the best; -1: none.
int64_t trp_retention_newest(const trp_retention *retention);
int64_t trp_retention_best(const trp_retention *retention);
void trp_retention_free(trp_retention *retention);

#endif
