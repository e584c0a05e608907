// ring_carrier.h: frames to other processes of the node through rings in shared memory, which
// link/ring_poller.h reads.
#ifndef TRP_LINK_RING_CARRIER_H
#define TRP_LINK_RING_CARRIER_H

#include <runtime/shm/carrier.h>

extern const trp_near_carrier trp_ring_carrier;

// Moves what waited for room into the ring to that process.
void trp_peer_refill(uint32_t process);
// The same for all; whether some still lack room in the store, as trp_peers_starved then says.
bool trp_peers_refill(void);
extern _Atomic bool trp_peers_starved;

#endif
