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

#endif
