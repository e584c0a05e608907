// count.c: Savina's Counting: one actor sends another 1,000,000 increments and then asks for the
// sum. What a one-way message costs.
#include "savina.h"

enum { INCREMENTS = 1000000 };

typedef struct counter {
    int64_t total;
} counter;

static troupe_status counter_add(counter *self, const int *amount, troupe_none *none)
{
    (void)none;
    self->total += *amount;
    return TROUPE_OK;
}

static troupe_status counter_finish(counter *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    if (self->total != INCREMENTS)
        savina_wrong("the count", self->total, INCREMENTS);
    savina_over();
    return TROUPE_OK;
}

TROUPE_ACTOR(counter, (counter_add, int, troupe_none), (counter_finish, troupe_none, troupe_none));

typedef struct producer {
    int unused;
} producer;

static troupe_status producer_run(producer *self, const counter_actor *to, troupe_none *none)
{
    (void)self, (void)none;
    for (int i = 0; i < INCREMENTS; i++)
        troupe_tell(*to, counter_add, 1);
    return troupe_tell(*to, counter_finish, 0);
}

TROUPE_ACTOR(producer, (producer_run, counter_actor, troupe_none));

static void play(void)
{
    counter_actor the_counter = savina_spawn(counter);
    producer_actor the_producer = savina_spawn(producer);
    troupe_tell_from(the_producer, producer_run, &the_counter);
    savina_wait();
    troupe_actor_kill(the_producer);
    troupe_actor_kill(the_counter);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, INCREMENTS, play);
}
