// fanin.c: eight actors send one actor 125,000 messages each. What senders who meet at one mailbox
// cost each other. (Not of Savina; it completes its Counting.)
#include "savina.h"

enum { SENDERS = 8, MESSAGES = 125000 };

typedef struct sink {
    int64_t got;
} sink;

static troupe_status sink_take(sink *self, const int *amount, troupe_none *none)
{
    (void)none;
    self->got += *amount;
    if (self->got == (int64_t)SENDERS * MESSAGES)
        savina_over();
    return TROUPE_OK;
}

TROUPE_ACTOR(sink, (sink_take, int, troupe_none));

typedef struct source {
    int unused;
} source;

static troupe_status source_run(source *self, const sink_actor *to, troupe_none *none)
{
    (void)self, (void)none;
    for (int i = 0; i < MESSAGES; i++)
        troupe_tell(*to, sink_take, 1);
    return TROUPE_OK;
}

TROUPE_ACTOR(source, (source_run, sink_actor, troupe_none));

static void play(void)
{
    sink_actor the_sink = savina_spawn(sink);
    source_actor sources[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        sources[i] = savina_spawn(source);
        troupe_tell_from(sources[i], source_run, &the_sink);
    }
    savina_wait();
    for (int i = 0; i < SENDERS; i++)
        troupe_actor_kill(sources[i]);
    troupe_actor_kill(the_sink);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, (double)SENDERS * MESSAGES, play);
}
