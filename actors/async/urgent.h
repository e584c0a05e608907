// urgent.h: methods that run beside their actor's turn: urgent ones, and those of actors that run
// several at a time (concurrency_group.h). They run on threads of their own (side_thread.h), since
// they may wait, and since an urgent one must run when all of the scheduler's threads are busy.
//
// What runs beside is a *guest* of its actor: the last turn waits until there is none.
#ifndef TRP_ASYNC_URGENT_H
#define TRP_ASYNC_URGENT_H

#include <actors/actor/actor.h>
#include <actors/actor/message.h>
#include <actors/async/async.h>

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

#endif
