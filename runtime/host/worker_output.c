// worker_output.c: the lines of worker processes at the driver (see host/worker_output.h).
#include <runtime/host/worker_output.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/base/screen.h>
#include <runtime/base/thread.h>
#include <runtime/host/line_folding.h>
#include <runtime/host/output_listener.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 16384, // A longer line is printed in pieces of this size.
    FEW_BYTES = 128,        // And of this size where there is no memory.
    BATCH_BYTES = 65536,
    LABEL_MAX = 96,
    EVENTS = 32,
};

typedef struct stream stream;

// One worker process.
typedef struct source {
    uint64_t incarnation;
    uint32_t slot;
    uint32_t labels; // That the process has given itself, as far as `label` knows.
    char label[LABEL_MAX];
    int open;   // Streams that have not ended.
    bool heard; // `listener` is told of its lines.
    trp_output_listener listener;
} source;

struct stream {
    stream *next, **at; // What points to it.
    source *of;
    int fd;
    bool to_stderr;
    char *line;        // `few` until that was once too small: most workers print nothing.
    size_t used, room; // Of it; used by the beginning of a line whose end has not come.
    char few[FEW_BYTES];
};

static struct {
    pthread_t thread;
    bool prefixed;
    bool logged;              // What somebody listens to is not printed.
    int events, socket, wake; // -1: none.
    pid_t owner;
    stream *streams;
    trp_fold *fold; // NULL: lines are not folded.
    bool hinted;    // The first fold has said how to turn it off.
    size_t batch_used;
    bool batch_to_stderr;
    _Atomic bool started; // The thread runs: who sets it to false ends the thread.
    _Atomic bool stop;    // Set before the write to `wake`, read after it.
    // Of those that wait until what is there has been read:
    pthread_mutex_t lock;
    pthread_cond_t caught_up;
    uint64_t asked, answered; // Under the lock.
} output = {.events = -1,
            .socket = -1,
            .wake = -1,
            .lock = PTHREAD_MUTEX_INITIALIZER,
            .caught_up = PTHREAD_COND_INITIALIZER};

static char batch[BATCH_BYTES] TRP_VAST;

// ---- printing

static void flush_batch(void)
{
    if (output.batch_used > 0)
        trp_screen_print(output.batch_to_stderr ? STDERR_FILENO : STDOUT_FILENO, batch,
                         output.batch_used);
    output.batch_used = 0;
}

static void print_line(const trp_fold_line *line, uint64_t repeated)
{
    enum { ROOM = LINE_MAX_BYTES + LABEL_MAX + 128 };
    if (output.batch_used > 0 &&
        (output.batch_to_stderr != line->to_stderr || output.batch_used + ROOM > BATCH_BYTES))
        flush_batch();
    output.batch_to_stderr = line->to_stderr;
    char *at = batch + output.batch_used;
    int size = 0;
    if (output.prefixed)
        size = snprintf(at, LABEL_MAX + 4, "(%s) ", line->label);
    memcpy(at + size, line->text, line->size);
    size += (int)line->size;
    if (repeated > 0) {
        size += snprintf(at + size, 128, " [repeated %llux across %s]%s",
                         (unsigned long long)repeated, line->of_rank ? "ranks" : "workers",
                         output.hinted ? "" : " (TROUPE_LOG_FOLD=0 prints each)");
        output.hinted = true;
    }
    at[size++] = '\n';
    output.batch_used += (size_t)size;
}

// Finds out who writes, as far as that is known yet. The row may have been given to another process
// meanwhile: what is read counts only if it has not.
static void find_label(source *who)
{
    trp_process_row *row = trp_segment_process(who->slot);
    uint32_t labels = atomic_load(&row->labelled);
    if (labels > 0 && labels == who->labels)
        return;
    char name[TRP_LABEL_MAX] = "";
    const char *label = trp_row_label(row); // No older than what was counted.
    if (label != NULL)
        memcpy(name, label, sizeof name);
    int pid = row->pid;
    if (row->incarnation != who->incarnation)
        return;
    trp_printable_clean(name, sizeof name);
    if (label == NULL)
        snprintf(name, sizeof name, "worker %u", who->slot);
    snprintf(who->label, sizeof who->label, "%s pid=%d", name, pid);
    who->labels = labels;
}

static bool has_listener(source *who)
{
    if (!who->heard)
        who->heard = trp_output_listener_take(who->incarnation, &who->listener);
    return who->heard;
}

static void take_line(stream *from, const char *text, size_t size)
{
    find_label(from->of);
    if (has_listener(from->of)) {
        from->of->listener.line(from->of->listener.user, text, size);
        if (from->of->listener.alone || output.logged)
            return;
    }
    trp_fold_line line = {.source = from->of->incarnation,
                          .to_stderr = from->to_stderr,
                          .of_rank = from->of->labels > 1,
                          .label = from->of->label,
                          .text = text,
                          .size = size};
    if (output.fold != NULL)
        trp_fold_take(output.fold, &line, trp_clock_ms());
    else
        print_line(&line, 0);
}

// ---- reading

static void end_source(source *ended)
{
    if (has_listener(ended))
        ended->listener.end(ended->listener.user);
    trp_free(ended);
}

static void end_stream(stream *ended)
{
    if (ended->used > 0)
        take_line(ended, ended->line, ended->used);
    *ended->at = ended->next;
    if (ended->next != NULL)
        ended->next->at = ended->at;
    // Closing would not take it out of the set while a fork() of user code has the descriptor too.
    (void)epoll_ctl(output.events, EPOLL_CTL_DEL, ended->fd, NULL);
    close(ended->fd);
    if (--ended->of->open == 0)
        end_source(ended->of);
    if (ended->line != ended->few)
        trp_free(ended->line);
    trp_free(ended);
}

// It stays as it is if there is no memory.
static void make_room(stream *of)
{
    char *line = trp_alloc(LINE_MAX_BYTES);
    if (line == NULL)
        return;
    memcpy(line, of->few, sizeof of->few);
    of->line = line;
    of->room = LINE_MAX_BYTES;
}

// Reads once from a stream and takes the lines that are whole; false: nothing was there. A stream
// that has ended is freed.
static bool read_stream(stream *from)
{
    ssize_t got = read(from->fd, from->line + from->used, from->room - from->used);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) {
        end_stream(from);
        return false;
    }
    size_t begin = 0, end = from->used + (size_t)got;
    for (char *eol; (eol = memchr(from->line + begin, '\n', end - begin)) != NULL;) {
        take_line(from, from->line + begin, (size_t)(eol - from->line) - begin);
        begin = (size_t)(eol - from->line) + 1;
    }
    if (end == from->room && from->line == from->few)
        make_room(from);
    if (begin == 0 && end == from->room) {
        take_line(from, from->line, end);
        begin = end;
    }
    from->used = end - begin;
    memmove(from->line, from->line + begin, from->used);
    return true;
}

static stream *add_stream(source *of, int fd, bool to_stderr)
{
    stream *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return NULL;
    *made = (stream){.next = output.streams,
                     .at = &output.streams,
                     .of = of,
                     .fd = fd,
                     .to_stderr = to_stderr,
                     .line = made->few,
                     .room = sizeof made->few};
    if (made->next != NULL)
        made->next->at = &made->next;
    output.streams = made;
    of->open++;
    (void)fcntl(fd, F_SETFL, O_NONBLOCK); // Of this end alone.
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = made};
    (void)epoll_ctl(output.events, EPOLL_CTL_ADD, fd, &event);
    return made;
}

static void add_source(const trp_output_notice *notice, const int fds[2])
{
    source *made = trp_alloc(sizeof *made);
    bool added = false;
    if (made != NULL) {
        made->incarnation = notice->incarnation;
        made->slot = notice->slot;
        snprintf(made->label, sizeof made->label, "worker %u", notice->slot);
        added = add_stream(made, fds[0], false) != NULL;
        if (added && add_stream(made, fds[1], true) == NULL) {
            trp_log(TRP_ERROR, "no memory to read the errors of worker process %u", notice->slot);
            close(fds[1]);
        }
    }
    if (added)
        return;
    trp_log(TRP_ERROR, "no memory to read the output of worker process %u", notice->slot);
    trp_free(made);
    close(fds[0]);
    close(fds[1]);
}

// A worker's ends have not come whole. What has come is closed, since the worker would wait for
// ever once a pipe that nobody reads is full.
static void refuse_source(const trp_output_notice *notice, const struct cmsghdr *header)
{
    size_t bytes = header != NULL ? header->cmsg_len - CMSG_LEN(0) : 0;
    for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
        close(fd);
    }
    trp_log(TRP_ERROR,
            "the output of worker process %u cannot be read, and writing it may end it (SIGPIPE): "
            "this process has too many descriptors open",
            notice->slot);
}

// Takes the next worker's pipes from the keeper's socket; false: there are none now.
static bool hear_keeper(void)
{
    trp_output_notice notice;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = &notice, .iov_len = sizeof notice};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t got = recvmsg(output.socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got != (ssize_t)sizeof notice) { // The keeper has gone.
        // As in end_stream: a fork() of user code may have it too.
        (void)epoll_ctl(output.events, EPOLL_CTL_DEL, output.socket, NULL);
        close(output.socket);
        output.socket = -1;
        return false;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL || header->cmsg_len != CMSG_LEN(2 * sizeof(int)) ||
        notice.slot >= TRP_PROCESSES_MAX) {
        refuse_source(&notice, header);
        return true;
    }
    int fds[2];
    memcpy(fds, CMSG_DATA(header), sizeof fds);
    add_source(&notice, fds);
    return true;
}

// Takes what is there now: as much as the largest pipe can hold, in case somebody still writes.
static void drain_all(void)
{
    enum { ROUNDS_MAX = 256 };
    while (output.socket >= 0 && hear_keeper())
        continue;
    bool more = true;
    for (int i = 0; i < ROUNDS_MAX && more; i++) {
        more = false;
        for (stream *it = output.streams, *next; it != NULL; it = next) {
            next = it->next; // Streams are only added at the front.
            more = read_stream(it) || more;
        }
        flush_batch();
    }
}

// For those that had asked before.
static void catch_up(void)
{
    pthread_mutex_lock(&output.lock);
    uint64_t asked = output.asked, answered = output.answered;
    pthread_mutex_unlock(&output.lock);
    if (asked == answered)
        return;
    drain_all();
    pthread_mutex_lock(&output.lock);
    output.answered = asked;
    pthread_cond_broadcast(&output.caught_up);
    pthread_mutex_unlock(&output.lock);
}

static void handle(const struct epoll_event *event)
{
    uint64_t wakes;
    if (event->data.ptr == &output.socket)
        while (output.socket >= 0 && hear_keeper())
            continue;
    else if (event->data.ptr == &output.wake)
        (void)!read(output.wake, &wakes, sizeof wakes);
    else
        (void)read_stream(event->data.ptr);
}

static void *output_main(void *unused)
{
    (void)unused;
    while (!output.stop) {
        TRP_FAULT("read output");
        int64_t due = -1, now = trp_clock_ms();
        if (output.fold != NULL)
            due = trp_fold_end_windows(output.fold, now, false);
        flush_batch();
        struct epoll_event events[EVENTS];
        int left = due < 0 ? -1 : due <= now ? 0 : (int)(due - now);
        int count = epoll_wait(output.events, events, EVENTS, left);
        for (int i = 0; i < count; i++)
            handle(&events[i]);
        catch_up(); // Not within `handle`: streams end here that the events may name.
    }
    drain_all();
    while (output.streams != NULL)
        end_stream(output.streams);
    if (output.fold != NULL)
        (void)trp_fold_end_windows(output.fold, trp_clock_ms(), true);
    flush_batch();
    return NULL;
}

// ---- start and stop

static bool is_set_to(const char *variable, const char *wanted)
{
    const char *value = getenv(variable);
    return value != NULL && strcmp(value, wanted) == 0;
}

// When the driver leaves by exit() without troupe_stop: what its workers have written until now is
// printed. Not from a child that user code forked.
static void stop_at_exit(void)
{
    if (output.started && output.owner == getpid())
        trp_output_stop();
}

static void close_all(void)
{
    int *fds[] = {&output.events, &output.socket, &output.wake};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    trp_fold_destroy(output.fold);
    output.fold = NULL;
}

troupe_status trp_output_open(const troupe_options *options, int *keeper_end)
{
    *keeper_end = -1;
    if (options->worker_output == TROUPE_OUTPUT_DIRECT)
        return TROUPE_OK;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return trp_fail_errno(TROUPE_IO, "the socket for the output of workers could not be made");
    output.socket = pair[0];
    output.prefixed =
        options->worker_output != TROUPE_OUTPUT_PLAIN && !is_set_to("TROUPE_LOG_PREFIX", "0");
    output.logged = options->worker_output == TROUPE_OUTPUT_LOGGED;
    output.hinted = false;
    if (!options->worker_output_unfolded && !is_set_to("TROUPE_LOG_FOLD", "0"))
        output.fold = trp_fold_create(print_line, options->worker_output_fold_numbers ||
                                                      is_set_to("TROUPE_LOG_FOLD", "numbers"));
    *keeper_end = pair[1];
    return TROUPE_OK;
}

troupe_status trp_output_start(int keeper_end)
{
    if (keeper_end < 0)
        return TROUPE_OK;
    close(keeper_end);
    output.events = epoll_create1(EPOLL_CLOEXEC);
    output.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    output.stop = false;
    output.owner = getpid();
    struct epoll_event socket_event = {.events = EPOLLIN, .data.ptr = &output.socket};
    struct epoll_event wake_event = {.events = EPOLLIN, .data.ptr = &output.wake};
    if (output.events < 0 || output.wake < 0 ||
        epoll_ctl(output.events, EPOLL_CTL_ADD, output.socket, &socket_event) != 0 ||
        epoll_ctl(output.events, EPOLL_CTL_ADD, output.wake, &wake_event) != 0) {
        troupe_status status =
            trp_fail_errno(TROUPE_IO, "the output of workers cannot be waited for");
        close_all();
        return status;
    }
    static bool registered;
    if (!registered)
        registered = atexit(stop_at_exit) == 0;
    troupe_status status = trp_thread_start(&output.thread, "troupe-output", output_main, NULL);
    output.started = status == TROUPE_OK;
    if (output.started)
        trp_output_listeners_begin();
    else
        close_all();
    return status;
}

bool trp_output_catch_up(int timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (!output.started)
        return true;
    pthread_mutex_lock(&output.lock);
    uint64_t mine = ++output.asked, one = 1;
    (void)!write(output.wake, &one, sizeof one);
    int error = 0;
    while (output.answered < mine && error == 0)
        error = pthread_cond_timedwait(&output.caught_up, &output.lock, &until);
    bool done = output.answered >= mine;
    pthread_mutex_unlock(&output.lock);
    return done;
}

void trp_output_stop(void)
{
    if (!atomic_exchange(&output.started, false)) {
        close_all();
        return;
    }
    output.stop = true;
    uint64_t one = 1;
    (void)!write(output.wake, &one, sizeof one);
    (void)pthread_join(output.thread, NULL);
    trp_output_listeners_end();
    close_all();
}

// ---- in the keeper and in workers

bool trp_output_pipes_make(int reads[2], int ends[2])
{
    int out[2], errors[2];
    if (pipe2(out, O_CLOEXEC) != 0)
        return false;
    if (pipe2(errors, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return false;
    }
    reads[0] = out[0];
    reads[1] = errors[0];
    ends[0] = out[1];
    ends[1] = errors[1];
    return true;
}

bool trp_output_pipes_send(int keeper_end, uint32_t slot, uint64_t incarnation, const int reads[2])
{
    trp_output_notice notice = {.slot = slot, .incarnation = incarnation};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {.iov_base = &notice, .iov_len = sizeof notice};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(header), reads, 2 * sizeof(int));
    // The keeper must not wait: a driver that does not listen gets no more than its socket holds.
    return sendmsg(keeper_end, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

bool trp_output_pipes(int keeper_end, uint32_t slot, uint64_t incarnation, int ends[2])
{
    int reads[2];
    if (keeper_end < 0 || !trp_output_pipes_make(reads, ends))
        return false;
    bool sent = trp_output_pipes_send(keeper_end, slot, incarnation, reads);
    for (int i = 0; i < 2; i++) {
        close(reads[i]);
        if (!sent)
            close(ends[i]);
    }
    return sent;
}

void trp_output_redirect(const int ends[2])
{
    if (dup2(ends[0], STDOUT_FILENO) < 0 || dup2(ends[1], STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE); // Nobody could be told of anything from here on.
}
