// collective.h: operations of all ranks of a group together, over the group's shared region.
//
// All ranks must call the same operations in the same order with the same arguments; where they
// differ all get TROUPE_INVALID with both, and the group stays usable.
#ifndef TRP_COLLECTIVE_H
#define TRP_COLLECTIVE_H

#include <train/group.h>
#include <troupe/train.h>

// As troupe_allreduce, troupe_broadcast and troupe_barrier.
troupe_status trp_allreduce(trp_group *group, void *values, size_t count, troupe_dtype element,
                            troupe_reduction how);
troupe_status trp_broadcast(trp_group *group, void *data, size_t size, int root);
troupe_status trp_barrier(trp_group *group);

#endif
