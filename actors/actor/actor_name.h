// actor_name.h: names of actors in the node's directory.
#ifndef TRP_ACTOR_ACTOR_NAME_H
#define TRP_ACTOR_ACTOR_NAME_H

#include <actors/actor/actor.h>

// Puts the actor's name, if it has one, in the node's directory (name.c).
bool trp_actor_name(trp_actor *actor, troupe_error *failure);
void trp_actor_unname(trp_actor *actor);

#endif
