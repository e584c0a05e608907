// lifecycle.h: how an actor ends and which watchers are told: state that few actors have, made when
// it is first needed.
#ifndef TRP_ACTOR_LIFECYCLE_H
#define TRP_ACTOR_LIFECYCLE_H

#include <actors/actor/actor.h>
#include <runtime/link/frame.h>
#include <troupe/life.h>

// The news of an end, without borrowed text.
typedef struct trp_down {
    troupe_actor actor;
    int reason, signal;
    char text[256];
} trp_down;

trp_down trp_down_of(troupe_actor actor, int reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// What the death of its process means for an actor.
trp_down trp_down_of_process(troupe_actor actor);
// Why an actor of this process that is not there any more has ended.
trp_down trp_down_of_grave(troupe_actor actor);
// For users: the text is copied into the thread's arena.
troupe_down trp_down_public(const trp_down *down, uint64_t monitor);

// Who wants a DOWN with this number: a process.
typedef struct trp_watcher {
    uint32_t process;
    uint64_t incarnation, number;
} trp_watcher;

typedef struct trp_watchers {
    trp_watcher *all;
    size_t count, capacity;
    size_t left; // Where the last watcher left from: the next one is often near.
} trp_watchers;

enum { TRP_WATCHERS_FAR_MAX = 1024 }; // Of other nodes, of an actor: more are refused.

typedef struct trp_life {
    bool told; // Its end has been told: nobody can be added.
    trp_watchers near,
        far;        // Processes of this node, and of others, who wait for no list but theirs.
    bool watches;   // It may have watches of its own.
    int reason;     // Why it ends, if that was said; 0: as its state says.
    int signal;     // Of a linked actor's end.
    char text[256]; // In words.
    struct trp_policy *policy; // How it is restarted; NULL: it is not.
    const trp_method *trap;    // Gets the ends of linked actors; NULL: they end this one.
} trp_life;

// What the actor has of all this, locked until trp_life_unlock (which takes NULL); NULL: nothing,
// and `make` was false, there is no memory, or its end has been told.
trp_life *trp_life_lock(trp_actor *actor, uint64_t id, bool make);
void trp_life_unlock(trp_life *life);

// How it is restarted, for who runs in it: also where its end has been told meanwhile. NULL: it is
// not.
struct trp_policy *trp_life_policy(trp_actor *actor);

// Whether it may have any of this: cheap, for who runs it.
static inline bool trp_life_has(const trp_actor *actor)
{
    return atomic_load_explicit(&actor->life, memory_order_relaxed) != NULL;
}

// Says why an actor will have ended. The first word counts.
void trp_life_say(trp_actor *actor, uint64_t id, int reason, int signal, const char *text);
// Adds that to a failure that its callers get.
void trp_life_explain(uint64_t id, troupe_error *failure);
// Adds a watcher to an actor of this process, or tells it at once.
void trp_life_watch(uint64_t id, const trp_watcher *watcher);
void trp_life_unwatch(uint64_t id, const trp_watcher *watcher);
// The actor has ended: tells everyone, the first time. By who has it, or a guest.
void trp_life_finish(trp_actor *actor);
// After it has gone.
void trp_life_free(trp_actor *actor);
// Whether an address is the running actor's: where it is now, or the one that it is known by.
bool trp_life_is_self(troupe_actor actor);

// Hands a message to an actor of this process, whether its mailbox is full or not. False: it has
// ended, or there is no memory.
bool trp_life_post(uint64_t id, const trp_method *method, const void *args);
// The same for a method of a class of this process, by its number. Also where nothing can be sent
// any more, since the runtime was lost: what the library's own actors are told must arrive.
bool trp_life_post_to(troupe_actor to, const troupe_class *row, size_t method, const void *args);

// Who is told of ends (ends/watch.h). Set before main.
typedef struct trp_life_listener {
    // Tells a watch of whatever process.
    void (*tell)(const trp_watcher *watcher, const trp_down *down);
    // The actor has ended: so do its own watches.
    void (*ended)(uint64_t owner);
} trp_life_listener;
extern trp_life_listener trp_life_told;

#endif
