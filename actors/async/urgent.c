// urgent.c: see urgent.h: methods that do not wait for their actor's turn, and the guests of an
// actor.
#include <actors/async/urgent.h>

#include <actors/actor/death_record.h>
#include <actors/actor/invoke.h>
#include <actors/actor/method_stats.h>
#include <actors/async/async.h>
#include <actors/async/cancel.h>
#include <actors/async/concurrency_group.h>
#include <actors/async/side_thread.h>
#include <actors/class/call_error.h>
#include <runtime/base/error.h>
#include <runtime/link/park.h>

// ---- guests
//
// A guest counts itself and then looks at the actor's phase; who finishes an actor has changed the
// phase and then looks at the count. One of the two sees the other.

bool trp_guest_enter(trp_actor *actor)
{
    trp_async *async = trp_async_of(actor);
    if (async == NULL)
        return false;
    atomic_fetch_add(&async->guests, 1);
    return true;
}

void trp_guest_leave(trp_actor *actor)
{
    trp_async *async = atomic_load(&actor->async);
    if (atomic_fetch_sub(&async->guests, 1) != 1)
        return;
    if (atomic_load(&async->shut)) // Set before the waiter looks at the number.
        trp_unpark(&async->guests, INT_MAX);
    if (atomic_exchange(&async->finishing, false))
        trp_actor_schedule(actor);
}

void trp_guests_keep_out(trp_actor *actor)
{
    uint32_t guests;
    trp_async *async = trp_async_of(actor);
    if (async == NULL)
        return; // Then there are none.
    atomic_store(&async->shut, true);
    if (atomic_load(&async->guests) == 0)
        return;
    bool blocked = trp_scheduler_block() == TROUPE_OK;
    while ((guests = atomic_load(&async->guests)) > 0)
        trp_park(&async->guests, guests, -1);
    if (blocked)
        trp_scheduler_unblock();
}

void trp_guests_admit(trp_actor *actor)
{
    trp_async *async = atomic_load(&actor->async);
    if (async != NULL)
        atomic_store(&async->shut, false);
}

bool trp_guests_gone(trp_actor *actor)
{
    trp_async *async = atomic_load(&actor->async);
    if (async == NULL || atomic_load(&async->guests) == 0)
        return true;
    atomic_store(&async->finishing, true);
    // The last one may have left before it could see that.
    return atomic_load(&async->guests) == 0 && atomic_exchange(&async->finishing, false);
}

// ---- urgent methods

// A guest at an actor that is open and has been initialised. False: it is neither, *status says
// why, or it has to be asked in the ordinary way (TROUPE_OK).
static bool visit(trp_actor *actor, uint64_t id, troupe_status *status)
{
    *status = TROUPE_OK;
    if (!trp_guest_enter(actor)) {
        *status = TROUPE_NO_MEMORY;
        return false;
    }
    if (trp_actor_is_open(actor, id)) {
        if (atomic_load(&actor->ready) && !atomic_load(&atomic_load(&actor->async)->shut))
            return true;
    } else {
        troupe_error failure = trp_actor_obituary(id);
        *status = trp_error_set(&failure);
    }
    trp_guest_leave(actor);
    return false;
}

static troupe_status hand_over(trp_actor *actor, uint64_t id, trp_message *message, bool always)
{
    message->target = id;
    message->beside = true;
    trp_measure_pushed(message);
    trp_async *async = atomic_load(&actor->async);
    pthread_mutex_lock(&async->lock);
    trp_cancel_handed(async);
    pthread_mutex_unlock(&async->lock);
    if (trp_helper_push(message, always))
        return TROUPE_OK;
    trp_cancel_dropped(actor);
    trp_guest_leave(actor);
    return trp_actors_stopping()
               ? troupe_fail(TROUPE_NOT_EXECUTED, "the runtime is being stopped")
               : troupe_fail(TROUPE_BUSY, "too many urgent calls wait in this process");
}

bool trp_urgent_send(trp_actor *actor, uint64_t id, trp_message *message, troupe_status *status)
{
    if (visit(actor, id, status))
        *status = hand_over(actor, id, message, false);
    else if (*status == TROUPE_OK)
        return false;
    if (*status != TROUPE_OK)
        trp_message_free(message);
    return true;
}

bool trp_urgent_deliver(trp_actor *actor, uint64_t id, trp_message *message, troupe_status *status)
{
    if (visit(actor, id, status))
        *status = hand_over(actor, id, message, true); // Its link's window bounds it.
    else if (*status == TROUPE_OK)
        return false;
    if (*status != TROUPE_OK) {
        troupe_error failure =
            trp_failure_last(*status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
        trp_actor_refuse(actor, message, &failure);
    }
    return true;
}

// ---- on the helper's thread

void trp_beside_run(trp_message *message)
{
    trp_actor *actor = trp_slot_of(message->target); // It stays while its guest is there.
    uint64_t id = message->target;
    while (message != NULL) {
        uint32_t lane = message->lane;
        if (trp_actor_is_open(actor, id) && !trp_actors_stopping()) {
            trp_run_call(actor, message);
        } else {
            troupe_error failure = trp_actor_obituary(id);
            if (trp_actor_is_open(actor, id))
                failure = trp_failure(TROUPE_NOT_EXECUTED, TROUPE_OUTCOME_NOT_EXECUTED,
                                      TROUPE_EXECUTED_NO, "the runtime was stopped");
            trp_cancel_dropped(actor);
            trp_actor_refuse(actor, message, &failure);
        }
        message = lane != TRP_LANE_NONE ? trp_lanes_next(actor, lane) : NULL;
    }
    trp_guest_leave(actor);
}
