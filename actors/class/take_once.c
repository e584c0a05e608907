// take_once.c: see class/take_once.h.
#include <actors/class/take_once.h>

#include <stddef.h>

void trp_registry_init(trp_registry *registry)
{
    for (int i = 0; i < TRP_REGISTRY_LOCKS; i++)
        pthread_mutex_init(&registry->locks[i], NULL);
}

uint64_t trp_registry_number(trp_registry *registry)
{
    return atomic_fetch_add(&registry->last, 1) + 1;
}

static pthread_mutex_t *lock_of(trp_registry *registry, uint64_t id)
{
    return &registry->locks[id % TRP_REGISTRY_LOCKS];
}

// Where the record's bucket points to it. With the lock held.
static trp_registered **find(trp_registry *registry, uint64_t id)
{
    trp_registered **at = &registry->buckets[id % TRP_REGISTRY_BUCKETS];
    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

void trp_registry_add(trp_registry *registry, trp_registered *record)
{
    trp_registered **bucket = &registry->buckets[record->id % TRP_REGISTRY_BUCKETS];
    pthread_mutex_lock(lock_of(registry, record->id));
    record->next = *bucket;
    *bucket = record;
    pthread_mutex_unlock(lock_of(registry, record->id));
}

trp_registered *trp_registry_lock(trp_registry *registry, uint64_t id)
{
    pthread_mutex_lock(lock_of(registry, id));
    trp_registered *found = *find(registry, id);
    if (found == NULL)
        pthread_mutex_unlock(lock_of(registry, id));
    return found;
}

void trp_registry_unlock(trp_registry *registry, uint64_t id)
{
    pthread_mutex_unlock(lock_of(registry, id));
}

trp_registered *trp_registry_take(trp_registry *registry, uint64_t id)
{
    pthread_mutex_lock(lock_of(registry, id));
    trp_registered **at = find(registry, id), *found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(lock_of(registry, id));
    return found;
}
