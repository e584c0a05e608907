// 1_first_actor.c: a thermometer that keeps its readings to itself and answers with their mean.
#include <inttypes.h>
#include <stdio.h>
#include <troupe.h>

// What goes into a message and comes back is a struct with a table of its fields.
TROUPE_STRUCT(summary, (int64_t, count), (double, mean));

// The state of the actor: an ordinary struct, zeroed when the actor starts.
typedef struct thermometer {
    int64_t count;
    double sum;
} thermometer;

// A method: the state, the argument, where the result goes. It returns a status.
static troupe_status thermometer_read(thermometer *self, const double *degrees,
                                      troupe_none *nothing)
{
    (void)nothing;
    self->count++;
    self->sum += *degrees;
    return TROUPE_OK;
}

static troupe_status thermometer_summary(thermometer *self, const troupe_none *nothing,
                                         summary *result)
{
    (void)nothing;
    result->count = self->count;
    result->mean = self->count == 0 ? 0 : self->sum / (double)self->count;
    return TROUPE_OK;
}

// The class: its state, and its methods with the types of their arguments and results.
TROUPE_ACTOR(thermometer, (thermometer_read, double, troupe_none),
             (thermometer_summary, troupe_none, summary));

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2)); // First of all, before other threads.

    thermometer_actor attic = troupe_spawn(thermometer, .name = "attic");
    troupe_tell(attic, thermometer_read, 19.5); // Sent; no answer is wanted.
    troupe_tell(attic, thermometer_read, 20.5);

    troupe_ref answer = troupe_call(attic, thermometer_summary); // Sent; the answer will come.
    summary result;
    troupe_must(troupe_get(summary, answer, &result)); // Waits for it.
    printf("%" PRId64 " readings, mean %.1f\n", result.count, result.mean);

    return troupe_stop(); // Ends the actors and the workers.
}
