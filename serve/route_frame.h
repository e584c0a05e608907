// route_frame.h: requests and answers of a service as bytes on a unix socket.
//
// A frame is a head, in this machine's order of bytes, and what follows it: the elements of a
// tensor, or the text of a failure. Each side may send any number of frames. A request has a number
// that its sender chooses, unlike those of its others under way; its answer has the same, and
// answers come in any order.
//
//     offset 0      4     6      7     8   16      20    24    32           96      96 + size
//            magic  kind  dtype  ndim  id  status  zero  size  8 dimensions  bytes
#ifndef TRP_SERVE_ROUTE_FRAME_H
#define TRP_SERVE_ROUTE_FRAME_H

#include <runtime/base/buffer.h>
#include <stdatomic.h>
#include <troupe/tensor.h>

enum {
    TRP_ROUTE_MAGIC = 0x31525254, // "TRR1": a later format has another digit.
    TRP_ROUTE_HEAD = 96,
    TRP_ROUTE_REQUEST_MAX = 64 << 20, // Bytes after the head.
    TRP_ROUTE_ANSWER_MAX = 1 << 30,
    TRP_ROUTE_TEXT_MAX = 511,
    TRP_ROUTE_HELD_MAX = 256 << 20, // That a service takes for frames that have not come whole.
};

typedef enum trp_route_kind {
    TRP_ROUTE_REQUEST = 1, // Rows, of the model's input.
    TRP_ROUTE_ANSWER,      // Its predictions.
    TRP_ROUTE_FAILURE,     // A status, and a text without its zero byte.
} trp_route_kind;

typedef struct trp_route_head {
    uint32_t magic;
    uint16_t kind;
    uint8_t dtype, ndim; // 0, as the dimensions beyond ndim are.
    uint64_t id;
    uint32_t status; // Of a failure; else 0.
    uint32_t zero;
    uint64_t size; // Of what follows: of a tensor, what its type and dimensions take.
    uint64_t shape[TROUPE_DIMS_MAX];
} trp_route_head;
_Static_assert(sizeof(trp_route_head) == TRP_ROUTE_HEAD, "the head has no gaps");

// Whether a head is one that this side may be sent. TROUPE_MALFORMED: the text says what is wrong.
troupe_status trp_route_head_check(const trp_route_head *head, bool from_client);

// ---- reading

// Puts frames together of bytes as they come. Zeroed, and then these two set, it is at a beginning.
typedef struct trp_route_reader {
    bool from_client;
    _Atomic uint64_t *held; // Bytes that several readers have taken memory for; NULL: unbounded.
    uint64_t counted;       // Of them.
    trp_route_head head;
    size_t head_got, body_got;
    char *body;   // Of head.size bytes and one zero byte, once the head has come.
    bool whole;   // The frame is there.
    bool dropped; // There was no memory for its body, which was thrown away.
} trp_route_reader;

// Takes bytes up to the end of a frame, and sets *used to how many. After a frame that is whole it
// begins the next one. TROUPE_MALFORMED: what follows cannot be read any more.
troupe_status trp_route_read(trp_route_reader *reader, const void *data, size_t size, size_t *used);
// Whether some of a frame has come, and not all of it.
static inline bool trp_route_is_amid(const trp_route_reader *reader)
{
    return reader->head_got > 0 && !reader->whole;
}
// The body, to be freed with trp_free.
void *trp_route_take_body(trp_route_reader *reader);
// Lets go of what it has.
void trp_route_reader_clear(trp_route_reader *reader);
// The tensor of a request or an answer, whose elements are the body.
troupe_tensor trp_route_tensor(const trp_route_reader *reader);

// ---- a connection

// A socket that is not waited for, what comes and what goes.
typedef struct trp_route_stream {
    int fd; // -1: none.
    trp_route_reader reader;
    trp_buffer out;
    size_t sent; // Of `out`.
} trp_route_stream;

// Adds a frame to what goes. TROUPE_NO_MEMORY: nothing was added.
troupe_status trp_route_put_tensor(trp_route_stream *stream, trp_route_kind kind, uint64_t id,
                                   const troupe_tensor *tensor);
troupe_status trp_route_put_failure(trp_route_stream *stream, uint64_t id, troupe_status status,
                                    const char *text);
static inline size_t trp_route_unsent(const trp_route_stream *stream)
{
    return stream->out.size - stream->sent;
}
// Sends what can be sent now. TROUPE_PEER_LOST: the connection is over.
troupe_status trp_route_flush(trp_route_stream *stream);
// Receives what is there, up to a bound, and calls `frame` for each that is whole; false of it ends
// this, and the connection with it: what has come after the frame is lost. TROUPE_PEER_LOST: the
// connection is over; TROUPE_MALFORMED.
typedef bool (*trp_route_on_frame)(void *user, trp_route_reader *reader);
troupe_status trp_route_receive(trp_route_stream *stream, trp_route_on_frame frame, void *user);
// Closes the socket and lets go of all.
void trp_route_stream_clear(trp_route_stream *stream);

// Whether the other end of a unix socket is a process of this user. TROUPE_UNSUPPORTED: it is not.
troupe_status trp_route_check_peer(int fd);

#endif
