// child.c: see child.h.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/codec/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <train/alive.h>
#include <train/child.h>
#include <train/handle.h>
#include <train/job_live.h>
#include <unistd.h>

enum { PACKET_MAX = 160 << 10 };

// A wish that a thread waits for.
typedef struct wish_asked {
    struct wish_asked *next;
    int64_t number;
    bool answered;
    int status;
    char text[512];
} wish_asked;

struct trp_child {
    trp_child_process process;
    trp_tail *tail;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t asked;       // Wishes.
    wish_asked *waiting; // Those of them that are not answered yet.
    bool gone, closing;  // The process; the handle, which is told nothing more.
    bool telling;        // The thread just tells the handle something.
    bool left, over;     // The thread frees this; it is at its end.
    char run[];          // Its folder.
};

// ---- packets

// With MSG_DONTWAIT also TROUPE_TIMED_OUT.
static troupe_status send_packet(int fd, int flags, const troupe_type *type, const void *value)
{
    trp_buffer text = {0};
    troupe_status status = TROUPE_OK;
    trp_json_value(&text, type, value);
    if (text.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a message to another process");
    else if (text.size > PACKET_MAX)
        status = troupe_fail(TROUPE_TOO_LARGE,
                             "a message to another process has %zu bytes: expected at most %d",
                             text.size, PACKET_MAX);
    else if (send(fd, text.data, text.size, flags | MSG_NOSIGNAL) != (ssize_t)text.size)
        status = errno == EAGAIN
                     ? troupe_fail(TROUPE_TIMED_OUT, "the other process has not yet read what it "
                                                     "was told before")
                     : trp_fail_errno(TROUPE_PEER_LOST, "the other process does not listen");
    trp_buffer_free(&text);
    return status;
}

troupe_status trp_packet_send(int fd, const troupe_type *type, const void *value)
{
    return send_packet(fd, 0, type, value);
}

// What is there. TROUPE_PEER_LOST.
static troupe_status receive(int fd, const troupe_type *type, trp_arena *arena, void *value)
{
    trp_json json;
    char *text = trp_arena_alloc(arena, PACKET_MAX);
    if (text == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a message of another process");
    ssize_t got = recv(fd, text, PACKET_MAX, 0);
    if (got <= 0)
        return troupe_fail(TROUPE_PEER_LOST, "the other process has ended");
    TROUPE_TRY(trp_json_parse(text, (size_t)got, &json));
    return trp_json_read(type, json, arena, value);
}

troupe_status trp_packet_receive(int fd, int timeout_ms, const troupe_type *type, trp_arena *arena,
                                 void *value)
{
    int64_t until_ms = trp_clock_ms() + timeout_ms;
    for (;;) {
        struct pollfd event = {.fd = fd, .events = POLLIN};
        int64_t left_ms = until_ms - trp_clock_ms();
        int count = poll(&event, 1, (int)(left_ms > 0 ? left_ms : 0));
        if (count > 0)
            return receive(fd, type, arena, value);
        if (count == 0 && left_ms <= 0)
            return troupe_fail(TROUPE_TIMED_OUT, "the other process has not answered in %g s",
                               timeout_ms / 1000.0);
    }
}

// ---- whose the handle is

static void take_answer(trp_child *child, const trp_child_said *said)
{
    pthread_mutex_lock(&child->lock);
    for (wish_asked *at = child->waiting; at != NULL; at = at->next) {
        if (at->number != said->wish)
            continue;
        at->answered = true;
        at->status = said->status;
        snprintf(at->text, sizeof at->text, "%s", said->text != NULL ? said->text : "");
    }
    pthread_cond_broadcast(&child->changed);
    pthread_mutex_unlock(&child->lock);
}

// Whether the handle may be told something, until end_telling.
static bool begin_telling(trp_child *child)
{
    pthread_mutex_lock(&child->lock);
    bool may = child->telling = !child->closing;
    pthread_mutex_unlock(&child->lock);
    return may;
}

static void end_telling(trp_child *child)
{
    pthread_mutex_lock(&child->lock);
    child->telling = false;
    pthread_cond_broadcast(&child->changed);
    pthread_mutex_unlock(&child->lock);
}

// Keeps how the job ended, with the text in the arena.
static void take_end(trp_arena *arena, const trp_child_said *said, trp_job_end *end)
{
    const char *text = said->end.error != NULL ? said->end.error : "";
    char *copy = trp_arena_alloc(arena, strlen(text) + 1);
    *end = said->end;
    end->error = copy != NULL ? strcpy(copy, text) : "";
}

// Until nobody has the other end any more: then the process has ended.
static void listen_to(trp_child *child, trp_arena *arena, trp_job_end *end)
{
    enum { LOOK_MS = 50 };
    for (;;) {
        struct pollfd event = {.fd = child->process.fd, .events = POLLIN};
        int count = poll(&event, 1, LOOK_MS);
        if (count > 0) {
            trp_arena packet = {0};
            trp_child_said said = {0};
            troupe_status status =
                receive(child->process.fd, &troupe_type_trp_child_said, &packet, &said);
            if (status == TROUPE_OK && said.ended)
                take_end(arena, &said, end);
            else if (status == TROUPE_OK)
                take_answer(child, &said);
            trp_arena_clear(&packet);
            trp_error_forget();
            if (status == TROUPE_PEER_LOST)
                return;
        }
        if (begin_telling(child)) {
            trp_tail_read(child->tail);
            end_telling(child);
        }
    }
}

// The ranks of a process that died are ended by its keeper: a moment later.
static void await_ranks(const trp_child *child)
{
    enum { LONGEST_MS = 30000 };
    const struct timespec pause = {0, 5000000};
    int64_t until_ms = trp_clock_ms() + LONGEST_MS;
    while (trp_alive_has_ranks(child->run) && trp_clock_ms() < until_ms)
        nanosleep(&pause, NULL);
}

static void free_child(trp_child *child)
{
    trp_tail_close(child->tail);
    close(child->process.fd);
    pthread_cond_destroy(&child->changed);
    pthread_mutex_destroy(&child->lock);
    trp_free(child);
}

static void *run(void *user)
{
    trp_child *child = user;
    trp_arena arena = {0};
    trp_job_end end = {.status = TROUPE_PEER_LOST,
                       .error = "the process that did the job has died"};
    trp_thread_be_prompt(true);
    listen_to(child, &arena, &end);
    pthread_mutex_lock(&child->lock);
    child->gone = true;
    pthread_cond_broadcast(&child->changed);
    pthread_mutex_unlock(&child->lock);
    (void)kill(child->process.pid, SIGKILL); // Not reaped yet: it is the same process.
    while (waitpid(child->process.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    await_ranks(child);
    if (begin_telling(child)) {
        trp_tail_end(child->tail, &end);
        end_telling(child);
    }
    trp_arena_clear(&arena);
    trp_error_forget();
    pthread_mutex_lock(&child->lock);
    child->over = true;
    bool own = child->left;
    pthread_mutex_unlock(&child->lock);
    if (own)
        free_child(child);
    return NULL;
}

void trp_child_end(const trp_child_process *process)
{
    close(process->fd);
    (void)kill(process->pid, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

troupe_status trp_child_open(const trp_child_process *process, const char *run_folder,
                             off_t journal, const troupe_train_options *options,
                             const trp_port *port, trp_child **child)
{
    size_t size = strlen(run_folder) + 1;
    trp_child *made = trp_alloc(sizeof *made + size);
    trp_tail *tail = made != NULL ? trp_tail_open(run_folder, journal, options, port) : NULL;
    if (tail == NULL) {
        trp_free(made);
        trp_child_end(process);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to follow the run %s", run_folder);
    }
    *made = (trp_child){.process = *process, .tail = tail};
    memcpy(made->run, run_folder, size);
    pthread_mutex_init(&made->lock, NULL);
    trp_cond_open(&made->changed);
    *child = made; // Before anything is called for it.
    troupe_status status = trp_thread_start(&made->thread, "trp-child", run, made);
    if (status != TROUPE_OK) {
        *child = NULL;
        made->process.fd = dup(process->fd);
        trp_child_end(process);
        free_child(made);
    }
    return status;
}

// With the lock. False: it has not answered in time.
static bool await_answer(trp_child *child, const wish_asked *asked, int64_t until_ms)
{
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    while (!asked->answered && !child->gone)
        if (pthread_cond_timedwait(&child->changed, &child->lock, &until) == ETIMEDOUT)
            break;
    return asked->answered;
}

// With the lock.
static void forget_wish(trp_child *child, const wish_asked *asked)
{
    wish_asked **at = &child->waiting;
    while (*at != asked)
        at = &(*at)->next;
    *at = asked->next;
}

troupe_status trp_child_ask(trp_child *child, const trp_wire_wish *wish)
{
    enum { ANSWER_MS = 5000 };
    pthread_mutex_lock(&child->lock);
    wish_asked own = {.next = child->waiting, .number = ++child->asked};
    const trp_child_wish asked = {own.number, *wish};
    child->waiting = &own;
    troupe_status status =
        send_packet(child->process.fd, MSG_DONTWAIT, &troupe_type_trp_child_wish, &asked);
    if (status == TROUPE_OK && await_answer(child, &own, trp_clock_ms() + ANSWER_MS))
        status = own.status == TROUPE_OK ? TROUPE_OK
                                         : troupe_fail((troupe_status)own.status, "%s", own.text);
    else if (status == TROUPE_OK || child->gone)
        status = child->gone ? troupe_fail(TROUPE_STOPPED, "the job has ended")
                             : troupe_fail(TROUPE_TIMED_OUT,
                                           "the process that does the job has not answered in %d s",
                                           ANSWER_MS / 1000);
    forget_wish(child, &own);
    pthread_mutex_unlock(&child->lock);
    return status;
}

void trp_child_close(trp_child *child)
{
    pthread_mutex_lock(&child->lock);
    child->closing = true;
    pthread_mutex_unlock(&child->lock);
    (void)shutdown(child->process.fd, SHUT_RDWR);
    pthread_join(child->thread, NULL);
    free_child(child);
}

void trp_child_leave(trp_child *child)
{
    pthread_mutex_lock(&child->lock);
    const trp_child_wish stop = {++child->asked, {.wish = TRP_WISH_STOP}};
    child->closing = true;
    while (child->telling)
        pthread_cond_wait(&child->changed, &child->lock);
    trp_tail_close(child->tail);
    child->tail = NULL;
    bool over = child->over,
         told = over || send_packet(child->process.fd, MSG_DONTWAIT, &troupe_type_trp_child_wish,
                                    &stop) == TROUPE_OK;
    if (!told) // It hangs, or has ended.
        (void)shutdown(child->process.fd, SHUT_RDWR);
    child->left = !over;
    if (child->left)
        pthread_detach(child->thread);
    pthread_mutex_unlock(&child->lock);
    trp_error_forget();
    if (!over)
        return;
    pthread_join(child->thread, NULL);
    free_child(child);
}

// ---- who does it

static troupe_status modify(troupe_job *job, const trp_wire_wish *wish, int64_t number)
{
    trp_job *line = trp_handle_line(job);
    if (line == NULL || wish->member == NULL || wish->value == NULL)
        return troupe_fail(TROUPE_INVALID, "there is no value to set");
    troupe_status status = trp_job_modify_json(line, wish->member, wish->value, number);
    trp_job_release(line);
    return status;
}

static troupe_status carry_out(troupe_job *job, const trp_wire_wish *wish, int64_t number)
{
    switch (wish->wish) {
    case TRP_WISH_STOP:
        troupe_job_stop(job);
        return TROUPE_OK;
    case TRP_WISH_STOP_NEXT:
        trp_handle_stop_next(job);
        return TROUPE_OK;
    case TRP_WISH_PAUSE:
        troupe_job_pause(job);
        return TROUPE_OK;
    case TRP_WISH_GO_ON:
        troupe_job_go_on(job);
        return TROUPE_OK;
    case TRP_WISH_RANKS:
        return troupe_job_resize(job, wish->number);
    case TRP_WISH_KILL:
        troupe_job_kill(job, (troupe_status)wish->number, wish->text);
        return TROUPE_OK;
    case TRP_WISH_LIVE:
        return modify(job, wish, number);
    default:
        return troupe_fail(TROUPE_UNSUPPORTED, "a job of no train server has no such thing");
    }
}

// False: nobody asks any more.
static bool take_wishes(int fd, troupe_job *job)
{
    for (struct pollfd event = {.fd = fd, .events = POLLIN}; poll(&event, 1, 0) > 0;) {
        trp_arena arena = {0};
        trp_child_wish asked = {0};
        troupe_status status = receive(fd, &troupe_type_trp_child_wish, &arena, &asked);
        bool lost = status == TROUPE_PEER_LOST;
        if (status == TROUPE_OK)
            status = carry_out(job, &asked.wish, asked.number);
        trp_child_said said = {.wish = asked.number,
                               .status = status,
                               .text = status == TROUPE_OK ? "" : troupe_last_error()->text};
        lost = lost || trp_packet_send(fd, &troupe_type_trp_child_said, &said) != TROUPE_OK;
        trp_arena_clear(&arena);
        trp_error_forget();
        if (lost)
            return false;
    }
    return true;
}

static void say_end(int fd, const troupe_result *result)
{
    trp_child_said said = {
        .ended = true,
        .end = {.status = TROUPE_NO_MEMORY, .error = "there was no memory for how the run ended"}};
    if (result != NULL)
        said.end = (trp_job_end){.status = troupe_result_status(result),
                                 .error = troupe_result_error(result),
                                 .stopped = troupe_result_stopped(result),
                                 .reports = troupe_result_reports(result),
                                 .restarts = troupe_result_restarts(result)};
    (void)trp_packet_send(fd, &troupe_type_trp_child_said, &said);
}

void trp_child_serve(int fd, troupe_job *job)
{
    enum { LOOK_MS = 20 };
    troupe_result *result = NULL;
    while (troupe_job_wait(job, LOOK_MS, &result) == TROUPE_TIMED_OUT)
        if (!take_wishes(fd, job)) {
            troupe_job_close(&job); // Nobody is there to be told.
            return;
        }
    // The files that are made of the journal are there once the handle is closed.
    troupe_job_close(&job);
    say_end(fd, result);
    troupe_result_free(&result);
}
