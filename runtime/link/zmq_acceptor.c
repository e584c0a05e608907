// zmq_acceptor.c: which peers are admitted to a socket over tcp (see link/zmq_internal.h).
//
// A CURVE server admits every peer that knows its public key, unless its program decides: here that
// is a thread that answers ZeroMQ's authentication requests (ZAP, RFC 27) and admits the own key
// alone. The same thread hears of each connection that is made or ends. libzmq takes every
// connection that it is offered, and where there is no descriptor for the next one it spins, or
// aborts: so what comes above a limit is cut at once. That is always a peer that has not been
// admitted yet: a request is answered after everything has been read that was said before it, and a
// connection is told of before it asks.
#include <runtime/link/zmq_acceptor.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/link/zmq_internal.h>
#include <runtime/shm/segment.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

uint32_t trp_connections_most(int *fd_most)
{
    struct rlimit limit = {.rlim_cur = 1024};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    uint64_t all = smaller(limit.rlim_cur, INT32_MAX);
    *fd_most = (int)(all / 10 * 8);
    return (uint32_t)smaller(all / 4, TRP_CONNECTIONS_MAX);
}

uint64_t trp_connections_reserve(uint64_t sockets, uint64_t limit, uint64_t *short_of)
{
    *short_of = 4 * sockets * TRP_CONNECTIONS_LATE;
    return sockets * smaller(limit / 4, TRP_CONNECTIONS_MAX) +
           smaller(limit / 4, sockets * TRP_CONNECTIONS_LATE);
}

// ---- keys

// What libzmq has left of them below this function's frame.
static __attribute__((noinline)) void wipe_stack(void)
{
    char room[15 << 10];
    explicit_bzero(room, sizeof room);
}

troupe_status trp_transport_keys_make(const char *keys_path)
{
    trp_key_pair keys;
    TROUPE_TRY(trp_transport_load());
    troupe_status status = trp_zmq.curve_keypair(keys.public_key, keys.secret_key) == 0
                               ? trp_keys_write(keys_path, &keys)
                               : trp_zmq_failed("no keys can be made for", keys_path);
    explicit_bzero(&keys, sizeof keys);
    wipe_stack();
    return status;
}

static bool set_key(void *socket, int option, const char *key)
{
    bool set = trp_zmq.setsockopt(socket, option, key, TRP_KEY_TEXT) == 0;
    wipe_stack();
    return set;
}

bool trp_doorman_client(const trp_doorman *man, void *dealer)
{
    return set_key(dealer, ZMQ_CURVE_SERVERKEY, man->keys->public_key) &&
           set_key(dealer, ZMQ_CURVE_PUBLICKEY, man->keys->public_key) &&
           set_key(dealer, ZMQ_CURVE_SECRETKEY, man->keys->secret_key);
}

// ---- connections

// One that was made. libzmq does not say which of them it lets in, only that one of them was, and
// of some that it has sent away it does not say why. But who is not let in is sent away after
// TRP_HANDSHAKE_MS: so who has come before that and is there still has been let in. The others are
// `young`.
typedef struct trp_visit {
    int fd;
    bool young;
    int64_t since_ms;
} trp_visit;

// Of those let in one socket keeps as many as there may be processes to come from. So many are told
// of at most before those beyond the limits have been cut.
enum {
    LET_IN_MAX = TRP_FAR_MAX,
    HELD_MAX = LET_IN_MAX + TRP_CONNECTIONS_MAX + 2 * TRP_CONNECTIONS_LATE,
    YOUNG_MS = TRP_HANDSHAKE_MS + 1000
};
_Static_assert((int)TRP_FAR_MAX >= (int)TRP_PROCESSES_MAX, "all of this node find room");

static void begin_visit(trp_doorman *man, int fd)
{
    man->made++;
    if (man->held_count == HELD_MAX) // It is cut, as many are.
        return;
    man->held[man->held_count++] = (trp_visit){.fd = fd, .young = true, .since_ms = trp_clock_ms()};
    man->young++;
}

static void end_visit(trp_doorman *man, int fd)
{
    man->failed += man->failing;
    man->failing = false;
    for (uint32_t i = man->held_count; i-- > 0;)
        if (man->held[i].fd == fd) {
            man->young -= man->held[i].young;
            man->held[i] = man->held[--man->held_count];
            return;
        }
}

// Counts whoever was made, was not let in, and is not about to be: each once, and at the latest
// when those have grown old who came before him.
static void count_refused(trp_doorman *man)
{
    int64_t old_ms = trp_clock_ms() - YOUNG_MS;
    for (uint32_t i = 0; i < man->held_count && man->young > 0; i++)
        if (man->held[i].young && man->held[i].since_ms <= old_ms) {
            man->held[i].young = false;
            man->young--;
        }
    uint64_t others = man->let_in + man->young;
    uint64_t refused = man->made > others ? man->made - others : 0;
    if (refused < man->failed)
        refused = man->failed;
    if (refused <= man->counted)
        return;
    if (man->strangers != NULL)
        atomic_fetch_add(man->strangers, refused - man->counted);
    man->counted = refused;
}

// Ends the connection that has this descriptor, unless it has ended and the number is another's by
// now: looked at through a descriptor of our own, which nobody else closes. If it is that of a
// later connection to the same ROUTER, that one is beyond the limit as well, and not let in yet:
// what is told of it is read after this, and before its request.
static void cut(const trp_doorman *man, int fd)
{
    struct sockaddr_in here = {0};
    socklen_t size = sizeof here;
    if (dup3(fd, man->spare_fd, O_CLOEXEC) < 0)
        return;
    if (getsockname(man->spare_fd, (struct sockaddr *)&here, &size) == 0 &&
        here.sin_family == AF_INET && ntohs(here.sin_port) == atomic_load(&man->port))
        (void)shutdown(man->spare_fd, SHUT_RDWR);
    (void)dup3(man->base_fd, man->spare_fd, O_CLOEXEC);
}

// Somebody who has the keys may be among those who are cut, and comes again.
static void tell_cut(trp_doorman *man, int fd)
{
    enum { BETWEEN_MS = 30000 };
    int64_t now_ms = trp_clock_ms();
    man->cuts++;
    if (man->told_ms != 0 && now_ms < man->told_ms + BETWEEN_MS)
        return;
    man->told_ms = now_ms;
    trp_log(
        TRP_WARN,
        "%llu connections to port %u were refused, since too many are open: %u in all, %u of them "
        "perhaps not authenticated yet (at most %u); the last one had descriptor %d (at most %d)",
        (unsigned long long)man->cuts, (unsigned)atomic_load(&man->port), man->held_count,
        man->young, man->most, fd, man->fd_most - 1);
    man->cuts = 0;
}

static void take_event(trp_doorman *man, uint16_t event, uint32_t value)
{
    switch (event) {
    case ZMQ_EVENT_ACCEPTED:
        begin_visit(man, (int)value);
        if (man->young > man->most || man->held_count - man->young >= LET_IN_MAX ||
            (int)value >= man->fd_most) {
            cut(man, (int)value);
            tell_cut(man, (int)value);
        }
        break;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        man->let_in++;
        break;
    case ZMQ_EVENT_DISCONNECTED:
        end_visit(man, (int)value);
        break;
    default: // It was silent for too long, was cut, or has another server's key; and ends next.
        man->failing = true;
        break;
    }
}

// Takes everything that has been said of connections so far; false: the context ends. An event is
// its kind and a value in one part, and an address in a second.
static bool take_events(trp_doorman *man)
{
    for (;;) {
        unsigned char what[6];
        uint16_t event;
        uint32_t value;
        int more = 0;
        size_t size = sizeof more;
        int got = trp_zmq.recv(man->events, what, sizeof what, ZMQ_DONTWAIT);
        if (got < 0 && trp_zmq.error() != EINTR)
            return trp_zmq.error() == EAGAIN;
        if (got < 0)
            continue;
        (void)trp_zmq.getsockopt(man->events, ZMQ_RCVMORE, &more, &size);
        if (got != sizeof what || more == 0)
            continue; // An address.
        memcpy(&event, what, sizeof event);
        memcpy(&value, what + sizeof event, sizeof value);
        take_event(man, event, value);
    }
}

// ---- who is let in

// Reads one part of an authentication request; *more says whether another follows.
static int read_part(void *socket, void *part, size_t capacity, bool *more)
{
    int again = 0;
    size_t size = sizeof again;
    int got;
    do
        got = trp_zmq.recv(socket, part, capacity, 0);
    while (got < 0 && trp_zmq.error() == EINTR);
    if (got >= 0)
        (void)trp_zmq.getsockopt(socket, ZMQ_RCVMORE, &again, &size);
    *more = again != 0;
    return got;
}

// One request: [version, id, domain, address, identity, mechanism, key]. False: the context ends.
static bool answer_request(trp_doorman *man)
{
    enum { ID = 1, MECHANISM = 5, KEY = 6, PARTS = 7 };
    void *socket = man->requests;
    char id[256], mechanism[16] = "";
    uint8_t offered[TRP_KEY_SIZE] = {0};
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
    bool known = parts == PARTS && strcmp(mechanism, "CURVE") == 0 && key_size == TRP_KEY_SIZE &&
                 memcmp(offered, man->key, TRP_KEY_SIZE) == 0;
    return take_events(man) && // It may be one that is to be cut.
           trp_zmq.send(socket, "1.0", 3, ZMQ_SNDMORE) >= 0 &&
           trp_zmq.send(socket, id, id_size, ZMQ_SNDMORE) >= 0 &&
           trp_zmq.send(socket, known ? "200" : "400", 3, ZMQ_SNDMORE) >= 0 &&
           trp_zmq.send(socket, known ? "OK" : "unknown key", known ? 2 : 11, ZMQ_SNDMORE) >= 0 &&
           trp_zmq.send(socket, "", 0, ZMQ_SNDMORE) >= 0 && trp_zmq.send(socket, "", 0, 0) >= 0;
}

static void *doorman_main(void *user)
{
    trp_doorman *man = user;
    zmq_pollitem_t items[2] = {{.socket = man->events, .events = ZMQ_POLLIN},
                               {.socket = man->requests, .events = ZMQ_POLLIN}};
    enum { COUNT_MS = 1000 };
    for (bool goes_on = true; goes_on;) {
        int ready = trp_zmq.poll(items, 2, man->young > 0 ? COUNT_MS : -1);
        goes_on = ready >= 0 ? take_events(man) : trp_zmq.error() == EINTR;
        count_refused(man);
        if (goes_on && ready > 0 && items[1].revents != 0)
            goes_on = answer_request(man);
    }
    (void)trp_zmq.close(man->requests);
    (void)trp_zmq.close(man->events);
    return NULL;
}

// ---- start and end

static troupe_status open_sockets(trp_doorman *man, void *context, void *router)
{
    static const char place[] = "inproc://zeromq.zap.01", news[] = "inproc://connections";
    enum {
        NEWS = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
               ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
    };
    man->requests = trp_zmq.socket(context, ZMQ_REP);
    man->events = trp_zmq.socket(context, ZMQ_PAIR);
    if (man->requests == NULL || man->events == NULL)
        return trp_zmq_failed("cannot open a socket for", "authentication");
    trp_zmq_set(man->requests, ZMQ_LINGER, 0);
    trp_zmq_set(man->events, ZMQ_LINGER, 0);
    // When so much is said that is not heard yet, libzmq's thread waits: so it takes at most
    // TRP_CONNECTIONS_LATE connections beyond the limit: the 1,000 messages that it keeps for a
    // monitor, the one that is kept here, and the one of which it waits to tell.
    trp_zmq_set(man->events, ZMQ_RCVHWM, 1);
    if (trp_zmq.bind(man->requests, place) != 0)
        return trp_zmq_failed("cannot bind", place);
    if (trp_zmq.socket_monitor(router, news, NEWS) != 0 || trp_zmq.connect(man->events, news) != 0)
        return trp_zmq_failed("cannot watch", "incoming connections");
    return TROUPE_OK;
}

// A socket without its keys would speak in the clear, to everybody: so nothing of it may fail.
static troupe_status make_server(trp_doorman *man, void *router, const char *keys_path)
{
    uint8_t decoded[TRP_KEY_SIZE];
    if ((man->keys = trp_keys_hold()) == NULL)
        return TROUPE_NO_MEMORY;
    TROUPE_TRY(trp_keys_read(keys_path, man->keys));
    bool good = trp_zmq.z85_decode(man->key, man->keys->public_key) != NULL &&
                trp_zmq.z85_decode(decoded, man->keys->secret_key) != NULL;
    explicit_bzero(decoded, sizeof decoded);
    if (!good)
        return troupe_fail(TROUPE_CORRUPT, "%s does not hold two keys: they are not in Z85",
                           keys_path);
    if (!trp_zmq_set(router, ZMQ_CURVE_SERVER, 1) ||
        !set_key(router, ZMQ_CURVE_SECRETKEY, man->keys->secret_key))
        return trp_zmq_failed("cannot encrypt with the keys in", keys_path);
    return TROUPE_OK;
}

troupe_status trp_doorman_start(trp_doorman *man, void *context, void *router,
                                const char *keys_path)
{
    man->requests = man->events = NULL;
    man->held_count = man->young = 0;
    man->made = man->let_in = man->failed = man->counted = man->cuts = 0;
    man->told_ms = 0;
    man->failing = false;
    man->most = trp_connections_most(&man->fd_most);
    atomic_store(&man->port, 0);
    man->base_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    man->spare_fd = man->base_fd >= 0 ? fcntl(man->base_fd, F_DUPFD_CLOEXEC, 0) : -1;
    man->held = trp_alloc(HELD_MAX * sizeof *man->held);
    troupe_status status =
        man->spare_fd < 0 ? trp_fail_errno(TROUPE_IO, "no descriptor for incoming connections")
        : man->held == NULL
            ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a list of incoming connections")
            : make_server(man, router, keys_path);
    if (status == TROUPE_OK)
        status = open_sockets(man, context, router);
    if (status == TROUPE_OK)
        status = trp_thread_start(&man->thread, "troupe-door", doorman_main, man);
    man->runs = status == TROUPE_OK;
    if (!man->runs && man->requests != NULL)
        (void)trp_zmq.close(man->requests);
    if (!man->runs && man->events != NULL)
        (void)trp_zmq.close(man->events);
    return status;
}

void trp_doorman_at(trp_doorman *man, const char *endpoint)
{
    const char *port = strrchr(endpoint, ':');
    atomic_store(&man->port, port != NULL ? (uint32_t)strtoul(port + 1, NULL, 10) : 0);
}

void trp_doorman_end(trp_doorman *man)
{
    if (man->runs)
        pthread_join(man->thread, NULL);
    if (man->base_fd > 0)
        close(man->base_fd);
    if (man->spare_fd > 0)
        close(man->spare_fd);
    trp_keys_release(man->keys);
    trp_free(man->held);
    man->held = NULL;
    man->runs = false;
    man->base_fd = man->spare_fd = -1;
    man->keys = NULL;
}
