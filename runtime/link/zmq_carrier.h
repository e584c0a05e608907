// zmq_carrier.h: frames to other processes of the node over ZeroMQ, and what the carrier to other
// nodes has in common with that.
//
// A thread reads and writes what no other thread does. A lone frame is sent by its sender; frames
// that follow each other closely are gathered and leave together: when there are 30 KiB of them,
// when their sender waits, or at the latest when the thread comes round, which is woken for the
// first of them and then looks every 200 us for as long as there are more. A thread that waits
// reads for itself, and the I/O thread stands back.
#ifndef TRP_LINK_ZMQ_CARRIER_H
#define TRP_LINK_ZMQ_CARRIER_H

#include <runtime/link/peer_carrier.h>

extern const trp_near_carrier trp_zmq_carrier;

// ---- of peers with an `outbound`, whoever they are

// Closes it; what was gathered is sent before, unless it is not given time to leave.
void trp_sockets_disconnect(trp_peer *peer, int linger_ms);
// Asks the peers from `first` to below `end` whether everything has arrived, and waits for that.
void trp_sockets_flush(uint32_t first, uint32_t end, int64_t give_up_ms);
// Takes a FLUSH.
void trp_sockets_take_flush(const trp_frame *frame);

#endif
