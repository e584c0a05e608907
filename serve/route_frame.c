// route_frame.c: see route_frame.h.
#include <serve/route_frame.h>

#include <errno.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/tensor.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECEIVED_AT_ONCE = 12 << 10, RECEIVED_IN_A_TURN = 1 << 20, OUT_KEPT = 1 << 20 };

static troupe_tensor tensor_of(const trp_route_head *head, const void *data)
{
    troupe_tensor it = {.data = data, .dtype = (troupe_dtype)head->dtype, .ndim = head->ndim};
    for (size_t i = 0; i < TROUPE_DIMS_MAX; i++)
        it.shape[i] = head->shape[i];
    return it;
}

static troupe_status check_tensor(const trp_route_head *head, uint64_t most)
{
    troupe_tensor it = tensor_of(head, NULL);
    size_t size;
    for (size_t i = head->ndim; i < TROUPE_DIMS_MAX; i++)
        if (head->shape[i] != 0)
            return troupe_fail(TROUPE_MALFORMED, "a frame has dimensions beyond its %u",
                               head->ndim);
    if (head->status != 0)
        return troupe_fail(TROUPE_MALFORMED, "a frame of a tensor has a status");
    if (it.dtype == TROUPE_DTYPE_NONE || trp_tensor_size(&it, &size) != TROUPE_OK)
        return troupe_fail(TROUPE_MALFORMED, "a frame has no tensor: element type %u, rank %u",
                           head->dtype, head->ndim);
    if (size != head->size)
        return troupe_fail(TROUPE_MALFORMED,
                           "a frame has %" PRIu64 " bytes where its type and shape take %zu",
                           head->size, size);
    if (head->size > most)
        return troupe_fail(TROUPE_MALFORMED, "a frame has %" PRIu64 " bytes, may have %" PRIu64,
                           head->size, most);
    return TROUPE_OK;
}

static troupe_status check_failure(const trp_route_head *head)
{
    bool plain = head->dtype == 0 && head->ndim == 0;
    for (size_t i = 0; i < TROUPE_DIMS_MAX; i++)
        plain = plain && head->shape[i] == 0;
    if (!plain)
        return troupe_fail(TROUPE_MALFORMED, "a frame of a failure has a shape");
    if (head->status == TROUPE_OK || head->status >= TROUPE_STATUS_COUNT)
        return troupe_fail(TROUPE_MALFORMED, "a frame of a failure has the status %u",
                           head->status);
    if (head->size > TRP_ROUTE_TEXT_MAX)
        return troupe_fail(TROUPE_MALFORMED, "the text of a failure has %" PRIu64 " bytes",
                           head->size);
    return TROUPE_OK;
}

troupe_status trp_route_head_check(const trp_route_head *head, bool from_client)
{
    if (head->magic != TRP_ROUTE_MAGIC || head->zero != 0)
        return troupe_fail(TROUPE_MALFORMED, "what came is no frame of a route");
    if (head->kind == TRP_ROUTE_REQUEST && from_client)
        return check_tensor(head, TRP_ROUTE_REQUEST_MAX);
    if (head->kind == TRP_ROUTE_ANSWER && !from_client)
        return check_tensor(head, TRP_ROUTE_ANSWER_MAX);
    if (head->kind == TRP_ROUTE_FAILURE && !from_client)
        return check_failure(head);
    return troupe_fail(TROUPE_MALFORMED, "a frame is of kind %u where %s was expected", head->kind,
                       from_client ? "a request" : "an answer");
}

// ---- reading

void *trp_route_take_body(trp_route_reader *reader)
{
    void *body = reader->body;
    if (reader->held)
        atomic_fetch_sub(reader->held, reader->counted);
    reader->counted = 0;
    reader->body = NULL;
    return body;
}

static void begin_frame(trp_route_reader *reader)
{
    trp_free(trp_route_take_body(reader));
    reader->head_got = reader->body_got = 0;
    reader->whole = reader->dropped = false;
}

static void take_memory(trp_route_reader *reader)
{
    uint64_t size = reader->head.size;
    if (reader->held && atomic_fetch_add(reader->held, size) + size > TRP_ROUTE_HELD_MAX)
        reader->dropped = true;
    else
        reader->dropped = !(reader->body = (char *)trp_alloc(size + 1));
    if (reader->held && reader->dropped)
        atomic_fetch_sub(reader->held, size);
    else
        reader->counted = size;
}

troupe_status trp_route_read(trp_route_reader *reader, const void *data, size_t size, size_t *used)
{
    const char *from = (const char *)data;
    trp_route_head *head = &reader->head;
    *used = 0;
    if (reader->whole)
        begin_frame(reader);
    if (reader->head_got < sizeof *head) {
        size_t now = sizeof *head - reader->head_got;
        if (now > size)
            now = size;
        if (now > 0)
            memcpy((char *)head + reader->head_got, from, now);
        reader->head_got += now;
        *used = now;
        if (reader->head_got < sizeof *head)
            return TROUPE_OK;
        troupe_status status = trp_route_head_check(head, reader->from_client);
        if (status != TROUPE_OK) {
            reader->head_got = 0; // It has taken nothing.
            return status;
        }
        take_memory(reader);
    }
    size_t now = head->size - reader->body_got;
    if (now > size - *used)
        now = size - *used;
    if (now > 0 && !reader->dropped)
        memcpy(reader->body + reader->body_got, from + *used, now);
    reader->body_got += now;
    *used += now;
    reader->whole = reader->body_got == head->size;
    return TROUPE_OK;
}

void trp_route_reader_clear(trp_route_reader *reader)
{
    begin_frame(reader);
}

troupe_tensor trp_route_tensor(const trp_route_reader *reader)
{
    return tensor_of(&reader->head, reader->body);
}

// ---- a connection

static troupe_status put(trp_route_stream *stream, const trp_route_head *head, const void *bytes)
{
    if (stream->sent > 0 && stream->sent >= stream->out.size / 2) { // What was sent makes room.
        stream->out.size -= stream->sent;
        memmove(stream->out.data, stream->out.data + stream->sent, stream->out.size);
        stream->sent = 0;
    }
    if (!trp_buffer_reserve(&stream->out, sizeof *head + head->size)) {
        stream->out.failed = false;
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a frame of %" PRIu64 " bytes",
                           head->size);
    }
    trp_buffer_append(&stream->out, head, sizeof *head);
    if (head->size > 0)
        trp_buffer_append(&stream->out, bytes, head->size);
    return TROUPE_OK;
}

troupe_status trp_route_put_tensor(trp_route_stream *stream, trp_route_kind kind, uint64_t id,
                                   const troupe_tensor *tensor)
{
    trp_route_head head = {.magic = TRP_ROUTE_MAGIC,
                           .kind = (uint16_t)kind,
                           .dtype = (uint8_t)tensor->dtype,
                           .ndim = (uint8_t)tensor->ndim,
                           .id = id};
    size_t size;
    TROUPE_TRY(trp_tensor_good(tensor, &size));
    for (uint32_t i = 0; i < tensor->ndim; i++)
        head.shape[i] = tensor->shape[i];
    head.size = size;
    return put(stream, &head, tensor->data);
}

troupe_status trp_route_put_failure(trp_route_stream *stream, uint64_t id, troupe_status status,
                                    const char *text)
{
    size_t size = strlen(text);
    trp_route_head head = {.magic = TRP_ROUTE_MAGIC,
                           .kind = TRP_ROUTE_FAILURE,
                           .id = id,
                           .status = status,
                           .size = size < TRP_ROUTE_TEXT_MAX ? size : TRP_ROUTE_TEXT_MAX};
    return put(stream, &head, text);
}

troupe_status trp_route_flush(trp_route_stream *stream)
{
    while (trp_route_unsent(stream) > 0) {
        ssize_t sent = send(stream->fd, stream->out.data + stream->sent, trp_route_unsent(stream),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return TROUPE_OK;
        if (sent < 0)
            return trp_fail_errno(TROUPE_PEER_LOST, "the connection of a route is over");
        stream->sent += (size_t)sent;
    }
    stream->out.size = stream->sent = 0;
    if (stream->out.capacity > OUT_KEPT)
        trp_buffer_free(&stream->out);
    return TROUPE_OK;
}

// Of a long body what is missing, which is received in its place; else 0.
static size_t missing_of_body(const trp_route_reader *reader)
{
    bool long_one = !reader->whole && !reader->dropped && reader->body &&
                    reader->head.size - reader->body_got > RECEIVED_AT_ONCE;
    return long_one ? reader->head.size - reader->body_got : 0;
}

static bool hand_over(trp_route_reader *reader, trp_route_on_frame frame, void *user)
{
    bool go_on = frame(user, reader);
    begin_frame(reader); // What it had is not held until the next one comes.
    return go_on;
}

troupe_status trp_route_receive(trp_route_stream *stream, trp_route_on_frame frame, void *user)
{
    char bytes[RECEIVED_AT_ONCE];
    trp_route_reader *reader = &stream->reader;
    for (size_t all = 0; all < RECEIVED_IN_A_TURN;) {
        size_t missing = missing_of_body(reader);
        ssize_t got = recv(stream->fd, missing > 0 ? reader->body + reader->body_got : bytes,
                           missing > 0 ? missing : sizeof bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return TROUPE_OK;
        if (got < 0)
            return trp_fail_errno(TROUPE_PEER_LOST, "the connection of a route is over");
        if (got == 0)
            return troupe_fail(TROUPE_PEER_LOST, "the connection of a route was closed");
        all += (size_t)got;
        if (missing > 0) {
            reader->body_got += (size_t)got;
            reader->whole = reader->body_got == reader->head.size;
            if (reader->whole && !hand_over(reader, frame, user))
                return TROUPE_OK;
            continue;
        }
        for (size_t at = 0, used; at < (size_t)got; at += used) {
            TROUPE_TRY(trp_route_read(reader, bytes + at, (size_t)got - at, &used));
            if (reader->whole && !hand_over(reader, frame, user))
                return TROUPE_OK;
        }
        if ((size_t)got < sizeof bytes)
            return TROUPE_OK; // That was all.
    }
    return TROUPE_OK;
}

void trp_route_stream_clear(trp_route_stream *stream)
{
    if (stream->fd >= 0)
        (void)close(stream->fd);
    stream->fd = -1;
    trp_route_reader_clear(&stream->reader);
    trp_buffer_free(&stream->out);
    stream->sent = 0;
}

troupe_status trp_route_check_peer(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return trp_fail_errno(TROUPE_IO, "whose a connection is");
    if (peer.uid != geteuid())
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "a connection is of user %u where only user %u's are taken",
                           (unsigned)peer.uid, (unsigned)geteuid());
    return TROUPE_OK;
}
