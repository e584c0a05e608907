// thread.h: the library's own threads.
#ifndef TRP_BASE_THREAD_H
#define TRP_BASE_THREAD_H

#include <pthread.h>
#include <troupe/status.h>

// Starts a thread that gets no signals but those that it brings upon itself: the user's handlers
// run on the user's threads. `name` has at most 15 characters and stays. TROUPE_NO_MEMORY: it could
// not be started.
troupe_status trp_thread_start(pthread_t *thread, const char *name, void *(*main)(void *),
                               void *user);

#endif
