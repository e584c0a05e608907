// transport.c: moving whole messages between processes over ZeroMQ (see transport.h).
//
// ZeroMQ loses messages silently in several ways (docs/design.md, "Over ZeroMQ"). What this file
// does about it: no high-water marks, since the windows of peer.c bound every queue; no routing
// ids of our own; contexts are opened after the fork; the unix sockets are ours alone
// (a 0700 folder, the peer's user id checked); sizes are checked before a socket sees them.
//
// Over tcp each process is a CURVE server and client with the one key pair of its run. A CURVE
// server lets in whoever knows its public key unless somebody says otherwise: here that is a thread
// that answers ZeroMQ's authentication requests (ZAP, RFC 27) and lets in the run's own key alone.
// There are no heartbeats of ZeroMQ's: deaths are told otherwise, and a process that is stopped for
// a while, by a debugger say, must not lose what was sent to it.
#include <runtime/transport.h>

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/clock.h>
#include <runtime/error.h>
#include <runtime/keys.h>
#include <runtime/memory.h>
#include <runtime/thread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

enum {
    SOCKETS_MAX = 8192, // A process may talk with every other of its node.
    BACKLOG = 1024,
    RECONNECT_MS = 20,
    RECONNECT_MAX_MS = 500, // To another node, which may be away for long.
    KEY_SIZE = 32,
    ENDPOINT_MAX = 160,
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
    X(msg_size, zmq_msg_size) X(getsockopt, zmq_getsockopt) X(recv, zmq_recv) X(send, zmq_send) \
    X(setsockopt, zmq_setsockopt) X(curve_keypair, zmq_curve_keypair) X(z85_decode, zmq_z85_decode) \
    X(socket, zmq_socket) X(socket_monitor, zmq_socket_monitor) X(strerror, zmq_strerror)
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
                           "messages over sockets (TROUPE_TRANSPORT_IPC and _TCP) need libzmq: %s",
                           dlerror());
    zmq.loaded = true;
    return TROUPE_OK;
}

struct trp_outbound {
    void *socket;
};

// Who says which key may come in.
typedef struct doorman {
    pthread_t thread;
    bool runs;
    void *socket;
    uint8_t key[KEY_SIZE];
    _Atomic uint64_t *strangers; // How many others were refused; NULL: nobody wants to know.
} doorman;

static struct {
    void *context, *inbound;
    int inbound_fd;              // Readable when the ROUTER wants to be looked at.
    int wake_fd, reader_wake_fd; // eventfds
    bool tcp;
    trp_key_pair keys; // The run's, over tcp.
    doorman doorman;
} transport = {.inbound_fd = -1, .wake_fd = -1, .reader_wake_fd = -1};

// The way to other nodes: a context of its own, since its doorman knows another key.
static struct {
    void *context, *inbound, *monitor;
    int inbound_fd, monitor_fd, wake_fd;
    trp_key_pair keys; // The cluster's.
    doorman doorman;
} far = {.inbound_fd = -1, .monitor_fd = -1, .wake_fd = -1};

static troupe_status failed(const char *what, const char *path)
{
    return troupe_fail(TROUPE_IO, "%s %s: %s", what, path, zmq.strerror(zmq.error()));
}

static bool set_int(void *socket, int option, int value)
{
    return zmq.setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_key(void *socket, int option, const char *key)
{
    return zmq.setsockopt(socket, option, key, TRP_KEY_TEXT) == 0;
}

// ---- tcp: keys, endpoints, and who is let in

troupe_status trp_transport_keys_make(const char *keys_path)
{
    trp_key_pair keys;
    TROUPE_TRY(trp_transport_load());
    if (zmq.curve_keypair(keys.public_key, keys.secret_key) != 0)
        return failed("no keys can be made for", keys_path);
    return trp_keys_write(keys_path, &keys);
}

// Reads one part of an authentication request; *more says whether another follows.
static int read_part(void *socket, void *part, size_t capacity, bool *more)
{
    int again = 0;
    size_t size = sizeof again;
    int got;
    do
        got = zmq.recv(socket, part, capacity, 0);
    while (got < 0 && zmq.error() == EINTR);
    if (got >= 0)
        (void)zmq.getsockopt(socket, ZMQ_RCVMORE, &again, &size);
    *more = again != 0;
    return got;
}

// One request: [version, id, domain, address, identity, mechanism, key]. False: the context ends.
static bool answer_request(void *socket, const doorman *man)
{
    enum { ID = 1, MECHANISM = 5, KEY = 6, PARTS = 7 };
    char id[256], mechanism[16] = "";
    uint8_t offered[KEY_SIZE] = {0};
    size_t id_size = 0;
    int parts = 0, key_size = 0;
    for (bool more = true; more; parts++) {
        char other[256];
        int got;
        if (parts == ID) {
            got = read_part(socket, id, sizeof id, &more);
            id_size = got > 0 ? (size_t)got < sizeof id ? (size_t)got : sizeof id : 0;
        } else if (parts == MECHANISM) {
            got = read_part(socket, mechanism, sizeof mechanism - 1, &more);
        } else if (parts == KEY) {
            got = key_size = read_part(socket, offered, sizeof offered, &more);
        } else {
            got = read_part(socket, other, sizeof other, &more);
        }
        if (got < 0)
            return false;
    }
    bool known = parts == PARTS && strcmp(mechanism, "CURVE") == 0 && key_size == KEY_SIZE &&
                 memcmp(offered, man->key, KEY_SIZE) == 0;
    if (!known && man->strangers != NULL)
        atomic_fetch_add(man->strangers, 1);
    return zmq.send(socket, "1.0", 3, ZMQ_SNDMORE) >= 0 &&
           zmq.send(socket, id, id_size, ZMQ_SNDMORE) >= 0 &&
           zmq.send(socket, known ? "200" : "400", 3, ZMQ_SNDMORE) >= 0 &&
           zmq.send(socket, known ? "OK" : "unknown key", known ? 2 : 11, ZMQ_SNDMORE) >= 0 &&
           zmq.send(socket, "", 0, ZMQ_SNDMORE) >= 0 && zmq.send(socket, "", 0, 0) >= 0;
}

static void *doorman_main(void *user)
{
    const doorman *man = user;
    (void)prctl(PR_SET_NAME, "troupe-zap");
    while (answer_request(man->socket, man))
        continue;
    (void)zmq.close(man->socket);
    return NULL;
}

// Before the bind: a server without it lets everybody in.
static troupe_status start_doorman(void *context, doorman *man)
{
    man->socket = zmq.socket(context, ZMQ_REP);
    if (man->socket == NULL)
        return failed("cannot open a socket for", "authentication");
    set_int(man->socket, ZMQ_LINGER, 0);
    static const char place[] = "inproc://zeromq.zap.01";
    troupe_status status = zmq.bind(man->socket, place) == 0
                               ? trp_thread_start(&man->thread, "troupe-door", doorman_main, man)
                               : failed("cannot bind", place);
    man->runs = status == TROUPE_OK;
    if (!man->runs)
        (void)zmq.close(man->socket);
    return status;
}

// A socket without its keys would speak in the clear, to everybody: so nothing of it may fail.
static troupe_status make_server(void *context, void *socket, const char *path, bool secret,
                                 trp_key_pair *keys, doorman *man)
{
    uint8_t decoded[KEY_SIZE];
    TROUPE_TRY(trp_keys_read(path, secret, keys));
    if (zmq.z85_decode(man->key, keys->public_key) == NULL ||
        zmq.z85_decode(decoded, keys->secret_key) == NULL)
        return troupe_fail(TROUPE_CORRUPT, "%s does not hold two keys: they are no Z85", path);
    if (!set_int(socket, ZMQ_CURVE_SERVER, 1) ||
        !set_key(socket, ZMQ_CURVE_SECRETKEY, keys->secret_key))
        return failed("cannot encrypt with the keys in", path);
    return start_doorman(context, man);
}

static bool make_client(void *socket, const trp_key_pair *keys)
{
    return set_key(socket, ZMQ_CURVE_SERVERKEY, keys->public_key) &&
           set_key(socket, ZMQ_CURVE_PUBLICKEY, keys->public_key) &&
           set_key(socket, ZMQ_CURVE_SECRETKEY, keys->secret_key);
}

static troupe_status bind_tcp(const trp_transport_how *how)
{
    char endpoint[ENDPOINT_MAX];
    size_t size = sizeof endpoint;
    TROUPE_TRY(make_server(transport.context, transport.inbound, how->keys_path, false,
                           &transport.keys, &transport.doorman));
    if (zmq.bind(transport.inbound, "tcp://127.0.0.1:*") != 0 ||
        zmq.getsockopt(transport.inbound, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0)
        return failed("cannot bind to the loopback interface for", how->path);
    return trp_text_write(how->path, endpoint);
}

static troupe_status bind_unix(const trp_transport_how *how)
{
    char endpoint[ENDPOINT_MAX];
    uid_t user = getuid();
    snprintf(endpoint, sizeof endpoint, "ipc://%s", how->path);
    if (zmq.setsockopt(transport.inbound, ZMQ_IPC_FILTER_UID, &user, sizeof user) != 0 ||
        zmq.bind(transport.inbound, endpoint) != 0)
        return failed("cannot bind", how->path);
    (void)chmod(how->path, 0600);
    return TROUPE_OK;
}

// ---- opening and closing

static void set_up_inbound(void *socket, size_t message_bytes_max)
{
    int64_t largest = (int64_t)message_bytes_max;
    set_int(socket, ZMQ_RCVHWM, 0);
    set_int(socket, ZMQ_LINGER, 0);
    set_int(socket, ZMQ_BACKLOG, BACKLOG);
    (void)zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
}

troupe_status trp_transport_open(const trp_transport_how *how)
{
    struct stat there;
    if (lstat(how->path, &there) == 0) // libzmq would unlink whatever is there.
        return troupe_fail(TROUPE_EXISTS, "cannot bind %s: a file of that name exists", how->path);
    TROUPE_TRY(trp_transport_load());
    transport.tcp = how->keys_path != NULL;
    transport.context = zmq.ctx_new();
    if (transport.context == NULL)
        return failed("cannot open a ZeroMQ context for", how->path);
    (void)zmq.ctx_set(transport.context, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    transport.inbound = zmq.socket(transport.context, ZMQ_ROUTER);
    transport.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    troupe_status status = TROUPE_OK;
    transport.reader_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (transport.inbound == NULL || transport.wake_fd < 0 || transport.reader_wake_fd < 0) {
        status = failed("cannot open a socket for", how->path);
    } else {
        set_up_inbound(transport.inbound, how->message_bytes_max);
        status = transport.tcp ? bind_tcp(how) : bind_unix(how);
        size_t size = sizeof transport.inbound_fd;
        (void)zmq.getsockopt(transport.inbound, ZMQ_FD, &transport.inbound_fd, &size);
    }
    if (status != TROUPE_OK)
        trp_transport_close();
    return status;
}

static void end_context(void *context, void *inbound, doorman *man)
{
    if (inbound != NULL)
        (void)zmq.close(inbound);
    if (context != NULL) // Returns once every outbound socket is closed and has lingered.
        while (zmq.ctx_term(context) != 0 && zmq.error() == EINTR)
            continue;
    if (man->runs) // The end of the context has ended it.
        pthread_join(man->thread, NULL);
    man->runs = false;
}

void trp_transport_close(void)
{
    end_context(transport.context, transport.inbound, &transport.doorman);
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
    zmq.msg_init(part);
    do
        size = zmq.msg_recv(part, socket, ZMQ_DONTWAIT);
    while (size < 0 && zmq.error() == EINTR);
    return size;
}

static bool receive(void *socket, trp_take *take)
{
    zmq_msg_t part;
    // First comes the routing id that the ROUTER gave the connection.
    if (receive_part(socket, &part) < 0) {
        zmq.msg_close(&part);
        return false;
    }
    int parts = 1;
    while (zmq.msg_more(&part)) {
        zmq.msg_close(&part);
        if (receive_part(socket, &part) < 0)
            break;
        // A frame is the second part and the last; more parts are not ours and are skipped.
        if (++parts == 2 && !zmq.msg_more(&part))
            take(zmq.msg_data(&part), zmq.msg_size(&part));
    }
    zmq.msg_close(&part);
    return true;
}

bool trp_transport_receive(trp_take *take)
{
    return receive(transport.inbound, take);
}

// A DEALER that is not connected yet. NULL with the last error set.
static trp_outbound *make_outbound(void *context, const char *path)
{
    trp_outbound *outbound = trp_alloc(sizeof *outbound);
    if (outbound == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a connection to %s", path);
        return NULL;
    }
    outbound->socket = zmq.socket(context, ZMQ_DEALER);
    if (outbound->socket == NULL) {
        (void)failed("cannot open a socket to", path);
        trp_free(outbound);
        return NULL;
    }
    set_int(outbound->socket, ZMQ_SNDHWM, 0);
    set_int(outbound->socket, ZMQ_LINGER, 0);
    set_int(outbound->socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    return outbound;
}

trp_outbound *trp_outbound_open(const char *path)
{
    char endpoint[ENDPOINT_MAX];
    troupe_status status = TROUPE_OK;
    trp_outbound *outbound = make_outbound(transport.context, path);
    if (outbound == NULL)
        return NULL;
    if (transport.tcp) {
        status = make_client(outbound->socket, &transport.keys)
                     ? trp_text_read(path, endpoint, sizeof endpoint)
                     : failed("cannot encrypt messages to", path);
    } else {
        snprintf(endpoint, sizeof endpoint, "ipc://%s", path);
    }
    if (status == TROUPE_OK && zmq.connect(outbound->socket, endpoint) != 0)
        status = failed("cannot connect to", path);
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

troupe_status trp_outbound_send(trp_outbound *outbound, trp_buffer *buffer)
{
    enum { COPIED_MAX = 65536 }; // Below, a copy is cheaper than memory that has to grow again.
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

// ---- other nodes

// Who has another server's key fails before the doorman is asked. What says so waits until it is
// read, so there has to be a reader before there is anything to say.
static troupe_status watch_strangers(void)
{
    static const char where[] = "inproc://strangers";
    size_t size = sizeof far.monitor_fd;
    far.monitor = zmq.socket(far.context, ZMQ_PAIR);
    if (far.monitor != NULL)
        set_int(far.monitor, ZMQ_RCVHWM, 0);
    if (far.monitor == NULL ||
        zmq.socket_monitor(far.inbound, where, ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) != 0 ||
        zmq.connect(far.monitor, where) != 0)
        return failed("cannot watch", "who comes in");
    (void)zmq.getsockopt(far.monitor, ZMQ_FD, &far.monitor_fd, &size);
    return TROUPE_OK;
}

// The second part of an event is an address.
static void count_strangers(void)
{
    zmq_msg_t part;
    while (receive_part(far.monitor, &part) >= 0) {
        if (zmq.msg_more(&part))
            atomic_fetch_add(far.doorman.strangers, 1);
        zmq.msg_close(&part);
    }
    zmq.msg_close(&part);
}

static troupe_status bind_far(const trp_far_how *how, char endpoint[TRP_ENDPOINT_MAX])
{
    char wanted[TRP_ENDPOINT_MAX + 8], bound[ENDPOINT_MAX];
    size_t size = sizeof bound;
    far.doorman.strangers = how->strangers;
    TROUPE_TRY(
        make_server(far.context, far.inbound, how->keys_path, true, &far.keys, &far.doorman));
    TROUPE_TRY(watch_strangers());
    set_up_inbound(far.inbound, how->message_bytes_max);
    snprintf(wanted, sizeof wanted, "tcp://%s", how->address);
    if (zmq.bind(far.inbound, wanted) != 0 ||
        zmq.getsockopt(far.inbound, ZMQ_LAST_ENDPOINT, bound, &size) != 0)
        return failed("cannot listen at", how->address);
    snprintf(endpoint, TRP_ENDPOINT_MAX, "%.*s", TRP_ENDPOINT_MAX - 1, bound + strlen("tcp://"));
    size = sizeof far.inbound_fd;
    (void)zmq.getsockopt(far.inbound, ZMQ_FD, &far.inbound_fd, &size);
    return TROUPE_OK;
}

troupe_status trp_far_transport_open(const trp_far_how *how, char endpoint[TRP_ENDPOINT_MAX])
{
    TROUPE_TRY(trp_transport_load());
    far.context = zmq.ctx_new();
    if (far.context == NULL)
        return failed("cannot open a ZeroMQ context for", how->address);
    (void)zmq.ctx_set(far.context, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    far.inbound = zmq.socket(far.context, ZMQ_ROUTER);
    far.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    troupe_status status = far.inbound == NULL || far.wake_fd < 0
                               ? failed("cannot open a socket for", how->address)
                               : bind_far(how, endpoint);
    if (status != TROUPE_OK)
        trp_far_transport_close();
    return status;
}

void trp_far_transport_close(void)
{
    if (far.inbound != NULL)
        (void)zmq.close(far.inbound);
    // After the socket, whose last event it takes.
    end_context(far.context, far.monitor, &far.doorman);
    if (far.wake_fd >= 0)
        close(far.wake_fd);
    far.inbound = far.monitor = far.context = NULL;
    far.inbound_fd = far.monitor_fd = far.wake_fd = -1;
}

void trp_far_transport_wait(int timeout_ms)
{
    struct pollfd items[3] = {{.fd = far.inbound_fd, .events = POLLIN},
                              {.fd = far.wake_fd, .events = POLLIN},
                              {.fd = far.monitor_fd, .events = POLLIN}};
    if (poll(items, 3, timeout_ms) > 0 && items[1].revents != 0)
        (void)eventfd_read(far.wake_fd, &(eventfd_t){0});
    count_strangers();
}

void trp_far_transport_wake(void)
{
    (void)eventfd_write(far.wake_fd, 1);
}

bool trp_far_transport_receive(trp_take *take)
{
    return receive(far.inbound, take);
}

trp_outbound *trp_far_outbound_open(const char *address)
{
    char endpoint[TRP_ENDPOINT_MAX + 8];
    trp_outbound *outbound = make_outbound(far.context, address);
    if (outbound == NULL)
        return NULL;
    set_int(outbound->socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    snprintf(endpoint, sizeof endpoint, "tcp://%s", address);
    if (!make_client(outbound->socket, &far.keys))
        (void)failed("cannot encrypt messages to", address);
    else if (zmq.connect(outbound->socket, endpoint) == 0)
        return outbound;
    else
        (void)failed("cannot connect to", address);
    trp_outbound_close(outbound, 0);
    return NULL;
}
