// route_client.c: see route_client.h.
#include <serve/route_client.h>

#include <errno.h>
#include <poll.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <serve/route_frame.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct asked {
    struct asked *next;
    uint64_t id;
    trp_route_answered answered; // NULL: its answer is not wanted.
    void *user;
} asked;

struct trp_route_client {
    trp_route_stream stream;
    asked *first, **last; // In the order of their numbers.
    size_t under_way;
    uint64_t ids;
    troupe_status over; // Why the connection is over, with its text.
    char text[TRP_ROUTE_TEXT_MAX + 1];
};

troupe_status trp_route_client_open(const char *path, trp_route_client **client)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof name.sun_path)
        return troupe_fail(TROUPE_INVALID, "the path of socket %.200s has %zu bytes, may have %zu",
                           path, strlen(path), sizeof name.sun_path - 1);
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    trp_route_client *made = (trp_route_client *)trp_alloc(sizeof *made);
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a connection to %s", path);
    made->last = &made->first;
    made->stream.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    troupe_status status = TROUPE_OK;
    if (made->stream.fd < 0)
        status = trp_fail_errno(TROUPE_IO, "no socket for %s", path);
    else if (connect(made->stream.fd, (const struct sockaddr *)&name, sizeof name) != 0)
        status = trp_fail_errno(errno == EAGAIN                            ? TROUPE_BUSY
                                : errno == ENOENT || errno == ECONNREFUSED ? TROUPE_NOT_FOUND
                                                                           : TROUPE_IO,
                                "cannot connect to a service at %s", path);
    else
        status = trp_route_check_peer(made->stream.fd);
    if (status != TROUPE_OK) {
        trp_route_stream_clear(&made->stream);
        trp_free(made);
        return status;
    }
    *client = made;
    return TROUPE_OK;
}

int trp_route_client_fd(const trp_route_client *client)
{
    return client->stream.fd;
}

short trp_route_client_events(const trp_route_client *client)
{
    return (short)(trp_route_unsent(&client->stream) > 0 ? POLLIN | POLLOUT : POLLIN);
}

size_t trp_route_client_under_way(const trp_route_client *client)
{
    return client->under_way;
}

size_t trp_route_client_unsent(const trp_route_client *client)
{
    return trp_route_unsent(&client->stream);
}

static troupe_status is_over(const trp_route_client *client)
{
    return client->over == TROUPE_OK ? TROUPE_OK : troupe_fail(client->over, "%s", client->text);
}

// It is over, by the thread's last error. Nobody is told yet.
static troupe_status end(trp_route_client *client)
{
    client->over = troupe_last_error()->status;
    (void)snprintf(client->text, sizeof client->text, "%s", troupe_last_error()->text);
    return client->over;
}

troupe_status trp_route_client_send(trp_route_client *client, const troupe_tensor *x,
                                    trp_route_answered answered, void *user, uint64_t *id)
{
    if (client->over != TROUPE_OK)
        return troupe_fail(TROUPE_PEER_LOST, "%s", client->text);
    TROUPE_TRY(troupe_tensor_check(x, TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY));
    size_t size = troupe_tensor_count(x) * troupe_dtype_size(x->dtype);
    if (size > TRP_ROUTE_REQUEST_MAX)
        return troupe_fail(TROUPE_TOO_LARGE, "a request has %zu bytes, may have %d", size,
                           TRP_ROUTE_REQUEST_MAX);
    asked *it = (asked *)trp_alloc(sizeof *it);
    if (!it)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a request");
    *it = (asked){NULL, client->ids + 1, answered, user};
    troupe_status status = trp_route_put_tensor(&client->stream, TRP_ROUTE_REQUEST, it->id, x);
    if (status != TROUPE_OK) {
        trp_free(it);
        return status;
    }
    *client->last = it;
    client->last = &it->next;
    client->under_way++;
    client->ids++;
    if (id)
        *id = it->id;
    // At once where it can be; the next turn tells of a connection that is over.
    (void)trp_route_flush(&client->stream);
    return TROUPE_OK;
}

static asked **find(trp_route_client *client, uint64_t id)
{
    asked **at = &client->first;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static asked *take(trp_route_client *client, asked **at)
{
    asked *it = *at;
    *at = it->next;
    if (!*at)
        client->last = at;
    client->under_way--;
    return it;
}

void trp_route_client_cancel(trp_route_client *client, uint64_t id)
{
    asked *it = *find(client, id);
    if (it)
        it->answered = NULL;
}

static bool on_frame(void *user, trp_route_reader *reader)
{
    trp_route_client *client = (trp_route_client *)user;
    const trp_route_head *head = &reader->head;
    asked **at = find(client, head->id);
    if (!*at) {
        (void)troupe_fail(TROUPE_MALFORMED, "an answer came that was not asked for");
        (void)end(client);
        return false;
    }
    asked it = **at;
    trp_free(take(client, at));
    if (!it.answered)
        return true;
    if (reader->dropped) {
        it.answered(it.user, TROUPE_NO_MEMORY, "no memory for an answer", NULL);
    } else if (head->kind == TRP_ROUTE_FAILURE) {
        it.answered(it.user, (troupe_status)head->status, reader->body, NULL);
    } else {
        troupe_tensor y = trp_route_tensor(reader);
        it.answered(it.user, TROUPE_OK, NULL, &y);
    }
    return true;
}

// All that is under way may be computed or not.
static void tell_loss(trp_route_client *client)
{
    char text[TRP_ROUTE_TEXT_MAX + 100];
    (void)snprintf(text, sizeof text,
                   "the service was lost with this request under way, it may have been computed: "
                   "%s",
                   client->text);
    while (client->first) {
        asked *it = take(client, &client->first);
        if (it->answered)
            it->answered(it->user, TROUPE_PEER_LOST, text, NULL);
        trp_free(it);
    }
}

troupe_status trp_route_client_turn(trp_route_client *client, short events)
{
    if (client->over == TROUPE_OK && trp_route_flush(&client->stream) != TROUPE_OK)
        (void)end(client);
    // What was answered before the end is still there to be read.
    bool came = (events & (POLLIN | POLLHUP | POLLERR)) != 0 || client->over == TROUPE_PEER_LOST;
    if (came && trp_route_receive(&client->stream, on_frame, client) != TROUPE_OK &&
        client->over == TROUPE_OK)
        (void)end(client);
    if (client->over != TROUPE_OK)
        tell_loss(client);
    return is_over(client);
}

void trp_route_client_close(trp_route_client **client)
{
    trp_route_client *it = *client;
    if (!it)
        return;
    if (it->over == TROUPE_OK) {
        (void)troupe_fail(TROUPE_PEER_LOST, "the connection was closed here");
        (void)end(it);
    }
    tell_loss(it);
    trp_route_stream_clear(&it->stream);
    trp_free(it);
    *client = NULL;
}
