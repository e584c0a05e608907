// serial.h: a thread that does tasks one after the other, in the order in which they are given.
#ifndef TRP_SERIAL_H
#define TRP_SERIAL_H

#include <stdbool.h>
#include <troupe/status.h>

typedef struct trp_serial_task {
    struct trp_serial_task *next;
    // May free the task, or add it again.
    void (*run)(struct trp_serial_task *task);
} trp_serial_task;

typedef struct trp_serial trp_serial;

// Starts the thread; `name` has at most 15 characters and stays. TROUPE_NO_MEMORY.
troupe_status trp_serial_start(const char *name, trp_serial **serial);
// Adds a task, which stays the caller's and untouched until it has been run.
void trp_serial_add(trp_serial *serial, trp_serial_task *task);
// The same without waking the thread: it comes to the task after others, or trp_serial_help does.
void trp_serial_put(trp_serial *serial, trp_serial_task *task);
// Does the next task here, if there is one and none is being done. False: there was nothing to do.
bool trp_serial_help(trp_serial *serial);
// Whether the thread that calls this is that of the tasks: false in what trp_serial_help does.
bool trp_serial_is_here(const trp_serial *serial);
// Waits until all that was added has been done. Harmless on NULL.
void trp_serial_wait(trp_serial *serial);
// Waits for that, and ends the thread. Harmless on NULL.
void trp_serial_end(trp_serial **serial);

#endif
