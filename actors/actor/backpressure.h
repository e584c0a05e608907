// backpressure.h: actors whose mailbox other processes fill faster than it empties tell those
// processes to send them no more for a while. What is sent to other actors goes on meanwhile.
#ifndef TRP_ACTOR_BACKPRESSURE_H
#define TRP_ACTOR_BACKPRESSURE_H

#include <actors/actor/actor.h>
#include <actors/actor/mailbox_credit.h>

// A message from the process was put into the actor's mailbox: pauses that process if the mailbox
// is more than half full.
void trp_pressure_note(trp_actor *actor, uint64_t id, uint32_t process, uint64_t incarnation);
// Whether a process of another node goes on sending to an actor that has paused it, after all that
// can have been under way: then its message, of that size, is not to be taken.
bool trp_pressure_beyond(trp_actor *actor, uint64_t id, uint64_t incarnation, size_t size);
// Messages have left the mailbox of an actor that has paused somebody: if it is less than a quarter
// full, they may go on.
void trp_pressure_ease(trp_actor *actor, uint64_t id);
// The actor has ended: they go on, and hear so.
void trp_pressure_end(trp_actor *actor, uint64_t id);
// The runtime has stopped.
void trp_pressure_forget(void);

// A message of that size has come from the process. Its room in the link's window is given back at
// once, unless more waits in this process than may.
void trp_share_take(trp_share *share, uint32_t process, uint64_t incarnation, size_t size);

// It has left the mailbox. More than once does no harm.
void trp_share_return(trp_share *share, uint32_t process, uint64_t incarnation);

#endif
