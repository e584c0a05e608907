// scheduler_internal.h: what the files of the scheduler share: its threads and its counters. See
// scheduler.h.
#ifndef TRP_SCHED_SCHEDULER_INTERNAL_H
#define TRP_SCHED_SCHEDULER_INTERNAL_H

#include <actors/sched/run_permits_internal.h>

// A thread that runs turns.
typedef struct trp_runner {
    pthread_t thread;
    struct trp_runner *older;     // In the list of all.
    struct trp_runner *next_idle; // In the stack of those that sleep.
    trp_runqueue *_Atomic queue;  // NULL: none. By itself, the stop, and who lets it go on.
    _Atomic uint32_t word;        // Changes when it is to look; it parks on it.
    _Atomic bool idle;            // It sleeps, or is about to. Changed under the lock.
    _Atomic bool parked;          // A change of `word` must be told to the kernel.
    bool left;                    // Its thread is about to end, and to be joined.
    bool abandoned;               // It outlived the stop: it counts no more, and frees itself.
    bool away;                    // Its method waits, or pauses.
    int waits;                    // One within another. By itself.
    bool overdue;                 // Its method has had all the time of the stop.
    _Atomic bool
        stalled; // Another one has its place; see sched/blocked_threads_internal.h. Under the lock.
    bool computes;                  // So it does, and is long by computing. Under the lock.
    int tid;                        // Its thread's number; 0: not yet. Under the lock.
    uint32_t returns;               // How often its methods went on. Under the lock.
    trp_runnable *_Atomic *turning; // Where the actor is whose turn it runs; NULL: not yet.
    struct {                        // The watcher's last look: which turn, since when,
        const trp_runqueue *queue;  // and the CPU time that the thread had used.
        uint32_t turns, returns;
        int64_t since_ns, ns, cpu_ns;
    } seen;
    bool woke_near;      // It has woken one on its CPU, which it then does not keep busy.
    uint32_t sent;       // By its method, since the turn began or it paused.
    trp_binding binding; // Until it runs; see sched/sender_yield.h.
} trp_runner;

typedef struct trp_runners {
    pthread_mutex_t lock; // Of all that follows but what is atomic.
    pthread_cond_t changed;
    trp_runner *all, *idle, *watcher;
    int living, blocked, paused; // `blocked`: wait in a method; `paused`: see sched/sender_yield.h.
    int stalled,
        computing; // See sched/blocked_threads_internal.h: those, and how many of them compute.
    bool ready, spinning;
    bool drowsy; // The watcher sleeps for long, as all places are taken.
    _Atomic int active;
    _Atomic bool stopping, over;
} trp_runners;
extern trp_runners trp_scheduler;

extern _Thread_local trp_runner *trp_me; // NULL: no scheduler's thread.

void trp_scheduler_lock(void);
// Wakes those of trp_wake_later.
void trp_scheduler_unlock(void);

// ---- with the lock held

// Whether this thread is the watcher.
static inline bool trp_runner_watches(void)
{
    return trp_me->idle && trp_scheduler.watcher == trp_me;
}

// Wakes who is parked on the word, whose change has been made, when this thread lets the lock go:
// else it would wait for that. The word may be gone by then.
void trp_wake_later(_Atomic uint32_t *word);
// Tells a runner that sleeps to look, whatever for.
void trp_runner_poke(trp_runner *one);
// Gets one more runner to look for work, if one may run. `near`: on this CPU.
void trp_wake_one(bool near);
// Gives the runner a queue that is free; takes it from it.
bool trp_runner_attach(trp_runner *one);
void trp_runner_detach(trp_runner *one);
// Its method stops running for a while: another one runs or watches what it leaves (`near`: on this
// CPU). It goes on, with a queue if one is free.
void trp_runner_leave(trp_runner *one, bool near);
void trp_runner_return(trp_runner *one);

#endif
