// forkjoin_create.c: Savina's Fork-Join (creation): one actor makes 40,000 others and sends each
// one message, at which it works a little and ends.
#include "savina.h"

#include <math.h>
#include <stdatomic.h>

enum { ACTORS = 40000 };

// Of one game: how many have had their message. Relaxed: the count alone is what matters.
static _Atomic int finished;

typedef struct child {
    double last; // Keeps the work from being left out by the compiler.
} child;

static troupe_status child_work(child *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    double value = sin(37.2);
    self->last = value * value;
    savina_leave();
    if (atomic_fetch_add_explicit(&finished, 1, memory_order_relaxed) + 1 == ACTORS)
        savina_over();
    return TROUPE_OK;
}

TROUPE_ACTOR(child, (child_work, troupe_none, troupe_none));

typedef struct parent {
    int unused;
} parent;

static troupe_status parent_run(parent *self, const troupe_none *from, troupe_none *none)
{
    (void)self, (void)from, (void)none;
    for (int i = 0; i < ACTORS; i++)
        troupe_tell(savina_spawn(child), child_work, 0);
    return TROUPE_OK;
}

TROUPE_ACTOR(parent, (parent_run, troupe_none, troupe_none));

static void play(void)
{
    finished = 0;
    parent_actor the_parent = savina_spawn(parent);
    troupe_tell(the_parent, parent_run, 0);
    savina_wait();
    troupe_actor_kill(the_parent);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, ACTORS, play);
}
