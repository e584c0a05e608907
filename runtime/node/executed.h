// executed.h: in a process that was executed as a worker: which of its threads becomes the worker.
#ifndef TRP_NODE_EXECUTED_H
#define TRP_NODE_EXECUTED_H

#include <stdbool.h>
#include <stddef.h>

// By every thread that comes to troupe_start. True: it is to become the worker that `order` says
// (see TRP_WORKER_VARIABLE), as the first that comes in a process that was executed as one. What
// others of the program's threads would do after troupe_start is the driver's part of the program,
// which must not run again: for them this does not return.
bool trp_executed_enter(char *order, size_t capacity);
// The worker is known from now on: its threads need not wait for that.
void trp_executed_known(void);

#endif
