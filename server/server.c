// server.c: see server/server.h: the loop.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/node/limits.h>
#include <server/say.h>
#include <server/server_internal.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <train/state_folder.h>
#include <unistd.h>

enum { EVENTS = 64, FAREWELL_MS = 500 };

// ---- the lock

troupe_status trp_server_lock(const char *folder, int *fd)
{
    trp_path path;
    char text[80];
    TROUPE_TRY(trp_path_make(&path, "%s/lock", folder));
    int lock = open(path.text, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be opened", path.text);
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        bool taken = errno == EWOULDBLOCK;
        ssize_t size = pread(lock, text, sizeof text - 1, 0);
        text[size > 0 ? size : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        troupe_status status =
            taken ? troupe_fail(TROUPE_BUSY, "a train server has %s already (process %s)", folder,
                                text)
                  : trp_fail_errno(TROUPE_IO, "%s cannot be locked", path.text);
        close(lock);
        return status;
    }
    // For people: a full disk is no reason not to start.
    int size = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(lock, 0) != 0 || pwrite(lock, text, (size_t)size, 0) != size)
        trp_say("%s cannot be written: %s", path.text, strerror(errno));
    *fd = lock;
    return TROUPE_OK;
}

// ---- opening

troupe_status trp_server_listen_to(trp_server *server, trp_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, source->fd, &event) != 0)
        return trp_fail_errno(TROUPE_IO, "the train server cannot wait for one thing more");
    return TROUPE_OK;
}

static troupe_status open_socket(trp_server *server)
{
    struct sockaddr_un address;
    TROUPE_TRY(trp_state_folder_socket(server->how->folder, &address));
    server->listener = (trp_source){TRP_SOURCE_LISTENER,
                                    socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (server->listener.fd < 0)
        return trp_fail_errno(TROUPE_IO, "the train server cannot make a socket");
    (void)unlink(address.sun_path); // Of one that was killed: the lock is ours.
    mode_t mask = umask(0177);
    int bound = bind(server->listener.fd, (struct sockaddr *)&address, sizeof address);
    (void)umask(mask);
    if (bound != 0 || listen(server->listener.fd, SOMAXCONN) != 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be listened to", address.sun_path);
    return trp_server_listen_to(server, &server->listener, EPOLLIN);
}

static troupe_status open_signals(trp_server *server)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGPIPE); // Blocked alone.
    if (sigprocmask(SIG_BLOCK, &set, &server->mask) != 0)
        return trp_fail_errno(TROUPE_IO, "the train server cannot block signals");
    sigdelset(&set, SIGPIPE);
    server->signals =
        (trp_source){TRP_SOURCE_SIGNALS, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (server->signals.fd < 0)
        return trp_fail_errno(TROUPE_IO, "the train server cannot take signals");
    return trp_server_listen_to(server, &server->signals, EPOLLIN);
}

// What is reserved begins at a time of day, which may be set while the server sleeps.
static troupe_status open_calendar(trp_server *server)
{
    server->calendar = (trp_source){TRP_SOURCE_CALENDAR,
                                    timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK)};
    if (server->calendar.fd < 0)
        return trp_fail_errno(TROUPE_IO, "the train server cannot make a timer");
    return trp_server_listen_to(server, &server->calendar, EPOLLIN);
}

static troupe_status measure(const trp_server_how *how, trp_resources *machine)
{
    trp_limits limits = trp_limits_read("");
    int64_t cpus;
    int gpus = how->gpus == TROUPE_NONE ? 0 : how->gpus > 0 ? how->gpus : limits.gpus;
    TROUPE_TRY(trp_cpus_count(how->cpus > 0 ? how->cpus : fmax(1, limits.cpus), &cpus));
    int64_t memory =
        how->memory_bytes > 0 ? (int64_t)how->memory_bytes : (int64_t)(limits.memory_bytes * 0.7);
    trp_resources_init(machine, cpus, gpus < TRP_GPUS_MAX ? gpus : TRP_GPUS_MAX, memory);
    return how->resources != NULL ? trp_resources_add(machine, how->resources) : TROUPE_OK;
}

static troupe_status open_all(trp_server *server)
{
    trp_resources machine;
    struct rlimit files;
    trp_jobs_acts acts = trp_server_acts(server);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (server->epoll < 0)
        return trp_fail_errno(TROUPE_IO, "the train server cannot wait for anything");
    TROUPE_TRY(open_signals(server));
    TROUPE_TRY(open_calendar(server));
    TROUPE_TRY(measure(server->how, &machine));
    TROUPE_TRY(trp_jobs_open(server->how->folder, &machine, &acts, trp_clock_ms(),
                             trp_clock_unix_s(), &server->jobs));
    return open_socket(server);
}

static void close_all(trp_server *server)
{
    struct sockaddr_un address;
    int files[] = {server->signals.fd, server->calendar.fd, server->listener.fd, server->epoll};
    if (server->listener.fd >= 0 &&
        trp_state_folder_socket(server->how->folder, &address) == TROUPE_OK)
        (void)unlink(address.sun_path);
    while (server->clients != NULL)
        trp_client_free(server, server->clients);
    trp_server_close_warm(server);
    trp_jobs_close(server->jobs);
    trp_server_free_dead_processes(server);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] >= 0)
            close(files[i]);
    trp_server_gateway_close(server);
    trp_server_track_close(server);
    trp_free(server->owed);
    (void)sigprocmask(SIG_SETMASK, &server->mask, NULL);
}

// ---- the loop

static void take_signals(trp_server *server)
{
    struct signalfd_siginfo info;
    while (read(server->signals.fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGHUP)
            server->stopping = true;
}

static void take(trp_server *server, const struct epoll_event *event)
{
    trp_source *source = (trp_source *)event->data.ptr;
    uint64_t expirations;
    switch (source->kind) {
    case TRP_SOURCE_LISTENER:
        trp_client_accept(server);
        break;
    case TRP_SOURCE_SIGNALS:
        take_signals(server);
        break;
    case TRP_SOURCE_CALENDAR:
        server->calendar_at = 0; // Also where the clock was set: it is set anew.
        (void)!read(source->fd, &expirations, sizeof expirations);
        break;
    case TRP_SOURCE_CLIENT:
        trp_client_ready(server, (trp_client *)source, event->events);
        break;
    case TRP_SOURCE_PROCESS:
        trp_server_process_ready(server, (trp_process *)source);
        break;
    case TRP_SOURCE_GATEWAY:
        trp_server_gateway_ready(server);
        break;
    case TRP_SOURCE_TRACK:
        trp_server_track_ready(server);
        break;
    }
}

static void set_calendar(trp_server *server, double at)
{
    if (at == server->calendar_at)
        return;
    struct itimerspec when = {.it_value = {(time_t)at, (long)((at - floor(at)) * 1e9)}};
    (void)timerfd_settime(server->calendar.fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when,
                          NULL);
    server->calendar_at = at;
}

// The gateway stays connected once it was asked something.
static bool has_clients(const trp_server *server)
{
    for (const trp_client *at = server->clients; at != NULL; at = at->next)
        if (at->warm == NULL &&
            (server->gateway_process == 0 || at->process != server->gateway_process))
            return true;
    return false;
}

// When it ends since nobody has needed it for long; INT64_MAX: not yet known.
static int64_t idle_end(trp_server *server, int64_t now_ms)
{
    bool idle =
        server->how->idle_s > 0 && !has_clients(server) && trp_jobs_under_way(server->jobs) == 0;
    if (!idle)
        server->idle_ms = 0;
    else if (server->idle_ms == 0)
        server->idle_ms = now_ms;
    return idle ? server->idle_ms + (int64_t)server->how->idle_s * 1000 : INT64_MAX;
}

static bool is_to_end(trp_server *server)
{
    if (server->stopping)
        return !server->stop_jobs || trp_jobs_under_way(server->jobs) == 0;
    return trp_clock_ms() >= idle_end(server, trp_clock_ms());
}

static int wait_ms(trp_server *server)
{
    double at;
    int64_t now_ms = trp_clock_ms(), due = trp_jobs_due(server->jobs, &at);
    int64_t end = idle_end(server, now_ms), gateway = trp_server_gateway_due(server);
    int64_t warm = trp_server_warm_due(server);
    set_calendar(server, at);
    due = end < due ? end : due;
    due = gateway < due ? gateway : due;
    due = trp_server_track_due(server) < due ? trp_server_track_due(server) : due;
    due = warm < due ? warm : due;
    if (server->any_more || due <= now_ms)
        return 0;
    return due - now_ms < 3600000 ? (int)(due - now_ms) : due == INT64_MAX ? -1 : 3600000;
}

// Frames that came with others, and had no turn yet.
static void take_more(trp_server *server)
{
    if (!server->any_more)
        return;
    server->any_more = false;
    for (trp_client *at = server->clients; at != NULL; at = at->next)
        if (at->more && !at->dead && at->out.size - at->sent <= TRP_OUT_ENOUGH)
            trp_client_read_frames(server, at);
}

static troupe_status turn(trp_server *server)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(server->epoll, events, EVENTS, wait_ms(server));
    if (count < 0 && errno != EINTR)
        return trp_fail_errno(TROUPE_IO, "the train server cannot wait");
    trp_jobs_set_time(server->jobs, trp_clock_ms(), trp_clock_unix_s());
    take_more(server);
    for (int i = 0; i < count; i++)
        take(server, &events[i]);
    trp_server_warm_turn(server);
    troupe_status status = trp_jobs_turn(server->jobs);
    if (status != TROUPE_OK && status != TROUPE_NO_SPACE)
        return status;
    trp_server_answer_all(server, status);
    for (trp_client *at = server->clients; at != NULL; at = at->next)
        if (at->out.size > at->sent || at->closing)
            trp_client_flush(server, at);
    trp_client_free_dead(server);
    trp_server_free_dead_processes(server);
    trp_server_gateway_turn(server);
    trp_server_track_turn(server);
    return TROUPE_OK;
}

// Gives clients a moment to read what they were answered.
static void say_farewell(trp_server *server)
{
    int64_t until_ms = trp_clock_ms() + FAREWELL_MS;
    for (trp_client *at = server->clients; at != NULL; at = at->next) {
        struct pollfd ready = {.fd = at->source.fd, .events = POLLOUT};
        while (!at->dead && at->out.size > at->sent && trp_clock_ms() < until_ms) {
            (void)poll(&ready, 1, 10);
            trp_client_flush(server, at);
        }
    }
}

troupe_status trp_server_run(const trp_server_how *how)
{
    trp_server server = {.how = how,
                         .epoll = -1,
                         .listener.fd = -1,
                         .signals.fd = -1,
                         .calendar.fd = -1,
                         .gateway.fd = -1,
                         .track.fd = -1,
                         .started_at = trp_clock_unix_s()};
    (void)umask(0077);
    troupe_status status = open_all(&server);
    if (status == TROUPE_OK) {
        if (how->ready != NULL)
            how->ready(how->user);
        trp_server_gateway_turn(&server);
        trp_server_track_begin(&server);
        while (status == TROUPE_OK && !is_to_end(&server))
            status = turn(&server);
        say_farewell(&server);
        trp_server_gateway_end(&server);
        trp_server_track_end(&server);
    }
    troupe_error kept;
    trp_error_hold(&kept);
    close_all(&server);
    trp_error_restore(&kept);
    return status;
}
