// consumer.c: a program that is no part of the project: it knows the installed headers alone, and
// ends with 0 only if an actor in a worker process has counted to 55.
#include <inttypes.h>
#include <stdio.h>

#include <troupe.h>

typedef struct counter {
    int64_t total;
} counter;

static troupe_status counter_add(counter *self, const int64_t *amount, int64_t *total)
{
    self->total += *amount;
    *total = self->total;
    return TROUPE_OK;
}

TROUPE_ACTOR(counter, (counter_add, int64_t, int64_t));

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 1));
    counter_actor tally = troupe_spawn(counter, .name = "tally", .place = TROUPE_PLACE_WORKER);
    for (int64_t i = 1; i < 10; i++)
        troupe_must(troupe_tell(tally, counter_add, i));
    int64_t total = 0;
    troupe_must(troupe_get(int64_t, troupe_call(tally, counter_add, 10), &total));
    printf("total %" PRId64 ", version %d\n", total, troupe_version());
    troupe_stop();
    return total == 55 && troupe_version() == TROUPE_VERSION_NUMBER ? 0 : 1;
}
