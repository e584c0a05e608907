// forkjoin.c: Savina's Fork-Join (throughput): one actor sends 60 others 10,000 messages each, to
// each in turn; each does a small piece of work a message.
#include "savina.h"

#include <math.h>
#include <stdatomic.h>

enum { ACTORS = 60, MESSAGES = 10000 };

// Of one game: how many actors have had all of theirs. Relaxed: the count alone is what matters.
static _Atomic int finished;

typedef struct worker {
    int got;
    double last; // Keeps the work from being left out by the compiler.
} worker;

static troupe_status worker_work(worker *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    double value = sin(37.2);
    self->last = value * value + self->got;
    if (++self->got == MESSAGES &&
        atomic_fetch_add_explicit(&finished, 1, memory_order_relaxed) + 1 == ACTORS)
        savina_over();
    return TROUPE_OK;
}

TROUPE_ACTOR(worker, (worker_work, troupe_none, troupe_none));

typedef struct source {
    int unused;
} source;

static worker_actor workers[ACTORS];

static troupe_status source_run(source *self, const troupe_none *from, troupe_none *none)
{
    (void)self, (void)from, (void)none;
    for (int m = 0; m < MESSAGES; m++) {
        for (int i = 0; i < ACTORS; i++)
            troupe_tell(workers[i], worker_work, 0);
    }
    return TROUPE_OK;
}

TROUPE_ACTOR(source, (source_run, troupe_none, troupe_none));

static void play(void)
{
    finished = 0;
    for (int i = 0; i < ACTORS; i++)
        workers[i] = savina_spawn(worker);
    source_actor the_source = savina_spawn(source);
    troupe_tell(the_source, source_run, 0);
    savina_wait();
    troupe_actor_kill(the_source);
    for (int i = 0; i < ACTORS; i++)
        troupe_actor_kill(workers[i]);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, (double)ACTORS * MESSAGES, play);
}
