// local_isolated.c: isolated actors on threads of this process (see actor/local_isolated.h).
#include <actors/actor/local_isolated.h>

#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/link/park.h>

typedef struct solo {
    struct solo *next;
    trp_actor *actor;
    bool runnable;          // The actor has work.
    bool gone;              // It has had its last turn: the thread ends, or takes a new one there.
    _Atomic uint32_t calls; // Changes with each of these; the thread parks on it.
} solo;

// A mutex guards all: this is for finding faults, not for speed.
static struct {
    pthread_mutex_t lock;
    solo *all;
    bool stopping;
    _Atomic uint32_t ended; // Changes when a thread has ended.
} solos = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local solo *mine;

static void call(solo *one)
{
    atomic_fetch_add(&one->calls, 1);
    trp_unpark(&one->calls, 1);
}

// Whether the thread goes on, with or without work; without, it is no longer in the list. With the
// lock held.
static bool take_work(solo *one, bool *work)
{
    *work = one->runnable && !solos.stopping;
    if (*work) {
        one->runnable = one->gone = false; // A new actor may be in the place of one that has gone.
        return true;
    }
    if (!one->gone && !solos.stopping)
        return true;
    if (!one->runnable) { // Else trp_solo_clear finds it.
        solo **at = &solos.all;
        while (*at != one)
            at = &(*at)->next;
        *at = one->next;
        trp_free(one);
    } else {
        one->gone = true;
    }
    return false;
}

static void *solo_main(void *user)
{
    solo *one = user;
    mine = one;
    for (;;) {
        bool work, again = false;
        uint32_t seen = atomic_load(&one->calls); // Before the look.
        pthread_mutex_lock(&solos.lock);
        bool on = take_work(one, &work);
        if (!on) {
            atomic_fetch_add(&solos.ended, 1);
            trp_unpark(&solos.ended, INT_MAX);
        }
        pthread_mutex_unlock(&solos.lock);
        if (!on)
            return NULL;
        if (!work) {
            trp_park(&one->calls, seen, -1);
            continue;
        }
        (void)trp_actor_turn(one->actor, 0, &again);
        if (again)
            trp_solo_push(one->actor);
    }
}

void trp_solo_push(trp_actor *actor)
{
    pthread_t thread;
    pthread_mutex_lock(&solos.lock);
    solo *one = solos.all;
    while (one != NULL && one->actor != actor)
        one = one->next;
    bool fresh = one == NULL;
    if (fresh && (one = trp_alloc(sizeof *one)) != NULL) {
        one->actor = actor;
        one->next = solos.all;
        solos.all = one;
    }
    if (one != NULL)
        one->runnable = true;
    if (one == NULL)
        trp_log(TRP_ERROR, "no memory to run an actor; it waits");
    else if (!fresh)
        call(one);
    else if (solos.stopping)
        one->gone = true; // As one whose thread has ended.
    else if (trp_thread_start(&thread, "troupe-solo", solo_main, one) == TROUPE_OK)
        pthread_detach(thread);
    else
        trp_log(TRP_ERROR, "no thread could be made to run an actor; it waits");
    pthread_mutex_unlock(&solos.lock);
}

void trp_solo_gone(void)
{
    if (mine == NULL)
        return; // Abandoned at the stop, by another thread.
    pthread_mutex_lock(&solos.lock);
    mine->gone = true;
    pthread_mutex_unlock(&solos.lock);
}

// ---- the stop

// Whether a thread still runs. With the lock held.
static bool any_runs(void)
{
    for (solo *one = solos.all; one != NULL; one = one->next)
        if (!one->gone)
            return true;
    return false;
}

bool trp_solo_stop(int64_t until_ns)
{
    pthread_mutex_lock(&solos.lock);
    solos.stopping = true;
    for (solo *one = solos.all; one != NULL; one = one->next)
        call(one);
    while (any_runs() && trp_clock_ns() < until_ns) {
        uint32_t seen = atomic_load(&solos.ended);
        pthread_mutex_unlock(&solos.lock);
        trp_park(&solos.ended, seen, until_ns);
        pthread_mutex_lock(&solos.lock);
    }
    bool all = !any_runs();
    pthread_mutex_unlock(&solos.lock);
    return all;
}

trp_actor *trp_solo_clear(void)
{
    trp_actor *actor = NULL;
    pthread_mutex_lock(&solos.lock);
    for (solo **at = &solos.all; *at != NULL && actor == NULL;) {
        solo *one = *at;
        if (!one->gone) { // Its thread was left alone.
            at = &one->next;
            continue;
        }
        actor = one->runnable ? one->actor : NULL;
        *at = one->next;
        trp_free(one);
    }
    if (actor == NULL)
        solos.stopping = false;
    pthread_mutex_unlock(&solos.lock);
    return actor;
}
