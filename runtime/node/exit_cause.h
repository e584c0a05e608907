// exit_cause.h: in the node process: why a worker process has ended, in words and for programs.
#ifndef TRP_NODE_EXIT_CAUSE_H
#define TRP_NODE_EXIT_CAUSE_H

#include <stddef.h>
#include <stdint.h>

// Notes how many processes the memory limit has killed so far.
void trp_cause_start(void);
// The process of that place has ended with a status as of waitpid: writes into its row how, and
// why into `cause`. `kill_cause`: why it was killed by order; empty: it was not.
void trp_cause_note(uint32_t slot, int status, const char *kill_cause, char *cause, size_t size);

#endif
