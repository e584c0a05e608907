// collective.h: operations of all ranks of a group together, by the group's engine.
//
// All ranks must call the same operations in the same order with the same arguments; where they
// differ and the engine sees it, all get TROUPE_INVALID with both, and the group stays usable.
#ifndef TRP_COLLECTIVE_H
#define TRP_COLLECTIVE_H

#include <train/control.h>
#include <troupe/train.h>

// As troupe_allreduce, troupe_broadcast and troupe_barrier.
troupe_status trp_allreduce(trp_member *member, void *values, size_t count, troupe_dtype element,
                            troupe_reduction how);
troupe_status trp_broadcast(trp_member *member, void *data, size_t size, int root);
troupe_status trp_barrier(trp_member *member);

#endif
