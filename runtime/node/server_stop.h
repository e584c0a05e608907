// server_stop.h: has processes ended by their node's node process.
#ifndef TRP_NODE_SERVER_STOP_H
#define TRP_NODE_SERVER_STOP_H

#include <runtime/node/node_client.h>

// Kills a worker process; death is reported to all as for any other, with `cause` as its reason.
troupe_status trp_node_kill(uint32_t process, uint64_t incarnation, const char *cause);

// The same without waiting for the node process's word: it is asked, and answers for the rest. What
// fails is that it could not be asked.
troupe_status trp_node_end(uint32_t process, uint64_t incarnation, const char *cause);

#endif
