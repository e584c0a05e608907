// registrar.h: the registrar's table, in the driver: actors that are made again where their process
// has died. It is asked by way of actor/registrar_client.h.
#ifndef TRP_RESTART_REGISTRAR_H
#define TRP_RESTART_REGISTRAR_H

#include <actors/actor/registrar_client.h>

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
void trp_registrar_death(uint64_t incarnation);
void trp_registrar_clear(void);
// What registrar_client.h asks.
extern const trp_registrar_table trp_adopted_table;

#endif
