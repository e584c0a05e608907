// async_hooks.h: what an actor's turn asks of what runs or answers outside it. The room of async
// defines the functions (async/async.h, async/urgent.h), and says what they do; the turn calls them
// by this table, which is set before main. All of them are off the way of a plain message.
#ifndef TRP_ACTOR_ASYNC_HOOKS_H
#define TRP_ACTOR_ASYNC_HOOKS_H

#include <actors/actor/invoke.h>

typedef struct trp_async_hooks {
    // Messages of the kinds behind MARKER, and the state behind trp_actor.async.
    void (*run)(trp_actor *actor, trp_message *message);
    void (*extra_free)(trp_message *message);
    void (*forget_promises)(trp_actor *actor);
    void (*finish)(trp_actor *actor);

    // Cancelling.
    bool (*enter_late)(trp_running *here);
    bool (*enter_beside)(trp_running *here);
    void (*leave_late)(trp_actor *actor);
    void (*leave_beside)(trp_running *here);
    void (*passed)(trp_actor *actor, uint64_t serial);
    const char *(*running_name)(trp_actor *actor, uint64_t id);
    void (*give_up_running)(trp_actor *actor, uint64_t id, bool closed);

    // Answers that are owed, and streams.
    bool (*deferral_is)(trp_actor *actor, const trp_caller *caller);
    void (*deferral_void)(trp_running *here);
    troupe_status (*maker_run)(trp_running *here, void *result);

    // What runs beside the turn.
    bool (*guest_enter)(trp_actor *actor);
    void (*guest_leave)(trp_actor *actor);
    bool (*guests_gone)(trp_actor *actor);
    void (*guests_keep_out)(trp_actor *actor);
    void (*guests_admit)(trp_actor *actor);
    bool (*urgent_send)(trp_actor *actor, uint64_t id, trp_message *message, troupe_status *status);
    bool (*urgent_deliver)(trp_actor *actor, uint64_t id, trp_message *message,
                           troupe_status *status);

    // Groups of methods.
    void (*lanes_dispatch)(trp_actor *actor, trp_message *message);
    void (*lanes_resume)(trp_actor *actor);
    bool (*lanes_finish)(trp_actor *actor);
    trp_link *(*lanes_close)(trp_actor *actor);
    void (*lanes_free)(struct trp_lanes *lanes);
} trp_async_hooks;
extern trp_async_hooks trp_async_here;

#endif
