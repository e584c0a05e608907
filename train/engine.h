// engine.h: what carries the collectives of a group, as a table of functions.
//
// The group's own words (its end, stop and reports) are those of train/control.h, whatever the
// engine. An engine may have memory that the driver and all ranks of a machine share; it need not.
//
// The contract: all ranks call the same operations in the same order, one at a time, though not
// always by the same thread: what a rank started and does not wait for is done by a thread of the
// library. train/collective.c has checked the arguments before: no NULL where there is something,
// a known reduction and number type, a root of the group, sizes that memory can hold. A wait for
// other ranks ends when they come, after the member's timeout_ms (then the engine says which rank
// is missing: trp_member_absent), or when the group has ended (trp_member_lost). Once the group has
// ended, each operation fails. The bits of a result are the same on all ranks, and for a number of
// ranks they are always the same: those of the values combined in the order of ranks, however the
// work is cut. A mean of float32 or float64 is divided by the member's divisor, where that is not
// 0.
#ifndef TRP_ENGINE_H
#define TRP_ENGINE_H

#include <troupe/train.h>

struct trp_member;

// What a rank calls. The last ones are made of the others: ranks are compared, and sentences speak,
// by them (trp_member_operation).
typedef enum trp_operation {
    TRP_BARRIER = 1,
    TRP_ALLREDUCE,
    TRP_REDUCE_SCATTER,
    TRP_ALL_GATHER,
    TRP_BROADCAST,
    TRP_SHARED_ALLOC,
    TRP_GRADIENTS,
    TRP_OPERATIONS,
    TRP_ON_DEVICE = 16, // Added where the arrays are memory of devices.
} trp_operation;

// "troupe_allreduce", "troupe_allreduce on devices"; "?" for what is none: another process may have
// written the number.
const char *trp_operation_text(unsigned operation);

// Memory that an engine reduces from and sends.
enum {
    TRP_REACHES_HOST = 1,   // Any memory of the process.
    TRP_REACHES_DEVICE = 2, // Memory of a GPU: the engine finds out which a pointer is.
    TRP_REACHES_PEERS = 4,  // What trp_shared_alloc gives, where it lies: without it there is none.
};

// A function may be left out (NULL), but for size, open and close; an operation without one is
// refused as TROUPE_UNSUPPORTED, with the engine's name.
typedef struct trp_engine {
    const char *name;
    unsigned reaches;

    // ---- in the driver
    // Bytes of shared memory that a group of `world` ranks needs; 0: none.
    size_t (*size)(int world);
    // Prepares it: zeroed memory, aligned to 64 bytes, before any rank has it. NULL: nothing to do.
    void (*init)(void *memory, int world);

    // ---- anywhere
    // Ends the waits of all ranks, after the control says that the group has ended: called once or
    // more by who ended it, the driver or a rank, at any time. NULL: the waits of this engine look
    // at the control by themselves, often enough (every 50 ms).
    void (*interrupt)(void *memory, int world);

    // ---- in a rank
    // Joins; *link is what the operations are given. The member lives longer than the link.
    troupe_status (*open)(struct trp_member *member, void *memory, void **link);
    // As the public functions of troupe/collective.h, but that sizes without a type are bytes. A
    // reduction may be refused before anyone is waited for: TROUPE_UNSUPPORTED, not this type.
    troupe_status (*allreduce)(void *link, void *values, size_t count, troupe_dtype element,
                               troupe_reduction how);
    troupe_status (*reduce_scatter)(void *link, const void *values, size_t count, void *result,
                                    troupe_dtype element, troupe_reduction how);
    troupe_status (*all_gather)(void *link, const void *data, size_t size, void *all);
    troupe_status (*broadcast)(void *link, void *data, size_t size, int root);
    troupe_status (*barrier)(void *link);
    // The rank's loop has ended, and the control says so: who waits for it, or will, is told. Frees
    // the link.
    void (*close)(void *link);
} trp_engine;

#endif
