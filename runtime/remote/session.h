// session.h: in the node process: the sessions with other nodes: how they begin and end (see
// docs/internals/runtime/nodes.md).
#ifndef TRP_REMOTE_SESSION_H
#define TRP_REMOTE_SESSION_H

#include <runtime/link/frame.h>

// What a NODE frame says. The first four travel outside of sessions.
typedef enum trp_node_word {
    // Wants a session. call: a number of the sender's, target: the one that is answered, or 0;
    // body: where the sender listens
    TRP_NODE_HELLO = 1,
    TRP_NODE_WELCOME, // schema: the session, target: of the HELLO; body: as above
    TRP_NODE_REFUSE,  // target: of the HELLO, status; body: the sentence
    TRP_NODE_BYE,     // schema: the session; body: why
    TRP_NODE_DEATH,   // target: incarnation of a process that has died; body: how
    TRP_NODE_BREAK,   // from a process of this node: session `schema` is to end, for reason `call`
} trp_node_word;

// Why a process wants a session to end.
typedef enum trp_node_break {
    TRP_BREAK_LOST,    // Frames from there are missing.
    TRP_BREAK_CROWDED, // One of its processes has no number here: there are too many.
    TRP_BREAK_FLOODED, // More came than there was room for.
} trp_node_break;

// A request to join or leave, of a process of this node. With an answer, now or later.
void trp_nodes_ask(const trp_frame *frame);
// A NODE frame in a session (its number is in `schema`), or from a process of this node.
void trp_nodes_take(const trp_frame *frame);
void trp_nodes_take_loose(uint32_t node, const trp_frame *frame);
// The node process of a session has been heard.
void trp_nodes_heard(uint64_t session);
// Somebody beats in a session that is none here.
void trp_nodes_stale(uint32_t node, uint64_t session);
// Tells the other nodes of the death of a process here.
void trp_nodes_tell_death(uint64_t incarnation, const char *cause);
// Does what is due; ms until the next, -1: nothing is.
int trp_nodes_tick(void);
// Says goodbye to all.
void trp_nodes_leave_all(void);

#endif
