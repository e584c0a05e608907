// ring.c: Savina's Thread Ring: a token goes around 100 actors for 100,000 hops.
#include "savina.h"

enum { ACTORS = 100, HOPS = 100000 };

typedef struct member {
    troupe_actor next;
} member;

static troupe_status member_join(member *self, const troupe_actor *next, troupe_none *none);
static troupe_status member_token(member *self, const int *left, troupe_none *none);

TROUPE_ACTOR(member, (member_join, troupe_actor, troupe_none), (member_token, int, troupe_none));

static troupe_status member_join(member *self, const troupe_actor *next, troupe_none *none)
{
    (void)none;
    self->next = *next;
    return TROUPE_OK;
}

static troupe_status member_token(member *self, const int *left, troupe_none *none)
{
    (void)none;
    if (*left > 0)
        return troupe_tell((member_actor){self->next}, member_token, *left - 1);
    savina_over();
    return TROUPE_OK;
}

static void play(void)
{
    member_actor ring[ACTORS];
    for (int i = 0; i < ACTORS; i++)
        ring[i] = savina_spawn(member);
    for (int i = 0; i < ACTORS; i++)
        troupe_tell_from(ring[i], member_join, &ring[(i + 1) % ACTORS].address);
    troupe_tell(ring[0], member_token, HOPS);
    savina_wait();
    for (int i = 0; i < ACTORS; i++)
        troupe_actor_kill(ring[i]);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, HOPS, play);
}
