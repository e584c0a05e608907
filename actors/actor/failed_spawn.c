// failed_spawn.c: see failed_spawn.h. An address of id 0 has the number of a ticket in place of the
// incarnation: the failure is kept under it, in the process where it was found.
#include <actors/actor/failed_spawn.h>

#include <actors/actor/actor.h>
#include <actors/class/call_error.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>

enum { TICKETS = 1024, STATUS_BITS = 8 };

static struct {
    pthread_mutex_t lock;
    uint64_t last;
    troupe_error *failures[TICKETS]; // The last ones, by number % TICKETS.
} tickets TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};

troupe_actor trp_spawn_failed(troupe_status status)
{
    troupe_error failure = *troupe_last_error();
    if (failure.status != status || status == TROUPE_TIMED_OUT)
        failure = trp_failure_last(status, TROUPE_OUTCOME_NONE, TROUPE_EXECUTED_NO);
    failure.outcome = TROUPE_OUTCOME_NOT_EXECUTED;
    failure.executed = TROUPE_EXECUTED_NO;
    pthread_mutex_lock(&tickets.lock);
    uint64_t ticket = ++tickets.last;
    troupe_error **place = &tickets.failures[ticket % TICKETS];
    if (*place == NULL)
        *place = trp_alloc(sizeof **place);
    if (*place != NULL)
        **place = failure;
    pthread_mutex_unlock(&tickets.lock);
    return (troupe_actor){.incarnation = ticket << STATUS_BITS | (uint64_t)status,
                          .process = trp_home_here.process};
}

troupe_status trp_spawn_failure(troupe_actor actor)
{
    uint64_t ticket = actor.incarnation >> STATUS_BITS;
    uint64_t status = actor.incarnation & ((1u << STATUS_BITS) - 1);
    if (ticket == 0 || status == TROUPE_OK || status >= TROUPE_STATUS_COUNT)
        return troupe_fail(TROUPE_INVALID, "the address is empty: it names no actor");
    troupe_error failure =
        trp_failure((troupe_status)status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO,
                    "the actor could not be started: %s", troupe_strerror((troupe_status)status));
    pthread_mutex_lock(&tickets.lock);
    const troupe_error *kept = tickets.failures[ticket % TICKETS];
    if (actor.process == trp_home_here.process && kept != NULL && ticket <= tickets.last &&
        tickets.last - ticket < TICKETS && kept->status == (troupe_status)status)
        failure = *kept;
    pthread_mutex_unlock(&tickets.lock);
    return trp_error_set(&failure);
}

void trp_spawn_forget(void)
{
    pthread_mutex_lock(&tickets.lock);
    for (int i = 0; i < TICKETS; i++) {
        trp_free(tickets.failures[i]);
        tickets.failures[i] = NULL;
    }
    pthread_mutex_unlock(&tickets.lock);
}

troupe_status(troupe_actor_status)(troupe_actor actor)
{
    return actor.id != 0 ? TROUPE_OK : trp_spawn_failure(actor);
}
