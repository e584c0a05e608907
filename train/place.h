// place.h: which rank each worker of a group becomes, and what its process is given for it: pure,
// over the list of the nodes that the workers are on.
#ifndef TRP_PLACE_H
#define TRP_PLACE_H

#include <runtime/base/buffer.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/wire.h>

TROUPE_STRUCT(trp_place, (int, rank), (int, world), (int, local_rank), (int, local_world),
              (int, node_rank), (int, nodes));

// Ranks the workers 0 to count - 1 by their nodes: those on one node get ranks in a row, the nodes
// follow each other in the order in which they first appear, and workers of a node keep theirs.
void trp_places_of(const uint32_t *nodes, int count, trp_place *places);

// Writes the environment of a rank's process, "KEY=VALUE" lines: what the launchers of PyTorch set
// (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK), CUDA_VISIBLE_DEVICES where each rank
// has GPUs, and what the user gives (NULL: nothing), which comes last and so overrides the rest.
// A rank has `gpus_each` ten-thousandths of GPUs; the process has those of `together` ranks from
// this one on. Their ids are in `gpus`, separated by commas: those of all ranks on this node, which
// are shared in order; or, `by_rank`, rank by rank, so that one that is shared is there for each.
// The text ends with a zero, counted in its size.
void trp_place_env(const trp_place *place, int together, const char *gpus, bool by_rank,
                   int64_t gpus_each, const char *env, trp_buffer *text);

#endif
