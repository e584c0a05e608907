// big.c: Savina's Big: 120 actors ping each other at random, each 20,000 times, each waiting for
// the pong before its next ping. Many to many.
#include "savina.h"

#include <stdatomic.h>

enum { ACTORS = 120, PINGS = 20000 };

// Of one game: who there is, and how many have had all their pongs. Relaxed: the count alone
// matters.
static troupe_actor all[ACTORS];
static _Atomic int finished;

typedef struct pinger {
    int left;
    uint32_t random;
} pinger;

static troupe_status pinger_start(pinger *self, const uint32_t *seed, troupe_none *none);
static troupe_status pinger_ping(pinger *self, const troupe_actor *from, troupe_none *none);
static troupe_status pinger_pong(pinger *self, const troupe_none *from, troupe_none *none);

TROUPE_ACTOR(pinger, (pinger_start, uint32_t, troupe_none),
             (pinger_ping, troupe_actor, troupe_none), (pinger_pong, troupe_none, troupe_none));

static troupe_status ping_someone(pinger *self)
{
    troupe_actor me = troupe_self();
    troupe_actor to = all[savina_random(&self->random) % ACTORS];
    return troupe_tell_from((pinger_actor){to}, pinger_ping, &me);
}

static troupe_status pinger_start(pinger *self, const uint32_t *seed, troupe_none *none)
{
    (void)none;
    self->random = *seed;
    self->left = PINGS - 1;
    return ping_someone(self);
}

static troupe_status pinger_ping(pinger *self, const troupe_actor *from, troupe_none *none)
{
    (void)self, (void)none;
    return troupe_tell((pinger_actor){*from}, pinger_pong, 0);
}

static troupe_status pinger_pong(pinger *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    if (self->left-- > 0)
        return ping_someone(self);
    if (atomic_fetch_add_explicit(&finished, 1, memory_order_relaxed) + 1 == ACTORS)
        savina_over();
    return TROUPE_OK;
}

static void play(void)
{
    finished = 0;
    for (int i = 0; i < ACTORS; i++)
        all[i] = savina_spawn(pinger).address;
    for (int i = 0; i < ACTORS; i++)
        troupe_tell((pinger_actor){all[i]}, pinger_start, (uint32_t)i + 1);
    savina_wait();
    for (int i = 0; i < ACTORS; i++)
        troupe_actor_kill(all[i]);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, 2.0 * ACTORS * PINGS, play);
}
