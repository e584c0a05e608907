// shared.h: memory that the ranks of a group reach where it lies: each has a part of a block, and
// all find all parts.
//
// All ranks make the same blocks in the same order, so that a place in one is named by a number
// that means the same to all of them, wherever each has mapped it.
#ifndef TRP_SHARED_H
#define TRP_SHARED_H

#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

struct trp_member;

// A rank's process, as who is lent memory.
typedef struct trp_shared_holder {
    uint64_t process, incarnation;
} trp_shared_holder;

// Where blocks come from.
typedef struct trp_shared_source {
    // This process.
    trp_shared_holder (*self)(void);
    // In rank 0: makes zeroed memory, aligned to 64 bytes, which each of the holders has one hold
    // of from then on.
    troupe_status (*make)(size_t size, const trp_shared_holder *holders, int world, uint64_t *id);
    // Its address here; NULL: it is gone.
    void *(*find)(uint64_t id);
    // Takes back a hold of this process.
    void (*drop)(uint64_t id);
} trp_shared_source;

// The store of a runtime.
extern const trp_shared_source trp_shared_store;

typedef struct trp_shared_block {
    uint64_t id;
    unsigned char *data;
    size_t size; // Of a rank's part: that of rank r begins at r * size.
} trp_shared_block;

typedef struct trp_shared {
    const trp_shared_source *source;
    trp_shared_block *blocks;
    size_t count;
} trp_shared;

// As troupe_shared_alloc.
troupe_status trp_shared_alloc(struct trp_member *member, size_t size, void **data);
// Gives back this rank's hold of each block.
void trp_shared_end(trp_shared *shared);

// The place of `size` bytes in this rank's part of a block; 0: they do not lie in one.
uint64_t trp_shared_place(const struct trp_member *member, const void *data, size_t size);
// The same bytes of another rank, from the place that it named; NULL: there are none.
void *trp_shared_at(const struct trp_member *member, int rank, uint64_t place, size_t size);

#endif
