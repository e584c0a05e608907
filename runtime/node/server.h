// server.h: the node process, and its service where there is none.
#ifndef TRP_NODE_SERVER_H
#define TRP_NODE_SERVER_H

// Where there is no node process: requests are served here from now on, with empty books.
void trp_node_reset_here(void);

// The node process (node/server.c). Does not return.
_Noreturn void trp_node_run(int keeper_socket);

#endif
