// server.h: the node process, and who serves its requests where there is none.
#ifndef TRP_NODE_SERVER_H
#define TRP_NODE_SERVER_H

#include <runtime/link/frame.h>
#include <troupe/status.h>

// In the node process: answers a request; a failure with the last error as the reason.
void trp_node_answer(const trp_frame *to, trp_frame *frame);
void trp_node_answer_failure(const trp_frame *to, troupe_status status);

// Where there is no node process: serves a request, and answers it, on the calling thread.
void trp_node_serve_here(trp_frame *frame);
// Ends waits whose time is over; begins with empty books.
void trp_node_tick_here(void);
void trp_node_reset_here(void);

// The node process (node/server.c). Does not return.
_Noreturn void trp_node_run(int keeper_socket);

#endif
