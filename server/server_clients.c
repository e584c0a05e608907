// server_clients.c: connections: who may have one, what is read from it and sent to it, and the
// bounds of both. A client that does not read is not heard until it does, and of what it watches
// gets the newest state alone: so nothing grows for it.
#include <errno.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <server/say.h>
#include <server/server_internal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10 };

// ---- coming and going

// Whether who connects is this user. Where user numbers are not mapped, strangers share one.
static bool is_own(int fd, struct ucred *peer)
{
    enum { UNMAPPED = 65534 };
    socklen_t size = sizeof *peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0 && peer->uid == geteuid() &&
           peer->uid != UNMAPPED;
}

// One for whom there is no room gets a sentence, if that can be sent at once.
static void turn_away(int fd, troupe_status status, const char *text)
{
    trp_buffer out = {0};
    trp_wire_answer answer = {.status = (int)status, .text = text};
    if (trp_wire_put(&out, TRP_WIRE_ANSWER, 0, &troupe_type_trp_wire_answer, &answer) == TROUPE_OK)
        (void)send(fd, out.data, out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    trp_buffer_free(&out);
    close(fd);
}

static void accept_one(trp_server *server, int fd)
{
    struct ucred peer;
    int most = server->how->clients_max > 0 ? server->how->clients_max : TRP_CLIENTS_MAX;
    if (!is_own(fd, &peer)) {
        turn_away(fd, TROUPE_UNSUPPORTED, "this train server is another user's");
        return;
    }
    if (server->client_count >= most) {
        turn_away(fd, TROUPE_BUSY, "the train server has as many connections as it may");
        return;
    }
    trp_client *client = (trp_client *)trp_alloc(sizeof *client);
    if (client == NULL) {
        turn_away(fd, TROUPE_NO_MEMORY, "the train server has no memory for a connection");
        return;
    }
    client->source = (trp_source){TRP_SOURCE_CLIENT, fd};
    client->process = peer.pid;
    client->events = EPOLLIN;
    if (trp_server_listen_to(server, &client->source, EPOLLIN) != TROUPE_OK) {
        trp_free(client);
        close(fd);
        return;
    }
    client->next = server->clients;
    client->before = &server->clients;
    if (client->next != NULL)
        client->next->before = &client->next;
    server->clients = client;
    server->client_count++;
}

void trp_client_accept(trp_server *server)
{
    for (;;) {
        int fd = accept4(server->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            accept_one(server, fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            if (errno != EAGAIN)
                trp_say("a connection cannot be taken: %s", strerror(errno));
            return;
        }
    }
}

static void die(trp_server *server, trp_client *client)
{
    if (client->dead)
        return;
    client->dead = true;
    trp_server_forget_client(server, client);
    (void)epoll_ctl(server->epoll, EPOLL_CTL_DEL, client->source.fd, NULL);
    close(client->source.fd);
    client->source.fd = -1;
}

void trp_client_free(trp_server *server, trp_client *client)
{
    die(server, client);
    *client->before = client->next;
    if (client->next != NULL)
        client->next->before = client->before;
    server->in_bytes -= client->in.size;
    server->client_count--;
    trp_buffer_free(&client->in);
    trp_buffer_free(&client->out);
    trp_free(client);
}

void trp_client_free_dead(trp_server *server)
{
    for (trp_client *at = server->clients, *next; at != NULL; at = next) {
        next = at->next;
        if (at->dead)
            trp_client_free(server, at);
    }
}

// ---- sending

static void ask_for(trp_server *server, trp_client *client)
{
    size_t waiting = client->out.size - client->sent;
    bool heard = waiting <= TRP_OUT_ENOUGH && !client->closing && !client->more;
    uint32_t events = (heard ? EPOLLIN : 0) | (waiting > 0 ? EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.ptr = &client->source};
    if (client->dead || events == client->events)
        return;
    client->events = events;
    if (epoll_ctl(server->epoll, EPOLL_CTL_MOD, client->source.fd, &event) != 0)
        die(server, client);
}

void trp_client_flush(trp_server *server, trp_client *client)
{
    while (!client->dead && client->sent < client->out.size) {
        ssize_t sent = send(client->source.fd, client->out.data + client->sent,
                            client->out.size - client->sent, MSG_NOSIGNAL);
        if (sent > 0)
            client->sent += (size_t)sent;
        else if (sent < 0 && errno == EAGAIN)
            break;
        else if (sent < 0 && errno != EINTR)
            die(server, client);
    }
    if (client->sent == client->out.size) {
        // The memory of a large answer is given back.
        if (client->out.capacity > READ_BYTES)
            trp_buffer_free(&client->out);
        client->out.size = client->sent = 0;
        if (client->closing)
            die(server, client);
    }
    ask_for(server, client);
}

void trp_client_put(trp_server *server, trp_client *client, trp_wire_kind kind, uint32_t number,
                    const troupe_type *type, const void *value)
{
    if (client->dead || client->closing)
        return;
    troupe_status status = trp_wire_put(&client->out, kind, number, type, value);
    if (status == TROUPE_TOO_LARGE && kind != TRP_WIRE_ANSWER) {
        trp_wire_answer answer = {.status = (int)status, .text = troupe_last_error()->text};
        status = trp_wire_put(&client->out, TRP_WIRE_ANSWER, number, &troupe_type_trp_wire_answer,
                              &answer);
    }
    if (status != TROUPE_OK)
        die(server, client);
    // Sent at the end of the turn, all at once: see trp_client_flush.
}

void trp_client_fail(trp_server *server, trp_client *client, troupe_status status, const char *text)
{
    trp_wire_answer answer = {.status = (int)status, .text = text};
    trp_client_put(server, client, TRP_WIRE_ANSWER, 0, &troupe_type_trp_wire_answer, &answer);
    client->closing = true;
}

// ---- reading

void trp_client_read_frames(trp_server *server, trp_client *client)
{
    size_t at = 0, used = 1;
    int count = 0;
    client->more = false;
    while (!client->dead && !client->closing && used > 0) {
        trp_wire_frame frame;
        size_t most = client->greeted ? TRP_WIRE_BYTES_MAX : TRP_STRANGER_BYTES;
        if (client->out.size - client->sent > TRP_OUT_ENOUGH || count >= TRP_FRAMES_A_TURN) {
            client->more = at < client->in.size;
            break;
        }
        if (trp_wire_take(client->in.data + at, client->in.size - at, most, &frame, &used) !=
            TROUPE_OK) {
            trp_client_fail(server, client, TROUPE_MALFORMED, troupe_last_error()->text);
            break;
        }
        if (used > 0)
            trp_request_handle(server, client, &frame);
        // The list of all is large, and has a turn of its own.
        count += frame.kind == TRP_WIRE_LIST && used > 0 ? TRP_FRAMES_A_TURN : 1;
        at += used;
    }
    if (at > 0) {
        client->in.size -= at;
        memmove(client->in.data, client->in.data + at, client->in.size);
        server->in_bytes -= at;
    }
    if (client->in.size == 0 && client->in.capacity > 4 * READ_BYTES)
        trp_buffer_free(&client->in);
    server->any_more = server->any_more || client->more;
    ask_for(server, client);
}

static void read_some(trp_server *server, trp_client *client)
{
    if (!trp_buffer_reserve(&client->in, READ_BYTES)) {
        trp_client_fail(server, client, TROUPE_NO_MEMORY, "the train server has no memory left");
        return;
    }
    ssize_t got = recv(client->source.fd, client->in.data + client->in.size, READ_BYTES, 0);
    if (got > 0) {
        client->in.size += (size_t)got;
        server->in_bytes += (size_t)got;
        trp_client_read_frames(server, client);
        if (server->in_bytes > TRP_IN_BYTES_MAX)
            trp_client_fail(server, client, TROUPE_BUSY,
                            "too many large requests are under way at the train server");
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        die(server, client);
    }
}

void trp_client_ready(trp_server *server, trp_client *client, uint32_t events)
{
    if (client->dead)
        return;
    if (events & EPOLLOUT) {
        trp_client_flush(server, client);
        trp_server_tell_watches(server, client);
        if (client->more && client->out.size - client->sent <= TRP_OUT_ENOUGH)
            server->any_more = true;
    }
    if (client->dead || client->closing)
        return;
    if (events & EPOLLIN)
        read_some(server, client);
    else if (events & (EPOLLHUP | EPOLLERR))
        die(server, client);
}
