// main_thread.c: the main thread's loop in a worker process, where an isolated actor runs.
#include <actors/actor/main_thread.h>

#include <actors/actor/actor.h>
#include <actors/actor/local_isolated.h>
#include <runtime/base/thread.h>
#include <runtime/link/park.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <unistd.h>

enum { KILL_WAIT_MS = 2000 };

static struct {
    trp_actor *_Atomic runnable; // The isolated actor, when it has work.
    _Atomic bool gone, killed;   // It has ended, or was killed.
    _Atomic uint32_t changes;    // Changes after each of them; the main thread parks on it.
} stage;

static void tell_main_thread(void)
{
    atomic_fetch_add(&stage.changes, 1);
    trp_unpark(&stage.changes, 1);
}

void trp_stage_push(trp_actor *actor)
{
    if (trp_process_is_local()) {
        trp_solo_push(actor);
        return;
    }
    atomic_store(&stage.runnable, actor);
    tell_main_thread();
}

void trp_stage_gone(void)
{
    if (trp_process_is_local()) {
        trp_solo_gone();
        return;
    }
    atomic_store(&stage.gone, true);
    tell_main_thread();
}

trp_actor *trp_stage_clear(void)
{
    if (trp_process_is_local())
        return trp_solo_clear();
    return atomic_exchange(&stage.runnable, NULL);
}

// Who kills an isolated actor has its process killed next, which tells all why. If that does not
// come (the killer may have died), the process ends by itself, whatever its actor's method does.
static void *end_process(void *unused)
{
    (void)unused;
    struct timespec wait = {KILL_WAIT_MS / 1000, KILL_WAIT_MS % 1000 * 1000000L};
    while (nanosleep(&wait, &wait) != 0)
        continue;
    (void)kill(getpid(), SIGKILL);
    return NULL;
}

void trp_stage_killed(void)
{
    if (trp_process_is_local())
        return; // Its method runs on, but nobody waits for it: see trp_give_up_running.
    pthread_t thread;
    atomic_store(&stage.killed, true);
    if (trp_thread_start(&thread, "troupe-end", end_process, NULL) == TROUPE_OK)
        pthread_detach(thread);
}

void trp_actor_work(bool isolated)
{
    for (;;) {
        uint32_t seen = atomic_load(&stage.changes); // Before the looks.
        if (trp_process_ending())
            return;
        bool gone = isolated && atomic_load(&stage.gone);
        if (gone && !atomic_load(&stage.killed)) // Else see end_process.
            return;
        trp_actor *actor = atomic_exchange(&stage.runnable, NULL);
        bool again = false;
        if (actor == NULL)
            trp_park(&stage.changes, seen, -1);
        else
            (void)trp_actor_turn(actor, 0, &again);
        if (again)
            atomic_store(&stage.runnable, actor);
    }
}

void trp_actor_work_wake(void)
{
    atomic_fetch_add(&stage.changes, 1);
    trp_unpark(&stage.changes, INT_MAX);
}
