// runnable.h: what the scheduler knows of what it runs: an actor, to those above it.
#ifndef TRP_SCHED_RUNNABLE_H
#define TRP_SCHED_RUNNABLE_H

#include <actors/sched/mailbox.h>
#include <stddef.h>
#include <troupe/status.h>

// Part of each actor. It is in one queue at most.
typedef struct trp_runnable {
    struct trp_runnable *next; // In a queue of the scheduler, or of free slots.
    _Atomic uint64_t cpu_ns;   // From samples, by the thread that runs it.
    trp_mailbox mailbox;
} trp_runnable;

// How it is run (actor/actor.c). Set before main.
typedef struct trp_turns {
    // Runs up to a turn's worth of messages, as trp_actor_turn; ends one that will not run, as
    // trp_actor_abandon.
    uint32_t (*turn)(trp_runnable *one, uint64_t until, bool *again);
    void (*abandon)(trp_runnable *one);
    // Where the one is whose turn this thread runs (NULL: none), for others who look while the
    // thread lives: when they use it, it may have changed.
    trp_runnable *_Atomic *(*turning)(void);
    // The one whose method runs on this thread; NULL: none. Inside a method of another one that is
    // not `turning`.
    trp_runnable *(*running)(void);
    // Whether its next turn is its first.
    bool (*fresh)(trp_runnable *one);
    // Its number, and with that, while it may be gone, its name and method for people: "box#3 in
    // box_open".
    uint64_t (*id)(trp_runnable *one);
    void (*describe)(trp_runnable *one, uint64_t id, char *text, size_t capacity);
    // Who waits where this thread begins to, and in which method; false: no method runs here.
    bool (*waiter)(uint64_t *id, const char **method);
    // TROUPE_BUSY, with a sentence that lists who waits for what; `stalled` others hold their
    // threads without a word, and `most` together are the limit.
    troupe_status (*full)(int most, int stalled);
} trp_turns;

#endif
