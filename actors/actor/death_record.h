// death_record.h: what is said of actors.
#ifndef TRP_ACTOR_DEATH_RECORD_H
#define TRP_ACTOR_DEATH_RECORD_H

#include <actors/actor/actor.h>

// Of any: `name` NULL: it has none.
trp_label trp_label_of(const char *class_name, const char *name, uint64_t id);

// Of an actor that is or was; of an unknown one, "actor#7".
trp_label trp_actor_label(uint64_t id);

// The same with the slot's lock held, of the one in the slot.
trp_label trp_actor_label_locked(const trp_actor *actor, uint64_t id);

// Why messages to the actor with that id are not run.
troupe_error trp_actor_obituary(uint64_t id);

// The same, and the state in which it ended (left alone if that is not known).
troupe_error trp_actor_obituary_state(uint64_t id, trp_actor_state *state);

// Remembers who goes. By who has it.
void trp_actor_bury(const trp_actor *actor, uint64_t id, trp_actor_state state);

// Says in a failure where it happened: in an actor of this process (0: in none), or in the target
// of a call.
void trp_failure_place(troupe_error *failure, uint64_t actor);

#endif
