// postmortem.h: what can be said of a process that a signal ended: where its core file is, or why
// there is none, and whether it was the memory limit.
#ifndef TRP_NODE_POSTMORTEM_H
#define TRP_NODE_POSTMORTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// "core file: /var/cores/core.12", "no core file: ulimit -c is 0", "core file: given to
// /usr/lib/systemd/systemd-coredump"; empty for a signal that makes none. `status` is from waitpid,
// `root` is "" but in tests.
void trp_postmortem_core(const char *root, int pid, const char *name, int status, char *text,
                         size_t capacity);

// How many processes the memory limit of this process's cgroup, or of one above it, has killed.
uint64_t trp_postmortem_memory_kills(const char *root);

#endif
