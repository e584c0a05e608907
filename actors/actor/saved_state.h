// saved_state.h: what a class saves of its actors' state and restores after a restart
// (TROUPE_STATE), and when that is done.
#ifndef TRP_ACTOR_SAVED_STATE_H
#define TRP_ACTOR_SAVED_STATE_H

#include <actors/actor/actor.h>
#include <troupe/life.h>

// The hooks of the class of that name; NULL: it has none.
const troupe_state *trp_state_of(const char *class_name);

// All of these for actors that have hooks and are restarted (`saves`), by the thread that has them.

// Its init is about to run.
void trp_state_begin(trp_actor *actor);
// Its init has succeeded: it is given what was saved of its state before; if nothing was, what init
// has saved is kept elsewhere from now on. A failure is one of the start.
troupe_status trp_state_begun(trp_actor *actor, trp_arena *arena);
// A message has been run, and will be answered next: saves if it is time for that.
void trp_state_ran(trp_actor *actor);
// It is about to be restarted, and its state is sound: saves.
void trp_state_leave(trp_actor *actor);

#endif
