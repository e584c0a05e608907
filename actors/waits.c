// waits.c: who waits for whom: the rings of waits within this process.
#include <actors/actor.h>

#include <actors/ref_table.h>

enum { KINSHIP_MAX = 64 }; // Actors that may wait for each other in a row.

// The actor of this process that a pending call without a deadline is to; 0: there is none.
static uint64_t target_of(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return 0;
    uint64_t whole = entry->kind == TRP_ENTRY_CALL && !entry->done ? entry->part_of : 0;
    if (whole != 0) { // Then its own target is nobody.
        trp_entry_unlock(entry);
        return target_of(trp_entry_behind((troupe_ref){.id = whole}));
    }
    bool waits = entry->kind == TRP_ENTRY_CALL && !entry->done && entry->deadline_ns == 0 &&
                 !entry->apart && entry->target.incarnation == trp_home_here.incarnation;
    uint64_t actor = waits ? entry->target.actor : 0;
    trp_entry_unlock(entry);
    return actor;
}

troupe_status trp_actor_waits(trp_actor *actor, uint64_t call)
{
    static pthread_mutex_t graph = PTHREAD_MUTEX_INITIALIZER;
    bool deadlock = false;
    uint64_t own = trp_actor_id(actor);
    if (call == 0) { // Who finds the old one finds that it is done.
        atomic_store(&actor->waits_for, 0);
        return TROUPE_OK;
    }
    pthread_mutex_lock(&graph);
    atomic_store(&actor->waits_for, call);
    for (int i = 0; call != 0 && i < KINSHIP_MAX; i++) {
        uint64_t id = target_of(call);
        deadlock = id == own;
        trp_actor *next = id == 0 || deadlock ? NULL : trp_actor_find(id);
        if (next == NULL || next->concurrent) // Others may end its wait.
            break;
        call = atomic_load(&next->waits_for);
    }
    if (deadlock)
        atomic_store(&actor->waits_for, 0);
    pthread_mutex_unlock(&graph);
    return deadlock ? troupe_fail(TROUPE_DEADLOCK,
                                  "actor %s waits for a call that can only be run after the method "
                                  "that waits",
                                  trp_actor_label(own).text)
                    : TROUPE_OK;
}
