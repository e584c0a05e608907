// zmq.h: moving whole messages between processes over ZeroMQ; the only user of zmq.h.
//
// Each process has one inbound ROUTER, read by one thread at a time, and one outbound DEALER a
// peer, written under the lock of its owner. Nothing is ever sent on the ROUTER, so a frame has
// one way to go.
#ifndef TRP_LINK_ZMQ_H
#define TRP_LINK_ZMQ_H

#include <runtime/base/buffer.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

// How many connections that have not been let in yet a socket over tcp keeps: a quarter of the
// limit of descriptors, and TRP_CONNECTIONS_MAX at most. No connection keeps a descriptor with the
// number *fd_most, 80 % of that limit, or a larger one. What comes beyond either is cut; before
// that is done there may be TRP_CONNECTIONS_LATE more.
enum { TRP_CONNECTIONS_MAX = 4096, TRP_CONNECTIONS_LATE = 1002 };
uint32_t trp_connections_most(int *fd_most);

// Loads libzmq, unless it is there. UNSUPPORTED: it cannot be.
troupe_status trp_transport_load(void);

// Where a process can be reached is a path in the run folder: a unix socket, or over tcp a file
// that names the endpoint, on the loopback interface. Who may connect is decided by the folder
// (0700) and the peer's user id; over tcp by CURVE with the run's keys, which are in a file of that
// folder.
typedef struct trp_transport_how {
    const char *path;         // Of this process; must not exist.
    const char *keys_path;    // NULL: unix sockets. Else tcp, with the keys in that file.
    size_t message_bytes_max; // Larger ones are refused.
} trp_transport_how;

// Opens the process's ZeroMQ context and binds its ROUTER.
troupe_status trp_transport_open(const trp_transport_how *how);

// Closes the ROUTER and the context, after all outbound sockets were closed. Returns when
// they have lingered.
void trp_transport_close(void);

// Waits until there may be a message to be read (only if `reading`, and only after everything that
// was there has been received), `fd` (-1: none) can be read or has hung up, trp_transport_wake was
// called, or `timeout_ns` (negative: for ever) have passed. *fd_ready says whether `fd` was. By one
// thread.
void trp_transport_wait(bool reading, int fd, int64_t timeout_ns, bool *fd_ready);
// The same for one other thread, woken by trp_transport_wake_reader, until the monotonic time
// `deadline_ns` (negative: none).
void trp_transport_wait_reader(int64_t deadline_ns);
void trp_transport_wake_reader(void);

// Makes trp_transport_wait return. From any thread.
void trp_transport_wake(void);

// Calls `take` with the next message, if there is one; its bytes are lent until `take` returns. By
// one thread at a time.
typedef void trp_take(const void *data, size_t size);
bool trp_transport_receive(trp_take *take);

typedef struct trp_outbound trp_outbound;

// A DEALER connected to the peer that can be reached at `path`. NULL with the last error set.
trp_outbound *trp_outbound_open(const char *path);
// Sends the buffer's bytes as one message and empties the buffer. Never waits: the window of the
// caller bounds the queue.
troupe_status trp_outbound_send(trp_outbound *outbound, trp_buffer *buffer);
// Closes it; what was sent is given up to `linger_ms` to leave once the context closes.
void trp_outbound_close(trp_outbound *outbound, int linger_ms);

// ---- other nodes: a ROUTER and DEALERs of their own, over tcp, encrypted with the cluster's keys

enum { TRP_ENDPOINT_MAX = 64 }; // "host:port", with its end.

typedef struct trp_far_how {
    const char *address;         // Where to listen: "1.2.3.4:5"; port 0: any.
    const char *keys_path;       // The cluster's keys.
    size_t message_bytes_max;    // Larger ones are refused.
    _Atomic uint64_t *strangers; // Counts who was sent away.
} trp_far_how;

#endif
