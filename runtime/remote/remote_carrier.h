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

#endif
