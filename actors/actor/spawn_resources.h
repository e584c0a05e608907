// spawn_resources.h: what a spawn asks of its node before there is a process for it: resources,
// GPUs, and the environment that says which.
#ifndef TRP_ACTOR_SPAWN_RESOURCES_H
#define TRP_ACTOR_SPAWN_RESOURCES_H

#include <actors/actor/actor.h>
#include <troupe/actor.h>

typedef struct trp_need {
    uint64_t claim; // 0: nothing was asked for.
    char *env;      // Of the isolated process; NULL: none.
} trp_need;

// Where an actor with such needs lives: TROUPE_PLACE_ANY becomes ISOLATED if only that can serve
// it. TROUPE_INVALID: the place that was asked for cannot.
troupe_status trp_need_place(const troupe_spawn_options *how, troupe_place *place);
// Waits until the node gives what is asked for. What is returned goes to trp_need_done.
// `until_ns`: at most until then; 0: as long as it takes.
troupe_status trp_need_get(const troupe_spawn_options *how, const char *class_name,
                           int64_t until_ns, trp_need *need);
// The next spawn on this thread has this claim, with the ids of its GPUs (taken over; NULL: none),
// instead of asking for one. What was brought and not taken before is given back; 0: nothing more.
void trp_need_bring(uint64_t claim, char *gpus);
// The spawn has ended: what it held is given back if it failed, and else the actor's.
void trp_need_done(trp_need *need, troupe_status status);

// A new actor, which nobody can find yet, holds a claim (0: none) until its last turn gives it
// back.
void trp_need_hold(trp_actor *actor, uint64_t claim);
void trp_need_release(trp_actor *actor);

#endif
