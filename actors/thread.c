// thread.c: see thread.h.
#include <actors/thread.h>

#include <signal.h>
#include <stddef.h>

bool trp_thread_create(pthread_t *thread, const char *name, void *(*main)(void *), void *user)
{
    sigset_t all, before; // The user's signal handlers run on the user's threads,
    sigfillset(&all);     // but for what a thread brings upon itself: see crash.c.
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool made = pthread_create(thread, NULL, main, user) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made)
        (void)pthread_setname_np(*thread, name);
    return made;
}
