// memory_storage.h: a storage in the memory of another process, so that drivers can be killed: its
// server, and the table "memory" of those who use it. Names are
// "<path of a socket that ends with .socket>/<name of an object>".
//
// A process has one connection. What it has taken is free again when that closes.
#ifndef MEMORY_STORAGE_H
#define MEMORY_STORAGE_H

#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <troupe.h>
#include <unistd.h>

enum {
    MEMORY_PUT,
    MEMORY_GET,
    MEMORY_APPEND,
    MEMORY_LIST,
    MEMORY_REMOVE,
    MEMORY_TAKE,
    MEMORY_LEAVE
};
enum { MEMORY_NAME = 1024, MEMORY_CLIENTS = 64 };

typedef struct memory_request {
    int kind;
    size_t name_size;
    uint64_t offset;
    size_t size; // Of the data behind the name, or of what is to be read.
} memory_request;

typedef struct memory_answer {
    int status;
    size_t size; // Of what follows: bytes, names with their NULs, or who has it.
} memory_answer;

// All or nothing.
static bool memory_send(int fd, const void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(fd, (const char *)data + at, size - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += (size_t)sent;
    }
    return true;
}

static bool memory_receive(int fd, void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = recv(fd, (char *)data + at, size - at, MSG_WAITALL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

// ---- the server

typedef struct memory_object {
    struct memory_object *next;
    char name[MEMORY_NAME];
    char *data;
    size_t size;
} memory_object;

typedef struct memory_owner {
    struct memory_owner *next;
    char name[MEMORY_NAME];
    int fd; // Of its connection.
    int pid;
} memory_owner;

static memory_object *memory_objects;
static memory_owner *memory_owners;

static memory_object **memory_find(const char *name)
{
    memory_object **at = &memory_objects;
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

// Who has what the name is below of.
static const memory_owner *memory_owner_of(const char *name)
{
    for (const memory_owner *at = memory_owners; at; at = at->next) {
        size_t size = strlen(at->name);
        if (strncmp(at->name, name, size) == 0 && (name[size] == '/' || name[size] == '\0'))
            return at;
    }
    return NULL;
}

static void memory_leave_all(int fd, const char *name)
{
    for (memory_owner **at = &memory_owners; *at;) {
        memory_owner *it = *at;
        if (it->fd == fd && (!name || strcmp(it->name, name) == 0)) {
            *at = it->next;
            free(it);
        } else {
            at = &it->next;
        }
    }
}

static troupe_status memory_write(const char *name, uint64_t offset, const char *data, size_t size)
{
    memory_object **at = memory_find(name), *it = *at;
    if (offset > (it ? it->size : 0))
        return TROUPE_INVALID;
    if (!it) {
        it = *at = (memory_object *)calloc(1, sizeof *it);
        snprintf(it->name, sizeof it->name, "%s", name);
    }
    it->data = (char *)realloc(it->data, offset + size + 1);
    memcpy(it->data + offset, data, size);
    it->size = offset + size;
    return TROUPE_OK;
}

static void memory_answer_with(int fd, troupe_status status, const void *data, size_t size)
{
    const memory_answer answer = {(int)status, size};
    if (memory_send(fd, &answer, sizeof answer))
        (void)memory_send(fd, data, size);
}

static void memory_list(int fd, const char *name)
{
    static char names[1 << 20];
    size_t size = 0, length = strlen(name);
    for (const memory_object *at = memory_objects; at; at = at->next) {
        if (strncmp(at->name, name, length) != 0 || at->name[length] != '/')
            continue;
        const char *child = at->name + length + 1, *slash = strchr(child, '/');
        size_t child_size = slash ? (size_t)(slash - child) + 1 : strlen(child);
        bool known = false;
        for (size_t i = 0; i < size; i += strlen(names + i) + 1)
            known |= strlen(names + i) == child_size && memcmp(names + i, child, child_size) == 0;
        if (known || size + child_size + 1 > sizeof names)
            continue;
        memcpy(names + size, child, child_size);
        names[size + child_size] = '\0';
        size += child_size + 1;
    }
    memory_answer_with(fd, TROUPE_OK, names, size);
}

static void memory_take(int fd, const char *name, int pid)
{
    const memory_owner *owner = memory_owner_of(name);
    char text[64];
    if (owner) {
        snprintf(text, sizeof text, "process %d", owner->pid);
        memory_answer_with(fd, TROUPE_BUSY, text, strlen(text));
        return;
    }
    memory_owner *made = (memory_owner *)calloc(1, sizeof *made);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->fd = fd;
    made->pid = pid;
    made->next = memory_owners;
    memory_owners = made;
    memory_answer_with(fd, TROUPE_OK, NULL, 0);
}

static void memory_obey(int fd, const memory_request *request, const char *name, const char *data)
{
    const memory_owner *owner = memory_owner_of(name);
    memory_object **at = memory_find(name), *it = *at;
    bool changes = request->kind == MEMORY_PUT || request->kind == MEMORY_APPEND ||
                   request->kind == MEMORY_REMOVE;
    if (changes && owner && owner->fd != fd) {
        memory_answer_with(fd, TROUPE_BUSY, "another process", strlen("another process"));
    } else if (request->kind == MEMORY_PUT) {
        if (it)
            it->size = 0;
        memory_answer_with(fd, memory_write(name, 0, data, request->size), NULL, 0);
    } else if (request->kind == MEMORY_APPEND) {
        memory_answer_with(fd, memory_write(name, request->offset, data, request->size), NULL, 0);
    } else if (request->kind == MEMORY_LIST) {
        memory_list(fd, name);
    } else if (request->kind == MEMORY_TAKE) {
        memory_take(fd, name, (int)request->offset);
    } else if (request->kind == MEMORY_LEAVE) {
        memory_leave_all(fd, name);
        memory_answer_with(fd, TROUPE_OK, NULL, 0);
    } else if (!it) {
        memory_answer_with(fd, TROUPE_NOT_FOUND, NULL, 0);
    } else if (request->kind == MEMORY_GET) {
        size_t from = request->offset < it->size ? (size_t)request->offset : it->size;
        size_t left = it->size - from;
        memory_answer_with(fd, TROUPE_OK, it->data + from,
                           left < request->size ? left : request->size);
    } else {
        *at = it->next;
        free(it->data);
        free(it);
        memory_answer_with(fd, TROUPE_OK, NULL, 0);
    }
}

// One request of a client; false: it is gone, and what it had not sent whole is nothing.
static bool memory_serve_one(int fd)
{
    memory_request request;
    char name[MEMORY_NAME];
    if (!memory_receive(fd, &request, sizeof request) || request.name_size >= sizeof name ||
        !memory_receive(fd, name, request.name_size))
        return false;
    name[request.name_size] = '\0';
    bool has_data = request.kind == MEMORY_PUT || request.kind == MEMORY_APPEND;
    char *data = (char *)malloc(has_data ? request.size + 1 : 1);
    bool whole = data && (!has_data || memory_receive(fd, data, request.size));
    if (whole)
        memory_obey(fd, &request, name, data);
    free(data);
    return whole;
}

static _Noreturn void memory_serve(int listener)
{
    struct pollfd all[MEMORY_CLIENTS + 1] = {{.fd = listener, .events = POLLIN}};
    nfds_t count = 1;
    for (;;) {
        (void)poll(all, count, -1);
        // Those that have gone come first, with what they had still sent: others may want what they
        // had taken.
        for (int gone = 1; gone >= 0; gone--) {
            for (nfds_t i = count; i-- > 1;) {
                if (!(gone ? all[i].revents & POLLHUP : all[i].revents))
                    continue;
                bool there = memory_serve_one(all[i].fd);
                while (gone && there)
                    there = memory_serve_one(all[i].fd);
                if (there)
                    continue;
                memory_leave_all(all[i].fd, NULL);
                close(all[i].fd);
                all[i] = all[--count];
            }
        }
        if (all[0].revents && count <= MEMORY_CLIENTS)
            all[count++] = (struct pollfd){.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC),
                                           .events = POLLIN};
    }
}

static pid_t memory_server;

// Begins a server, whose socket is in that folder. Returns the path of a storage in it, for free.
// Before the process has threads.
static inline char *memory_storage_start(const char *folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/memory.socket", folder);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, MEMORY_CLIENTS), 0);
    memory_server = fork();
    assert_true(memory_server >= 0);
    if (memory_server == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        memory_serve(listener);
    }
    close(listener);
    char *storage = (char *)malloc(sizeof address.sun_path + 32);
    sprintf(storage, "memory:%s/runs", address.sun_path);
    return storage;
}

static inline void memory_storage_end(void)
{
    if (memory_server <= 0)
        return;
    assert_int_equal(kill(memory_server, SIGKILL), 0);
    assert_int_equal(waitpid(memory_server, NULL, 0), memory_server);
    memory_server = 0;
}

// ---- the table

static struct {
    pthread_mutex_t lock;
    pid_t pid; // Whose connection it is.
    int fd;
    int taken; // A connection that was lost is not made again by one who has lost a run with it.
} memory_client = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static bool memory_connect(const char *path, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (memory_client.fd >= 0 || memory_client.taken > 0)
        return memory_client.fd >= 0;
    if (size >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, size);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        memory_client.fd = fd;
    else if (fd >= 0)
        close(fd);
    return memory_client.fd >= 0;
}

static bool memory_ask(const memory_request *request, const char *name, const void *data,
                       memory_answer *answer, char **bytes)
{
    int fd = memory_client.fd;
    bool has_data = request->kind == MEMORY_PUT || request->kind == MEMORY_APPEND;
    *bytes = NULL;
    if (!memory_send(fd, request, sizeof *request) || !memory_send(fd, name, request->name_size) ||
        (has_data && !memory_send(fd, data, request->size)) ||
        !memory_receive(fd, answer, sizeof *answer))
        return false;
    *bytes = (char *)malloc(answer->size + 1);
    if (!*bytes || !memory_receive(fd, *bytes, answer->size))
        return false;
    (*bytes)[answer->size] = '\0';
    return true;
}

// What follows the answer is the caller's.
static troupe_status memory_call(memory_request request, const char *name, const void *data,
                                 memory_answer *answer, char **bytes)
{
    const char *socket_end = strstr(name, ".socket/");
    if (!socket_end)
        return troupe_fail(TROUPE_INVALID, "memory:%s does not begin with a socket", name);
    socket_end += strlen(".socket");
    request.name_size = strlen(socket_end + 1);
    pthread_mutex_lock(&memory_client.lock);
    if (memory_client.pid != getpid()) {
        memory_client.pid = getpid();
        memory_client.fd = -1;
        memory_client.taken = 0;
    }
    bool there = memory_connect(name, (size_t)(socket_end - name)) &&
                 memory_ask(&request, socket_end + 1, data, answer, bytes);
    if (there && answer->status == TROUPE_OK)
        memory_client.taken += (request.kind == MEMORY_TAKE) - (request.kind == MEMORY_LEAVE);
    if (!there && memory_client.fd >= 0) {
        close(memory_client.fd);
        memory_client.fd = -1;
        free(*bytes);
    }
    pthread_mutex_unlock(&memory_client.lock);
    if (!there)
        return troupe_fail(TROUPE_IO, "the storage memory:%s does not answer", name);
    troupe_status status = (troupe_status)answer->status;
    if (status == TROUPE_BUSY)
        (void)troupe_fail(status, "memory:%s is being run by %s", name, *bytes);
    else if (status != TROUPE_OK)
        (void)troupe_fail(status, "memory:%s: %s", name, troupe_strerror(status));
    if (status != TROUPE_OK)
        free(*bytes);
    return status;
}

static troupe_status memory_do(memory_request request, const char *name, const void *data)
{
    memory_answer answer;
    char *bytes;
    TROUPE_TRY(memory_call(request, name, data, &answer, &bytes));
    free(bytes);
    return TROUPE_OK;
}

static troupe_status memory_put(void *user, const char *name, const void *data, size_t size)
{
    (void)user;
    return memory_do((memory_request){.kind = MEMORY_PUT, .size = size}, name, data);
}

static troupe_status memory_put_file(void *user, const char *name, const char *file)
{
    struct stat about;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0)
        return troupe_fail(TROUPE_IO, "cannot open %s", file);
    size_t size = (size_t)about.st_size, held = 0;
    char *data = (char *)malloc(size + 1);
    for (ssize_t got = 1; data && held < size && got > 0; held += got > 0 ? (size_t)got : 0)
        got = read(fd, data + held, size - held);
    close(fd);
    troupe_status status = data && held == size ? memory_put(user, name, data, size)
                                                : troupe_fail(TROUPE_IO, "cannot read %s", file);
    free(data);
    return status;
}

static troupe_status memory_get(void *user, const char *name, uint64_t offset, void *data,
                                size_t size, size_t *got)
{
    (void)user;
    memory_answer answer;
    char *bytes;
    TROUPE_TRY(memory_call((memory_request){.kind = MEMORY_GET, .offset = offset, .size = size},
                           name, NULL, &answer, &bytes));
    memcpy(data, bytes, answer.size);
    *got = answer.size;
    free(bytes);
    return TROUPE_OK;
}

static troupe_status memory_append(void *user, const char *name, uint64_t offset, const void *data,
                                   size_t size)
{
    (void)user;
    return memory_do((memory_request){.kind = MEMORY_APPEND, .offset = offset, .size = size}, name,
                     data);
}

static troupe_status memory_sync(void *user, const char *name)
{
    (void)user, (void)name; // What is there is there.
    return TROUPE_OK;
}

static troupe_status memory_list_names(void *user, const char *name,
                                       void (*each)(void *to, const char *child), void *to)
{
    (void)user;
    memory_answer answer;
    char *bytes;
    TROUPE_TRY(memory_call((memory_request){.kind = MEMORY_LIST}, name, NULL, &answer, &bytes));
    for (size_t at = 0; at < answer.size; at += strlen(bytes + at) + 1)
        each(to, bytes + at);
    free(bytes);
    return TROUPE_OK;
}

static troupe_status memory_remove(void *user, const char *name)
{
    (void)user;
    return memory_do((memory_request){.kind = MEMORY_REMOVE}, name, NULL);
}

static troupe_status memory_take_name(void *user, const char *name)
{
    (void)user;
    return memory_do((memory_request){.kind = MEMORY_TAKE, .offset = (uint64_t)getpid()}, name,
                     NULL);
}

static void memory_leave_name(void *user, const char *name)
{
    (void)user;
    (void)memory_do((memory_request){.kind = MEMORY_LEAVE}, name, NULL);
}

static const troupe_storage memory_storage = {
    .abi = TROUPE_ABI,
    .scheme = "memory",
    .put = memory_put,
    .put_file = memory_put_file,
    .get = memory_get,
    .append = memory_append,
    .sync = memory_sync,
    .list = memory_list_names,
    .remove = memory_remove,
    .take = memory_take_name,
    .leave = memory_leave_name,
};

#endif
