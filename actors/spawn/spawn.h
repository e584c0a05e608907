// spawn.h: making actors, here and elsewhere, and remembering why one could not be made.
#ifndef TRP_SPAWN_H
#define TRP_SPAWN_H

#include <actors/actor/message.h>
#include <actors/actor/restart_in_place.h>
#include <troupe/actor.h>

enum {
    TRP_SPAWN_TEXT = 128, // Bytes of a text in a request.
    TRP_SPAWN_FIELDS = 8,
    TRP_SPAWN_POLICY_FIELDS = 5,
    TRP_SPAWN_ADDRESS_FIELDS = 3
};

// What a request says about restarts.
typedef struct trp_spawn_policy {
    bool given;
    trp_budget budget;
    troupe_actor origin, owner;
    uint32_t save_every;
    troupe_bytes image; // In what was read: what is kept of a state; of size 0: nothing.
} trp_spawn_policy;

// What a SPAWN frame asks for, without the init arguments.
typedef struct trp_spawn_request {
    bool classed, named, isolated, has_lanes; // Of the texts: whether they were there.
    char class_name[TRP_SPAWN_TEXT + 1], name[TRP_SPAWN_TEXT + 1], lanes[TRP_SPAWN_TEXT + 1];
    uint64_t hash, claim;
    uint32_t mailbox_max;
    trp_spawn_policy policy;
} trp_spawn_request;

// A new actor, in a state to be entered. NULL with the last error set.
trp_actor *trp_spawn_make(const trp_class *class_, const char *name, uint32_t mailbox_max,
                          bool isolated, const char *lanes_text);
// Gives a new actor its policy, and links it to its owner.
troupe_status trp_spawn_policy_set(trp_actor *actor, trp_policy_order *policy);
// Waits for the answer to the call that makes an actor in another process.
// TROUPE_DEADLINE_EXCEEDED: it has not come by `until_ns` or, where that is 0, the process has been
// stopped for too long: then the claim goes with the call, and what is made later ends at once.
// (spawn_wait.c)
typedef struct trp_spawn_wait {
    uint64_t call;
    const char *class_name;
    uint32_t process;
    int64_t until_ns;
} trp_spawn_wait;
troupe_status trp_spawn_await(const trp_spawn_wait *wait, uint64_t *claim);
// As troupe_spawn_named, with arguments that are kept, which stay the caller's.
troupe_actor trp_spawn_kept(const char *class_name, const trp_kept *args,
                            const troupe_spawn_options *how);
// Makes an actor whose process has died again, elsewhere; it is known by `origin`.
struct trp_adoption;
troupe_status trp_spawn_again(const struct trp_adoption *what, troupe_actor origin,
                              troupe_actor *address);
// As troupe_spawn_many_as, with the arguments of each one `stride` bytes behind the last one's.
troupe_status trp_spawn_many(const troupe_class *row, const void *args, size_t stride, size_t count,
                             troupe_actor *addresses, const troupe_spawn_options *how);
// As troupe_spawn_many_as without arguments, each with an .env of its own.
troupe_status trp_spawn_each(const troupe_class *row, const char *const *envs, size_t count,
                             troupe_actor *addresses, const troupe_spawn_options *how);

#endif
