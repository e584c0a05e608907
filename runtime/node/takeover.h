// takeover.h: a process that was started to do one thing of a higher layer: the first troupe_start
// of its program does that, and does not return.
#ifndef TRP_NODE_TAKEOVER_H
#define TRP_NODE_TAKEOVER_H

#include <troupe/runtime.h>

typedef struct trp_takeover {
    // By each thread that comes to troupe_start, before the runtime is started. *own is what it is
    // started with instead of `given`. On a failure troupe_start fails so. What other threads of
    // the program would do after troupe_start must not be done: for them it does not return.
    troupe_status (*begin)(const troupe_options *given, troupe_options *own);
    // Afterwards: the runtime runs, or `status` is why it could not be started, which the thread's
    // last error says. Does not return.
    void (*run)(troupe_status status);
    // A file of which the keeper locks byte 1, before it makes another process and until the last
    // one below it has ended, however long that takes. NULL: none.
    const char *(*guard)(void);
} trp_takeover;

// Set once, before main. Never changed after.
void trp_takeover_set(const trp_takeover *takeover);
// NULL: an ordinary process.
const trp_takeover *trp_takeover_of(void);

#endif
