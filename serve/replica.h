// replica.h: an instance of a model in a process of its own, and what starts it.
#ifndef TRP_SERVE_REPLICA_H
#define TRP_SERVE_REPLICA_H

#include <troupe/model.h>

TROUPE_STRUCT(trp_replica_how, (troupe_text, model), (troupe_text, checkpoint),
              (troupe_text, config));

// An isolated actor; its init opens the model.
typedef struct trp_replica {
    troupe_instance *instance;
} trp_replica;
troupe_status trp_replica_begin(trp_replica *self, const trp_replica_how *how);
void trp_replica_end(trp_replica *self);
troupe_status trp_replica_predict(trp_replica *self, const troupe_tensor *x, troupe_tensor *y);
TROUPE_ACTOR_INIT(trp_replica, (trp_replica_begin, trp_replica_how), trp_replica_end,
                  (trp_replica_predict, troupe_tensor, troupe_tensor));

// A light actor that waits while a replica starts or is killed, and owns it. (A kill waits for up
// to a second for a process that is stopped.)
typedef struct trp_starter {
    int starts;
} trp_starter;
troupe_status trp_starter_start(trp_starter *self, const trp_replica_how *how,
                                troupe_actor *replica);
troupe_status trp_starter_kill(trp_starter *self, const troupe_actor *replica, troupe_none *out);
TROUPE_ACTOR(trp_starter, (trp_starter_start, trp_replica_how, troupe_actor),
             (trp_starter_kill, troupe_actor, troupe_none));

#endif
