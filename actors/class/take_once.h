// take_once.h: records by number, each of which is ended by the one thread that takes it out.
#ifndef TRP_CLASS_TAKE_ONCE_H
#define TRP_CLASS_TAKE_ONCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum { TRP_REGISTRY_BUCKETS = 1024, TRP_REGISTRY_LOCKS = 16 };

// The first member of a record.
typedef struct trp_registered {
    uint64_t id;
    struct trp_registered *next; // In its bucket.
} trp_registered;

typedef struct trp_registry {
    pthread_mutex_t locks[TRP_REGISTRY_LOCKS]; // Of the buckets, and of what their records guard.
    trp_registered *buckets[TRP_REGISTRY_BUCKETS];
    _Atomic uint64_t last;
} trp_registry;

// Before threads are made.
void trp_registry_init(trp_registry *registry);
// A number that no other record has had.
uint64_t trp_registry_number(trp_registry *registry);
// Puts a record in under its id.
void trp_registry_add(trp_registry *registry, trp_registered *record);
// The record, with its bucket locked until trp_registry_unlock; NULL, and nothing locked: gone.
trp_registered *trp_registry_lock(trp_registry *registry, uint64_t id);
void trp_registry_unlock(trp_registry *registry, uint64_t id);
// Takes a record out: it is the caller's. NULL: another was faster.
trp_registered *trp_registry_take(trp_registry *registry, uint64_t id);

#endif
