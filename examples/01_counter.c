// 01_counter.c: an actor keeps a running total; others send it amounts and ask for the sum.
#include <inttypes.h>
#include <stdio.h>
#include <troupe.h>

typedef struct counter {
    int64_t total;
} counter;

// A method is a plain function: the state, the argument, where the result goes.
static troupe_status counter_add(counter *self, const int64_t *amount, int64_t *total)
{
    self->total += *amount;
    *total = self->total;
    return TROUPE_OK;
}

TROUPE_ACTOR(counter, (counter_add, int64_t, int64_t));

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2));

    counter_actor tally = troupe_spawn(counter, .name = "tally"); // In one of the two workers.
    for (int64_t i = 1; i < 10; i++)
        troupe_tell(tally, counter_add, i);               // Sent, and no answer wanted.
    troupe_ref sum = troupe_call(tally, counter_add, 10); // Stands for the answer to come.

    int64_t total;
    troupe_must(troupe_get(int64_t, sum, &total)); // Waits for it and copies it out.
    printf("total %" PRId64 "\n", total);
    return troupe_stop();
}
