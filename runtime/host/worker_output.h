// worker_output.h: what worker processes write to their standard output and errors, brought to the
// driver's as whole lines with the name of their writer.
//
// The keeper makes a worker's two pipes before it forks it, and hands the ends to read to the
// driver over a socket, where one thread reads them all. So the last lines of a process that is
// killed arrive, and one that writes more than can be printed waits in its own write. While the
// driver's output takes nothing, the lines of all wait; a worker that prints nothing is not
// delayed.
#ifndef TRP_HOST_WORKER_OUTPUT_H
#define TRP_HOST_WORKER_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <troupe/runtime.h>

// What the keeper sends beside the two descriptors.
typedef struct trp_output_notice {
    uint64_t incarnation;
    uint32_t slot;
    uint32_t unused;
} trp_output_notice;

// In the driver, before the keeper is forked: makes the socket; *keeper_end goes to the keeper and
// is closed here by trp_output_start. -1 without an error: workers write where the driver does.
troupe_status trp_output_open(const troupe_options *options, int *keeper_end);
// Starts the thread (after the fork). Without trp_output_open it does nothing.
troupe_status trp_output_start(int keeper_end);
// Waits until all that worker processes have written before this call has been given to who
// listens; false: that takes longer. Not from a listener.
bool trp_output_catch_up(int timeout_ms);
// When all workers have ended: prints what is left, and ends the thread.
void trp_output_stop(void);

// In the keeper, which allocates nothing: makes the pipes of a worker, sends the ends to read, and
// puts the ends to write in ends[0] (output) and ends[1] (errors). False: the worker writes where
// the keeper does, since the driver could not be given them.
bool trp_output_pipes(int keeper_end, uint32_t slot, uint64_t incarnation, int ends[2]);
// The two halves of that: makes them; sends the ends to read, which stay the caller's.
bool trp_output_pipes_make(int reads[2], int ends[2]);
bool trp_output_pipes_send(int keeper_end, uint32_t slot, uint64_t incarnation, const int reads[2]);
// In the new worker: its output goes there from now on, line by line.
void trp_output_redirect(const int ends[2]);

#endif
