// debug_wait.h: a worker process that waits for a debugger before it runs any actor.
//
// TROUPE_DEBUG_WAIT names it: the name or the class of an isolated actor, or the number of a worker
// of the pool, as lines of output name it ("worker 3"). It goes on when a debugger is attached, by
// SIGCONT, or after TROUPE_DEBUG_WAIT_SECONDS (default 600).
#ifndef TRP_HOST_DEBUG_WAIT_H
#define TRP_HOST_DEBUG_WAIT_H

#include <stdint.h>

// Waits if the variable names this worker. By the main thread, before it runs anything.
void trp_debug_wait_worker(uint32_t slot);
// The same for the isolated actor of that class and name (NULL: none).
void trp_debug_wait_actor(const char *class_name, const char *name);

#endif
