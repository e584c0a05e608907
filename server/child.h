// child.h: processes that the server starts beside itself, one of a kind a state folder: the
// gateway, and who sends to trackers. Each is a command of `troupe-server`, has a session of its
// own, and holds a record lock on COMMAND.lock for life, whose holder anyone can ask for: so it is
// also found by a server that has not started it.
#ifndef TRP_SERVER_CHILD_H
#define TRP_SERVER_CHILD_H

#include <stdbool.h>
#include <sys/types.h>
#include <troupe/status.h>

// Starts it by that program (NULL: this one), with COMMAND.log as its output; *end is a descriptor
// (pidfd) that can be read once it has ended, for the caller to close. TROUPE_IO, TROUPE_NOT_FOUND:
// it cannot be started; TROUPE_NO_MEMORY.
troupe_status trp_child_start(const char *state, const char *program, const char *command,
                              pid_t *process, int *end);
// The one that runs, and a descriptor of it as above; false: none does.
bool trp_child_find(const char *state, const char *command, pid_t *process, int *end);
// Its process alone; 0: none runs.
pid_t trp_child_holder(const char *state, const char *command);

// For the child: takes the lock; to close the descriptor gives it back. TROUPE_EXISTS: another one
// has it; TROUPE_IO.
troupe_status trp_child_lock(const char *state, const char *command, int *held);

#endif
