// server_link.c: see server_link.h.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/run_folder.h>
#include <runtime/base/thread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <train/server_link.h>
#include <train/state_folder.h>
#include <unistd.h>

// What has not been answered yet. With the link's lock.
typedef struct pending {
    struct pending *next;
    uint32_t number;
    trp_buffer frame;
    bool once;
    bool left;     // Nobody waits for it.
    bool answered; // `answer` and `kind` are set.
    bool lost;
    trp_wire_kind kind;
    trp_buffer answer;
} pending;

struct trp_server_link {
    trp_server_told told;
    pthread_t thread;
    int wake; // An eventfd.
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd; // -1: not connected.
    trp_buffer out;
    size_t out_sent; // Of it.
    pending *first, **last;
    uint32_t numbers, hello; // The last one, and that of the last greeting.
    bool greeted;            // Its answer has come.
    bool was_up;             // Once.
    bool closing;
    troupe_error refused; // Why the server does not speak with us.
    trp_buffer in;        // The thread's.
    char state_folder[];
};

// ---- connecting

static troupe_status check_peer(int fd, const char *state_folder)
{
    enum { OVERFLOW_UID = 65534 }; // What users of other namespaces all look like.
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return trp_fail_errno(TROUPE_IO, "who serves %s cannot be told", state_folder);
    if (peer.uid != geteuid() || peer.uid == OVERFLOW_UID)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the train server of %s runs as user %u, and this process as %u: "
                           "expected the same",
                           state_folder, (unsigned)peer.uid, (unsigned)geteuid());
    return TROUPE_OK;
}

troupe_status trp_server_connect(const char *state_folder, int *fd)
{
    struct sockaddr_un address;
    TROUPE_TRY(trp_state_folder_socket(state_folder, &address));
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return trp_fail_errno(TROUPE_IO, "no socket for the train server");
    troupe_status status = TROUPE_OK;
    int failed, looks = 1000;
    // EAGAIN: so many wait for it already that it has no place for another one.
    while ((failed = connect(made, (const struct sockaddr *)&address, sizeof address)) != 0 &&
           errno == EAGAIN && looks-- > 0)
        usleep(1000);
    if (failed != 0 && errno == EAGAIN) {
        status = troupe_fail(TROUPE_BUSY, "too many programs wait for the train server of %s",
                             state_folder);
    } else if (failed != 0) {
        bool none = errno == ENOENT || errno == ECONNREFUSED;
        status = trp_fail_errno(none ? TROUPE_NOT_FOUND : TROUPE_IO,
                                "no train server runs at %s (troupe server start)", state_folder);
    }
    if (status == TROUPE_OK)
        status = check_peer(made, state_folder);
    if (status == TROUPE_OK)
        *fd = made;
    else
        close(made);
    return status;
}

troupe_status trp_server_put_hello(trp_buffer *out, uint32_t number)
{
    char boot[TRP_BOOT_ID_MAX], program[512];
    struct stat space = {0};
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    trp_boot_id(boot);
    (void)stat("/proc/self/ns/pid", &space);
    trp_wire_hello hello = {.version = TRP_WIRE_VERSION,
                            .boot_id = boot,
                            .pid_namespace = space.st_ino,
                            .pid = (int)getpid(),
                            .program = program};
    return trp_wire_put(out, TRP_WIRE_HELLO, number, &troupe_type_trp_wire_hello, &hello);
}

static troupe_status put_hello(trp_server_link *link)
{
    link->hello = ++link->numbers;
    link->greeted = false;
    return trp_server_put_hello(&link->out, link->hello);
}

// With the lock. All that waits for an answer is sent, again where it was.
static void begin_connection(trp_server_link *link, int fd)
{
    link->fd = fd;
    link->out.size = link->out_sent = link->in.size = 0;
    bool put = put_hello(link) == TROUPE_OK;
    for (pending *at = link->first; put && at != NULL; at = at->next)
        trp_buffer_append(&link->out, at->frame.data, at->frame.size);
    if (put && !link->out.failed)
        return;
    trp_buffer_free(&link->out); // There is no memory: again later.
    link->fd = -1;
    close(fd);
}

// ---- what waits

static void free_pending(pending *it)
{
    trp_buffer_free(&it->frame);
    trp_buffer_free(&it->answer);
    trp_free(it);
}

// With the lock.
static void remove_pending(trp_server_link *link, pending *it)
{
    for (pending **at = &link->first; *at != NULL; at = &(*at)->next)
        if (*at == it) {
            *at = it->next;
            if (*at == NULL)
                link->last = at;
            return;
        }
}

static pending *find_pending(trp_server_link *link, uint32_t number)
{
    pending *at = link->first;
    while (at != NULL && at->number != number)
        at = at->next;
    return at;
}

// With the lock.
static void lose_connection(trp_server_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    for (pending *at = link->first, *next; at != NULL; at = next) {
        next = at->next;
        if (!at->once)
            continue;
        remove_pending(link, at);
        at->lost = true;
        if (at->left)
            free_pending(at);
    }
    pthread_cond_broadcast(&link->changed);
}

// With the lock. The server will not speak with this program.
static void be_refused(trp_server_link *link, troupe_status status, const char *text)
{
    link->refused.status = status;
    snprintf(link->refused.text, sizeof link->refused.text, "%s", text);
    lose_connection(link);
}

// ---- sending and reading

static void wake(trp_server_link *link)
{
    uint64_t one = 1;
    ssize_t written = write(link->wake, &one, sizeof one);
    (void)written; // It is awake where that fails.
}

// With the lock. False: the connection is gone.
static bool send_out(trp_server_link *link)
{
    while (link->out_sent < link->out.size) {
        ssize_t sent = send(link->fd, link->out.data + link->out_sent,
                            link->out.size - link->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN;
        link->out_sent += (size_t)sent;
    }
    link->out.size = link->out_sent = 0;
    return true;
}

// With the lock. What cannot be sent at once is the thread's.
static void send_now(trp_server_link *link, const void *data, size_t size)
{
    if (link->fd < 0) {
        wake(link); // So that it tries to connect now.
        return;
    }
    bool idle = link->out.size == 0;
    trp_buffer_append(&link->out, data, size);
    if (link->out.failed) {
        trp_buffer_free(&link->out); // A part may be under way.
        (void)shutdown(link->fd, SHUT_RDWR);
    } else if (idle) {
        (void)send_out(link); // A connection that is gone is found by the thread.
        if (link->out.size > 0)
            wake(link);
    }
}

#define SERVER "the train server"

// The first one did not say it.
static int server_version(const trp_wire_answer *answer)
{
    return answer->revision == 0                                ? 1
           : answer->revision > 0 && answer->revision < INT_MAX ? (int)answer->revision
                                                                : -1;
}

// With the lock.
static void take_hello(trp_server_link *link, const trp_wire_frame *frame)
{
    trp_arena arena = {0};
    trp_wire_answer answer = {0};
    if (frame->format != TRP_WIRE_FORMAT) { // Nothing of it can be read.
        (void)trp_wire_agree(SERVER, frame->format, TRP_WIRE_VERSION);
        be_refused(link, TROUPE_VERSION, troupe_last_error()->text);
    } else if (frame->kind != TRP_WIRE_ANSWER ||
               trp_wire_read(frame, &troupe_type_trp_wire_answer, &arena, &answer) != TROUPE_OK) {
        be_refused(link, TROUPE_VERSION, "the train server answers in a way that is not known");
    } else if (answer.status != TROUPE_OK) {
        be_refused(link, (troupe_status)answer.status, answer.text != NULL ? answer.text : "");
    } else if (trp_wire_agree(SERVER, frame->format, server_version(&answer)) != TROUPE_OK) {
        be_refused(link, TROUPE_VERSION, troupe_last_error()->text);
    } else {
        link->greeted = true;
        pthread_cond_broadcast(&link->changed);
    }
    trp_arena_clear(&arena);
}

// Without the lock.
static void take_frame(trp_server_link *link, const trp_wire_frame *frame)
{
    pthread_mutex_lock(&link->lock);
    bool hello = frame->number != 0 && frame->number == link->hello;
    pending *it = hello || frame->number == 0 ? NULL : find_pending(link, frame->number);
    bool again = false;
    if (!hello && !link->greeted) { // Of a server that has refused this program.
        pthread_mutex_unlock(&link->lock);
        return;
    }
    if (hello) {
        take_hello(link, frame);
        again = link->greeted && link->was_up;
        link->was_up |= link->greeted;
    } else if (it != NULL) {
        remove_pending(link, it);
        it->answered = true;
        it->kind = frame->kind;
        trp_buffer_append(&it->answer, frame->data, frame->size);
        if (it->left)
            free_pending(it);
        pthread_cond_broadcast(&link->changed);
    }
    pthread_mutex_unlock(&link->lock);
    if (again && link->told.again != NULL)
        link->told.again(link->told.user);
    if (!hello && it == NULL && link->told.frame != NULL)
        link->told.frame(link->told.user, frame);
}

// Reads what has come. False: the connection is gone. Without the lock.
static bool read_in(trp_server_link *link)
{
    enum { PIECE = 64 * 1024 };
    trp_wire_frame frame;
    if (!trp_buffer_reserve(&link->in, PIECE))
        return false;
    ssize_t got = recv(link->fd, link->in.data + link->in.size, PIECE, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    link->in.size += (size_t)got;
    size_t at = 0, used;
    do {
        if (trp_wire_take(link->in.data + at, link->in.size - at, TRP_WIRE_BYTES_MAX, &frame,
                          &used) != TROUPE_OK)
            return false;
        if (used > 0)
            take_frame(link, &frame);
        at += used;
    } while (used > 0);
    memmove(link->in.data, link->in.data + at, link->in.size - at);
    link->in.size -= at;
    return true;
}

// ---- the thread

// Without the lock.
static void reconnect(trp_server_link *link)
{
    enum { AGAIN_MS = 50 };
    int fd = -1;
    uint64_t count;
    troupe_status status = trp_server_connect(link->state_folder, &fd);
    pthread_mutex_lock(&link->lock);
    if (status == TROUPE_OK)
        begin_connection(link, fd);
    else if (status == TROUPE_UNSUPPORTED || (status == TROUPE_NOT_FOUND && !link->was_up))
        be_refused(link, status, troupe_last_error()->text); // Who opens it may start one.
    bool none = link->fd < 0;
    pthread_mutex_unlock(&link->lock);
    trp_error_forget();
    if (!none)
        return;
    struct timespec pause = {0, AGAIN_MS * 1000000};
    nanosleep(&pause, NULL);
    (void)(read(link->wake, &count, sizeof count) < 0);
}

// One turn of an open connection.
static void serve(trp_server_link *link, bool wants_out)
{
    uint64_t count;
    struct pollfd waits[] = {
        {.fd = link->fd, .events = (short)(POLLIN | (wants_out ? POLLOUT : 0))},
        {.fd = link->wake, .events = POLLIN},
    };
    if (poll(waits, 2, -1) < 0)
        return;
    if (waits[1].revents != 0)
        (void)(read(link->wake, &count, sizeof count) < 0);
    bool open = (waits[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0 || read_in(link);
    pthread_mutex_lock(&link->lock);
    if (open && link->fd >= 0)
        open = send_out(link);
    if (!open && link->fd >= 0)
        lose_connection(link);
    pthread_mutex_unlock(&link->lock);
}

static void *run(void *user)
{
    trp_server_link *link = user;
    trp_thread_be_prompt(true);
    for (;;) {
        pthread_mutex_lock(&link->lock);
        bool ends = link->closing || link->refused.status != TROUPE_OK;
        bool open = link->fd >= 0, wants_out = link->out.size > 0;
        pthread_mutex_unlock(&link->lock);
        if (ends)
            return NULL;
        if (open)
            serve(link, wants_out);
        else
            reconnect(link);
    }
}

// ---- asking

// Waits for a change; false: that time has passed (negative: it never does). With the lock.
static bool await(trp_server_link *link, int64_t until_ms)
{
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    if (until_ms < 0)
        return pthread_cond_wait(&link->changed, &link->lock) == 0;
    return pthread_cond_timedwait(&link->changed, &link->lock, &until) == 0;
}

static troupe_status read_answer(const trp_server_question *question, const pending *it,
                                 trp_arena *arena, void *answer)
{
    trp_wire_answer failed = {0};
    trp_wire_frame frame = {
        .kind = it->kind, .data = it->answer.data, .size = it->answer.size, .number = it->number};
    if (it->answer.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an answer of the train server");
    if (it->kind == TRP_WIRE_ANSWER) {
        TROUPE_TRY(trp_wire_read(&frame, &troupe_type_trp_wire_answer, arena, &failed));
        if (failed.status != TROUPE_OK)
            return troupe_fail((troupe_status)failed.status, "%s",
                               failed.text != NULL ? failed.text : "the train server refuses it");
    }
    if (it->kind != question->answer)
        return troupe_fail(TROUPE_MALFORMED,
                           "the train server answers a request of kind %d by one of kind %d, "
                           "expected %d",
                           (int)question->kind, (int)it->kind, (int)question->answer);
    return trp_wire_read(&frame, question->has, arena, answer);
}

static pending *make_pending(trp_server_link *link, const trp_server_question *question)
{
    pending *made = trp_alloc(sizeof *made);
    if (made == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a request to the train server");
        return NULL;
    }
    *made = (pending){.once = question->once};
    pthread_mutex_lock(&link->lock);
    made->number = ++link->numbers;
    pthread_mutex_unlock(&link->lock);
    if (trp_wire_put(&made->frame, question->kind, made->number, question->type, question->value) ==
        TROUPE_OK)
        return made;
    free_pending(made);
    return NULL;
}

// Why the wait is over, of one that was not answered. With the lock. *leave: it stays in the list.
static troupe_status give_up(trp_server_link *link, const trp_server_question *question,
                             pending *it, bool *leave)
{
    *leave = false;
    if (it->lost)
        return troupe_fail(TROUPE_PEER_LOST,
                           "the connection to the train server of %s was lost before it had "
                           "answered",
                           link->state_folder);
    *leave = question->lasts && !link->closing && link->refused.status == TROUPE_OK;
    if (*leave)
        it->left = true;
    else
        remove_pending(link, it);
    if (link->refused.status != TROUPE_OK)
        return trp_error_set(&link->refused);
    if (link->closing)
        return troupe_fail(TROUPE_CANCELLED, "the connection to the train server was closed");
    return troupe_fail(TROUPE_TIMED_OUT, "the train server of %s has not answered within %d ms",
                       link->state_folder, question->timeout_ms);
}

troupe_status trp_server_link_ask(trp_server_link *link, const trp_server_question *question,
                                  trp_arena *arena, void *answer)
{
    bool leave = false;
    troupe_status status = TROUPE_OK;
    int64_t until_ms = question->timeout_ms < 0 ? -1 : trp_clock_ms() + question->timeout_ms;
    pending *it = make_pending(link, question);
    if (it == NULL)
        return troupe_last_error()->status;
    pthread_mutex_lock(&link->lock);
    *link->last = it;
    link->last = &it->next;
    send_now(link, it->frame.data, it->frame.size);
    while (!it->answered && !it->lost && !link->closing && link->refused.status == TROUPE_OK &&
           await(link, until_ms))
        continue;
    if (!it->answered)
        status = give_up(link, question, it, &leave);
    pthread_mutex_unlock(&link->lock);
    if (status == TROUPE_OK)
        status = read_answer(question, it, arena, answer);
    if (!leave)
        free_pending(it);
    return status;
}

troupe_status trp_server_link_tell(trp_server_link *link, trp_wire_kind kind,
                                   const troupe_type *type, const void *value)
{
    trp_buffer frame = {0};
    pthread_mutex_lock(&link->lock);
    uint32_t number = ++link->numbers;
    troupe_status status = trp_wire_put(&frame, kind, number, type, value);
    if (status == TROUPE_OK && link->fd >= 0)
        send_now(link, frame.data, frame.size);
    pthread_mutex_unlock(&link->lock);
    trp_buffer_free(&frame);
    return status;
}

// ---- its life

static void free_link(trp_server_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    for (pending *at = link->first, *next; at != NULL; at = next) {
        next = at->next;
        free_pending(at);
    }
    trp_buffer_free(&link->in);
    trp_buffer_free(&link->out);
    close(link->wake);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    trp_free(link);
}

static trp_server_link *make_link(const char *state_folder, const trp_server_told *told)
{
    size_t size = strlen(state_folder) + 1;
    trp_server_link *made = trp_alloc(sizeof *made + size);
    int fd = made != NULL ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (fd < 0) {
        trp_free(made);
        return NULL;
    }
    memcpy(made->state_folder, state_folder, size);
    if (told != NULL)
        made->told = *told;
    made->wake = fd;
    made->fd = -1;
    made->last = &made->first;
    pthread_mutex_init(&made->lock, NULL);
    trp_cond_open(&made->changed);
    return made;
}

// Waits until the server has answered the greeting.
static troupe_status await_hello(trp_server_link *link)
{
    enum { HELLO_MS = 5000 };
    int64_t until_ms = trp_clock_ms() + HELLO_MS;
    troupe_status status = TROUPE_OK;
    pthread_mutex_lock(&link->lock);
    while (!link->greeted && link->refused.status == TROUPE_OK && await(link, until_ms))
        continue;
    if (link->refused.status != TROUPE_OK)
        status = trp_error_set(&link->refused);
    else if (!link->greeted)
        status = troupe_fail(TROUPE_TIMED_OUT, "the train server of %s does not answer within %d s",
                             link->state_folder, HELLO_MS / 1000);
    pthread_mutex_unlock(&link->lock);
    return status;
}

troupe_status trp_server_link_open(const char *state_folder, const trp_server_told *told,
                                   trp_server_link **link)
{
    int fd;
    TROUPE_TRY(trp_server_connect(state_folder, &fd));
    trp_server_link *made = make_link(state_folder, told);
    if (made == NULL) {
        close(fd);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a connection to the train server");
    }
    begin_connection(made, fd);
    troupe_status status = trp_thread_start(&made->thread, "troupe-link", run, made);
    if (status != TROUPE_OK) {
        free_link(made);
        return status;
    }
    status = await_hello(made);
    if (status == TROUPE_OK)
        *link = made;
    else
        trp_server_link_close(&made);
    return status;
}

void trp_server_link_close(trp_server_link **held)
{
    trp_server_link *link = *held;
    troupe_error kept;
    if (link == NULL)
        return;
    *held = NULL;
    trp_error_hold(&kept);
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    wake(link);
    pthread_join(link->thread, NULL);
    free_link(link);
    trp_error_restore(&kept);
}

bool trp_server_link_is_up(trp_server_link *link)
{
    pthread_mutex_lock(&link->lock);
    struct pollfd ready = {.fd = link->fd, .events = POLLRDHUP};
    bool up = link->fd >= 0 && link->greeted && link->refused.status == TROUPE_OK &&
              poll(&ready, 1, 0) == 0;
    pthread_mutex_unlock(&link->lock);
    return up;
}
