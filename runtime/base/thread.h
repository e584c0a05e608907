// thread.h: the library's own threads, and conditions that they wait for.
#ifndef TRP_BASE_THREAD_H
#define TRP_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <troupe/status.h>

// Starts a thread that gets no signals but those that it brings upon itself: the user's handlers
// run on the user's threads. `name` has at most 15 characters and stays. TROUPE_NO_MEMORY: it could
// not be started.
troupe_status trp_thread_start(pthread_t *thread, const char *name, void *(*main)(void *),
                               void *user);

// Whether this thread is to get a CPU soon after it was woken, also where others compute on all of
// them: for threads that pass on what somebody waits for. What comes often is better left to
// gather, since each wake-up takes the CPU from somebody. Its turns become shorter, its share
// stays. Linux does that since 6.12 (sched_setattr(2), the slice of a task); elsewhere nothing
// changes.
void trp_thread_be_prompt(bool prompt);

// Makes a condition whose timed waits are until a time of the monotonic clock: the time of day may
// be set meanwhile.
void trp_cond_open(pthread_cond_t *condition);

#endif
