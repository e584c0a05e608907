// deadlock_probe.h: rings of waits, within this process and through several.
//
// A method that has waited long sends a probe along its wait: to the actor that it waits for, on to
// the one that that one waits for, and so on, until an actor waits for no other, or the first one
// is met again (K. M. Chandy, J. Misra, L. M. Haas: Distributed deadlock detection, 1983). Calls
// can be answered while a probe is under way; so a cycle counts only if a second probe meets the
// very same waits, and if each process on the way has said, behind all its answers, that it saw the
// first one.
#ifndef TRP_ACTOR_DEADLOCK_PROBE_H
#define TRP_ACTOR_DEADLOCK_PROBE_H

#include <actors/actor/actor.h>
#include <actors/ref/ref.h>
#include <runtime/link/frame.h>

// Sleeps, in a method and without a deadline, until the call that the waiter is linked to has
// ended. TROUPE_DEADLOCK: it never will by itself.
troupe_status trp_probe_sleep(uint64_t call, trp_waiter *waiter);
// Whether a method of `actor` that waits for this call waits for itself; notes the wait otherwise
// (`call` 0: it waits no more).
troupe_status trp_actor_waits(trp_actor *actor, uint64_t call);

// For waits for calls.
extern const trp_wait_hooks trp_actor_wait_hooks;
// A probe, or the word that one was seen, has come from another process.
void trp_probe_serve(const trp_frame *frame);

#endif
