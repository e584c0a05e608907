// async.h: what an actor has beyond its mailbox, made when it is first needed: calls that were
// given up, answers that are owed, timers.
#ifndef TRP_ASYNC_H
#define TRP_ASYNC_H

#include <actors/actor/async_hooks.h>
#include <actors/actor/invoke.h>
#include <actors/actor/message.h>
#include <pthread.h>
#include <runtime/base/fence.h>
#include <troupe/async.h>

typedef struct trp_deferral trp_deferral;
typedef struct trp_alarm trp_alarm;

// A call that was given up while it waited in the mailbox, or had ended: it has been passed when
// the mailbox comes to the marker that was sent behind it.
typedef struct trp_tombstone {
    struct trp_tombstone *next;
    trp_caller caller;
    uint64_t serial; // The marker's.
    bool passed;     // It has come; the call may be one of those that are `handed`.
} trp_tombstone;

struct trp_async {
    pthread_mutex_t lock; // Of all that follows.
    trp_tombstone *tombstones;
    uint32_t far_tombstones; // Of callers in other nodes.
    trp_deferral *deferrals;
    trp_alarm *alarms;
    trp_running *runs; // Methods that run beside the turn,
    uint32_t handed;   // and those that are about to.
    bool killed; // Its methods' calls have been answered (async/abandon_running.c); `cancels` is
                 // raised for that.
    _Atomic uint32_t guests; // See urgent.h.
    _Atomic bool shut;      // They are kept out; who waits until they are gone parks on the number.
    _Atomic bool finishing; // The last turn waits until there is none.
};

// All that a turn asks for.
extern const trp_async_hooks trp_async_table;

// The actor's, made if there is none. It is never freed: it stays
// with the slot, so that who has found the actor may lock it. NULL with the last error set: no
// memory.
trp_async *trp_async_of(trp_actor *actor);
// Ends what the actor had begun: its timers, and the answers that it owes.
void trp_async_forget_promises(trp_actor *actor);
// The actor has ended: its timers stop, and who waits for a deferred answer gets a failure.
void trp_async_finish(trp_actor *actor);
// Runs a message of the kinds behind MARKER, and frees it.
void trp_async_run(trp_actor *actor, trp_message *message);
// The method of the class of the actor that runs here. TROUPE_INVALID: nothing runs, or it is
// another class's.
troupe_status trp_async_method(const trp_running *here, const troupe_class *class_, size_t index,
                               const trp_method **method);

trp_caller trp_caller_of(const trp_message *message);
bool trp_caller_is(const trp_caller *caller, const trp_message *message);
// Answers with a failure of the actor with that id, or with a value, whose references are
// given away. Nothing happens if nobody waits.
void trp_caller_fail(const trp_caller *caller, const troupe_error *failure, uint64_t actor);
void trp_caller_answer(const trp_caller *caller, const trp_shape *shape, void *value,
                       uint64_t actor);

// ---- cancel.c

// Gives up what a troupe_ref_join's row stands for (lib/group.h). False: the row is another's. Set
// before main.
extern bool (*trp_cancel_joined)(uint64_t call, const troupe_cancel_options *how,
                                 troupe_status *status);

#endif
