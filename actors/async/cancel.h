// cancel.h: calls that are cancelled by their callers.
#ifndef TRP_ASYNC_CANCEL_H
#define TRP_ASYNC_CANCEL_H

#include <actors/async/async.h>

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

// Another process gives a call up.
void trp_cancel_serve(const trp_frame *frame);

// Asks for the end of a call whose deadline has passed, whatever runs it.
void trp_cancel_overdue(uint64_t call, const trp_target *target);

// Ends the call as TROUPE_DEADLINE_EXCEEDED at `deadline_ns`, if it has not ended. False: no memory
// or no thread.
bool trp_call_expire_at(int64_t deadline_ns, uint64_t call);

// Whether the process has been made for one actor alone.
bool trp_cancel_may_force(uint32_t process, uint64_t incarnation);

#endif
