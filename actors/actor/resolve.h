// resolve.h: addresses of actors of other nodes.
#ifndef TRP_ACTOR_RESOLVE_H
#define TRP_ACTOR_RESOLVE_H

#include <troupe/actor.h>

// Makes an address one whose `process` is this process's number for where the actor lives, and
// whose `node` is 0: so what is sent to it finds its way. May ask the other node, and waits for its
// answer then. NOT_EXECUTED: that node or process is gone; BUSY: this thread must not wait.
troupe_status trp_actor_near(troupe_actor *actor);

// Refuses the address of an actor of another node, for what does not reach that far: "linked",
// "restarted", ... UNSUPPORTED.
troupe_status trp_actor_at_home(troupe_actor actor, const char *what);

#endif
