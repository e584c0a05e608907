// 3_failure.c: what a caller sees when a method fails, when its process crashes, and when it takes
// too long; and an actor that is started again under the same address.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <threads.h>
#include <troupe.h>

typedef struct divider {
    int64_t done;
} divider;

static troupe_status divider_divide(divider *self, const int64_t *by, int64_t *result)
{
    if (*by == 0) // A failure is a status and an error text; both reach the caller.
        return troupe_fail(TROUPE_INVALID, "cannot divide by %d", 0);
    self->done++;
    *result = 100 / *by;
    return TROUPE_OK;
}

static troupe_status divider_crash(divider *self, const troupe_none *nothing, troupe_none *result)
{
    (void)self, (void)nothing, (void)result;
    raise(SIGKILL); // As a fault of the code, or the system's memory killer, would.
    return TROUPE_OK;
}

static troupe_status divider_sleep(divider *self, const troupe_none *nothing, troupe_none *result)
{
    (void)self, (void)nothing, (void)result;
    while (!troupe_cancelled()) // Is the answer still wanted?
        thrd_sleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    thrd_sleep(&(struct timespec){.tv_nsec = 500000000}, NULL); // Puts its things away.
    return TROUPE_OK;
}

TROUPE_ACTOR(divider, (divider_divide, int64_t, int64_t), (divider_crash, troupe_none, troupe_none),
             (divider_sleep, troupe_none, troupe_none));

// Every call ends in exactly one way; troupe_get returns it.
static void tell_end(const char *what, troupe_status status)
{
    printf("%s: %s\n", what, troupe_status_name(status));
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2));
    // In a process of its own, and started again up to three times.
    divider_actor worker = troupe_spawn(divider, .place = TROUPE_PLACE_ISOLATED, .restarts = 3);

    int64_t result;
    troupe_status status = troupe_get(int64_t, troupe_call(worker, divider_divide, 0), &result);
    tell_end("by zero", status);
    printf("    %s\n", troupe_last_error()->text);

    troupe_none nothing;
    status = troupe_get(troupe_none, troupe_call(worker, divider_crash), &nothing);
    tell_end("crash", status); // It was sent, and may have run: the library does not guess.

    // The address is the old one; the call waits until the actor has been started again.
    status = troupe_get(int64_t, troupe_call(worker, divider_divide, 7), &result);
    tell_end("after the restart", status);
    printf("    100 / 7 = %" PRId64 "\n", result);

    troupe_ref slow = troupe_call(troupe_with(worker, .deadline_ms = 50), divider_sleep);
    status = troupe_get(troupe_none, slow, &nothing);
    tell_end("too slow", status);
    return troupe_stop();
}
