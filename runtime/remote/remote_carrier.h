// remote_carrier.h: processes of other nodes: their numbers here, and sending to and hearing from
// them over tcp, by the third carrier. See docs/internals/runtime/nodes.md.
//
// A far process has a number from TRP_PROCESSES_MAX up, which this process alone gives it, and from
// then on a peer like any other. A message between nodes is an envelope (protocol, node, session)
// and a frame.
#ifndef TRP_REMOTE_REMOTE_CARRIER_H
#define TRP_REMOTE_REMOTE_CARRIER_H

#include <runtime/codec/msgpack.h>
#include <runtime/link/peer_carrier.h>

enum {
    TRP_FAR_VERSION = 1,
    TRP_FAR_FRAME_MAX = 4096, // Of an envelope and a frame's header.
    TRP_FAR_BEATS = 5,        // So often in .node_timeout_ms a link says that it is there.
};

// ---- remote/remote_table.c: who has which number

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

// ---- remote/remote_carrier.c

typedef struct trp_envelope {
    uint32_t node;    // The sender's.
    uint64_t session; // 0: of none, from a node process to one that it may not know yet.
} trp_envelope;

void trp_envelope_write(const trp_envelope *envelope, trp_buffer *out);
// VERSION names both versions; MALFORMED.
troupe_status trp_envelope_read(trp_reader *in, trp_envelope *envelope);

extern const trp_carrier trp_remote_carrier;

// Where a process of this node has written down where it listens for other nodes.
void trp_far_path(uint32_t slot, uint64_t incarnation, char path[128]);
void trp_far_wake(void); // The thread looks what is to be done.

// ---- remote/sessionless.c

// Sends one message of no session. Where there is no room it is refused and counted, and what
// `answers` somebody else sooner than what this node begins.
void trp_far_send_loose(const char *address, trp_frame *frame, bool answers);
int trp_far_tick_loose(void); // Does what is due; ms until the next, -1: nothing is.
void trp_far_close_loose(void);

#endif
