// transport.c: moving whole messages between processes over ZeroMQ (see transport.h).
//
// ZeroMQ loses messages silently in several ways (docs/design.md, "Over ZeroMQ"). What this file
// does about it: no high-water marks, since the windows of process.c bound every queue; no routing
// ids of our own; one context a process, opened after the fork; the unix sockets are ours alone
// (a 0700 folder, the peer's user id checked); sizes are checked before a socket sees them.
#include <runtime/transport.h>

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <runtime/memory.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

enum {
    SOCKETS_MAX = 8192, // A process may talk with every other of its node.
    BACKLOG = 1024,
    RECONNECT_MS = 20,
};

// libzmq is loaded when it is first asked for: over rings nobody needs it, and it brings fifteen
// libraries along, which would make every start and every fork of a worker dearer.
// clang-format off
#define FUNCTIONS(X) \
    X(bind, zmq_bind) X(close, zmq_close) X(connect, zmq_connect) \
    X(ctx_new, zmq_ctx_new) X(ctx_set, zmq_ctx_set) X(ctx_term, zmq_ctx_term) \
    X(error, zmq_errno) X(msg_close, zmq_msg_close) X(msg_data, zmq_msg_data) \
    X(msg_init, zmq_msg_init) X(msg_init_data, zmq_msg_init_data) X(msg_init_size, zmq_msg_init_size) \
    X(msg_more, zmq_msg_more) X(msg_recv, zmq_msg_recv) X(msg_send, zmq_msg_send) \
    X(msg_size, zmq_msg_size) X(poll, zmq_poll) X(setsockopt, zmq_setsockopt) \
    X(socket, zmq_socket) X(strerror, zmq_strerror)
// clang-format on

#define X(field, symbol) __typeof__(&symbol) field;
static struct {
    bool loaded;
    FUNCTIONS(X)
} zmq;
#undef X

troupe_status trp_transport_load(void)
{
#define X(field, symbol) {#symbol, (char *)&zmq.field},
    static const struct {
        const char *symbol;
        char *field;
    } functions[] = {FUNCTIONS(X)};
#undef X
    if (zmq.loaded)
        return TROUPE_OK;
    void *library = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library != NULL && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].symbol);
        if (found == NULL)
            library = NULL;
        memcpy(functions[i].field, &found, sizeof found);
    }
    if (library == NULL)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "messages over sockets (TROUPE_TRANSPORT_IPC) need libzmq: %s",
                           dlerror());
    zmq.loaded = true;
    return TROUPE_OK;
}

struct trp_outbound {
    void *socket;
};

static struct {
    void *context;
    void *inbound;
    int wake_fd; // eventfd
} transport = {.wake_fd = -1};

static troupe_status failed(const char *what, const char *path)
{
    return troupe_fail(TROUPE_IO, "%s %s: %s", what, path, zmq.strerror(zmq.error()));
}

static void set_int(void *socket, int option, int value)
{
    (void)zmq.setsockopt(socket, option, &value, sizeof value);
}

troupe_status trp_transport_open(const char *path, size_t message_bytes_max)
{
    struct stat there;
    if (lstat(path, &there) == 0) // libzmq would unlink whatever is there.
        return troupe_fail(TROUPE_EXISTS, "cannot bind %s: a file of that name exists", path);

    TROUPE_TRY(trp_transport_load());
    transport.context = zmq.ctx_new();
    if (transport.context == NULL)
        return failed("cannot open a ZeroMQ context for", path);
    (void)zmq.ctx_set(transport.context, ZMQ_MAX_SOCKETS, SOCKETS_MAX);

    transport.inbound = zmq.socket(transport.context, ZMQ_ROUTER);
    transport.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (transport.inbound == NULL || transport.wake_fd < 0) {
        troupe_status status = failed("cannot open a socket for", path);
        trp_transport_close();
        return status;
    }
    set_int(transport.inbound, ZMQ_RCVHWM, 0);
    set_int(transport.inbound, ZMQ_LINGER, 0);
    set_int(transport.inbound, ZMQ_BACKLOG, BACKLOG);
    int64_t largest = (int64_t)message_bytes_max;
    (void)zmq.setsockopt(transport.inbound, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
    uid_t user = getuid();
    (void)zmq.setsockopt(transport.inbound, ZMQ_IPC_FILTER_UID, &user, sizeof user);

    char endpoint[160];
    snprintf(endpoint, sizeof endpoint, "ipc://%s", path);
    if (zmq.bind(transport.inbound, endpoint) != 0) {
        troupe_status status = failed("cannot bind", path);
        trp_transport_close();
        return status;
    }
    (void)chmod(path, 0600);
    return TROUPE_OK;
}

void trp_transport_close(void)
{
    if (transport.inbound != NULL)
        (void)zmq.close(transport.inbound);
    if (transport.context != NULL) // Returns once every outbound socket is closed and has lingered.
        while (zmq.ctx_term(transport.context) != 0 && zmq.error() == EINTR)
            continue;
    if (transport.wake_fd >= 0)
        close(transport.wake_fd);
    transport.inbound = transport.context = NULL;
    transport.wake_fd = -1;
}

void trp_transport_wait(int fd, int timeout_ms, bool *fd_ready)
{
    zmq_pollitem_t items[3] = {
        {.socket = transport.inbound, .events = ZMQ_POLLIN},
        {.fd = transport.wake_fd, .events = ZMQ_POLLIN},
        {.fd = fd, .events = ZMQ_POLLIN},
    };
    (void)zmq.poll(items, fd >= 0 ? 3 : 2, timeout_ms);
    if (items[1].revents != 0) {
        uint64_t count;
        (void)!read(transport.wake_fd, &count, sizeof count);
    }
    *fd_ready = fd >= 0 && items[2].revents != 0;
}

void trp_transport_wake(void)
{
    uint64_t one = 1;
    (void)!write(transport.wake_fd, &one, sizeof one);
}

// Reads one part; -1 if there is none now.
static int receive_part(zmq_msg_t *part)
{
    int size;
    zmq.msg_init(part);
    do
        size = zmq.msg_recv(part, transport.inbound, ZMQ_DONTWAIT);
    while (size < 0 && zmq.error() == EINTR);
    return size;
}

bool trp_transport_receive(void (*take)(const void *data, size_t size))
{
    zmq_msg_t part;
    if (receive_part(&part) <
        0) { // First comes the routing id that the ROUTER gave the connection.
        zmq.msg_close(&part);
        return false;
    }
    int parts = 1;
    while (zmq.msg_more(&part)) {
        zmq.msg_close(&part);
        if (receive_part(&part) < 0)
            break;
        // A frame is the second part and the last; more parts are not ours and are skipped.
        if (++parts == 2 && !zmq.msg_more(&part))
            take(zmq.msg_data(&part), zmq.msg_size(&part));
    }
    zmq.msg_close(&part);
    return true;
}

trp_outbound *trp_outbound_open(const char *path)
{
    trp_outbound *outbound = trp_alloc(sizeof *outbound);
    if (outbound == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a connection to %s", path);
        return NULL;
    }
    outbound->socket = zmq.socket(transport.context, ZMQ_DEALER);
    if (outbound->socket == NULL) {
        (void)failed("cannot open a socket to", path);
        trp_free(outbound);
        return NULL;
    }
    set_int(outbound->socket, ZMQ_SNDHWM, 0);
    set_int(outbound->socket, ZMQ_LINGER, 0);
    set_int(outbound->socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    char endpoint[160];
    snprintf(endpoint, sizeof endpoint, "ipc://%s", path);
    if (zmq.connect(outbound->socket, endpoint) != 0) {
        (void)failed("cannot connect to", path);
        trp_outbound_close(outbound, 0);
        return NULL;
    }
    return outbound;
}

static void free_bytes(void *data, void *hint)
{
    (void)hint;
    trp_free(data);
}

troupe_status trp_outbound_send(trp_outbound *outbound, trp_buffer *buffer)
{
    enum { COPIED_MAX = 4096 }; // Below, a copy is cheaper than giving the memory away.
    zmq_msg_t message;
    int made;
    if (buffer->size <= COPIED_MAX) {
        made = zmq.msg_init_size(&message, buffer->size);
        if (made == 0 && buffer->size > 0)
            __builtin_memcpy(zmq.msg_data(&message), buffer->data, buffer->size);
    } else {
        made = zmq.msg_init_data(&message, buffer->data, buffer->size, free_bytes, NULL);
        if (made == 0)
            *buffer = (trp_buffer){0};
    }
    buffer->size = 0;
    if (made != 0)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message");
    int sent;
    do
        sent = zmq.msg_send(&message, outbound->socket, ZMQ_DONTWAIT);
    while (sent < 0 && zmq.error() == EINTR);
    if (sent >= 0)
        return TROUPE_OK;
    zmq.msg_close(&message);
    return troupe_fail(TROUPE_IO, "a message could not be sent: %s", zmq.strerror(zmq.error()));
}

void trp_outbound_close(trp_outbound *outbound, int linger_ms)
{
    set_int(outbound->socket, ZMQ_LINGER, linger_ms);
    (void)zmq.close(outbound->socket);
    trp_free(outbound);
}
