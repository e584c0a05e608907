// thread.h: the threads that run methods, and those that wait on their behalf.
#ifndef TRP_THREAD_H
#define TRP_THREAD_H

#include <pthread.h>
#include <stdbool.h>

// A thread of the library: it gets no signals.
bool trp_thread_create(pthread_t *thread, const char *name, void *(*main)(void *), void *user);

#endif
