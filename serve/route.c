// route.c: see route.h. One thread polls all connections; answers are sent in the turn of the
// service, as far as the socket takes them.
#include <serve/route.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/codec/json.h>
#include <serve/route_frame.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 256,
    UNSENT_MAX = 1 << 20, // No more is read from a connection that has so much to read itself.
    TICK_MS = 500,
};

atomic_int trp_route_reply_ms = 60000, trp_route_frame_ms = 60000;

typedef struct connection {
    struct connection *next;
    trp_route_stream stream; // Its `out` is under the lock, the rest is the thread's.
    int64_t frame_ms;        // When the frame that comes began to; 0: none has.
    // Under the lock:
    size_t under_way; // Requests that the service has.
    size_t owed;      // Answers that are not sent yet.
    bool over;        // It is closed once nothing is under way.
    int64_t moved_ms; // When it last took something.
} connection;

struct trp_route {
    trp_service_shared *shared;
    char path[sizeof((struct sockaddr_un){0}.sun_path)];
    int listener, bell;
    _Atomic uint64_t held;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    atomic_bool ends, announce;
    // The thread's own:
    connection *connections;
    size_t count;
    bool pause; // Nobody is let in for a while: there are no descriptors.
};

typedef struct routed {
    trp_inference request;
    trp_route *route;
    connection *of;
    uint64_t id;
} routed;

static void ring(const trp_route *route)
{
    static const uint64_t one = 1;
    while (write(route->bell, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

// ---- the file beside the socket

troupe_status trp_route_note(const char *socket, char *note, size_t capacity)
{
    size_t length = strlen(socket);
    if (length > 5 && strcmp(socket + length - 5, ".sock") == 0)
        length -= 5;
    if (length + sizeof ".json" > capacity)
        return troupe_fail(TROUPE_INVALID, "the path of socket %.200s is too long", socket);
    (void)snprintf(note, capacity, "%.*s.json", (int)length, socket);
    return TROUPE_OK;
}

static void describe(const trp_route *route, trp_buffer *out)
{
    trp_service_shared *shared = route->shared;
    trp_buffer_printf(out, "{\"route\": ");
    trp_json_text(out, shared->route);
    trp_buffer_printf(out, ", \"socket\": ");
    trp_json_text(out, route->path);
    trp_buffer_printf(out, ", \"model\": ");
    trp_json_text(out, shared->model->name);
    trp_buffer_printf(out, ", \"version\": ");
    pthread_mutex_lock(&shared->versions);
    trp_json_text(out, shared->serving ? shared->serving->name : "");
    trp_buffer_printf(out, ", \"replicas\": %u", shared->replicas);
    if (shared->canary) {
        trp_buffer_printf(out, ", \"canary\": {\"version\": ");
        trp_json_text(out, shared->canary->name);
        trp_buffer_printf(out, ", \"weight\": ");
        trp_json_number(out, shared->canary->weight);
        trp_buffer_append(out, "}", 1);
    }
    pthread_mutex_unlock(&shared->versions);
    trp_buffer_printf(out, ", \"input\": ");
    trp_service_write_input(shared->model, out);
    trp_buffer_printf(out, ", \"deadline_ms\": %u, \"pid\": %d}\n", shared->deadline_ms,
                      (int)getpid());
}

static troupe_status write_note(const trp_route *route)
{
    char note[sizeof route->path + 8], fresh[sizeof note + 8];
    trp_buffer text = {0};
    TROUPE_TRY(trp_route_note(route->path, note, sizeof note));
    (void)snprintf(fresh, sizeof fresh, "%s.new", note);
    describe(route, &text);
    if (text.failed) {
        trp_buffer_free(&text);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", note);
    }
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t size = (ssize_t)text.size;
    bool written = fd >= 0 && write(fd, text.data, text.size) == size;
    if (fd >= 0 && close(fd) != 0)
        written = false;
    trp_buffer_free(&text);
    if (written && rename(fresh, note) == 0)
        return TROUPE_OK;
    troupe_status status = trp_fail_errno(TROUPE_IO, "cannot write %s", note);
    (void)unlink(fresh);
    return status;
}

// ---- answers

// What was sent is owed no more. Under the lock.
static void flush(trp_route *route, connection *to)
{
    size_t before = trp_route_unsent(&to->stream);
    if (trp_route_flush(&to->stream) != TROUPE_OK)
        to->over = true;
    size_t left = trp_route_unsent(&to->stream);
    if (left < before)
        to->moved_ms = trp_clock_ms();
    for (; (left == 0 || to->over) && to->owed > 0; to->owed--)
        trp_service_served(route->shared);
}

static void put_failure(connection *to, uint64_t id, troupe_status status, const char *text)
{
    if (!to->over && trp_route_put_failure(&to->stream, id, status, text) != TROUPE_OK)
        to->over = true; // Without memory for a sentence the end of the connection has to do.
}

// In the turn of the service.
static void on_answer(trp_inference *request, troupe_status status, const char *text,
                      const troupe_tensor *y)
{
    routed *it = (routed *)request;
    trp_route *route = it->route;
    connection *to = it->of;
    pthread_mutex_lock(&route->lock);
    to->under_way--;
    to->owed++;
    if (trp_route_unsent(&to->stream) == 0)
        to->moved_ms = trp_clock_ms();
    if (status == TROUPE_OK && !to->over &&
        trp_route_put_tensor(&to->stream, TRP_ROUTE_ANSWER, it->id, y) != TROUPE_OK) {
        status = troupe_last_error()->status;
        text = troupe_last_error()->text;
    }
    if (status != TROUPE_OK)
        put_failure(to, it->id, status, text);
    flush(route, to);
    bool wanted = to->over || trp_route_unsent(&to->stream) > 0;
    pthread_mutex_unlock(&route->lock);
    trp_inference_free(request);
    if (wanted)
        ring(route);
}

// ---- requests

// Hands a request on; the reader's body is the elements of its tensor.
static troupe_status hand_on(trp_route *route, connection *from, trp_route_reader *reader)
{
    trp_service_shared *shared = route->shared;
    if (reader->dropped)
        return troupe_fail(TROUPE_BUSY, "too much is being received already");
    routed *it = (routed *)trp_alloc(sizeof *it);
    if (!it)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a request");
    *it =
        (routed){{.x = trp_route_tensor(reader), .done = on_answer}, route, from, reader->head.id};
    it->request.memory = trp_route_take_body(reader);
    troupe_status status = trp_inference_check(shared->model, &it->request);
    if (status != TROUPE_OK)
        atomic_fetch_add(&shared->refused, 1);
    else
        status = trp_service_admit(shared, &it->request);
    if (status == TROUPE_OK) {
        pthread_mutex_lock(&route->lock);
        from->under_way++;
        pthread_mutex_unlock(&route->lock);
        status = trp_service_hand(shared, &it->request);
        if (status == TROUPE_OK)
            return TROUPE_OK;
        pthread_mutex_lock(&route->lock);
        from->under_way--;
        pthread_mutex_unlock(&route->lock);
    }
    trp_inference_free(&it->request);
    return status;
}

typedef struct receiving {
    trp_route *route;
    connection *from;
} receiving;

static bool on_frame(void *user, trp_route_reader *reader)
{
    receiving *now = (receiving *)user;
    connection *from = now->from;
    from->frame_ms = 0;
    if (hand_on(now->route, from, reader) == TROUPE_OK)
        return true;
    pthread_mutex_lock(&now->route->lock);
    put_failure(from, reader->head.id, troupe_last_error()->status, troupe_last_error()->text);
    flush(now->route, from);
    bool go_on = !from->over;
    pthread_mutex_unlock(&now->route->lock);
    return go_on;
}

static void receive(trp_route *route, connection *from)
{
    receiving now = {route, from};
    if (trp_route_receive(&from->stream, on_frame, &now) == TROUPE_OK) {
        if (!trp_route_is_amid(&from->stream.reader))
            from->frame_ms = 0;
        else if (from->frame_ms == 0)
            from->frame_ms = trp_clock_ms();
        return;
    }
    pthread_mutex_lock(&route->lock);
    from->over = true;
    flush(route, from);
    pthread_mutex_unlock(&route->lock);
}

// ---- the thread

static void let_in(trp_route *route)
{
    int fd = accept4(route->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    route->pause = fd < 0 && errno != EAGAIN && errno != ECONNABORTED;
    if (fd < 0)
        return;
    connection *it = NULL;
    if (trp_route_check_peer(fd) == TROUPE_OK)
        it = (connection *)trp_alloc(sizeof *it);
    if (!it) {
        (void)close(fd);
        return;
    }
    it->stream =
        (trp_route_stream){.fd = fd, .reader = {.from_client = true, .held = &route->held}};
    it->moved_ms = trp_clock_ms();
    it->next = route->connections;
    route->connections = it;
    route->count++;
}

// Whether it does not take its answers, or does not send the rest of a frame. Under the lock.
static bool is_late(connection *it, int64_t now_ms)
{
    size_t unsent = trp_route_unsent(&it->stream);
    if (unsent > UNSENT_MAX && it->frame_ms != 0)
        it->frame_ms = now_ms; // It is not read.
    return (unsent > 0 && now_ms - it->moved_ms > atomic_load(&trp_route_reply_ms)) ||
           (it->frame_ms != 0 && now_ms - it->frame_ms > atomic_load(&trp_route_frame_ms));
}

// Frees what is over and has nothing under way, and ends what is late.
static void sweep(trp_route *route)
{
    int64_t now_ms = trp_clock_ms();
    for (connection **at = &route->connections, *it; (it = *at);) {
        pthread_mutex_lock(&route->lock);
        if (!it->over && is_late(it, now_ms)) {
            it->over = true;
            flush(route, it);
        }
        bool ended = it->over && it->under_way == 0;
        pthread_mutex_unlock(&route->lock);
        if (!ended) {
            at = &it->next;
            continue;
        }
        *at = it->next;
        route->count--;
        trp_route_stream_clear(&it->stream);
        trp_free(it);
    }
}

// What to poll for: nothing more is read where much is unsent. Returns how long to wait, at most.
static int fill(trp_route *route, struct pollfd *polled)
{
    int reply = atomic_load(&trp_route_reply_ms), frame = atomic_load(&trp_route_frame_ms);
    int tick = (reply < frame ? reply : frame) / 4, wait = route->pause ? TICK_MS : -1;
    bool full = route->count >= CONNECTIONS_MAX || route->pause;
    polled[0] = (struct pollfd){route->bell, POLLIN, 0};
    polled[1] = (struct pollfd){full ? -1 : route->listener, POLLIN, 0};
    route->pause = false;
    size_t i = 2;
    for (connection *it = route->connections; it; it = it->next, i++) {
        pthread_mutex_lock(&route->lock);
        size_t unsent = trp_route_unsent(&it->stream);
        short events = (short)((unsent > 0 ? POLLOUT : 0) | (unsent <= UNSENT_MAX ? POLLIN : 0));
        polled[i] = (struct pollfd){it->over ? -1 : it->stream.fd, events, 0};
        pthread_mutex_unlock(&route->lock);
        if (unsent > 0 || it->frame_ms != 0)
            wait = tick < TICK_MS ? tick : TICK_MS;
    }
    return wait;
}

static void turn(trp_route *route, struct pollfd *polled)
{
    uint64_t rung;
    size_t i = 2;
    if (poll(polled, 2 + route->count, fill(route, polled)) < 0)
        return;
    if (polled[0].revents)
        (void)!read(route->bell, &rung, sizeof rung);
    for (connection *it = route->connections; it; it = it->next, i++) {
        if ((polled[i].revents & POLLOUT) != 0) {
            pthread_mutex_lock(&route->lock);
            flush(route, it);
            pthread_mutex_unlock(&route->lock);
        }
        if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            receive(route, it);
    }
    sweep(route);
    if (polled[1].revents)
        let_in(route);
    if (atomic_exchange(&route->announce, false) && write_note(route) != TROUPE_OK)
        trp_log(TRP_WARN, "service '%s': %s", route->shared->route, troupe_last_error()->text);
}

static void *run(void *user)
{
    trp_route *route = (trp_route *)user;
    struct pollfd polled[CONNECTIONS_MAX + 2];
    while (!atomic_load(&route->ends))
        turn(route, polled);
    return NULL;
}

// ---- start and stop

static troupe_status check_folder(const char *path, char *folder, size_t capacity)
{
    const char *end = strrchr(path, '/');
    struct stat about;
    (void)snprintf(folder, capacity, "%.*s", end > path ? (int)(end - path) : 1, path);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return trp_fail_errno(TROUPE_IO, "cannot make the folder %s of a socket", folder);
    if (lstat(folder, &about) != 0)
        return trp_fail_errno(TROUPE_IO, "cannot use the folder %s of a socket", folder);
    if (!S_ISDIR(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077) != 0)
        return troupe_fail(TROUPE_INVALID,
                           "%s, where a service is to listen, must be a folder of user %u that "
                           "nobody else may use (mode 0700)",
                           folder, (unsigned)geteuid());
    return TROUPE_OK;
}

// What a service has left that was killed is removed; one that lives is not.
static troupe_status make_room(const struct sockaddr_un *name)
{
    struct stat about;
    if (lstat(name->sun_path, &about) != 0)
        return errno == ENOENT ? TROUPE_OK
                               : trp_fail_errno(TROUPE_IO, "cannot look at %s", name->sun_path);
    if (!S_ISSOCK(about.st_mode))
        return troupe_fail(TROUPE_EXISTS, "%s is there and is no socket", name->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool gone = fd >= 0 && connect(fd, (const struct sockaddr *)name, sizeof *name) != 0 &&
                errno == ECONNREFUSED;
    if (fd >= 0)
        (void)close(fd);
    if (!gone)
        return troupe_fail(TROUPE_EXISTS, "another service listens at %s", name->sun_path);
    if (unlink(name->sun_path) != 0)
        return trp_fail_errno(TROUPE_IO, "cannot remove %s, which a service left", name->sun_path);
    return TROUPE_OK;
}

static troupe_status listen_at(trp_route *route)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char folder[sizeof name.sun_path];
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", route->path);
    TROUPE_TRY(check_folder(route->path, folder, sizeof folder));
    int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) != 0) { // Two that look at once would remove each other's.
        troupe_status status = trp_fail_errno(TROUPE_IO, "cannot lock the folder %s", folder);
        if (lock >= 0)
            (void)close(lock);
        return status;
    }
    troupe_status status = make_room(&name);
    if (status == TROUPE_OK) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, sizeof name) == 0 &&
            listen(fd, SOMAXCONN) == 0) {
            route->listener = fd;
        } else {
            status = trp_fail_errno(TROUPE_IO, "a service cannot listen at %s", route->path);
            if (fd >= 0)
                (void)close(fd);
        }
    }
    (void)close(lock);
    return status;
}

troupe_status trp_route_start(trp_service_shared *shared, const char *path, trp_route **route)
{
    trp_route *made = (trp_route *)trp_alloc(sizeof *made);
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the socket of a service");
    made->shared = shared;
    made->listener = -1;
    made->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&made->lock, NULL);
    troupe_status status = TROUPE_OK;
    if (made->bell < 0)
        status = trp_fail_errno(TROUPE_IO, "no eventfd for the socket of a service");
    else if (strlen(path) >= sizeof made->path)
        status =
            troupe_fail(TROUPE_INVALID, ".socket is %.200s: its path has %zu bytes, may have %zu",
                        path, strlen(path), sizeof made->path - 1);
    if (status == TROUPE_OK) {
        (void)snprintf(made->path, sizeof made->path, "%s", path);
        status = listen_at(made);
    }
    if (status == TROUPE_OK)
        status = write_note(made);
    if (status == TROUPE_OK) {
        status = trp_thread_start(&made->thread, "trp-route", run, made);
        made->started = status == TROUPE_OK;
    }
    *route = made;
    if (status != TROUPE_OK) {
        troupe_error said;
        trp_error_hold(&said);
        trp_route_stop(route);
        trp_error_restore(&said);
    }
    return status;
}

const char *trp_route_path(const trp_route *route)
{
    return route->path;
}

void trp_route_announce(trp_route *route)
{
    atomic_store(&route->announce, true);
    ring(route);
}

void trp_route_stop(trp_route **route)
{
    trp_route *it = *route;
    char note[sizeof it->path + 8];
    if (!it)
        return;
    *route = NULL;
    if (it->started) {
        atomic_store(&it->ends, true);
        ring(it);
        (void)pthread_join(it->thread, NULL);
    }
    if (it->listener >= 0) {
        if (trp_route_note(it->path, note, sizeof note) == TROUPE_OK)
            (void)unlink(note);
        (void)unlink(it->path);
        (void)close(it->listener);
    }
    for (connection *one; (one = it->connections);) {
        it->connections = one->next;
        trp_route_stream_clear(&one->stream);
        trp_free(one);
    }
    if (it->bell >= 0)
        (void)close(it->bell);
    (void)pthread_mutex_destroy(&it->lock);
    trp_free(it);
}
