// task_resources.h: what a task holds of its node's resources: asked for before it is sent, and
// handed to the actor that runs it, with whose end it is given back.
#ifndef TRP_TASK_TASK_RESOURCES_H
#define TRP_TASK_TASK_RESOURCES_H

#include <runtime/node/node_client.h>
#include <stdatomic.h>
#include <troupe/task.h>

typedef enum trp_allot_state {
    TRP_ALLOT_NONE,    // Nothing is asked for.
    TRP_ALLOT_ASKED,   // The node has not answered yet.
    TRP_ALLOT_GRANTED, // `claim` is to be handed on.
    TRP_ALLOT_REFUSED, // `status` and `text` say why.
    TRP_ALLOT_GIVEN_UP,
} trp_allot_state;

// Part of a task that needs something. Zeroed at first.
typedef struct trp_allot {
    trp_want want;
    char *resources; // Its text.
    void (*ready)(struct trp_allot *allot);
    trp_allot_state state; // With all that follows, under a lock of this layer.
    bool told;             // The node has answered.
    uint64_t request, claim;
    troupe_status status;
    char *text; // The ids of the GPUs, or the sentence of the refusal. NULL: none.
} trp_allot;

// Whether a task needs anything.
bool trp_allot_wanted(const troupe_run_options *how);
// Reads what is needed. `who` must stay. `ready` is called once for each trp_allot_ask that is not
// given up, on a thread that must not wait.
troupe_status trp_allot_make(const troupe_run_options *how, const char *who,
                             void (*ready)(trp_allot *allot), trp_allot *allot);
// Asks the node. If that is not possible, `ready` is called with the refusal. False: it was given
// up before, and nobody will tell.
bool trp_allot_ask(trp_allot *allot);
// Whether the node has answered / has not yet.
bool trp_allot_decided(trp_allot *allot);
bool trp_allot_waits(trp_allot *allot);
// Takes what has been decided: TROUPE_OK with the claim for the next spawn on this thread
// (actor/spawn_resources.h), or the refusal as the thread's last error.
troupe_status trp_allot_take(trp_allot *allot);
// Wants nothing any more, ever. True: `ready` will not be called for the last trp_allot_ask; false:
// it was, or nothing was asked.
bool trp_allot_give_up(trp_allot *allot);
// When nothing is asked for any more.
void trp_allot_free(trp_allot *allot);

#endif
