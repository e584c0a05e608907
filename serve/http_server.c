// http_server.c: a server of HTTP: its socket, its threads, and how long connections may take.
#ifdef TROUPE_HTTP
#include <serve/http_connection.h>

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

trp_http_times trp_http_limits = {10000, 60000, 60000};

enum { CONNECTIONS_MAX = 1024, HEAD_BYTES_MAX = 32 << 10, WATCH_MS = 500, WATCHES_OF_A_LIMIT = 4 };

// ---- connections, and how long they take

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    trp_http_server *server = (trp_http_server *)user;
    trp_http_connection *it = (trp_http_connection *)*context;
    const union MHD_ConnectionInfo *info =
        trp_mhd.connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        it = (trp_http_connection *)trp_alloc(sizeof *it);
        *context = it;
        if (!it || !info) // It is refused at its first request.
            return;
        it->socket = info->connect_fd;
        it->since_ms = trp_clock_ms();
        pthread_mutex_lock(&server->lock);
        it->next = server->connections;
        it->link = &server->connections;
        if (it->next)
            it->next->link = &it->next;
        server->connections = it;
        pthread_cond_signal(&server->changed);
        pthread_mutex_unlock(&server->lock);
        return;
    }
    // Its socket is closed after this.
    if (!it)
        return;
    pthread_mutex_lock(&server->lock);
    if (it->link) {
        *it->link = it->next;
        if (it->next)
            it->next->link = it->link;
    }
    pthread_mutex_unlock(&server->lock);
    trp_free(it);
}

void trp_http_enter(trp_http_server *server, trp_http_connection *connection, trp_http_phase phase)
{
    pthread_mutex_lock(&server->lock);
    connection->phase = phase;
    connection->since_ms = trp_clock_ms();
    pthread_mutex_unlock(&server->lock);
}

static int limit_of(trp_http_phase phase)
{
    return phase == TRP_HTTP_HEAD    ? atomic_load(&trp_http_limits.head_ms)
           : phase == TRP_HTTP_BODY  ? atomic_load(&trp_http_limits.body_ms)
           : phase == TRP_HTTP_REPLY ? atomic_load(&trp_http_limits.reply_ms)
                                     : 0; // The service's own deadline ends it.
}

static void *watch(void *user)
{
    trp_http_server *server = (trp_http_server *)user;
    pthread_mutex_lock(&server->lock);
    while (!server->ends) {
        if (!server->connections) {
            pthread_cond_wait(&server->changed, &server->lock);
            continue;
        }
        int64_t now = trp_clock_ms();
        int tick = limit_of(TRP_HTTP_HEAD) / WATCHES_OF_A_LIMIT;
        for (trp_http_connection *it = server->connections; it; it = it->next) {
            int limit = limit_of(it->phase);
            if (limit > 0 && now - it->since_ms > limit)
                (void)shutdown(it->socket, SHUT_RDWR);
        }
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t ns = until.tv_nsec + (int64_t)(tick < WATCH_MS ? tick : WATCH_MS) * 1000000;
        until.tv_sec += ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        if (!server->ends)
            (void)pthread_cond_timedwait(&server->changed, &server->lock, &until);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

// ---- start and stop

static troupe_status listen_at(const trp_http_how *how, int *listener, uint16_t *bound)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(how->port), .sin_addr = how->address};
    socklen_t size = sizeof at;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (at.sin_addr.s_addr == 0)
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (const struct sockaddr *)&at, sizeof at) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0) {
        char text[INET_ADDRSTRLEN] = "";
        int error = errno;
        (void)inet_ntop(AF_INET, &at.sin_addr, text, sizeof text);
        errno = error;
        troupe_status status =
            trp_fail_errno(TROUPE_IO, "a server of HTTP cannot listen at %s:%u", text, how->port);
        if (fd >= 0)
            (void)close(fd);
        return status;
    }
    *listener = fd;
    *bound = ntohs(at.sin_port);
    return TROUPE_OK;
}

// Half of the descriptors stay for all else.
static unsigned connections_max(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / 2 >= CONNECTIONS_MAX)
        return CONNECTIONS_MAX;
    return files.rlim_cur > 2 ? (unsigned)(files.rlim_cur / 2) : 1;
}

// Paths stay as they were sent.
static size_t leave_percent_signs(void *user, struct MHD_Connection *connection, char *text)
{
    (void)user, (void)connection;
    return strlen(text);
}

static troupe_status start_daemon(const trp_http_how *how, trp_http_server *server, int listener)
{
    bool encrypted = how->certificate != NULL;
    struct MHD_OptionItem keys[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)how->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)how->key},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_ALLOW_SUSPEND_RESUME |
                     (how->polled ? (unsigned)MHD_USE_EPOLL : MHD_USE_EPOLL_INTERNAL_THREAD);
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); // The user's handlers are for his threads.
    server->daemon = trp_mhd.start_daemon(
        encrypted ? flags | MHD_USE_TLS : flags, server->port, NULL, NULL, trp_http_handle, server,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listener, MHD_OPTION_CONNECTION_LIMIT,
        connections_max(), MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEAD_BYTES_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_percent_signs, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
        MHD_OPTION_NOTIFY_COMPLETED, trp_http_completed, server, MHD_OPTION_ARRAY,
        encrypted ? keys : keys + 2, MHD_OPTION_END);
    int error = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (server->daemon)
        return TROUPE_OK;
    (void)close(listener);
    if (encrypted)
        return troupe_fail(TROUPE_INVALID, "libmicrohttpd does not take that certificate and key: "
                                           "expected PEM, and that they belong together");
    errno = error;
    return trp_fail_errno(TROUPE_IO, "libmicrohttpd cannot serve at port %u", server->port);
}

static void name_hosts(const trp_http_how *how, trp_http_server *server)
{
    char address[INET_ADDRSTRLEN] = "";
    const char *names[TRP_HTTP_HOSTS] = {"127.0.0.1", "localhost", how->name};
    if (how->address.s_addr != 0)
        names[TRP_HTTP_HOSTS - 1] = inet_ntop(AF_INET, &how->address, address, sizeof address);
    server->scheme = how->certificate ? "https://" : "http://";
    for (size_t i = 0; i < TRP_HTTP_HOSTS; i++)
        if (names[i])
            (void)snprintf(server->hosts[i], sizeof server->hosts[i], "%s:%u", names[i],
                           server->port);
}

static troupe_status prepare_poll(trp_http_server *server)
{
    const union MHD_DaemonInfo *info =
        trp_mhd.daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event readable = {.events = EPOLLIN};
    server->poller = pthread_self();
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->poll = epoll_create1(EPOLL_CLOEXEC);
    if (!info || server->wake < 0 || server->poll < 0 ||
        epoll_ctl(server->poll, EPOLL_CTL_ADD, info->epoll_fd, &readable) != 0 ||
        epoll_ctl(server->poll, EPOLL_CTL_ADD, server->wake, &readable) != 0)
        return trp_fail_errno(TROUPE_IO, "a server of HTTP cannot be polled");
    return TROUPE_OK;
}

static troupe_status start(const trp_http_how *how, trp_http_server *server)
{
    int listener = -1;
    TROUPE_TRY(listen_at(how, &listener, &server->port));
    server->listener = listener;
    name_hosts(how, server);
    troupe_status status = trp_thread_start(&server->watch, "trp-http-watch", watch, server);
    server->watched = status == TROUPE_OK;
    if (!server->watched) {
        (void)close(listener);
        return status;
    }
    TROUPE_TRY(start_daemon(how, server, listener));
    return how->polled ? prepare_poll(server) : TROUPE_OK;
}

troupe_status trp_http_server_start(const trp_http_how *how, trp_http_server **server)
{
    TROUPE_TRY(trp_mhd_load());
    trp_http_server *made = (trp_http_server *)trp_alloc(sizeof *made);
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a server of HTTP");
    made->calls = *how->calls;
    made->user = how->user;
    made->headers = how->headers;
    made->polled = how->polled;
    made->poll = made->wake = -1;
    (void)pthread_mutex_init(&made->lock, NULL);
    trp_cond_open(&made->changed);
    troupe_status status = start(how, made);
    *server = made;
    if (status != TROUPE_OK) {
        troupe_error said;
        trp_error_hold(&said);
        trp_http_server_stop(server);
        trp_error_restore(&said);
    }
    return status;
}

void trp_http_server_stop(trp_http_server **server)
{
    trp_http_server *it = *server;
    if (!it)
        return;
    *server = NULL;
    if (it->daemon)
        trp_mhd.stop_daemon(it->daemon);
    if (it->watched) {
        pthread_mutex_lock(&it->lock);
        it->ends = true;
        pthread_cond_signal(&it->changed);
        pthread_mutex_unlock(&it->lock);
        (void)pthread_join(it->watch, NULL);
    }
    if (it->poll >= 0)
        (void)close(it->poll);
    if (it->wake >= 0)
        (void)close(it->wake);
    (void)pthread_cond_destroy(&it->changed);
    (void)pthread_mutex_destroy(&it->lock);
    trp_free(it);
}

void trp_http_server_leave(trp_http_server *server)
{
    (void)close(server->listener);
}

uint16_t trp_http_server_port(const trp_http_server *server)
{
    return server->port;
}

void *trp_http_server_user(const trp_http_server *server)
{
    return server->user;
}

// ---- where it is polled

int trp_http_server_fd(const trp_http_server *server)
{
    return server->poll;
}

void trp_http_server_wake(trp_http_server *server)
{
    static const uint64_t one = 1;
    if (!server->polled)
        return;
    atomic_store(&server->resumed, true);
    if (!pthread_equal(pthread_self(), server->poller))
        (void)!write(server->wake, &one, sizeof one);
}

int trp_http_server_timeout_ms(const trp_http_server *server)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (atomic_load(&server->resumed))
        return 0;
    if (trp_mhd.timeout(server->daemon, &ms) != MHD_YES)
        return -1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

void trp_http_server_turn(trp_http_server *server)
{
    uint64_t times;
    // Always: the one who wakes it may have said so, and not written yet, at the last turn.
    (void)!read(server->wake, &times, sizeof times);
    atomic_store(&server->resumed, false);
    (void)trp_mhd.run(server->daemon);
}

#else
extern int trp_http_server_is_left_out; // A file must not be empty.
#endif
