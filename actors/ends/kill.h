// kill.h: the end of actors, here and in other processes.
#ifndef TRP_ENDS_KILL_H
#define TRP_ENDS_KILL_H

#include <troupe/actor.h>

// Kills an actor, as troupe_actor_kill; `give_up` as trp_kill_here. An answer
// of another process is waited for at most `limit_ms`.
troupe_status trp_kill_actor(troupe_actor actor, bool give_up, int limit_ms);
// The same without waiting for anything, and of an actor that was never started again.
void trp_kill_untold(troupe_actor actor);

#endif
