// handshake.h: how sessions with other nodes begin (see remote/session.h).
#ifndef TRP_REMOTE_HANDSHAKE_H
#define TRP_REMOTE_HANDSHAKE_H

#include <runtime/remote/session.h>

// Somebody speaks another version: joins that nobody answers say so.
void trp_nodes_misunderstood(const char *text);

#endif
