// engine.h: what carries the collectives of a group, as a table of functions.
//
// The group's own words (its end, stop and reports) are those of train/control.h, whatever the
// engine. An engine may have memory that the driver and all ranks of a machine share; it need not.
// What it is given to reduce or send may lie in any memory that it can reach.
//
// The contract: all ranks call the same operations in the same order. A wait for other ranks ends
// when they come, after the member's timeout_ms (then the engine says which rank is missing:
// trp_member_absent), or when the group has ended (trp_member_lost). Once the group has ended, each
// operation fails. The bits of a result are the same on all ranks.
#ifndef TRP_ENGINE_H
#define TRP_ENGINE_H

#include <troupe/train.h>

struct trp_member;

typedef struct trp_engine {
    const char *name;

    // ---- in the driver
    // Bytes of shared memory that a group of `world` ranks needs; 0: none.
    size_t (*size)(int world);
    // Prepares it: zeroed memory, aligned to 64 bytes, before any rank has it. NULL: nothing to do.
    void (*init)(void *memory, int world);

    // ---- anywhere
    // Ends the waits of all ranks, after the control says that the group has ended: called once or
    // more by who ended it, the driver or a rank, at any time. NULL: the waits of this engine look
    // at the control by themselves, often enough.
    void (*interrupt)(void *memory, int world);

    // ---- in a rank, by the thread of its loop
    // Joins; *link is what the operations are given. The member lives longer than the link.
    troupe_status (*open)(struct trp_member *member, void *memory, void **link);
    // TROUPE_UNSUPPORTED or TROUPE_INVALID, before anyone is waited for: not this type.
    troupe_status (*allreduce)(void *link, void *values, size_t count, troupe_dtype element,
                               troupe_reduction how);
    troupe_status (*broadcast)(void *link, void *data, size_t size, int root);
    troupe_status (*barrier)(void *link);
    // The rank's loop has ended, and the control says so: who waits for it, or will, is told. Frees
    // the link.
    void (*close)(void *link);
} trp_engine;

#endif
