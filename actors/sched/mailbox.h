// mailbox.h: an actor's queue: any number of threads push without a lock, the actor takes what is
// there with one exchange.
//
//     pushed last            pushed first        taken next
//     head -> [m5] -> [m4] -> [m3]     lanes: [m1] -> [m2]
//
// `head` is a stack of what was pushed since the actor looked last, or one of two marks: IDLE,
// which the next push replaces (that sender schedules the actor), and CLOSED, at which a push
// fails. What the actor took lies in order in two lanes of its own; the urgent one goes first. The
// thread that closes a mailbox takes the lanes too, while the actor may be about to look at them:
// see `busy`.
//
// It is bounded in messages and bytes: a sender reserves room before it pushes. The taker gives
// room back in batches, so the bound is exact to BATCH messages and SLACK bytes.
//
// The memory of a mailbox outlives its actor, and the next one's mailbox is the same: late senders
// may still touch it.
#ifndef TRP_SCHED_MAILBOX_H
#define TRP_SCHED_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRP_MAILBOX_BYTES_MAX = 64 << 20, // A lone larger message is let in.
    TRP_MAILBOX_DEFAULT_MAX = 65536,
    TRP_MAILBOX_LIMIT_MAX = 1 << 24,
};

// First in every message. The address of the one below, and bit 0: it is urgent.
typedef struct trp_link {
    uintptr_t below;
} trp_link;

typedef struct trp_lane {
    trp_link *first, *last;
} trp_lane;

typedef struct trp_mailbox {
    // What senders write. Pushes release what they link; the taker's exchange acquires it.
    _Atomic uintptr_t head;
    _Atomic uint64_t load; // Messages and bytes that are in it or reserved, in one word.
    _Atomic uint32_t max;
    _Atomic uint32_t senders; // Who sleeps until there is room; with `load` as in Dekker's lock.
    _Atomic uint32_t room;    // Changes when they should look again.
    _Atomic uint16_t home; // The queue that its actor was in when last seen: sched/sender_yield.h.
    _Atomic bool slow;     // Its senders do not go there until it is no longer deep.
    // What the taker writes, on another cache line. The taker sets `busy` and then
    // looks at `closed`; who closes does the reverse, with a fence for both (fence.h).
    _Alignas(16) _Atomic uint32_t left; // Taken and not given back yet: messages
    uint32_t left_bytes;                // and bytes.
    _Atomic bool busy, closed;
    _Atomic bool hurry;    // Something urgent was pushed since the taker looked.
    trp_lane lane, urgent; // The taker's.
} trp_mailbox;

typedef enum trp_pushed {
    TRP_PUSHED,
    TRP_PUSHED_FIRST, // Its actor must be scheduled, by the caller.
    TRP_PUSH_REFUSED, // It is closed; the message and its room are the caller's.
} trp_pushed;

typedef enum trp_rest {
    TRP_RESTS,
    TRP_REST_MORE, // Something was pushed meanwhile.
    TRP_REST_CLOSED,
} trp_rest;

// Makes one that was closed, or whose memory is zeros, ready for pushes. Its actor counts as
// scheduled until trp_mailbox_rest.
void trp_mailbox_open(trp_mailbox *mailbox, uint32_t max);
// Ends pushes and returns what is in it, oldest first within a lane, linked by `below`. `own`: the
// taker itself calls. *idle: nobody had scheduled the actor, which is the caller's now. The calls
// for one mailbox must not overlap.
trp_link *trp_mailbox_close(trp_mailbox *mailbox, bool own, bool *idle);
trp_link *trp_link_next(const trp_link *link);

// Reserves room for a message, which must be pushed then. False: full. Where it is not exact, who
// is refused counts for a moment.
bool trp_mailbox_reserve(trp_mailbox *mailbox, size_t weight);
// The same without a limit, for messages that are bounded elsewhere.
void trp_mailbox_reserve_always(trp_mailbox *mailbox, size_t weight);
// Gives reserved room back. By anyone.
void trp_mailbox_return(trp_mailbox *mailbox, size_t weight);
// Sleeps until there may be room, or the deadline. False: the deadline passed.
bool trp_mailbox_wait(trp_mailbox *mailbox, size_t weight, int64_t deadline_ns);
// Whether so many messages lie in it that who sends more should let them be run first.
bool trp_mailbox_deep(trp_mailbox *mailbox);
// Makes everyone who waits for room look again.
void trp_mailbox_wake(trp_mailbox *mailbox);

trp_pushed trp_mailbox_push(trp_mailbox *mailbox, trp_link *link, bool urgent);
// Reserves room, if that needs no wait, and pushes. TRP_PUSH_REFUSED: neither was done.
trp_pushed trp_mailbox_put(trp_mailbox *mailbox, trp_link *link, size_t weight);
// The next message, or NULL. Its room must be given back with trp_mailbox_left. By the taker alone,
// as the two below.
trp_link *trp_mailbox_take(trp_mailbox *mailbox);
void trp_mailbox_left(trp_mailbox *mailbox, size_t weight);
// Whether something lies in its lanes.
bool trp_mailbox_more(trp_mailbox *mailbox);
// When nothing was there to take.
trp_rest trp_mailbox_rest(trp_mailbox *mailbox);

uint32_t trp_mailbox_count(trp_mailbox *mailbox);
size_t trp_mailbox_bytes(trp_mailbox *mailbox);
// Whether its actor rests: is neither closed nor scheduled.
bool trp_mailbox_idle(trp_mailbox *mailbox);

#endif
