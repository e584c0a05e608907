// frame.h: what travels between processes. Between machines it is a MessagePack array of the
// header's fields, then the body; between processes of one machine a record of a fixed header,
// where a new field has to be added too (batch.h).
//
// The header has its sender's incarnation, a sequence number of the link, the target's incarnation,
// the deadline left and the protocol version from the start: see docs/internals/runtime/frames.md.
#ifndef TRP_LINK_FRAME_H
#define TRP_LINK_FRAME_H

#include <runtime/base/buffer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

enum {
    TRP_FRAME_VERSION = 1,
    TRP_FRAME_INLINE_MAX = 64 * 1024, // A larger body goes through the store.
};

typedef enum trp_frame_kind {
    // Between a process and the runtime of another.
    TRP_FRAME_FLUSH = 1, // wants a FLUSH with `call` 1 back, behind which nothing is missing
    TRP_FRAME_ASK,       // a request to the node process; `method` is a trp_ask
    TRP_FRAME_ANSWER,
    TRP_FRAME_DEATH,  // the node process: a process has died; the row says why
    TRP_FRAME_END,    // the node process: end in order
    TRP_FRAME_CREDIT, // `call` messages and `schema` bytes of the window are free again
    TRP_FRAME_PAUSE,  // send actor `target` no CALL and TELL until (`method` 1) this is taken back
    TRP_FRAME_REACH,  // between nodes: where the sender listens; the first frame of a link
    TRP_FRAME_BEAT,   // between nodes: nothing before it is missing
    TRP_FRAME_NODE,   // from or to a node process, about other nodes; `method` is a trp_node_word
    TRP_FRAME_GONE,   // the node process: process `target` (0: all) of session `schema` is lost
    // Of the layer above; this one only carries them.
    TRP_FRAME_CALL = 16, // wants a REPLY to `call`
    TRP_FRAME_TELL,
    TRP_FRAME_REPLY,
    TRP_FRAME_SPAWN,  // wants a REPLY
    TRP_FRAME_KILL,   // ends actor `target` now
    TRP_FRAME_FINISH, // ends actor `target` after what is in its mailbox
    TRP_FRAME_WATCH,  // wants a DOWN of number `call` when actor `target` ends
    TRP_FRAME_UNWATCH,
    TRP_FRAME_DOWN, // the actor of watch `call` has ended: `method` and `schema` are the reason and
                    // signal, the body the text
    TRP_FRAME_COUNT,     // actor `target` is retained or released by the sender: see ends/retain.h
    TRP_FRAME_RESTART,   // actor `target` is to be restarted in place
    TRP_FRAME_REGISTRAR, // the driver: what is asked about restarted actors (see
                         // actor/restart_in_place.h)
    TRP_FRAME_LINK,   // actor `target` is linked with, or (flag) untied from, actor `call` of the
                      // sender
    TRP_FRAME_CANCEL, // gives `call` to actor `target` up; FORCE: even if the process must be
                      // killed
    TRP_FRAME_ITEM,   // a value of the stream of `call`, from actor `target`
    TRP_FRAME_TAKEN,  // `method` values of the stream of `call` have been read
    TRP_FRAME_PROBE,  // what actor `target` waits for is asked by who waits for `call`; or
                      // (`method` 0) that has been looked at: see actor/deadlock_probe.h
} trp_frame_kind;

enum {
    TRP_FRAME_BOXED = 1u << 30, // Of the runtime: it was too large for a ring and is in an object.
    TRP_FRAME_STORED = 1u << 0, // The body is the id of an object that has the real body.
    TRP_FRAME_NAMED = 1u << 1,  // The method is named in the body, not numbered.
    TRP_FRAME_IMAGE = 1u << 2,  // The body is a flat value's memory. Within a node alone.
    TRP_FRAME_OBJECT = 1u << 3, // The body is the id of an object that is the value.
    // Of a CALL or TELL: the body is a flat value's memory, the ids of the objects that the
    // references in it name and that the receiver was given holds of, and how many those are.
    TRP_FRAME_HELD = 1u << 4,
    // Its receiver could not be given the holds that the body lists: it has none of them.
    TRP_FRAME_UNHELD = 1u << 5,
    TRP_FRAME_UNLINK = 1u << 8, // Of a LINK,
    TRP_FRAME_OWNED = 1u << 11, // which is of an owner.
    // Of a CANCEL; of a KILL: calls that run are given up; of a RESTART: nothing is saved before.
    TRP_FRAME_FORCE = 1u << 9,
    TRP_FRAME_GENTLE = 1u << 10, // Of a CANCEL: only if the call waits still.
    // Of a CALL that opens a stream: 14 bits of its flags are the window.
    TRP_FRAME_WINDOW_SHIFT = 16,
    TRP_FRAME_WINDOW_MAX = (1 << 14) - 1,
};

typedef struct trp_frame {
    trp_frame_kind kind;
    uint32_t flags;
    uint32_t from; // Process slot and incarnation of the sender: set by the sending side.
    uint64_t from_incarnation;
    uint64_t to_incarnation;
    uint64_t sequence; // Of the link, from 1.
    uint64_t target;   // Actor.
    uint32_t method;
    uint64_t schema;      // Of a call: the method's hash. Of a reply: of its value.
    uint64_t call;        // Number of the call at its sender; a reply carries it back. 0: no reply.
    uint32_t deadline_ms; // Left when it was sent; 0: none.
    uint32_t status;      // Of a reply: troupe_status,
    uint32_t outcome;     // troupe_outcome,
    uint32_t executed;    // troupe_executed.
    const void *body;
    size_t body_size;
    // Of one that is sent: the objects that the body names, each as often as it does. The receiver
    // is given holds of them when it can read the frame, and no sooner: until then they are this
    // process's, and end with it. The caller holds them while it sends.
    const uint64_t *held;
    uint32_t held_count;
} trp_frame;

// Whether kind, status, outcome and executed are known ones: then they can be used as indexes.
bool trp_frame_valid(const trp_frame *frame);
// Appends the frame.
void trp_frame_write(const trp_frame *frame, trp_buffer *out);
// Reads one frame that fills `data` exactly; `body` points into it. TROUPE_MALFORMED, or
// TROUPE_VERSION naming both versions.
troupe_status trp_frame_read(const void *data, size_t size, trp_frame *frame);

#endif
