// slot.h: where the actors of this process live: slots in chunks that are never freed, so that a
// sender may touch an actor that has just ended.
//
// An id is a slot's index and how often the slot was used before: ids are never used again. Finding
// an actor is two loads; its id is checked again wherever it matters (see actor.h).
#ifndef TRP_ACTOR_SLOT_H
#define TRP_ACTOR_SLOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct trp_actor trp_actor;

enum { TRP_SLOT_INDEX_BITS = 26 };

// A free slot, whose generation (trp_actor.generation) is new. NULL: no memory.
trp_actor *trp_slot_take(void);
// Frees it.
void trp_slot_give(trp_actor *actor);
// The slot that an id names, whoever is in it; NULL: there is none yet.
trp_actor *trp_slot_of(uint64_t id);
// Whether the id was given to an actor at some time.
bool trp_slot_existed(uint64_t id);
// The slots that there are: 1 to this number.
uint32_t trp_slot_count(void);
// The highest that anybody has had.
uint32_t trp_slot_used(void);

// A lock for what happens to an actor once or seldom: its beginning, its end, a look from outside.
pthread_mutex_t *trp_slot_lock(uint64_t id);

#endif
