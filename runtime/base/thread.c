// thread.c: see thread.h.
//
// A thread gives itself its name: for another thread's, the C library opens and writes a file. What
// it is told for that lies in one of a few static places, since memory that a thread frees as its
// first act has the C library make an arena for it.
#include <runtime/base/thread.h>

#include <runtime/base/error.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// What sched_setattr(2) takes, in its first form; the kernel's header does not go with <sched.h>.
typedef struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period; // In ns.
} attributes;

typedef struct birth {
    _Atomic bool taken; // From before it is written until the new thread has read it.
    void *(*main)(void *);
    void *user;
    const char *name;
} birth;

enum { BIRTHS = 8 };

static birth births[BIRTHS];

static void *begin(void *given)
{
    birth *mine = given;
    void *(*run)(void *) = mine->main;
    void *user = mine->user;
    (void)prctl(PR_SET_NAME, mine->name);
    atomic_store(&mine->taken, false); // Pairs with the exchange in free_birth.
    return run(user);
}

// NULL: more threads begin at this moment than there are places.
static birth *free_birth(void)
{
    for (int i = 0; i < BIRTHS; i++)
        if (!atomic_exchange(&births[i].taken, true))
            return &births[i];
    return NULL;
}

static int create(pthread_t *thread, const char *name, void *(*main)(void *), void *user)
{
    birth *given = free_birth();
    if (given == NULL) {
        int failed = pthread_create(thread, NULL, main, user);
        if (failed == 0)
            (void)pthread_setname_np(*thread, name);
        return failed;
    }
    given->main = main;
    given->user = user;
    given->name = name;
    int failed = pthread_create(thread, NULL, begin, given);
    if (failed != 0)
        atomic_store(&given->taken, false);
    return failed;
}

troupe_status trp_thread_start(pthread_t *thread, const char *name, void *(*main)(void *),
                               void *user)
{
    sigset_t all, before;
    sigfillset(&all);
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}; // See ends/crash_blame.c.
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = create(thread, name, main, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0 ? TROUPE_OK
                       : troupe_fail(TROUPE_NO_MEMORY, "the thread %s could not be started: %s",
                                     name, strerror(failed));
}

void trp_thread_be_prompt(bool prompt)
{
    enum { SLICE_NS = 100000 }; // The shortest that there is; 0: the usual one.
    static _Thread_local bool is;
    attributes now = {0};
    if (is == prompt)
        return;
    is = prompt;
    // What else is set (nice, another policy) stays.
    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) != 0 || now.policy != SCHED_OTHER)
        return;
    now.runtime = prompt ? SLICE_NS : 0;
    (void)syscall(SYS_sched_setattr, 0, &now, 0);
}

void trp_cond_open(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}
