// invoke.h: running one message, and what the thread that runs it is doing.
#ifndef TRP_ACTOR_INVOKE_H
#define TRP_ACTOR_INVOKE_H

#include <actors/actor/actor.h>

// What runs on a thread: lives on its stack, or outlives it if the answer was deferred.
typedef struct trp_running {
    trp_actor *actor;
    trp_message *message; // NULL: init or deinit.
    trp_arena *arena;     // The thread's before.
    struct trp_running *outer;
    struct trp_running *next, **link; // Of its actor's that run beside the turn; see async.h.
    _Atomic bool cancelled;           // The caller has given the call up.
    struct trp_maker *maker;          // Of a streaming method; see async/stream_writer.c.
    uint64_t deferral;                // The answer that is owed later; 0: none. See defer.c.
} trp_running;

// This thread's, by actor/invoke.c alone: the innermost (NULL: nothing runs).
extern _Thread_local trp_running *trp_run_innermost;

static inline trp_running *trp_run_current(void)
{
    return trp_run_innermost;
}

// The actor whose method or init runs on this thread; NULL: none.
trp_actor *trp_run_actor(void);

// Runs init with a message's arguments. On failure *failure is what the spawner gets.
bool trp_run_init(trp_actor *actor, trp_message *message, troupe_error *failure);
// Runs a call or tell, answers it, and frees the message.
void trp_run_call(trp_actor *actor, trp_message *message);
// Runs deinit.
void trp_run_deinit(trp_actor *actor);

// Notes that what runs on this thread waits for a call (0: no more). TROUPE_DEADLOCK: only it could
// end that wait itself; then nothing is noted.
troupe_status trp_run_waits(uint64_t call);

// How long this thread may wait for room in a queue: 0: not at all (a callback, the I/O thread, an
// address with TROUPE_CALL_NO_WAIT), TRP_RUN_A_WHILE (in a method), or -1: for ever.
#define TRP_RUN_A_WHILE INT64_MIN
static inline int64_t trp_run_patience(uint32_t flags)
{
    if (trp_run_callbacks > 0 || (flags & TROUPE_CALL_NO_WAIT) != 0)
        return 0;
    return trp_run_innermost != NULL ? TRP_RUN_A_WHILE : -1;
}

// How long a method waits. Tests make it shorter.
extern int trp_run_patience_ms;

// Until when that is, counted from now; what is no TRP_RUN_A_WHILE stays as it is.
int64_t trp_run_until(int64_t patience);

#endif
