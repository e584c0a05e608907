// concurrency_group.h: actors that run several methods at a time, in lanes: one for each group of
// methods. What comes through a lane is a guest of its actor (see urgent.h).
#ifndef TRP_ASYNC_CONCURRENCY_GROUP_H
#define TRP_ASYNC_CONCURRENCY_GROUP_H

#include <actors/actor/actor.h>
#include <actors/actor/message.h>
#include <actors/async/async.h>

typedef struct trp_lanes trp_lanes;

// Writes the text for spawn options; "" if they ask for nothing. TROUPE_INVALID.
enum { TRP_LANES_TEXT = 128, TRP_LANES_MAX = 1024 };
troupe_status trp_lanes_text(const troupe_spawn_options *how, char text[TRP_LANES_TEXT]);

// Reads "4;io=2,disk=1": how many methods may run at a time, and of which groups. NULL with the
// last error set: that is malformed, or the class has no such group.
trp_lanes *trp_lanes_make(const trp_class *class_, const char *text);
void trp_lanes_free(trp_lanes *lanes);

// Gives them to an actor that nobody can find yet; NULL: none. False: no memory.
bool trp_lanes_attach(trp_actor *actor, trp_lanes *lanes);

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

#endif
