// restart.h: actors that are started again under the same address.
//
// An actor's *policy* lies beside it: how often, how soon, and its packed init arguments. Where the
// process lives on, the actor is restarted in place: it keeps slot, id and mailbox. Where the
// process died, the *registrar*, a table in the driver, which outlives all workers, has it made in
// another process, and knows under every address that it ever had where it is now.
#ifndef TRP_RESTART_H
#define TRP_RESTART_H

#include <actors/life.h>
#include <runtime/wire.h>

enum { TRP_RESTARTS_KEPT = 64 }; // Hours that a budget with a window remembers.

// How often an actor may be restarted, and how often it was.
typedef struct trp_budget {
    int64_t limit;      // TROUPE_RESTARTS_FOREVER: any number.
    uint32_t window_ms; // 0: in its whole life.
    uint32_t backoff_ms;
    uint32_t count;                   // Restarts so far that it paid for,
    uint32_t unpaid;                  // and others.
    uint32_t streak;                  // Of them, in quick succession.
    int64_t hours[TRP_RESTARTS_KEPT]; // The last ones, by count.
} trp_budget;

// Takes one restart out of the budget. False: there is none left. *delay_ms: how long to wait.
bool trp_budget_take(trp_budget *budget, int64_t now_ms, int64_t *delay_ms);
// Counts one that was made elsewhere.
void trp_budget_count(trp_budget *budget, int64_t now_ms);
void trp_budget_write(const trp_budget *budget, trp_buffer *out);
troupe_status trp_budget_read(trp_reader *in, trp_budget *budget);
// From a spawn's options. TROUPE_INVALID: out of range.
troupe_status trp_budget_of(const troupe_spawn_options *how, trp_budget *budget);

typedef struct trp_request {
    bool wanted; // A restart has been asked for,
    int reason;  // why,
    char text[256];
} trp_request;

typedef struct trp_policy {
    trp_budget budget;
    troupe_actor origin; // The address that it is known by.
    void *args;          // Init arguments, packed.
    size_t args_size;
    trp_request request; // By any thread, with the actor's life locked.
} trp_policy;

// ---- beside the actor (restart.c)

// Gives a new actor its policy; `origin` of id 0: its own address.
troupe_status trp_policy_set(trp_actor *actor, const trp_budget *budget, troupe_actor origin,
                             const troupe_bytes *args);
void trp_policy_free(trp_life *life);
// The address that others know the actor by.
troupe_actor trp_policy_address(trp_actor *actor);
// Asks for a restart in place, after the method that runs; false: the actor has no policy.
bool trp_policy_ask(trp_actor *actor, uint64_t id, int reason, const char *text);
void trp_restart_serve(const trp_frame *frame); // From another process, which waits for the answer.
// It has been killed: the registrar must know before its process ends.
void trp_policy_end(trp_actor *actor, uint64_t id);
// Between two messages of the actor: restarts it if that was asked for. It may be closed then.
void trp_policy_act(trp_actor *actor);

// Waits inside a method, until the runtime stops or `actor` (NULL: none) is closed at most.
void trp_restart_sleep(int64_t delay_ms, const trp_actor *actor);

// ---- the registrar (registrar.c), from any process

// What it knows of an address.
typedef enum trp_where {
    TRP_WHERE_UNKNOWN, // It is not of a restarted actor.
    TRP_WHERE_ALIVE,
    TRP_WHERE_RESTARTING,
    TRP_WHERE_ENDED, // For good.
} trp_where;

TROUPE_STRUCT(trp_found, (int32_t, where), (troupe_actor, now), (bool, isolated), (int32_t, reason),
              (int32_t, signal), (troupe_text, text));

// What it needs to make an actor again.
typedef struct trp_adoption {
    troupe_actor address;
    const char *class_name;
    troupe_spawn_options how; // Name, place, mailbox and what it asks of the node.
    trp_budget budget;
    troupe_bytes args;
} trp_adoption;

// Whether any actor of this node can have been restarted.
bool trp_registrar_known(void);
// A failure: it may have been adopted all the same, and is the caller's to end.
troupe_status trp_registrar_adopt(const trp_adoption *what);
// An actor with a policy has ended for good / was restarted in place.
void trp_registrar_ended(troupe_actor address, const trp_down *down);
void trp_registrar_counted(troupe_actor address);
// Finds out where the actor is now; waits while it is being restarted (deadline_ns as for
// trp_actor_send). `retire`: it shall not be restarted any more, and nobody waits. NOT_EXECUTED
// with its end as the sentence; NOT_FOUND: no such actor was ever restarted.
troupe_status trp_registrar_find(troupe_actor *address, int64_t deadline_ns, bool retire);
// Where it is now and whether it has its process for itself; `now` of id 0: it is being restarted.
// NOT_FOUND, NOT_EXECUTED as above.
troupe_status trp_registrar_look(troupe_actor address, troupe_actor *now, bool *isolated);
// The same for an actor's name, without waiting; `class_name` gets at most 128 bytes.
troupe_status trp_registrar_find_name(const char *name, troupe_actor *address,
                                      char class_name[129]);
// Has a watch told there, for an actor whose process has died. False: it cannot be.
bool trp_registrar_watch(troupe_actor address, uint64_t number);
void trp_registrar_unwatch(troupe_actor address, uint64_t number);
void trp_registrar_forget(void); // The runtime has stopped.

// ---- in the driver (adopted.c)
enum {
    TRP_ADOPT = 1,
    TRP_FIND,
    TRP_RETIRE,
    TRP_FIND_NAME,
    TRP_ENDED,
    TRP_COUNTED,
    TRP_WATCHED,
    TRP_UNWATCHED,
};
troupe_status trp_adopted_adopt(const trp_adoption *what);
trp_found trp_adopted_find(troupe_actor address, bool retire); // The text belongs to the thread.
trp_found trp_adopted_find_name(const char *name);
void trp_adopted_ended(troupe_actor address, const trp_down *down);
void trp_adopted_counted(troupe_actor address);
void trp_adopted_watch(troupe_actor address, const trp_watcher *watcher);
void trp_adopted_unwatch(troupe_actor address, const trp_watcher *watcher);
size_t trp_adopted_watchers(troupe_actor address); // How many, for tests.
void trp_registrar_serve(const trp_frame *frame);
void trp_registrar_death(uint64_t incarnation);
void trp_registrar_clear(void);

#endif
