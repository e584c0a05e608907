// registrar_client.h: asking the registrar, from any process, for actors that are started again in
// other processes.
#ifndef TRP_ACTOR_REGISTRAR_CLIENT_H
#define TRP_ACTOR_REGISTRAR_CLIENT_H

#include <actors/actor/lifecycle.h>
#include <actors/class/restart_budget.h>
#include <actors/ref/stored_value.h>

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

// What is asked in a REGISTRAR frame.
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

// The table (restart/registrar.h), which is asked in the driver alone. Set before main.
typedef struct trp_registrar_table {
    bool (*adopt)(trp_adoption *what);
    bool (*save)(troupe_actor origin, uint64_t incarnation, trp_kept *image);
    troupe_actor (*origin)(troupe_actor address);
    trp_found (*find)(troupe_actor address, bool retire);
    trp_found (*find_name)(const char *name);
    void (*ended)(troupe_actor address, const trp_down *down);
    void (*counted)(troupe_actor address);
    void (*watch)(troupe_actor address, const trp_watcher *watcher);
    void (*unwatch)(troupe_actor address, const trp_watcher *watcher);
} trp_registrar_table;
extern trp_registrar_table trp_registrar_here;

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
// In the driver: a REGISTRAR frame of another process.
void trp_registrar_serve(const trp_frame *frame);
void trp_registrar_forget(void); // The runtime has stopped.

#endif
