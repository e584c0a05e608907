// http.c: the HTTP server of a service: its socket, its threads, and how long connections may take.
#include <serve/http.h>

trp_http_times trp_http_limits = {10000, 60000, 60000};

#ifdef TROUPE_HTTP
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <serve/http_internal.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, HEAD_BYTES_MAX = 32 << 10, WATCH_MS = 500, WATCHES_OF_A_LIMIT = 4 };

// ---- connections, and how long they take

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    trp_http *http = (trp_http *)user;
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
        pthread_mutex_lock(&http->lock);
        it->next = http->connections;
        it->link = &http->connections;
        if (it->next)
            it->next->link = &it->next;
        http->connections = it;
        pthread_cond_signal(&http->changed);
        pthread_mutex_unlock(&http->lock);
        return;
    }
    // Its socket is closed after this.
    if (!it)
        return;
    pthread_mutex_lock(&http->lock);
    if (it->link) {
        *it->link = it->next;
        if (it->next)
            it->next->link = it->link;
    }
    pthread_mutex_unlock(&http->lock);
    trp_free(it);
}

void trp_http_enter(trp_http *http, trp_http_connection *connection, trp_http_phase phase)
{
    pthread_mutex_lock(&http->lock);
    connection->phase = phase;
    connection->since_ms = trp_clock_ms();
    pthread_mutex_unlock(&http->lock);
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
    trp_http *http = (trp_http *)user;
    pthread_mutex_lock(&http->lock);
    while (!http->ends) {
        if (!http->connections) {
            pthread_cond_wait(&http->changed, &http->lock);
            continue;
        }
        int64_t now = trp_clock_ms();
        int tick = limit_of(TRP_HTTP_HEAD) / WATCHES_OF_A_LIMIT;
        for (trp_http_connection *it = http->connections; it; it = it->next) {
            int limit = limit_of(it->phase);
            if (limit > 0 && now - it->since_ms > limit)
                (void)shutdown(it->socket, SHUT_RDWR);
        }
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t ns = until.tv_nsec + (int64_t)(tick < WATCH_MS ? tick : WATCH_MS) * 1000000;
        until.tv_sec += ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        if (!http->ends)
            (void)pthread_cond_timedwait(&http->changed, &http->lock, &until);
    }
    pthread_mutex_unlock(&http->lock);
    return NULL;
}

// ---- start and stop

static troupe_status listen_at(uint16_t port, int *listener, uint16_t *bound)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof at;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (const struct sockaddr *)&at, sizeof at) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0) {
        troupe_status status =
            trp_fail_errno(TROUPE_IO, "a service cannot listen at 127.0.0.1:%u", port);
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

static troupe_status start_daemon(trp_http *http, int listener)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); // The user's handlers are for his threads.
    http->daemon = trp_mhd.start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, http->port, NULL, NULL,
        trp_http_handle, http, MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listener,
        MHD_OPTION_CONNECTION_LIMIT, connections_max(), MHD_OPTION_CONNECTION_TIMEOUT, 0u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_NOTIFY_COMPLETED,
        trp_http_completed, http, MHD_OPTION_END);
    int error = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (http->daemon)
        return TROUPE_OK;
    (void)close(listener);
    errno = error;
    return trp_fail_errno(TROUPE_IO, "libmicrohttpd cannot serve at 127.0.0.1:%u", http->port);
}

troupe_status trp_http_start(trp_service_shared *shared, uint16_t port, trp_http **http)
{
    int listener;
    pthread_condattr_t monotonic;
    TROUPE_TRY(trp_mhd_load());
    trp_http *made = (trp_http *)trp_alloc(sizeof *made);
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the HTTP server of a service");
    made->shared = shared;
    (void)pthread_mutex_init(&made->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&made->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    troupe_status status = listen_at(port, &listener, &made->port);
    if (status == TROUPE_OK) {
        (void)snprintf(made->hosts[0], sizeof made->hosts[0], "127.0.0.1:%u", made->port);
        (void)snprintf(made->hosts[1], sizeof made->hosts[1], "localhost:%u", made->port);
        status = trp_thread_start(&made->watch, "trp-http-watch", watch, made);
        made->watched = status == TROUPE_OK;
        if (made->watched)
            status = start_daemon(made, listener);
        else
            (void)close(listener);
    }
    *http = made;
    if (status != TROUPE_OK) {
        troupe_error said;
        trp_error_hold(&said);
        trp_http_stop(http);
        trp_error_restore(&said);
    }
    return status;
}

uint16_t trp_http_port(const trp_http *http)
{
    return http->port;
}

void trp_http_stop(trp_http **http)
{
    trp_http *it = *http;
    if (!it)
        return;
    *http = NULL;
    if (it->daemon)
        trp_mhd.stop_daemon(it->daemon);
    if (it->watched) {
        pthread_mutex_lock(&it->lock);
        it->ends = true;
        pthread_cond_signal(&it->changed);
        pthread_mutex_unlock(&it->lock);
        (void)pthread_join(it->watch, NULL);
    }
    (void)pthread_cond_destroy(&it->changed);
    (void)pthread_mutex_destroy(&it->lock);
    trp_free(it);
}

#else

struct trp_http {
    uint16_t port;
};

troupe_status trp_http_start(trp_service_shared *shared, uint16_t port, trp_http **http)
{
    (void)shared, (void)port, (void)http;
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "the library was built without libmicrohttpd, which HTTP needs");
}

uint16_t trp_http_port(const trp_http *http)
{
    return http->port;
}

void trp_http_stop(trp_http **http)
{
    *http = NULL;
}

#endif
