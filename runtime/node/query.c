// query.c: see query.h.
//
// A question is a trp_question, an answer a trp_answer_head and behind it the packed value, or the
// error text of a failure. One is answered at a time: others wait in the socket's queue.
#include <runtime/node/query.h>

#include <errno.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/base/thread.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/inspect.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    QUEUE = 8,            // Programs that wait for their turn.
    SLOW_ASKER_MS = 2000, // For a question to come, and for each part of an answer to be taken.
    ANSWER_MS = 10000,    // For the driver to answer: processes that hang take it 2 s each.
    WHOLE_MAX = 1 << 30,
};

typedef struct trp_question {
    uint64_t most;
} trp_question;

typedef struct trp_answer_head {
    int32_t status;
    uint64_t size; // Of what follows.
} trp_answer_head;

_Static_assert((int)TRP_RUN_FOLDER_MAX == (int)TRP_FOLDER_MAX, "the header holds the folder");

static struct {
    trp_query_answer answer;
    bool started;
    _Atomic bool stopping;
    int listener;
    _Atomic int asker;    // -1: nobody is being answered.
    pthread_mutex_t lock; // Of `asker`, so that it is not closed while it is shut down.
    pthread_t thread;
} query = {.listener = -1, .asker = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

void trp_query_answer_set(trp_query_answer answer)
{
    query.answer = answer;
}

// ---- both ends

static bool set_timeout(int fd, int ms)
{
    struct timeval time = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0;
}

static bool send_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        ssize_t got = recv(fd, at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = ECONNRESET;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

// Whether the other end is this user's, or root's.
static bool is_trusted(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static bool name_socket(const char *folder, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int size = snprintf(name->sun_path, sizeof name->sun_path, "%s/query", folder);
    return size > 0 && size < (int)sizeof name->sun_path;
}

// ---- the driver

static bool answer_failure(int fd, troupe_status status)
{
    const char *text = troupe_last_error()->text;
    trp_answer_head head = {.status = status, .size = strlen(text)};
    return send_all(fd, &head, sizeof head) && send_all(fd, text, head.size);
}

static troupe_status pack(uint64_t most, void **packed, size_t *size)
{
    const troupe_type *type;
    const void *value;
    *packed = NULL;
    if (query.answer == NULL)
        return troupe_fail(TROUPE_UNSUPPORTED, "this node has no actors");
    TROUPE_TRY(query.answer(most, &type, &value));
    troupe_status status = troupe_pack_as(type, value, NULL, 0, size);
    if (status != TROUPE_OK && status != TROUPE_TOO_LARGE)
        return status;
    if ((*packed = trp_alloc(*size)) == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an answer of %zu bytes", *size);
    return troupe_pack_as(type, value, *packed, *size, size);
}

static void answer(int fd)
{
    trp_question question;
    void *packed;
    size_t size;
    if (!is_trusted(fd) || !set_timeout(fd, SLOW_ASKER_MS) ||
        !receive_all(fd, &question, sizeof question))
        return;
    troupe_status status = pack(question.most, &packed, &size);
    trp_answer_head head = {.status = TROUPE_OK, .size = size};
    if (status != TROUPE_OK)
        (void)answer_failure(fd, status);
    else if (send_all(fd, &head, sizeof head))
        (void)send_all(fd, packed, size);
    trp_free(packed);
    troupe_arena_reset();
}

static void set_asker(int fd)
{
    pthread_mutex_lock(&query.lock);
    int before = query.asker;
    query.asker = fd;
    if (fd >= 0 && query.stopping)
        (void)shutdown(fd, SHUT_RDWR);
    pthread_mutex_unlock(&query.lock);
    if (before >= 0)
        close(before);
}

static void *query_main(void *unused)
{
    enum { REST_MS = 100 }; // Where no descriptor is left for one who asks.
    (void)unused;
    while (!query.stopping) {
        int fd = accept4(query.listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && errno != EINTR && !query.stopping)
            (void)usleep(REST_MS * 1000);
        if (fd < 0)
            continue;
        set_asker(fd);
        answer(fd);
        set_asker(-1);
    }
    return NULL;
}

troupe_status trp_query_start(void)
{
    struct sockaddr_un name;
    char *folder = trp_segment.header->run_folder;
    snprintf(folder, sizeof trp_segment.header->run_folder, "%s", trp_self.folder);
    if (!name_socket(trp_self.folder, &name))
        return troupe_fail(TROUPE_INVALID, "the folder %s is too long for a socket",
                           trp_self.folder);
    query.stopping = false;
    query.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (query.listener < 0 || bind(query.listener, (struct sockaddr *)&name, sizeof name) != 0 ||
        listen(query.listener, QUEUE) != 0) {
        troupe_status status =
            trp_fail_errno(TROUPE_IO, "the socket %s could not be made", name.sun_path);
        if (query.listener >= 0)
            close(query.listener);
        query.listener = -1;
        return status;
    }
    troupe_status status = trp_thread_start(&query.thread, "troupe-query", query_main, NULL);
    query.started = status == TROUPE_OK;
    if (!query.started) {
        close(query.listener);
        query.listener = -1;
    }
    return status;
}

void trp_query_stop(void)
{
    if (!query.started)
        return;
    query.stopping = true;
    pthread_mutex_lock(&query.lock);
    (void)shutdown(query.listener, SHUT_RDWR);
    if (query.asker >= 0)
        (void)shutdown(query.asker, SHUT_RDWR);
    pthread_mutex_unlock(&query.lock);
    pthread_join(query.thread, NULL);
    close(query.listener);
    query.listener = -1;
    query.started = false;
}

// ---- who asks

// Where the driver of that node can be asked, and who it is.
static troupe_status find_driver(int pid, struct sockaddr_un *name, int *driver)
{
    trp_store_view view;
    char folder[TRP_RUN_FOLDER_MAX];
    TROUPE_TRY(trp_view_open(pid, &view));
    memcpy(folder, view.header->run_folder, sizeof folder);
    *driver = trp_view_process(&view, TRP_PROCESS_DRIVER).pid;
    trp_view_close(&view);
    folder[sizeof folder - 1] = '\0';
    if (folder[0] == '\0')
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "process %d is a node in one process (TROUPE_LOCAL=1), or is starting: "
                           "it cannot be asked from outside",
                           pid);
    if (folder[0] != '/' || !name_socket(folder, name))
        return troupe_fail(TROUPE_CORRUPT, "the node of process %d names no folder", pid);
    return TROUPE_OK;
}

static troupe_status no_answer(int driver)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return troupe_fail(
            TROUPE_DEADLINE_EXCEEDED, "the driver (pid %d) has not answered within %d s%s", driver,
            ANSWER_MS / 1000, trp_process_is_stopped(driver) ? ": it is stopped" : "");
    return trp_fail_errno(TROUPE_IO, "the driver (pid %d) ended or gave no answer", driver);
}

static troupe_status take_answer(int fd, int driver, const troupe_type *type, void *value)
{
    trp_answer_head head;
    char text[sizeof((troupe_error *)0)->text] = "";
    if (!receive_all(fd, &head, sizeof head))
        return no_answer(driver);
    if (head.status != TROUPE_OK) {
        if (head.size >= sizeof text || !receive_all(fd, text, head.size))
            return no_answer(driver);
        trp_printable_clean(text, sizeof text);
        return troupe_fail((troupe_status)head.status, "%s", text);
    }
    if (head.size > WHOLE_MAX)
        return troupe_fail(TROUPE_MALFORMED, "the driver (pid %d) claims to answer %llu bytes",
                           driver, (unsigned long long)head.size);
    void *packed = trp_alloc(head.size > 0 ? head.size : 1);
    if (packed == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an answer of %llu bytes",
                           (unsigned long long)head.size);
    troupe_status status = receive_all(fd, packed, head.size)
                               ? troupe_unpack_as(type, packed, head.size, value)
                               : no_answer(driver);
    trp_free(packed);
    return status;
}

troupe_status trp_query_ask(int pid, uint64_t most, const troupe_type *type, void *value)
{
    struct sockaddr_un name;
    trp_question question = {.most = most};
    int driver = pid;
    TROUPE_TRY(find_driver(pid, &name, &driver));
    if (trp_process_is_stopped(driver))
        return troupe_fail(TROUPE_DEADLINE_EXCEEDED,
                           "the driver (pid %d) is stopped and cannot answer", driver);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || !set_timeout(fd, ANSWER_MS) ||
        connect(fd, (const struct sockaddr *)&name, sizeof name) != 0) {
        troupe_status failure = trp_fail_errno(
            TROUPE_NOT_FOUND, "the driver (pid %d) cannot be asked at %s", driver, name.sun_path);
        if (fd >= 0)
            close(fd);
        return failure;
    }
    troupe_status status;
    if (geteuid() != 0 && !is_trusted(fd))
        status = troupe_fail(TROUPE_NOT_FOUND, "%s is another user's", name.sun_path);
    else
        status = send_all(fd, &question, sizeof question) ? take_answer(fd, driver, type, value)
                                                          : no_answer(driver);
    close(fd);
    return status;
}
