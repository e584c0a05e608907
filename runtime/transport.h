// transport.h: moving whole messages between processes over ZeroMQ; the only user of zmq.h.
//
// Each process has one inbound ROUTER, read by one thread, and one outbound DEALER a peer, written
// under the lock of its owner. Nothing is ever sent on the ROUTER, so a frame has one way to go.
#ifndef TRP_TRANSPORT_H
#define TRP_TRANSPORT_H

#include <runtime/buffer.h>
#include <stdbool.h>
#include <stddef.h>
#include <troupe/status.h>

// Loads libzmq, unless it is there. UNSUPPORTED: it cannot be.
troupe_status trp_transport_load(void);

// Opens the process's ZeroMQ context and binds its ROUTER to the unix socket at `path`, which must
// not exist. Larger messages than `message_bytes_max` are refused.
troupe_status trp_transport_open(const char *path, size_t message_bytes_max);

// Closes the ROUTER and the context, after all outbound sockets were closed. Messages already sent
// are given up to `linger_ms` to leave.
void trp_transport_close(void);

// Waits until a message can be read, `fd` (-1: none) can be read or has hung up, trp_transport_wake
// was called, or `timeout_ms` (negative: for ever) have passed. *fd_ready says whether `fd` was.
void trp_transport_wait(int fd, int timeout_ms, bool *fd_ready);

// Makes trp_transport_wait return. From any thread.
void trp_transport_wake(void);

// Calls `take` with the next message, if there is one; its bytes are lent until `take` returns.
bool trp_transport_receive(void (*take)(const void *data, size_t size));

typedef struct trp_outbound trp_outbound;

// A DEALER connected to the peer whose ROUTER is bound to `path`. NULL with the last error set.
trp_outbound *trp_outbound_open(const char *path);
// Sends the buffer's bytes as one message and empties the buffer. Never waits: the window of the
// caller bounds the queue.
troupe_status trp_outbound_send(trp_outbound *outbound, trp_buffer *buffer);
// Closes it; what was sent is given up to `linger_ms` to leave once the context closes.
void trp_outbound_close(trp_outbound *outbound, int linger_ms);

#endif
