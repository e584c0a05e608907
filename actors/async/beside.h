// beside.h: methods that run beside their actor's turn: urgent ones (urgent.c), and those of actors
// that run several at a time (async/concurrency_group.c). They run on threads of their own
// (async/side_thread.c), since they may wait, and since an urgent one must run when all of the
// scheduler's threads are busy.
//
// What runs beside is a *guest* of its actor: the last turn waits until there is none.
#ifndef TRP_ASYNC_BESIDE_H
#define TRP_ASYNC_BESIDE_H

#include <actors/actor/actor.h>
#include <actors/actor/message.h>
#include <actors/async/async.h>

// ---- guests (urgent.c)

// A guest comes / leaves; the last one to leave sees to the last turn if that waits for it.
bool trp_guest_enter(trp_actor *actor);
void trp_guest_leave(trp_actor *actor);
// Whether the last turn may be: otherwise the last guest will schedule it.
bool trp_guests_gone(trp_actor *actor);

// Waits until nothing runs beside the turn; meanwhile, and until they are admitted again, urgent
// calls wait in the mailbox. By who has the actor.
void trp_guests_keep_out(trp_actor *actor);
void trp_guests_admit(trp_actor *actor);

// Hands over a message of an urgent method, as trp_actor_send and trp_actor_deliver. False: it has
// to go through the mailbox.
bool trp_urgent_send(trp_actor *actor, uint64_t id, trp_message *message, troupe_status *status);
bool trp_urgent_deliver(trp_actor *actor, uint64_t id, trp_message *message, troupe_status *status);

// Runs a message as a guest, and frees it.
void trp_beside_run(trp_message *message);

// ---- lanes (async/concurrency_group.c)
typedef struct trp_lanes trp_lanes;

// Reads "4;io=2,disk=1": how many methods may run at a time, and of which groups. NULL with the
// last error set: that is malformed, or the class has no such group.
trp_lanes *trp_lanes_make(const trp_class *class_, const char *text);
void trp_lanes_free(trp_lanes *lanes);
// Gives them to an actor that nobody can find yet; NULL: none. False: no memory.
bool trp_lanes_attach(trp_actor *actor, trp_lanes *lanes);
// Writes the text for spawn options; "" if they ask for nothing. TROUPE_INVALID.
enum { TRP_LANES_TEXT = 128, TRP_LANES_MAX = 1024 };
troupe_status trp_lanes_text(const troupe_spawn_options *how, char text[TRP_LANES_TEXT]);

// In the turn: runs a call when its lane has room.
void trp_lanes_dispatch(trp_actor *actor, trp_message *message);
// A guest that came through a lane is done: the next message of the lane, or NULL.
trp_message *trp_lanes_next(trp_actor *actor, uint32_t lane);
// In the turn: the actor has been restarted, and takes up what waits in its lanes.
void trp_lanes_resume(trp_actor *actor);
// In the turn: the request to end. False: it waits for what came before it.
bool trp_lanes_finish(trp_actor *actor);
// Takes a call that waits in a lane out; NULL: there is none. With the lock of the async held.
trp_message *trp_lanes_cancel(trp_actor *actor, const trp_caller *caller);
// The actor is closed: takes out all that wait. With the slot's lock held.
trp_link *trp_lanes_close(trp_actor *actor);

// ---- threads (async/side_thread.c)

// Runs trp_beside_run on a thread of its own. False: too many wait already.
bool trp_helper_push(trp_message *message, bool always);
// Takes no more; waits so long for what runs. What was not begun is refused.
void trp_helpers_start(void);
void trp_helpers_stop(int64_t until_ns);

#endif
