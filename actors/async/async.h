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

// Frees the message's extra.
void trp_extra_free(trp_message *message);

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
    _Atomic uint32_t guests; // See beside.h.
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

// What happens where calls have been cancelled, and of methods that run beside the turn.
bool trp_cancel_enter_late(trp_running *here);
bool trp_cancel_enter_beside(trp_running *here);
void trp_cancel_leave_late(trp_actor *actor);
void trp_cancel_leave_beside(trp_running *here);

// Whether the message was cancelled while it waited. With the lock held.
bool trp_cancel_buried(trp_async *async, const trp_message *message);
// A message has been chosen to run beside the turn, and has not begun / will not run after all.
// The first with the lock held.
void trp_cancel_handed(trp_async *async);
void trp_cancel_dropped(trp_actor *actor);
// The method that runs in the turn of the actor with that id; NULL: none. Static.
const char *trp_running_name(trp_actor *actor, uint64_t id);
// A marker has come through the mailbox.
void trp_cancel_passed(trp_actor *actor, uint64_t serial);
// Gives up a call to an actor of this process, and answers its caller. `force`: ends the process,
// if the method runs and the process is the actor's own.
void trp_cancel_call(trp_actor *actor, uint64_t id, const trp_caller *caller, bool force);
// Asks another process to give a call back that has not begun to run there: it ends as cancelled
// and not executed then, and nothing happens otherwise. Does not wait.
void trp_cancel_waiting(uint64_t call, troupe_actor at);
// Gives up what a troupe_ref_join's row stands for (lib/group.h). False: the row is another's. Set
// before main.
extern bool (*trp_cancel_joined)(uint64_t call, const troupe_cancel_options *how,
                                 troupe_status *status);
// Another process gives a call up.
void trp_cancel_serve(const trp_frame *frame);
// Asks for the end of a call whose deadline has passed, whatever runs it.
void trp_cancel_overdue(uint64_t call, const trp_target *target);
// Ends the call as TROUPE_DEADLINE_EXCEEDED at `deadline_ns`, if it has not ended. False: no memory
// or no thread.
bool trp_call_expire_at(int64_t deadline_ns, uint64_t call);
// Whether the process has been made for one actor alone.
bool trp_cancel_may_force(uint32_t process, uint64_t incarnation);

// ---- async/abandon_running.c

// Answers the calls whose methods run in an actor that was killed, and those that it has deferred,
// as the death of a process would (MAYBE_EXECUTED), and tells the methods; what they answer is
// thrown away. By a guest of the actor. `closed`: since before the kill; otherwise the actor may
// have gone, and then nothing happens.
void trp_give_up_running(trp_actor *actor, uint64_t id, bool closed);
// Kills an actor of this process; `give_up`: with what runs in it.
void trp_kill_here(uint64_t id, bool give_up);

// ---- defer.c

// Whether the actor owes that caller an answer: then it is void from now on. With the lock held.
bool trp_deferral_cancel(trp_async *async, const trp_caller *caller);
// Whether the actor owes that caller an answer.
bool trp_deferral_is(trp_actor *actor, const trp_caller *caller);
// The method that deferred its answer has failed, and says so itself.
void trp_deferral_void(trp_running *here);
// A copy in the arena of a value that is not a method's own, whose references are given away.
troupe_status trp_value_give(const trp_shape *shape, const void *value, trp_arena *arena,
                             void **copy);
// The actor with that id has ended: who waits gets a failure.
void trp_deferrals_end(trp_async *async, uint64_t id);

// ---- async/actor_timer.c

// Whether a message that has come out of the mailbox is still to be run.
bool trp_alarm_taken(const trp_message *message);
void trp_alarms_end(trp_async *async);

// ---- async/then.c

// Reads the value into the arguments, or the failure.
troupe_status trp_continuation_fill(trp_message *message);

#endif
