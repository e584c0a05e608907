// pending_adoption.h: what the driver learns of actors with a restart policy before they are
// adopted
//
// An actor begins before its spawner has its address, and has it adopted: so what its init has
// saved, and even its end, may come first. All of it with the lock of the registrar's table.
#ifndef TRP_ACTOR_PENDING_ADOPTION_H
#define TRP_ACTOR_PENDING_ADOPTION_H

#include <actors/actor/lifecycle.h>
#include <actors/ref/stored_value.h>

// At most one of both: nobody starts one again that has ended.
typedef struct trp_early {
    trp_kept image; // It is the taker's.
    bool ended;
    trp_down end;
} trp_early;

// Takes out what came of an actor: zeros if nothing did.
trp_early trp_early_take(troupe_actor address);
// Keeps an image in place of the one before; after its end: none. False: no memory.
bool trp_early_image(troupe_actor address, trp_kept *image);
// Keeps that it has ended: the first news of it count. Without memory it is forgotten.
void trp_early_end(troupe_actor address, const trp_down *down);
// Gives up the images from a process that has died. That an actor had ended before is still true.
void trp_early_death(uint64_t incarnation);
void trp_early_clear(void);

#endif
