// mailbox.h: an actor's queue: any number of threads push without a lock, the actor takes one at a
// time.
//
//     pushed last <- tail                      head -> taken next
//          [message] <- [message] <- [message] <- [stub]
//
// It is bounded in messages and bytes: who wants to push reserves room first. The push says whether
// the actor has to be scheduled, so that exactly one sender does it.
#ifndef TRP_MAILBOX_H
#define TRP_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRP_MAILBOX_BYTES_MAX = 64 << 20, // A lone larger message is let in.
    TRP_MAILBOX_DEFAULT_MAX = 65536,
    TRP_MAILBOX_LIMIT_MAX = 1 << 24,
};

typedef struct trp_link {
    struct trp_link *_Atomic next;
} trp_link;

typedef struct trp_mailbox {
    trp_link *_Atomic tail; // An exchange orders the pushes; the link's release pairs with the
    trp_link *head;         // taker's acquire. `head` belongs to who has `taking`.
    trp_link stub;
    atomic_flag taking;
    _Atomic bool scheduled; // Its actor is queued to run, running, or ended for good.
    _Atomic uint64_t load;  // Messages and bytes that are in it or reserved, in one word.
    uint32_t max;
    _Atomic uint32_t senders; // Who sleeps until there is room; with `load` as in Dekker's lock.
    _Atomic uint32_t room;    // Changes when they should look again.
} trp_mailbox;

void trp_mailbox_init(trp_mailbox *mailbox, uint32_t max);
// Reserves room for a message, which must be pushed then. False: full.
bool trp_mailbox_reserve(trp_mailbox *mailbox, size_t weight);
// The same without a limit, for messages that are bounded elsewhere.
void trp_mailbox_reserve_always(trp_mailbox *mailbox, size_t weight);
// Sleeps until there may be room, or the deadline. False: the deadline passed.
bool trp_mailbox_wait(trp_mailbox *mailbox, size_t weight, int64_t deadline_ns);
// Makes everyone who waits for room look again.
void trp_mailbox_wake(trp_mailbox *mailbox);

// Appends. True: its actor must be scheduled, by the caller.
bool trp_mailbox_push(trp_mailbox *mailbox, trp_link *link);
// The oldest message, or NULL. Its room must be given back with trp_mailbox_left.
trp_link *trp_mailbox_take(trp_mailbox *mailbox);
void trp_mailbox_left(trp_mailbox *mailbox, size_t weight);
// At the end of a turn that found it empty. True: it is not any more, and the actor goes on.
bool trp_mailbox_rest(trp_mailbox *mailbox);
uint32_t trp_mailbox_count(trp_mailbox *mailbox);

#endif
