// restart_in_place.h: actors that are started again under the same address.
//
// An actor's *policy* lies beside it: how often, how soon, and its packed init arguments. Where the
// process lives on, the actor is restarted in place: it keeps slot, id and mailbox. Where the
// process died, the *registrar*, a table in the driver, which outlives all workers, has it made in
// another process, and knows under every address that it ever had where it is now.
#ifndef TRP_ACTOR_RESTART_IN_PLACE_H
#define TRP_ACTOR_RESTART_IN_PLACE_H

#include <actors/actor/lifecycle.h>
#include <actors/class/restart_budget.h>
#include <actors/ref/stored_value.h>
#include <pthread.h>

enum { TRP_PAUSE_MAX_MS = 24 * 3600 * 1000 }; // That can be asked for.

typedef struct trp_request {
    bool wanted; // A restart has been asked for,
    bool sound;  // while the state was sound: it is saved before,
    bool leaves; // and the actor's process is to end with it;
    int reason;  // why,
    char text[256];
} trp_request;

typedef struct trp_policy {
    trp_budget budget;
    troupe_actor origin; // The address that it is known by.
    trp_kept args;       // Init arguments.
    // What its class saves (actor/saved_state.c): the hooks, NULL: none; the last image; one that
    // init has made, which counts if there is no other once init has succeeded; after how many
    // messages it is saved, 0: when it is asked for; and how many there were since. `saving` is
    // held while an image is made and published.
    const troupe_state *state;
    trp_kept image, first;
    uint32_t every, since;
    pthread_mutex_t saving;
    trp_request request; // By any thread, with the actor's life locked.
    // When the pause before its next start ends, for who looks; 0: there is none.
    _Atomic int64_t due_ms;
} trp_policy;

// What a policy is made of; the kept values become the policy's, or are given up.
typedef struct trp_policy_order {
    trp_budget budget;
    troupe_actor origin; // Of id 0: the actor's own address.
    troupe_actor owner;  // Of id 0: none. With its end the actor's comes: see spawn/spawn.h.
    uint32_t every;
    trp_kept args, image;
} trp_policy_order;

// ---- beside the actor

// Gives a new actor its policy.
troupe_status trp_policy_set(trp_actor *actor, trp_policy_order *order);
void trp_policy_free(trp_life *life);
// The actor's, which has one. It stays until the actor has gone.
trp_policy *trp_policy_of(trp_actor *actor);
// Whether a restart has been asked for.
bool trp_policy_wanted(trp_actor *actor);
// The address that others know the actor by.
troupe_actor trp_policy_address(trp_actor *actor);
// Asks for a restart in place, after the method that runs, since that has failed; false: the actor
// has no policy.
bool trp_policy_ask(trp_actor *actor, uint64_t id, int reason, const char *text);
// Has an actor of this process restarted, after the method that runs. `sound`: its state is saved
// before; `leaves`: an isolated one's process is to end with it.
troupe_status trp_restart_here(uint64_t id, bool sound, bool leaves);
void trp_restart_serve(const trp_frame *frame); // From another process, which waits for the answer.
// It has been killed: the registrar must know before its process ends.
void trp_policy_end(trp_actor *actor, uint64_t id);
// Between two messages of the actor: restarts it if that was asked for. It may be closed then.
void trp_policy_act(trp_actor *actor);

// How long an actor of this process still waits for its next start; negative: it does not.
int64_t trp_restart_left_ms(uint64_t id);
// Waits inside a method, until the runtime stops at most, or `wanted` (NULL: always), which is
// asked now and then, says no. `whom` (NULL: nobody) is named where that lasts.
void trp_restart_sleep(int64_t delay_ms, const char *whom, bool (*wanted)(const void *user),
                       const void *user);

#endif
