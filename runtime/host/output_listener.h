// output_listener.h: who is told of the lines of a worker process, beside their being printed or
// instead of it.
//
// A listener is known from when it is added until the process's output has ended, or all output has
// (trp_output_listeners_end). Its functions are called by the thread that reads all output, which
// they must not hold up.
#ifndef TRP_HOST_OUTPUT_LISTENER_H
#define TRP_HOST_OUTPUT_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trp_output_listener {
    void (*line)(void *user, const char *text, size_t size); // Without its end of line.
    void (*end)(void *user);                                 // Called once, and last.
    void *user;
    bool alone; // The lines are not printed.
} trp_output_listener;

// False: no output is read, or there is no memory; then nothing of it is called.
bool trp_output_listener_add(uint32_t process, uint64_t incarnation,
                             const trp_output_listener *listener);
// Sets what is called when all output has ended and every listener knows, before troupe_stop
// returns.
void trp_output_settle_set(void (*settle)(void));

// For host/worker_output.c. Output is read from now on.
void trp_output_listeners_begin(void);
// The listener of a process, which is that source's from now on; false: none.
bool trp_output_listener_take(uint64_t incarnation, trp_output_listener *listener);
// Output has ended: so has that of every process that was waited for.
void trp_output_listeners_end(void);

#endif
