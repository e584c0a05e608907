// restart_in_place.h: actors that are started again under the same address.
//
// An actor's *policy* lies beside it: how often, how soon, and its packed init arguments. Where the
// process lives on, the actor is restarted in place: it keeps slot, id and mailbox. Where the
// process died, the *registrar*, a table in the driver, which outlives all workers, has it made in
// another process, and knows under every address that it ever had where it is now.
#ifndef TRP_ACTOR_RESTART_IN_PLACE_H
#define TRP_ACTOR_RESTART_IN_PLACE_H

#include <actors/actor/lifecycle.h>
#include <actors/ref/stored_value.h>
#include <pthread.h>
#include <runtime/codec/msgpack.h>

enum { TRP_RESTARTS_KEPT = 64 };              // Hours that a budget with a window remembers.
enum { TRP_PAUSE_MAX_MS = 24 * 3600 * 1000 }; // That can be asked for.

// How often an actor may be restarted, and how often it was.
typedef struct trp_budget {
    int64_t limit;                    // TROUPE_FOREVER: any number.
    uint32_t window_ms;               // 0: in its whole life.
    uint32_t backoff_ms;              // The pause before the second in a row, doubling
    uint32_t cap_ms;                  // to this.
    uint32_t calm_ms;                 // Who has lived for longer begins a new row.
    uint32_t count;                   // Restarts so far that it paid for,
    uint32_t unpaid;                  // and others.
    uint32_t streak;                  // Of them, in quick succession.
    uint32_t pause_ms;                // Before the last one.
    int64_t hours[TRP_RESTARTS_KEPT]; // The last ones, by count.
} trp_budget;

// How long it is to wait; 0: the defaults.
void trp_budget_pauses(trp_budget *budget, uint32_t backoff_ms, uint32_t cap_ms, uint32_t calm_ms);
// Takes one restart out of the budget. False: there is none left. *delay_ms: how long to wait.
bool trp_budget_take(trp_budget *budget, int64_t now_ms, int64_t *delay_ms);
// Counts one that was made elsewhere.
void trp_budget_count(trp_budget *budget, int64_t now_ms);
// "in 40 ms (restart 4 of 10)", of the last one.
enum { TRP_BUDGET_TEXT = 128 };
void trp_budget_describe(const trp_budget *budget, int64_t delay_ms, char text[TRP_BUDGET_TEXT]);
void trp_budget_write(const trp_budget *budget, trp_buffer *out);
troupe_status trp_budget_read(trp_reader *in, trp_budget *budget);
// From a spawn's options. TROUPE_INVALID: out of range.
troupe_status trp_budget_of(const troupe_spawn_options *how, trp_budget *budget);

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
    troupe_actor owner;  // Of id 0: none. With its end the actor's comes.
    uint32_t every;
    trp_kept args, image;
} trp_policy_order;

// ---- beside the actor (actor/restart_in_place.c)

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

// ---- the registrar (actor/registrar_client.c), from any process

// What it knows of an address.
typedef enum trp_where {
    TRP_WHERE_UNKNOWN, // It is not of a restarted actor.
    TRP_WHERE_ALIVE,
    TRP_WHERE_RESTARTING,
    TRP_WHERE_ENDED, // For good.
} trp_where;

TROUPE_STRUCT(trp_found, (int32_t, where), (troupe_actor, now), (bool, isolated), (bool, saves),
              (int32_t, reason), (int32_t, signal), (troupe_text, text));

// What it needs to make an actor again.
typedef struct trp_adoption {
    troupe_actor address;
    troupe_actor owner; // Of id 0: none.
    const char *class_name;
    troupe_spawn_options how; // Name, place, mailbox and what it asks of the node.
    trp_budget budget;
    trp_kept args;
    trp_kept image; // What was saved last. Of an actor that is made again.
} trp_adoption;

// Whether any actor of this node can have been restarted.
bool trp_registrar_known(void);
// In the driver: from now on one can; who waits for such an actor looks again.
void trp_registrar_begin(void);
void trp_registrar_announce(void);
// The arguments become the registrar's, or are given up. A failure: it may have been adopted all
// the same, and is the caller's to end.
troupe_status trp_registrar_adopt(trp_adoption *what);
// An actor with a policy has ended for good / was restarted in place.
void trp_registrar_ended(troupe_actor address, const trp_down *down);
void trp_registrar_counted(troupe_actor address);
// Finds out where the actor is now; waits while it is being restarted (deadline_ns as for
// trp_actor_send). `retire`: it shall not be restarted any more, and nobody waits. NOT_EXECUTED
// with its end as the sentence; NOT_FOUND: no such actor was ever restarted.
troupe_status trp_registrar_find(troupe_actor *address, int64_t deadline_ns, bool retire);
// Where it is now and whether it has its process for itself and saves its state; `now` of id 0: it
// is being restarted. NOT_FOUND, NOT_EXECUTED as above.
troupe_status trp_registrar_look(troupe_actor address, troupe_actor *now, bool *isolated,
                                 bool *saves);
// Has the image of an actor's state kept, which stays the caller's. By the actor's process; waits
// until it is.
troupe_status trp_registrar_save(troupe_actor origin, const trp_kept *image);
// The same for an actor's name, without waiting; `class_name` gets at most 128 bytes.
troupe_status trp_registrar_find_name(const char *name, troupe_actor *address,
                                      char class_name[129]);
// Has a watch told there, for an actor whose process has died. False: it cannot be.
bool trp_registrar_watch(troupe_actor address, uint64_t number);
void trp_registrar_unwatch(troupe_actor address, uint64_t number);
void trp_registrar_forget(void); // The runtime has stopped.

// ---- in the driver (restart/registrar.c)
enum {
    TRP_ADOPT = 1,
    TRP_FIND,
    TRP_RETIRE,
    TRP_FIND_NAME,
    TRP_ENDED,
    TRP_COUNTED,
    TRP_WATCHED,
    TRP_UNWATCHED,
    TRP_SAVED
};
// The arguments become the table's, or are given up.
bool trp_adopted_adopt(trp_adoption *what);
// The same for an image, which came from a process of that incarnation. False: no memory.
bool trp_adopted_save(troupe_actor origin, uint64_t incarnation, trp_kept *image);
// The address that an actor is known by, in place of any that it ever had.
troupe_actor trp_adopted_origin(troupe_actor address);
trp_found trp_adopted_find(troupe_actor address, bool retire); // The text belongs to the thread.
trp_found trp_adopted_find_name(const char *name);
void trp_adopted_ended(troupe_actor address, const trp_down *down);
void trp_adopted_counted(troupe_actor address);
void trp_adopted_watch(troupe_actor address, const trp_watcher *watcher);
void trp_adopted_unwatch(troupe_actor address, const trp_watcher *watcher);
size_t trp_adopted_watchers(troupe_actor address); // How many, for tests.
// Those that are in no process, since they are being started again. With the table's lock held: the
// callback must not wait.
typedef struct trp_adopted_look {
    troupe_actor origin;
    const char *class_name; // The table's.
    trp_label label;
    uint32_t restarts;
    int64_t left_ms; // Of its pause; 0: it is being made.
} trp_adopted_look;
void trp_adopted_each(void (*see)(const trp_adopted_look *look, void *user), void *user);
void trp_registrar_serve(const trp_frame *frame);
void trp_registrar_death(uint64_t incarnation);
void trp_registrar_clear(void);

#endif
