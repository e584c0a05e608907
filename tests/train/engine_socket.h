// engine_socket.h: a second engine, for tests: rank 0 has a socket to each other rank, takes what
// they call, and sends back what comes out. No memory is shared, and nothing interrupts it: its
// waits look at the control. Doubles and integers alone.
#ifndef ENGINE_SOCKET_H
#define ENGINE_SOCKET_H

#include <poll.h>
#include <runtime/base/clock.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <train/control.h>
#include <unistd.h>

enum { SOCKETS_MAX = 8 };

// [rank][0] is rank 0's end, [rank][1] the other. Made before ranks are forked.
static int sockets[SOCKETS_MAX][2];

typedef struct socket_call {
    int operation; // 1: allreduce, 2: broadcast, 3: barrier; of an answer: 0, or the rank that
                   // differs.
    int element, how, root;
    size_t bytes;
} socket_call;

static size_t socket_size(int world)
{
    (void)world;
    return 0;
}

static void socket_init(void *memory, int world)
{
    (void)memory;
    for (int rank = 1; rank < world; rank++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[rank]) != 0)
            abort();
}

static void socket_forget(int world)
{
    for (int rank = 1; rank < world; rank++) {
        close(sockets[rank][0]);
        close(sockets[rank][1]);
    }
}

static troupe_status socket_open(trp_member *member, void *memory, void **link)
{
    (void)memory;
    *link = member;
    return TROUPE_OK;
}

static void socket_close(void *link)
{
    (void)link;
}

// Moves bytes between this rank and another: sends them where `out`, else receives them. Those that
// wait for rank 0's answer give it time to find out who is missing.
static troupe_status socket_move(const trp_member *member, int other, bool out, void *data,
                                 size_t size, const char *what)
{
    enum { LOOK_MS = 20, PATIENCE_MS = 2000 };
    int fd = member->rank == 0 ? sockets[other][0] : sockets[member->rank][1];
    int64_t until_ms = trp_clock_ms() + member->timeout_ms + (member->rank == 0 ? 0 : PATIENCE_MS);
    unsigned char *at = (unsigned char *)data;
    while (size > 0) {
        troupe_status status;
        const char *text;
        ssize_t moved = out ? send(fd, at, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                            : recv(fd, at, size, MSG_DONTWAIT);
        if (moved > 0) {
            at += moved;
            size -= (size_t)moved;
            continue;
        }
        if (!trp_member_is_whole(member))
            return trp_member_lost(member, what);
        if (trp_clock_ms() >= until_ms || trp_control_left(member->control, other, &status, &text))
            return trp_member_absent(member, other, what);
        poll(&(struct pollfd){.fd = fd, .events = out ? POLLOUT : POLLIN}, 1, LOOK_MS);
    }
    return TROUPE_OK;
}

#define SOCKET_COMBINE(T)                                                                          \
    for (size_t i = 0; i < bytes / sizeof(T); i++) {                                               \
        T a = ((T *)into)[i], b = ((const T *)from)[i];                                            \
        ((T *)into)[i] = how == TROUPE_MIN   ? (b < a ? b : a)                                     \
                         : how == TROUPE_MAX ? (b > a ? b : a)                                     \
                                             : a + b;                                              \
    }

static void socket_combine(void *into, const void *from, size_t bytes, troupe_dtype element,
                           troupe_reduction how)
{
    if (element == TROUPE_FLOAT64)
        SOCKET_COMBINE(double)
    else
        SOCKET_COMBINE(int64_t)
}

static troupe_status socket_differs(const char *what, int rank)
{
    return troupe_fail(TROUPE_INVALID, "%s: rank %d called something else", what, rank);
}

// What rank 0 does: takes each rank's call and values in the order of ranks, and answers all.
static troupe_status socket_serve(const trp_member *member, const socket_call *mine, void *data,
                                  const char *what)
{
    int differs = 0;
    void *theirs = malloc(mine->bytes + 1);
    troupe_status status = theirs ? TROUPE_OK : TROUPE_NO_MEMORY;
    for (int rank = 1; rank < member->world && status == TROUPE_OK; rank++) {
        socket_call call;
        status = socket_move(member, rank, false, &call, sizeof call, what);
        if (status != TROUPE_OK)
            break;
        bool same = memcmp(&call, mine, sizeof call) == 0;
        if (!same)
            differs = rank;
        bool sends = same && (call.operation == 1 || (call.operation == 2 && call.root == rank));
        if (sends)
            status = socket_move(member, rank, false, theirs, call.bytes, what);
        if (sends && call.operation == 1)
            socket_combine(data, theirs, call.bytes, (troupe_dtype)call.element,
                           (troupe_reduction)call.how);
        else if (sends)
            memcpy(data, theirs, call.bytes);
    }
    for (int rank = 1; rank < member->world && status == TROUPE_OK; rank++) {
        socket_call answer = {.operation = differs};
        status = socket_move(member, rank, true, &answer, sizeof answer, what);
        if (status == TROUPE_OK && differs == 0)
            status = socket_move(member, rank, true, data, mine->bytes, what);
    }
    free(theirs);
    return status == TROUPE_OK && differs != 0 ? socket_differs(what, differs) : status;
}

static troupe_status socket_operate(void *link, socket_call call, void *data, const char *what)
{
    const trp_member *member = (const trp_member *)link;
    if (!trp_member_is_whole(member))
        return trp_member_lost(member, what);
    if (member->rank == 0)
        return socket_serve(member, &call, data, what);
    socket_call answer;
    TROUPE_TRY(socket_move(member, 0, true, &call, sizeof call, what));
    if (call.operation == 1 || (call.operation == 2 && call.root == member->rank))
        TROUPE_TRY(socket_move(member, 0, true, data, call.bytes, what));
    TROUPE_TRY(socket_move(member, 0, false, &answer, sizeof answer, what));
    if (answer.operation != 0)
        return socket_differs(what, answer.operation);
    return socket_move(member, 0, false, data, call.bytes, what);
}

static troupe_status socket_allreduce(void *link, void *values, size_t count, troupe_dtype element,
                                      troupe_reduction how)
{
    if ((element != TROUPE_FLOAT64 && element != TROUPE_INT64) || how == TROUPE_MEAN)
        return troupe_fail(TROUPE_UNSUPPORTED, "troupe_allreduce: not by this engine");
    socket_call call;
    memset(&call, 0, sizeof call); // It is compared with its padding.
    call.operation = 1;
    call.element = (int)element;
    call.how = (int)how;
    call.bytes = count * sizeof(double);
    return socket_operate(link, call, values, "troupe_allreduce");
}

static troupe_status socket_broadcast(void *link, void *data, size_t size, int root)
{
    socket_call call;
    memset(&call, 0, sizeof call);
    call.operation = 2;
    call.root = root;
    call.bytes = size;
    return socket_operate(link, call, data, "troupe_broadcast");
}

static troupe_status socket_barrier(void *link)
{
    socket_call call;
    memset(&call, 0, sizeof call);
    call.operation = 3;
    return socket_operate(link, call, NULL, "troupe_barrier");
}

static const trp_engine engine_socket = {
    .name = "socket",
    .reaches = TRP_REACHES_HOST,
    .size = socket_size,
    .init = socket_init,
    .open = socket_open,
    .allreduce = socket_allreduce,
    .broadcast = socket_broadcast,
    .barrier = socket_barrier,
    .close = socket_close,
};

#endif
