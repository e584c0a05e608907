// roster.h: things of a process that one thread looks after, as long as there are any: a list under
// a lock, and a thread that begins with the first of them and ends with the last.
#ifndef TRP_ROSTER_H
#define TRP_ROSTER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

// The first member of each thing. Under the lock.
typedef struct trp_roster_item {
    struct trp_roster_item *next;
    bool ended;  // Nothing more happens to it.
    bool done;   // And the thread has seen to all of it.
    bool closed; // Nobody else knows it: the thread removes and frees it.
} trp_roster_item;

// A static one has its lock, name and function; the rest is zero.
typedef struct trp_roster {
    pthread_mutex_t lock;
    const char *name;    // Of the thread, at most 15 characters.
    void (*serve)(void); // With the lock, until there is no item left.
    pthread_cond_t changed;
    bool ready, running;
    trp_roster_item *first; // In the order in which they were added.
} trp_roster;

// Adds an item. False: there is no thread for it.
bool trp_roster_add(trp_roster *roster, trp_roster_item *item);
// Nothing more happens to it; it is the thread's from now on.
void trp_roster_end(trp_roster *roster, trp_roster_item *item);
void trp_roster_close(trp_roster *roster, trp_roster_item *item);
// Waits until the thread has seen to all of an item that has ended (others are not waited for), or
// of all that have ended or were closed, but not for longer than that.
void trp_roster_await(trp_roster *roster, const trp_roster_item *item, int timeout_ms);
void trp_roster_settle(trp_roster *roster, int timeout_ms);

// With the lock: says that something has changed, waits for that or until then, takes an item out.
void trp_roster_change(trp_roster *roster);
void trp_roster_await_change(trp_roster *roster, int64_t until_ms);
void trp_roster_remove(trp_roster *roster, const trp_roster_item *item);

#endif
