// message.h: what waits in a mailbox: a call or tell with its arguments, or the request to start or
// end.
#ifndef TRP_ACTOR_MESSAGE_H
#define TRP_ACTOR_MESSAGE_H

#include <actors/actor/mailbox_credit.h>
#include <actors/ref/body.h>
#include <actors/sched/mailbox.h>
#include <runtime/base/cell_pool.h>

typedef enum trp_message_kind {
    TRP_MESSAGE_CALL,   // Or a tell, if `call` is 0.
    TRP_MESSAGE_INIT,   // Answered with the actor's id.
    TRP_MESSAGE_FINISH, // The actor ends when it gets here.
    TRP_MESSAGE_NUDGE,  // It looks whether it is to be restarted.
    // Those of async.h, which have an `extra`.
    TRP_MESSAGE_MARKER,       // What was cancelled before it was sent has been passed.
    TRP_MESSAGE_ALARM,        // A timer of the actor.
    TRP_MESSAGE_CONTINUATION, // The value of a reference.
} trp_message_kind;

// What a message of the kinds behind MARKER has besides.
typedef struct trp_extra {
    uint64_t serial;       // Of a MARKER or ALARM: which; of a CONTINUATION: its tag.
    troupe_ref ref;        // Of a CONTINUATION, until its value is read.
    troupe_error *failure; // Of one whose call failed. In the message's arena.
    bool filled;           // The references in the arguments are the message's.
} trp_extra;

// Where a message of another process came from.
typedef struct trp_remote {
    uint32_t process;
    bool object; // `body.object` is the arguments.
    bool room;   // Behind the message, for the arguments.
    bool named;  // The caller knows no types: it wants the answer packed.
    trp_share share;
    uint64_t incarnation;
    trp_body body; // The arguments as they came; used if `args` is NULL.
} trp_remote;

// Who waits for an answer, when the message itself is gone.
typedef struct trp_caller {
    bool remote, named; // As in the message.
    uint32_t process;
    uint64_t incarnation, call;
} trp_caller;

enum { TRP_LANE_NONE = UINT8_MAX };

typedef struct trp_message {
    trp_link link;            // First: the mailbox's.
    uint16_t kind;            // trp_message_kind
    uint16_t window;          // Of a call of a streaming method, opened as such; 0: it was not.
    uint32_t cell;            // Bytes that it has, with all that lies behind it.
    bool urgent;              // Of an urgent method.
    bool plain;               // Of a plain method (class.h), from here, without a deadline.
    bool beside;              // Runs beside the actor's turn,
    uint8_t lane;             // in this lane (async/concurrency_group.c), or TRP_LANE_NONE.
    uint64_t target;          // The actor; set when it is pushed.
    const trp_method *method; // Of a CALL.
    uint64_t call;            // The row of the caller's table that waits; 0: none.
    int64_t deadline_ns;      // 0: none.
    size_t weight;            // In the mailbox.
    trp_remote *remote;       // NULL: it is of this process.
    void *args;
    trp_extra *extra;  // NULL: none.
    int64_t pushed_ns; // When, if anything is measured (actor/method_stats.h); else 0.
    uint64_t borrowed; // The first of the aliases that the arguments' references are.
    trp_arena arena;   // Of the call: what `args` points to, and what the method allocates.
    _Alignas(16) unsigned char small[];
} trp_message;

// A message with room for arguments of `size` bytes behind it (`args` points there unless size is
// 0). NULL with the last error set.
trp_message *trp_message_create(trp_message_kind kind, size_t size);
// A tell of a plain method (class.h) to that actor. NULL: it takes too much memory, or is above the
// limit of a message.
trp_message *trp_message_plain(const trp_method *method, const void *args, uint64_t target);
// The message that a frame asks for, with its body, or with its arguments if they came as an image.
// `args` is their shape; NULL: it is not known yet. On failure what came with the frame is given
// back.
troupe_status trp_message_receive(trp_message_kind kind, const trp_frame *frame,
                                  const trp_shape *args, trp_message **message);
// One that stands for whoever sent a frame of which all but the body matters, to be answered. It
// has nothing of the body.
troupe_status trp_message_asked(const trp_frame *frame, trp_message **message);
// Copies arguments in and borrows the references in them.
troupe_status trp_message_copy_args(trp_message *message, const trp_shape *shape, const void *args);
// Reads arguments that are packed; `packed` NULL: the message's body.
troupe_status trp_message_unpack_args(trp_message *message, const trp_shape *shape,
                                      const troupe_bytes *packed);
// Gives the message's place in the link's window back. Once; for local ones it does nothing.
void trp_message_left(trp_message *message);
void trp_message_free(trp_message *message);

#endif
