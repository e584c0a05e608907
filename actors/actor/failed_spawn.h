// failed_spawn.h: the addresses of actors that could not be started, and why.
#ifndef TRP_ACTOR_FAILED_SPAWN_H
#define TRP_ACTOR_FAILED_SPAWN_H

#include <troupe/actor.h>

// An address that fails with the thread's last error, of that status.
troupe_actor trp_spawn_failed(troupe_status status);
// Why the address (of id 0) is none, as the last error.
troupe_status trp_spawn_failure(troupe_actor actor);
// Frees the failures.
void trp_spawn_forget(void);

#endif
