// scheduler.c: see scheduler.h.
//
// `active` counts threads in a turn that do not wait; `wakes` counts threads that were told to look
// and have not yet. A push wakes or makes a thread only if active + wakes is below the limit, so
// there is one wake-up for each actor at most and none while all threads are busy.
#include <actors/scheduler.h>

#include <actors/actor.h>
#include <runtime/clock.h>
#include <runtime/log.h>
#include <runtime/park.h>
#include <signal.h>
#include <sys/prctl.h>

enum {
    THREADS_MAX = 1024,
    LAST_WAIT_MS = 1000,
};

static struct {
    pthread_mutex_t lock; // Of all that follows.
    pthread_cond_t work, changed;
    trp_actor *first, **last;
    int limit, active, idle, wakes, blocked, made, living;
    bool stopping, ready;
    int spinning;           // 1 while an idle thread looks at `pokes` before it sleeps.
    _Atomic uint32_t pokes; // Changes with every thread that is told to look.
    pthread_t threads[THREADS_MAX];
} scheduler = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool scheduled_thread;

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

// With the lock held.
static trp_actor *take_actor(void)
{
    trp_actor *actor = scheduler.first;
    scheduler.first = actor->next_runnable;
    if (scheduler.first == NULL)
        scheduler.last = &scheduler.first;
    return actor;
}

static void append_actor(trp_actor *actor)
{
    actor->next_runnable = NULL;
    *scheduler.last = actor;
    scheduler.last = &actor->next_runnable;
}

// Waits until this thread is told to look. With the lock held.
static void idle(void)
{
    scheduler.idle++;
    if (scheduler.wakes == 0 && scheduler.spinning == 0 && !scheduler.stopping) {
        uint32_t seen = atomic_load(&scheduler.pokes);
        scheduler.spinning = 1;
        pthread_mutex_unlock(&scheduler.lock);
        trp_spin(&scheduler.pokes, seen);
        pthread_mutex_lock(&scheduler.lock);
        scheduler.spinning = 0;
    }
    while (scheduler.wakes == 0 && !scheduler.stopping)
        pthread_cond_wait(&scheduler.work, &scheduler.lock);
    scheduler.idle--;
    if (!scheduler.stopping)
        scheduler.wakes--;
}

static void *thread_main(void *unused)
{
    (void)unused;
    scheduled_thread = true;
    pthread_mutex_lock(&scheduler.lock);
    if (scheduler.wakes > 0) // An idle thread may have taken the one that this was made for.
        scheduler.wakes--;
    while (!scheduler.stopping) {
        if (scheduler.first == NULL || scheduler.active >= scheduler.limit) {
            idle();
            continue;
        }
        trp_actor *actor = take_actor();
        scheduler.active++;
        pthread_mutex_unlock(&scheduler.lock);
        bool again = trp_actor_turn(actor);
        pthread_mutex_lock(&scheduler.lock);
        scheduler.active--;
        if (again)
            append_actor(actor);
    }
    scheduler.living--;
    pthread_cond_broadcast(&scheduler.changed);
    pthread_mutex_unlock(&scheduler.lock);
    return NULL;
}

// Gets a thread for the first runnable actor, if one may run. With the lock held.
static void get_thread(void)
{
    if (scheduler.stopping || scheduler.first == NULL ||
        scheduler.active + scheduler.wakes >= scheduler.limit)
        return;
    if (scheduler.idle > scheduler.wakes) {
        scheduler.wakes++;
        atomic_fetch_add(&scheduler.pokes, 1);
        if (scheduler.wakes > scheduler.spinning) // Else the one that spins takes it.
            pthread_cond_signal(&scheduler.work);
        return;
    }
    if (scheduler.made == THREADS_MAX)
        return;
    scheduler.wakes++;
    if (trp_thread_create(&scheduler.threads[scheduler.made], "troupe-run", thread_main, NULL)) {
        scheduler.made++;
        scheduler.living++;
    } else {
        scheduler.wakes--;
        if (scheduler.living == 0)
            trp_log(TRP_ERROR, "no thread could be made to run actors; they wait");
    }
}

void trp_scheduler_start(int threads)
{
    pthread_mutex_lock(&scheduler.lock);
    if (!scheduler.ready) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&scheduler.work, &monotonic);
        pthread_cond_init(&scheduler.changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
        scheduler.ready = true;
    }
    scheduler.limit = threads < 1                               ? 1
                      : threads > THREADS_MAX - TRP_BLOCKED_MAX ? THREADS_MAX - TRP_BLOCKED_MAX
                                                                : threads;
    scheduler.first = NULL;
    scheduler.last = &scheduler.first;
    scheduler.stopping = false;
    pthread_mutex_unlock(&scheduler.lock);
    trp_park_start();
}

void trp_scheduler_push(trp_actor *actor)
{
    pthread_mutex_lock(&scheduler.lock);
    if (!scheduler.stopping) {
        append_actor(actor);
        get_thread();
    }
    pthread_mutex_unlock(&scheduler.lock);
}

troupe_status trp_scheduler_block(void)
{
    if (!scheduled_thread)
        return TROUPE_OK;
    pthread_mutex_lock(&scheduler.lock);
    bool allowed = scheduler.blocked < TRP_BLOCKED_MAX;
    if (allowed) {
        scheduler.blocked++;
        scheduler.active--;
        get_thread();
        pthread_cond_broadcast(&scheduler.changed);
    }
    pthread_mutex_unlock(&scheduler.lock);
    return allowed ? TROUPE_OK
                   : troupe_fail(TROUPE_BUSY,
                                 "%d methods of this process wait for something "
                                 "already, which is the limit",
                                 TRP_BLOCKED_MAX);
}

void trp_scheduler_unblock(void)
{
    if (!scheduled_thread)
        return;
    pthread_mutex_lock(&scheduler.lock);
    scheduler.blocked--;
    scheduler.active++;
    pthread_mutex_unlock(&scheduler.lock);
}

// Waits until nothing is active (and, if `all`, every thread has left). With the lock held.
static bool wait_quiet(int64_t until_ns, bool all)
{
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (scheduler.active > 0 || (all && scheduler.living > 0))
        if (pthread_cond_timedwait(&scheduler.changed, &scheduler.lock, &until) != 0)
            return false;
    return true;
}

bool trp_scheduler_stop(int timeout_ms, void (*hurry)(void))
{
    int64_t until_ns = trp_clock_ns() + (int64_t)timeout_ms * 1000000;
    pthread_mutex_lock(&scheduler.lock);
    scheduler.stopping = true;
    scheduler.first = NULL;
    scheduler.last = &scheduler.first;
    pthread_cond_broadcast(&scheduler.work);
    if (scheduler.living > 0)
        (void)wait_quiet(until_ns, false);
    pthread_mutex_unlock(&scheduler.lock);

    hurry();

    int64_t last_ns = trp_clock_ns() + (int64_t)LAST_WAIT_MS * 1000000;
    pthread_mutex_lock(&scheduler.lock);
    bool all_left = wait_quiet(until_ns > last_ns ? until_ns : last_ns, true);
    int made = scheduler.made;
    if (all_left)
        scheduler.made = scheduler.wakes = 0;
    pthread_mutex_unlock(&scheduler.lock);
    for (int i = 0; all_left && i < made; i++)
        pthread_join(scheduler.threads[i], NULL);
    return all_left;
}
