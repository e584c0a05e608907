// remote_table.h: which process of which other node has which number here (see
// remote/remote_carrier.h), and what the segment says of other nodes.
#ifndef TRP_REMOTE_REMOTE_TABLE_H
#define TRP_REMOTE_REMOTE_TABLE_H

#include <runtime/remote/remote_carrier.h>

// The number of a process in a session; 0: it has none.
uint32_t trp_far_number(uint32_t node, uint32_t slot, uint64_t session, uint64_t incarnation);

// Gives it one, and renews the peer.
// NOT_EXECUTED: it is known to have ended. BUSY: there are too many.
troupe_status trp_far_note(uint32_t node, uint64_t session, uint32_t slot, uint64_t incarnation,
                           const char *address, uint32_t *process);

// Likewise for who was heard, who may be known to end soon: what it said before is still taken.
troupe_status trp_far_note_heard(uint32_t node, uint64_t session, uint32_t slot,
                                 uint64_t incarnation, const char *address, uint32_t *process);
bool trp_far_alive(uint32_t process, uint64_t incarnation, char *cause); // As trp_process_alive.
void trp_far_describe(uint32_t process, char *text, size_t size);

// Where it is; false: nowhere any more.
bool trp_far_place(uint32_t process, uint32_t *slot, uint64_t *session,
                   char address[TRP_NODE_ADDRESS_MAX]);

// Ends all of a session: tells the deaths. While frames are handed out, or in the node process.
void trp_far_end(uint64_t session, const char *cause);

// In the driver, whose node process has died: the same for all sessions.
void trp_far_lose_all(void);

// Notes that one process has died, to be told in a while: its last frames come by another way.
void trp_far_doom(uint64_t session, uint64_t incarnation, const char *cause);

// Tells the deaths whose time has come; ms until the next, -1: there is none.
int trp_far_tell_doomed(void);

// The session that has most of the numbers, if these are more than that session has; else 0.
uint64_t trp_far_larger(uint64_t session);
uint32_t trp_far_count(void); // Numbers given so far: TRP_PROCESSES_MAX and up.
void trp_far_forget_all(void);

// A copy of the row of a node, by its number, or by a session. False: there is none in a state
// from `least` up but GONE.
bool trp_node_row_of(uint32_t id, trp_node_state least, trp_node_row *row);
bool trp_node_row_of_session(uint64_t session, trp_node_row *row);
bool trp_node_row_is_at(const trp_node_row *row, const char *address);

#endif
