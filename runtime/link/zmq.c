// zmq.c: moving whole messages between processes over ZeroMQ (see link/zmq.h).
//
// ZeroMQ loses messages silently in several ways (docs/internals/runtime/zeromq.md). What this file
// does about it: no high-water marks, since the windows of peer.c bound every queue; no routing
// ids of our own; contexts are opened after the fork; the unix sockets are ours alone
// (a 0700 folder, the peer's user id checked); sizes are checked before a socket sees them.
//
// Over tcp each process is a CURVE server and client with the one key pair of its run, and a thread
// decides which peers are admitted (link/zmq_acceptor.c). Messages travel in parts there, since
// libzmq takes as much memory for a part as its head claims, before the peer is authenticated.
// There are no heartbeats of ZeroMQ's: deaths are told otherwise, and a process that is stopped for
// a while, by a debugger say, must not lose what was sent to it.
#include <runtime/link/zmq_internal.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/library.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    RECONNECT_MS = 20,
    SLACK = 4096, // What encryption adds to a part, and more.
};

struct trp_zmq trp_zmq;

troupe_status trp_transport_load(void)
{
#define X(field, symbol) {#symbol, (char *)&trp_zmq.field},
    static const trp_library_function functions[] = {TRP_ZMQ_FUNCTIONS(X)};
#undef X
    char why[256];
    if (trp_zmq.loaded)
        return TROUPE_OK;
    if (!trp_library_load("libzmq.so.5", functions, sizeof functions / sizeof *functions, why,
                          sizeof why))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "messages over sockets (TROUPE_TRANSPORT_IPC and _TCP) need libzmq: %s",
                           why);
    trp_zmq.loaded = true;
    return TROUPE_OK;
}

struct trp_outbound {
    void *socket;
    size_t part_max; // 0: messages go whole.
};

static struct {
    void *context, *inbound;
    int inbound_fd;              // Readable when the ROUTER wants to be looked at.
    int wake_fd, reader_wake_fd; // eventfds
    bool tcp;
    size_t message_bytes_max;
    trp_doorman doorman; // Over tcp, with the run's keys.
} transport = {.inbound_fd = -1, .wake_fd = -1, .reader_wake_fd = -1};

troupe_status trp_zmq_failed(const char *what, const char *path)
{
    return troupe_fail(TROUPE_IO, "%s %s: %s", what, path, trp_zmq.strerror(trp_zmq.error()));
}

bool trp_zmq_set(void *socket, int option, int value)
{
    return trp_zmq.setsockopt(socket, option, &value, sizeof value) == 0;
}

// Whether somebody who connects there is heard: where the interface is down, or filtered, libzmq
// would try for ever.
static bool is_heard(int port)
{
    enum { LIMIT_MS = 1000 };
    struct sockaddr_in there = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t size = sizeof error;
    if (fd < 0)
        return false;
    if (connect(fd, (struct sockaddr *)&there, sizeof there) != 0)
        error = errno;
    struct pollfd item = {.fd = fd, .events = POLLOUT};
    if (error == EINPROGRESS && poll(&item, 1, LIMIT_MS) != 1)
        error = ETIMEDOUT;
    else if (error == EINPROGRESS)
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    close(fd);
    errno = error;
    return error == 0;
}

static troupe_status bind_tcp(const trp_transport_how *how)
{
    char endpoint[TRP_ENDPOINT_TEXT];
    size_t size = sizeof endpoint;
    TROUPE_TRY(trp_doorman_start(&transport.doorman, transport.context, transport.inbound,
                                 how->keys_path));
    if (trp_zmq.bind(transport.inbound, "tcp://127.0.0.1:*") != 0 ||
        trp_zmq.getsockopt(transport.inbound, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0)
        return trp_zmq_failed("cannot bind to the loopback interface for", how->path);
    trp_doorman_at(&transport.doorman, endpoint);
    if (!is_heard(atoi(strrchr(endpoint, ':') + 1)))
        return trp_fail_errno(TROUPE_IO, "the loopback interface, which TROUPE_TRANSPORT_TCP "
                                         "needs, carries nothing (is it up?)");
    return trp_text_write(how->path, endpoint);
}

static troupe_status bind_unix(const trp_transport_how *how)
{
    char endpoint[TRP_ENDPOINT_TEXT];
    uid_t user = getuid();
    snprintf(endpoint, sizeof endpoint, "ipc://%s", how->path);
    if (trp_zmq.setsockopt(transport.inbound, ZMQ_IPC_FILTER_UID, &user, sizeof user) != 0 ||
        trp_zmq.bind(transport.inbound, endpoint) != 0)
        return trp_zmq_failed("cannot bind", how->path);
    (void)chmod(how->path, 0600);
    return TROUPE_OK;
}

// ---- opening and closing

void trp_inbound_set_up(void *router, size_t message_bytes_max, size_t part_max)
{
    int64_t largest = part_max != 0                   ? (int64_t)part_max + SLACK
                      : message_bytes_max < INT64_MAX ? (int64_t)message_bytes_max
                                                      : INT64_MAX;
    trp_zmq_set(router, ZMQ_RCVHWM, 0);
    trp_zmq_set(router, ZMQ_LINGER, 0);
    trp_zmq_set(router, ZMQ_BACKLOG, BACKLOG);
    trp_zmq_set(router, ZMQ_HANDSHAKE_IVL, TRP_HANDSHAKE_MS);
    // Over tcp: a machine that vanishes without a word does not keep its connections for ever.
    trp_zmq_set(router, ZMQ_TCP_KEEPALIVE, 1);
    trp_zmq_set(router, ZMQ_TCP_KEEPALIVE_IDLE, 60);
    trp_zmq_set(router, ZMQ_TCP_KEEPALIVE_INTVL, 10);
    trp_zmq_set(router, ZMQ_TCP_KEEPALIVE_CNT, 6);
    (void)trp_zmq.setsockopt(router, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
}

// Who comes over a unix socket is this user; over tcp he may be anybody until he is let in.
static size_t transport_part(void)
{
    return transport.tcp ? TRP_PART_MAX : 0;
}

troupe_status trp_transport_open(const trp_transport_how *how)
{
    struct stat there;
    if (lstat(how->path, &there) == 0) // libzmq would unlink whatever is there.
        return troupe_fail(TROUPE_EXISTS, "cannot bind %s: a file of that name exists", how->path);
    transport.tcp = how->keys_path != NULL;
    troupe_status status =
        trp_context_begin(how->path, &transport.context, &transport.inbound, &transport.wake_fd);
    transport.reader_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (status == TROUPE_OK && transport.reader_wake_fd < 0)
        status = trp_fail_errno(TROUPE_IO, "no descriptor for wake-ups");
    if (status == TROUPE_OK) {
        transport.message_bytes_max = how->message_bytes_max;
        trp_inbound_set_up(transport.inbound, how->message_bytes_max, transport_part());
        status = transport.tcp ? bind_tcp(how) : bind_unix(how);
        size_t size = sizeof transport.inbound_fd;
        (void)trp_zmq.getsockopt(transport.inbound, ZMQ_FD, &transport.inbound_fd, &size);
    }
    if (status != TROUPE_OK)
        trp_transport_close();
    return status;
}

troupe_status trp_context_begin(const char *who, void **context, void **router, int *wake_fd)
{
    TROUPE_TRY(trp_transport_load());
    *context = trp_zmq.ctx_new();
    if (*context == NULL)
        return trp_zmq_failed("cannot open a ZeroMQ context for", who);
    (void)trp_zmq.ctx_set(*context, ZMQ_MAX_SOCKETS, TRP_SOCKETS_MAX);
    *router = trp_zmq.socket(*context, ZMQ_ROUTER);
    if (*router == NULL)
        return trp_zmq_failed("cannot open a socket for", who);
    *wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *wake_fd >= 0 ? TROUPE_OK : trp_fail_errno(TROUPE_IO, "no descriptor for wake-ups");
}

void trp_context_end(void *context, void *router, trp_doorman *man)
{
    if (router != NULL)
        (void)trp_zmq.close(router);
    if (context != NULL) // Returns once every outbound socket is closed and has lingered.
        while (trp_zmq.ctx_term(context) != 0 && trp_zmq.error() == EINTR)
            continue;
    trp_doorman_end(man);
}

void trp_transport_close(void)
{
    trp_context_end(transport.context, transport.inbound, &transport.doorman);
    if (transport.wake_fd >= 0)
        close(transport.wake_fd);
    if (transport.reader_wake_fd >= 0)
        close(transport.reader_wake_fd);
    transport.inbound = transport.context = NULL;
    transport.inbound_fd = transport.wake_fd = transport.reader_wake_fd = -1;
}

// The ROUTER's descriptor is readable while commands wait for the socket, and receiving until
// nothing is left takes all of them; so it may be polled by a thread that does not own the socket.
void trp_transport_wait(bool reading, int fd, int64_t timeout_ns, bool *fd_ready)
{
    struct pollfd items[3] = {{.fd = reading ? transport.inbound_fd : -1, .events = POLLIN},
                              {.fd = transport.wake_fd, .events = POLLIN},
                              {.fd = fd, .events = POLLIN}};
    struct timespec wait = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    bool some = ppoll(items, 3, timeout_ns < 0 ? NULL : &wait, NULL) > 0;
    if (some && items[1].revents != 0)
        (void)eventfd_read(transport.wake_fd, &(eventfd_t){0});
    *fd_ready = some && items[2].revents != 0;
}

void trp_transport_wake(void)
{
    (void)eventfd_write(transport.wake_fd, 1);
}

void trp_transport_wait_reader(int64_t deadline_ns)
{
    struct pollfd items[2] = {{.fd = transport.inbound_fd, .events = POLLIN},
                              {.fd = transport.reader_wake_fd, .events = POLLIN}};
    int64_t left = deadline_ns < 0 ? 0 : deadline_ns - trp_clock_ns();
    struct timespec wait = {left / 1000000000, left % 1000000000};
    if (left >= 0 && ppoll(items, 2, deadline_ns < 0 ? NULL : &wait, NULL) > 0 &&
        items[1].revents != 0)
        (void)eventfd_read(transport.reader_wake_fd, &(eventfd_t){0});
}

void trp_transport_wake_reader(void)
{
    (void)eventfd_write(transport.reader_wake_fd, 1);
}

// Reads one part; -1 if there is none now.
static int receive_part(void *socket, zmq_msg_t *part)
{
    int size;
    trp_zmq.msg_init(part);
    do
        size = trp_zmq.msg_recv(part, socket, ZMQ_DONTWAIT);
    while (size < 0 && trp_zmq.error() == EINTR);
    return size;
}

// Appends what is left of a message that comes in parts, whose first one is its size; the others
// are skipped once it makes no sense. Takes it, or else nothing, which is refused as that.
static void receive_parts(void *router, zmq_msg_t *part, size_t message_bytes_max, trp_take *take)
{
    uint64_t size = 0;
    size_t at = 0;
    bool good = trp_zmq.msg_size(part) == sizeof size;
    if (good)
        memcpy(&size, trp_zmq.msg_data(part), sizeof size);
    char *whole = good && size > 0 && size <= message_bytes_max ? trp_alloc(size) : NULL;
    while (trp_zmq.msg_more(part)) {
        trp_zmq.msg_close(part);
        if (receive_part(router, part) < 0)
            break;
        size_t more = trp_zmq.msg_size(part);
        good = whole != NULL && good && more <= size - at;
        if (good && more > 0)
            memcpy(whole + at, trp_zmq.msg_data(part), more);
        at += good ? more : 0;
    }
    good = good && whole != NULL && at == size;
    take(good ? whole : "", good ? size : 0);
    trp_free(whole);
}

bool trp_inbound_receive(void *router, size_t message_bytes_max, trp_take *take)
{
    zmq_msg_t part;
    // First comes the routing id that the ROUTER gave the connection.
    if (receive_part(router, &part) < 0) {
        trp_zmq.msg_close(&part);
        return false;
    }
    if (trp_zmq.msg_more(&part)) {
        trp_zmq.msg_close(&part);
        if (receive_part(router, &part) >= 0 && trp_zmq.msg_more(&part))
            receive_parts(router, &part, message_bytes_max, take);
        else
            take(trp_zmq.msg_data(&part), trp_zmq.msg_size(&part));
    }
    trp_zmq.msg_close(&part);
    return true;
}

bool trp_transport_receive(trp_take *take)
{
    return trp_inbound_receive(transport.inbound, transport.message_bytes_max, take);
}

// ---- out

trp_outbound *trp_outbound_make(void *context, const char *path, size_t part_max)
{
    int64_t answer_max = TRP_ANSWER_MAX; // Who listens there may be anybody, too.
    trp_outbound *outbound = trp_alloc(sizeof *outbound);
    if (outbound == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a connection to %s", path);
        return NULL;
    }
    outbound->part_max = part_max;
    outbound->socket = trp_zmq.socket(context, ZMQ_DEALER);
    if (outbound->socket == NULL) {
        (void)trp_zmq_failed("cannot open a socket to", path);
        trp_free(outbound);
        return NULL;
    }
    trp_zmq_set(outbound->socket, ZMQ_SNDHWM, 0);
    trp_zmq_set(outbound->socket, ZMQ_LINGER, 0);
    trp_zmq_set(outbound->socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    trp_zmq_set(outbound->socket, ZMQ_HANDSHAKE_IVL, TRP_HANDSHAKE_MS);
    (void)trp_zmq.setsockopt(outbound->socket, ZMQ_MAXMSGSIZE, &answer_max, sizeof answer_max);
    return outbound;
}

void *trp_outbound_socket(trp_outbound *outbound)
{
    return outbound->socket;
}

trp_outbound *trp_outbound_open(const char *path)
{
    char endpoint[TRP_ENDPOINT_TEXT];
    troupe_status status = TROUPE_OK;
    trp_outbound *outbound = trp_outbound_make(transport.context, path, transport_part());
    if (outbound == NULL)
        return NULL;
    if (transport.tcp) {
        status = trp_doorman_client(&transport.doorman, outbound->socket)
                     ? trp_text_read(path, endpoint, sizeof endpoint)
                     : trp_zmq_failed("cannot encrypt messages to", path);
    } else {
        snprintf(endpoint, sizeof endpoint, "ipc://%s", path);
    }
    if (status == TROUPE_OK && trp_zmq.connect(outbound->socket, endpoint) != 0)
        status = trp_zmq_failed("cannot connect to", path);
    if (status == TROUPE_OK)
        return outbound;
    trp_outbound_close(outbound, 0);
    return NULL;
}

static void free_bytes(void *data, void *hint)
{
    (void)hint;
    trp_free(data);
}

// The bytes of a message that leaves in parts: the last of them to have left frees all.
typedef struct shared_bytes {
    _Atomic size_t parts;
    void *data;
} shared_bytes;

static void free_part(void *data, void *hint)
{
    shared_bytes *shared = hint;
    (void)data;
    if (atomic_fetch_sub(&shared->parts, 1) != 1)
        return;
    trp_free(shared->data);
    trp_free(shared);
}

// Takes the message.
static troupe_status send_part(trp_outbound *outbound, zmq_msg_t *part, int flags)
{
    int sent;
    do
        sent = trp_zmq.msg_send(part, outbound->socket, ZMQ_DONTWAIT | flags);
    while (sent < 0 && trp_zmq.error() == EINTR);
    if (sent >= 0)
        return TROUPE_OK;
    trp_zmq.msg_close(part);
    return troupe_fail(TROUPE_IO, "a message could not be sent: %s",
                       trp_zmq.strerror(trp_zmq.error()));
}

// Makes the parts of a message, the first of which is its size; the bytes are freed with the last.
static bool make_parts(zmq_msg_t *parts, size_t count, uint64_t size, size_t part_max,
                       shared_bytes *shared)
{
    size_t made = 0;
    if (trp_zmq.msg_init_size(&parts[made], sizeof size) == 0)
        memcpy(trp_zmq.msg_data(&parts[made++]), &size, sizeof size);
    for (size_t at = 0; made > 0 && made < count; at += part_max) {
        size_t left = size - at, length = left < part_max ? left : part_max;
        if (trp_zmq.msg_init_data(&parts[made], (char *)shared->data + at, length, free_part,
                                  shared) != 0)
            break;
        made++;
    }
    if (made == count)
        return true;
    for (size_t i = made == 0 ? 1 : made; i < count; i++)
        free_part(NULL, shared);
    for (size_t i = 0; i < made; i++)
        trp_zmq.msg_close(&parts[i]);
    return false;
}

// All parts are there before the first is sent: what follows half a message would be part of it.
static troupe_status send_parts(trp_outbound *outbound, trp_buffer *buffer)
{
    size_t part_max = outbound->part_max, count = 1 + (buffer->size + part_max - 1) / part_max;
    shared_bytes *shared = trp_alloc(sizeof *shared);
    zmq_msg_t *parts = trp_alloc(count * sizeof *parts);
    uint64_t size = buffer->size;
    buffer->size = 0;
    bool made = shared != NULL && parts != NULL;
    if (made) {
        *shared = (shared_bytes){.parts = count - 1, .data = buffer->data};
        *buffer = (trp_buffer){0};
        made = make_parts(parts, count, size, part_max, shared);
    } else {
        trp_free(shared);
    }
    troupe_status status =
        made ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a message");
    for (size_t i = 0; made && i < count; i++)
        if (status == TROUPE_OK)
            status = send_part(outbound, &parts[i], i + 1 < count ? ZMQ_SNDMORE : 0);
        else
            trp_zmq.msg_close(&parts[i]);
    trp_free(parts);
    return status;
}

troupe_status trp_outbound_send(trp_outbound *outbound, trp_buffer *buffer)
{
    enum { COPIED_MAX = 65536 }; // Below, a copy is cheaper than memory that has to grow again.
    zmq_msg_t message;
    int made;
    if (outbound->part_max != 0 && buffer->size > outbound->part_max)
        return send_parts(outbound, buffer);
    if (buffer->size <= COPIED_MAX) {
        made = trp_zmq.msg_init_size(&message, buffer->size);
        if (made == 0 && buffer->size > 0)
            __builtin_memcpy(trp_zmq.msg_data(&message), buffer->data, buffer->size);
    } else {
        made = trp_zmq.msg_init_data(&message, buffer->data, buffer->size, free_bytes, NULL);
        if (made == 0)
            *buffer = (trp_buffer){0};
    }
    buffer->size = 0;
    if (made != 0)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message");
    return send_part(outbound, &message, 0);
}

void trp_outbound_close(trp_outbound *outbound, int linger_ms)
{
    trp_zmq_set(outbound->socket, ZMQ_LINGER, linger_ms);
    (void)trp_zmq.close(outbound->socket);
    trp_free(outbound);
}
