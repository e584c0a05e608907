// version.h: a checkpoint that a service serves: its replicas, and what waits for them.
#ifndef TRP_SERVE_VERSION_H
#define TRP_SERVE_VERSION_H

#include <serve/replica.h>
#include <serve/service.h>

typedef enum trp_service_place {
    PLACE_EMPTY, // Nothing is there: a start is due, after a pause perhaps.
    PLACE_STARTING,
    PLACE_IDLE,
    PLACE_ASKED,  // It has a batch.
    PLACE_DYING,  // Its call has ended with it: its monitor will say so.
    PLACE_ENDING, // It was told to end.
    PLACE_ENDED,
} trp_service_place;

typedef struct trp_service_version trp_service_version;

typedef struct trp_service_replica {
    trp_service_version *of;
    trp_starter_actor starter;
    trp_replica_actor actor;
    trp_service_place at;
    bool came; // For the first time, or it could not.
    bool gone; // While it had a batch, whose call's end is to come.
    uint64_t monitor;
    uint32_t deaths; // Since its last answer.
    trp_inferences batch;
    size_t rows;
    char end[200]; // What the last one died of.
} trp_service_replica;

// A checkpoint that is served: its replicas, as many as the service was asked for, and what waits
// for them.
struct trp_service_version {
    trp_service_version *next;
    trp_version_stats stats;
    trp_replica_how how;
    uint64_t first; // The number of its first replica, among all that the service has had.
    trp_service_replica *replicas;
    trp_inferences queue;
    bool leaves; // Nothing is given to it any more; its replicas end as they idle.
};

// One whose replicas are not started yet; texts may be NULL. NULL: no memory.
trp_service_version *trp_service_version_make(const trp_service_shared *shared,
                                              const char *checkpoint, const char *name,
                                              const char *config);
void trp_service_version_free(trp_service_version *version);

#endif
