// zmq_remote.h: the sockets towards other nodes (see link/zmq.h).
#ifndef TRP_LINK_ZMQ_REMOTE_H
#define TRP_LINK_ZMQ_REMOTE_H

#include <runtime/link/zmq.h>

// Writes down where the ROUTER listens. IO, CORRUPT and INVALID as the sentence says.
troupe_status trp_far_transport_open(const trp_far_how *how, char endpoint[TRP_ENDPOINT_MAX]);

// As trp_transport_close.
void trp_far_transport_close(void);

// Waits for a message (after everything that was there has been received), for
// trp_far_transport_wake, or `timeout_ms`. By one thread.
void trp_far_transport_wait(int timeout_ms);
void trp_far_transport_wake(void);
bool trp_far_transport_receive(trp_take *take);

// INVALID: the address is not in numbers.
trp_outbound *trp_far_outbound_open(const char *address);

#endif
