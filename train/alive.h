// alive.h: who runs a run: record locks on the file `alive` in its folder, which the kernel
// releases when their process ends, however it ends.
//
// The driver has byte 0 for itself, ranks share byte 1. What removes the remains of a dead run has
// byte 2, and a driver waits for it. A rank locks, then reads the epoch; a
// driver writes its epoch, then waits until no rank has a lock. So of a rank of a dead driver and
// the next driver one sees the other. A process loses its locks of a file when it closes any
// descriptor of it: so it has one for each run, which all share who need it.
#ifndef TRP_ALIVE_H
#define TRP_ALIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

typedef struct trp_alive trp_alive;

// Takes the run for this process as its driver. TROUPE_BUSY: a driver has it, and which;
// TROUPE_IO: its file system has no locks, or the file cannot be made; TROUPE_NO_MEMORY.
troupe_status trp_alive_take(const char *run, trp_alive **alive);
// Takes a run that has no driver, to remove what it has left. TROUPE_BUSY: it has one, or is being
// cleaned; TROUPE_NOT_FOUND, TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_alive_clean(const char *run, trp_alive **alive);
// Says the epoch (*epoch, or a higher one where the file knows of that), and waits until the ranks
// of earlier drivers have ended. TROUPE_BUSY: one has not.
troupe_status trp_alive_begin(trp_alive *alive, int64_t *epoch, int wait_ms);
// Waits until no rank of another process runs; 0: that is so, else a process that still does.
int trp_alive_await_ranks(const trp_alive *alive, int wait_ms);
// The process that has the run as its driver; 0: none, -1: one that this system cannot name. Takes
// no lock, and lets go of none.
int trp_alive_driver(const char *run);
// TROUPE_IO: the path does not lead to what was locked any more.
troupe_status trp_alive_check(const trp_alive *alive, const char *run);

// Takes over the lock of byte 0 that this process has through that descriptor, which is closed with
// it. TROUPE_BUSY: another one has it; TROUPE_IO: it is no file, or not open; TROUPE_NO_MEMORY.
troupe_status trp_alive_adopt(int fd, trp_alive **alive);
// That byte 0 is this process's still: the lock goes when any descriptor of the file is closed.
// TROUPE_BUSY: another one has it; TROUPE_IO.
troupe_status trp_alive_hold_on(const trp_alive *alive);
// Says behind the number in such a file that the process ends since a signal asked it to, or as the
// run rests. TROUPE_IO.
troupe_status trp_alive_say_left(const trp_alive *alive);
#define TRP_ALIVE_LEFT " left"
// The process that has byte 1; as trp_alive_driver.
int trp_alive_keeper(const trp_alive *alive);

// Joins the run as a rank of that epoch. TROUPE_PEER_LOST: another driver has the run;
// TROUPE_NOT_FOUND, TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_alive_join(const char *run, int64_t epoch, trp_alive **alive);

// In a process that was forked from a rank's and has other descriptors: locks the file `alive` as a
// rank does, until the process ends. Allocates nothing. An errno, or 0.
int trp_alive_guard(const char *file);
// Whether a rank runs in another process, or what it has left there.
bool trp_alive_has_ranks(const char *run);

// Lets go, and clears *alive. Harmless on NULL.
void trp_alive_leave(trp_alive **alive);

#endif
