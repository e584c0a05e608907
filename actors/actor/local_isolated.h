// local_isolated.h: isolated actors where there is one process for all (TROUPE_LOCAL): each runs on
// a thread of its own, so that one that blocks delays no other.
#ifndef TRP_ACTOR_LOCAL_ISOLATED_H
#define TRP_ACTOR_LOCAL_ISOLATED_H

#include <actors/actor/actor.h>

// Lets the actor's thread run it; makes the thread if there is none.
void trp_solo_push(trp_actor *actor);
// The actor that this thread runs has had its last turn.
void trp_solo_gone(void);
// Ends the threads, as soon as their methods let them; false: one did not within the time, and is
// left alone.
bool trp_solo_stop(int64_t until_ns);
// After that: the next actor that was runnable; NULL: none is left.
trp_actor *trp_solo_clear(void);

#endif
