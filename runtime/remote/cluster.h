// cluster.h: this node among others: its number, and the numbers here of their processes.
#ifndef TRP_REMOTE_CLUSTER_H
#define TRP_REMOTE_CLUSTER_H

#include <runtime/link/request.h>
#include <stdbool.h>
#include <stddef.h>
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
// The node process of another node, as a process here. NOT_EXECUTED: there is no session.
troupe_status trp_node_process(uint32_t node, uint32_t *process, uint64_t *incarnation);
// As trp_request_ask, to the node process of another node.
troupe_status trp_request_ask_far(uint32_t node, trp_frame *frame, trp_node_request *mine);
// The nodes that are joined, in the order of joining, at most `most`; `address` (NULL: all): the
// one that listens there.
size_t trp_node_joined(const char *address, uint32_t *nodes, size_t most);

#endif
