// session_internal.h: what the two parts of the sessions with other nodes share: how they begin
// (handshake.c), and how they go on and end (remote/session.c). All of it with the lock held.
#ifndef TRP_REMOTE_SESSION_INTERNAL_H
#define TRP_REMOTE_SESSION_INTERNAL_H

#include <pthread.h>
#include <runtime/remote/session.h>
#include <runtime/shm/segment.h>
#include <stdbool.h>

extern pthread_mutex_t trp_nodes_lock; // Of all of it, and of writing the segment's rows.

// ---- remote/session.c: the rows

trp_node_row *trp_nodes_row(int place);
bool trp_nodes_active(const trp_node_row *row);
bool trp_nodes_left(void); // This node stops: no session begins any more.
// A row for a session with that node, of those that are free or over, or else the oldest one that
// nobody has been heard in. NULL, with BUSY: there is none.
trp_node_row *trp_nodes_take_row(uint32_t id, uint64_t incarnation);
void trp_nodes_begin(trp_node_row *row, uint32_t id, const trp_frame *frame, uint64_t session,
                     const char *address, trp_node_state state);
// The session ends here, because the other one `cause`,
void trp_nodes_end(trp_node_row *row, const char *cause);
// and there, where it ends because this one `told`.
void trp_nodes_break_off(trp_node_row *row, const char *cause, const char *told);
// Somebody has been heard at an address, or with a number: other sessions of these are over.
void trp_nodes_end_others(uint32_t id, uint64_t incarnation, const char *address, uint64_t session);
// The other node process hears us from now on.
void trp_nodes_make_link(const trp_node_row *row);
// Ends of sessions that are no news.
#define TRP_NODES_LEFT "was left"
#define TRP_NODES_GOODBYE "said goodbye"

// ---- handshake.c: words outside of sessions, and who waits for one

void trp_nodes_say_bye(const char *address, uint64_t session, const char *why);
// Ends the waits for a session with that node.
void trp_nodes_joined(trp_node_row *row);
void trp_nodes_ask_join(const trp_frame *frame, const char *address, const char *numeric);
void trp_nodes_tick_joins(int64_t now_ms, int64_t *next_ms);

#endif
