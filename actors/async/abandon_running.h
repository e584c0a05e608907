// abandon_running.h: what runs in an actor that is ended by force, where its methods cannot be cut
// off.
#ifndef TRP_ASYNC_ABANDON_RUNNING_H
#define TRP_ASYNC_ABANDON_RUNNING_H

#include <actors/async/async.h>

// Answers the calls whose methods run in an actor that was killed, and those that it has deferred,
// as the death of a process would (MAYBE_EXECUTED), and tells the methods; what they answer is
// thrown away. By a guest of the actor. `closed`: since before the kill; otherwise the actor may
// have gone, and then nothing happens.
void trp_give_up_running(trp_actor *actor, uint64_t id, bool closed);

// Kills an actor of this process; `give_up`: with what runs in it.
void trp_kill_here(uint64_t id, bool give_up);

#endif
