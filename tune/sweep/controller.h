// controller.h: the actor that a sweep's controller is: it gives the controller its turns.
//
// An actor of the process that runs the sweep. What its trials' followers and callers tell it lies
// in a queue of its own (events.h), since a mailbox is bounded and a follower may not wait; one
// message of that there is more has it take all of it in. It ends with its sweep. Where it ends
// first, as the runtime stops or somebody ends it, a thread gives the sweep its last turns: jobs
// are still to be let go of then, ends to be put down, and who waits to be told. One that was
// killed says nothing: whoever sends it a message, wishes something of the sweep or waits for it
// finds out.
#ifndef TRP_CONTROLLER_H
#define TRP_CONTROLLER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <troupe/actor.h>

struct trp_control;

// A controller's place in the table of those that have an actor. The actor has its number alone:
// who ends an actor leaves nobody to take a pointer out of it.
typedef struct trp_seat {
    struct trp_control *next;
    uint64_t number;
    troupe_actor actor;
    bool is_taken; // It is in the table.
    bool in_turn;  // Its actor is giving it a turn.
} trp_seat;

// Begins to give turns to what has been prepared. Its sweep's lock is held.
troupe_status trp_controller_start(struct trp_control *control);
// Has it look whether there is something for it, also where a message to its actor was lost with
// that, or no thread could be made in its place. The sweep's lock is held.
void trp_controller_rouse(struct trp_control *control);
// The same by the number of its seat, without that lock: the controller may be gone.
void trp_controller_look_after(uint64_t number);

#endif
