// mailbox_credit.h: what a message of another process is accounted as while it waits in a mailbox
// here: at the process, or, where that is full, at the link that it came over.
#ifndef TRP_ACTOR_MAILBOX_CREDIT_H
#define TRP_ACTOR_MAILBOX_CREDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trp_share {
    bool windowed; // It takes room in its link's window,
    bool pooled;   // or among the bytes that may wait in this process;
    size_t size;   // so much.
} trp_share;

// A message of that size has come from the process. Its room in the link's window is given back at
// once, unless more waits in this process than may.
void trp_share_take(trp_share *share, uint32_t process, uint64_t incarnation, size_t size);
// It has left the mailbox. More than once does no harm.
void trp_share_return(trp_share *share, uint32_t process, uint64_t incarnation);

#endif
