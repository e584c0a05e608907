// collective.h: operations of all ranks of a group together, by the group's engine: what is the
// same for every engine.
//
// All ranks must call the same operations in the same order with the same arguments; where they
// differ and the engine sees it, all get TROUPE_INVALID with both, and the group stays usable.
#ifndef TRP_COLLECTIVE_H
#define TRP_COLLECTIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <train/control.h>
#include <troupe/collective.h>

// An operation with its arguments; those that it does not have are 0.
typedef struct trp_request {
    trp_operation operation; // An engine's.
    trp_operation purpose;   // What it is a part of; 0: of nothing.
    const void *from;        // What is only read: REDUCE_SCATTER, ALL_GATHER.
    void *to;
    size_t count; // Values, or bytes where there is no type.
    troupe_dtype element;
    troupe_reduction how;
    // Of a mean of float32 or float64: what sums are divided by, if not 0 when it is done, instead
    // of the number of ranks. The same on all of them. NULL: nothing.
    const int64_t *divisor;
    int root;
    // Of a started one: it will be waited for, whatever comes. Where there is no CPU beside those
    // of the loops, that is when it is done: a thread for it would take the CPU from a loop.
    bool awaited;
} trp_request;

// For tests: also without such a CPU the thread does what is awaited.
extern _Atomic bool trp_collective_beside;

// Does it, after all that was started.
troupe_status trp_collective(trp_member *member, const trp_request *request);
// Has a thread do it. The number is for the two functions below.
troupe_status trp_collective_start(trp_member *member, const trp_request *request,
                                   uint64_t *number);
// Returns how it ended; each is waited for once.
troupe_status trp_collective_wait(trp_member *member, uint64_t number);
bool trp_collective_ended(const trp_member *member, uint64_t number);
// The rank leaves: waits for what was started, which ends at once where the loop has failed.
void trp_collective_end(trp_member *member, troupe_status status);

// As the public functions.
troupe_status trp_allreduce(trp_member *member, void *values, size_t count, troupe_dtype element,
                            troupe_reduction how);
troupe_status trp_reduce_scatter(trp_member *member, const void *values, size_t count, void *result,
                                 troupe_dtype element, troupe_reduction how);
troupe_status trp_all_gather(trp_member *member, const void *data, size_t size, void *all);
troupe_status trp_broadcast(trp_member *member, void *data, size_t size, int root);
troupe_status trp_barrier(trp_member *member);

#endif
