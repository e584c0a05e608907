// cluster.h: this node among others: its number, and the numbers here of their processes.
#ifndef TRP_REMOTE_CLUSTER_H
#define TRP_REMOTE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

// This node's number among others; 0: it has none.
uint32_t trp_process_node_id(void);
// The number here of a process of another node (of this one: as it is). If need be that node is
// asked, which waits for its answer. NOT_EXECUTED: it cannot be reached, or has ended.
troupe_status trp_process_find(uint32_t node, uint32_t slot, uint64_t incarnation,
                               uint32_t *process);
// Whether trp_process_find would have to wait for an answer.
bool trp_process_find_waits(uint32_t node, uint32_t slot, uint64_t incarnation);

#endif
