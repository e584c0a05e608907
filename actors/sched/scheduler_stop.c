// scheduler_stop.c: the end of the threads that run actors (see scheduler.h): methods are waited
// for, and those that do not return are left behind.
#include <actors/sched/runner.h>
#include <actors/sched/scheduler.h>

#include <actors/actor/actor.h>
#include <actors/sched/blocked_threads.h>
#include <actors/sched/sender_yield.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>

_Atomic bool trp_stopping;

enum {
    LAST_WAIT_MS = 1000, // For those whose waits were ended,
    OVERDUE_MS = 5,      // and for the others.
};

// Waits until nothing is active. With the lock held.
static bool wait_quiet(int64_t until_ns)
{
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (trp_scheduler.active > 0)
        if (pthread_cond_timedwait(&trp_scheduler.changed, &trp_scheduler.lock, &until) != 0)
            return false;
    return true;
}

// Whether somebody runs that has not had all the time, or (`all`) anybody. With the lock held.
static bool some_run(bool all)
{
    for (const trp_runner *one = trp_scheduler.all; one != NULL; one = one->older)
        if (!one->left && (all || !one->overdue))
            return true;
    return false;
}

// The time is over (`late`), or nothing is active, and no wait is left: waits until every runner
// has left, but for one whose method neither waited nor ended. With the lock held.
static bool wait_last(int64_t until_ns, bool late)
{
    int64_t now_ns = trp_clock_ns(), most_ns = now_ns + (int64_t)LAST_WAIT_MS * 1000000;
    int64_t overdue_ns = now_ns + (int64_t)OVERDUE_MS * 1000000;
    if (most_ns < until_ns)
        most_ns = until_ns;
    for (;;) {
        bool others = some_run(false);
        int64_t end_ns = others || !late ? most_ns : overdue_ns;
        struct timespec end = {end_ns / 1000000000, end_ns % 1000000000};
        if (!some_run(true))
            return true;
        if (pthread_cond_timedwait(&trp_scheduler.changed, &trp_scheduler.lock, &end) != 0 &&
            others == some_run(false))
            return false;
    }
}

// Leaves those alone that still run a method. Returns the others. With the lock held.
static trp_runner *abandon_some(void)
{
    trp_runner *others = NULL, *older;
    for (trp_runner *one = trp_scheduler.all; one != NULL; one = older) {
        older = one->older;
        if (one->left) {
            one->older = others;
            others = one;
            continue;
        }
        one->abandoned = true; // It may be gone with the lock.
        trp_runner_detach(one);
        pthread_detach(one->thread);
    }
    trp_scheduler.all = trp_scheduler.idle = trp_scheduler.watcher = NULL;
    trp_scheduler.living = trp_scheduler.blocked = trp_scheduler.paused = 0;
    trp_scheduler.stalled = trp_scheduler.computing = 0;
    trp_scheduler.drowsy = false;
    trp_scheduler.active = 0;
    trp_scheduler.spinning = false;
    return others;
}

bool trp_scheduler_stop(int64_t until_ns, void (*hurry)(void))
{
    trp_scheduler_lock();
    trp_scheduler.stopping = true;
    for (trp_runner *one = trp_scheduler.idle; one != NULL; one = one->next_idle)
        trp_runner_poke(one);
    trp_pause_end_all();
    trp_scheduler_unlock(); // Which wakes them.
    trp_scheduler_lock();
    bool late = trp_scheduler.living > 0 && !wait_quiet(until_ns);
    for (trp_runner *one = trp_scheduler.all; one != NULL; one = one->older)
        one->overdue = late && !one->idle && !one->away;
    trp_scheduler_unlock();

    hurry();

    trp_scheduler_lock();
    bool all_left = wait_last(until_ns, late);
    trp_runner *left = abandon_some();
    trp_stalls_told(false);
    trp_scheduler_unlock();
    for (trp_runner *older; left != NULL; left = older) {
        older = left->older;
        pthread_join(left->thread, NULL);
        trp_free(left);
    }
    return all_left;
}
