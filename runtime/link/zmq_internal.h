// zmq_internal.h: what the parts of the transport share: libzmq's functions, keys, and the
// admission of peers. For link/zmq.c, link/zmq_acceptor.c and link/zmq_remote.c only.
#ifndef TRP_LINK_ZMQ_INTERNAL_H
#define TRP_LINK_ZMQ_INTERNAL_H

#include <pthread.h>
#include <runtime/link/keys.h>
#include <runtime/link/zmq.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

enum {
    TRP_SOCKETS_MAX = 8192, // A process may talk with every other of its node.
    TRP_KEY_SIZE = 32,
    TRP_ENDPOINT_TEXT = 160,
    // Whoever connects and is not let in by then is sent away.
    TRP_HANDSHAKE_MS = 3000,
    // Over tcp no part may be larger, since libzmq takes what a part claims to have before it knows
    // who claims it. Larger messages go in parts of that size: who has the keys may send any number
    // of them, which libzmq keeps until the last has come.
    TRP_PART_MAX = 65536,
    TRP_ANSWER_MAX = 4096, // Nothing but handshakes comes back on a DEALER.
};

// libzmq is loaded when it is first asked for: over rings nobody needs it, and it brings fifteen
// libraries along, which would make every start and every fork of a worker dearer.
// clang-format off
#define TRP_ZMQ_FUNCTIONS(X) \
    X(bind, zmq_bind) X(close, zmq_close) X(connect, zmq_connect) \
    X(ctx_new, zmq_ctx_new) X(ctx_set, zmq_ctx_set) X(ctx_term, zmq_ctx_term) \
    X(error, zmq_errno) X(msg_close, zmq_msg_close) X(msg_data, zmq_msg_data) \
    X(msg_init, zmq_msg_init) X(msg_init_data, zmq_msg_init_data) X(msg_init_size, zmq_msg_init_size) \
    X(msg_more, zmq_msg_more) X(msg_recv, zmq_msg_recv) X(msg_send, zmq_msg_send) \
    X(msg_size, zmq_msg_size) X(getsockopt, zmq_getsockopt) X(poll, zmq_poll) X(recv, zmq_recv) \
    X(send, zmq_send) X(setsockopt, zmq_setsockopt) X(curve_keypair, zmq_curve_keypair) \
    X(z85_decode, zmq_z85_decode) X(socket, zmq_socket) X(socket_monitor, zmq_socket_monitor) \
    X(strerror, zmq_strerror)
// clang-format on

#define X(field, symbol) __typeof__(&symbol) field;
struct trp_zmq {
    bool loaded;
    TRP_ZMQ_FUNCTIONS(X)
};
#undef X
extern struct trp_zmq trp_zmq;

troupe_status trp_zmq_failed(const char *what, const char *path);
bool trp_zmq_set(void *socket, int option, int value);

// ---- link/zmq_acceptor.c: keys, and who is let in

// Watches the connections of a ROUTER: says whose key may come in, and cuts those for which there
// is no room. Zeros, but for `strangers`, before trp_doorman_start.
typedef struct trp_doorman {
    pthread_t thread;
    bool runs;
    void *requests, *events; // Of the thread, once it runs.
    uint8_t key[TRP_KEY_SIZE];
    trp_key_pair *keys;
    _Atomic uint64_t *strangers; // Counts who was sent away; NULL: nobody wants to know.
    _Atomic uint32_t port;       // Where the ROUTER listens; 0: not yet.
    int spare_fd, base_fd;       // A descriptor that is always free for a look at another one.
    struct trp_visit *held;      // Connections that have not ended,
    uint32_t held_count, most;   // so many, and how many young ones there may be.
    int fd_most;                 // No connection's descriptor may be that, or above.
    bool failing;                // The connection that ends next was not let in.
    uint32_t young;              // Of those held, who may not have been let in yet.
    // All that were made, were let in, and are known not to have been; and those that were counted.
    uint64_t made, let_in, failed, counted;
    uint64_t cuts; // For want of room, since that was told last;
    int64_t told_ms;
} trp_doorman;

// Reads the keys, makes the ROUTER a server with them, and starts the thread that lets in who has
// them: before the bind, since a server without it lets everybody in.
troupe_status trp_doorman_start(trp_doorman *man, void *context, void *router,
                                const char *keys_path);
// After the end of the context, which ends the thread.
void trp_doorman_end(trp_doorman *man);
// The ROUTER is bound to that endpoint.
void trp_doorman_at(trp_doorman *man, const char *endpoint);
// Makes a DEALER a client with the keys.
bool trp_doorman_client(const trp_doorman *man, void *dealer);

// ---- link/zmq.c, for the other parts

// `part_max` 0: messages come whole.
void trp_inbound_set_up(void *router, size_t message_bytes_max, size_t part_max);
bool trp_inbound_receive(void *router, size_t message_bytes_max, trp_take *take);
// A DEALER that is not connected yet. NULL with the last error set.
trp_outbound *trp_outbound_make(void *context, const char *path, size_t part_max);
void *trp_outbound_socket(trp_outbound *outbound);
// Begins a context with a ROUTER that is not bound, and an eventfd by which its reader is woken.
// What there is of them where it fails is closed as ever.
troupe_status trp_context_begin(const char *who, void **context, void **router, int *wake_fd);
// Closes the ROUTER and ends the context, when its sockets have lingered, and the doorman with it.
void trp_context_end(void *context, void *router, trp_doorman *man);

#endif
