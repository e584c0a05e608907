// zmq_acceptor.h: which peers are admitted to a socket over tcp (see link/zmq_internal.h).
#ifndef TRP_LINK_ZMQ_ACCEPTOR_H
#define TRP_LINK_ZMQ_ACCEPTOR_H

#include <runtime/link/zmq.h>

// How many descriptors, of `limit`, a process with so many sockets over tcp keeps for connections
// that have not been let in. It is less than may come where a quarter of the limit is less than the
// late ones of all these sockets; *short_of: the limit from which on it is not.
uint64_t trp_connections_reserve(uint64_t sockets, uint64_t limit, uint64_t *short_of);

// Makes the run's keys in a new file.
troupe_status trp_transport_keys_make(const char *keys_path);

#endif
