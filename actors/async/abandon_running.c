// abandon_running.c: what runs in an actor that is ended by force, where its methods cannot be cut
// off: a light one that was stopped with a deadline, or an isolated one where there is one process
// for all.
#include <actors/async/abandon_running.h>

#include <actors/actor/actor.h>
#include <actors/async/async.h>
#include <actors/async/concurrency_group.h>
#include <actors/async/defer.h>
#include <actors/async/stream_reader.h>
#include <actors/async/stream_writer.h>
#include <actors/async/urgent.h>
#include <actors/class/call_error.h>
#include <runtime/base/fence.h>
#include <runtime/base/memory.h>

// The callers of methods that run in the actor with that id, at most `room`, and how many there
// are. Tells the methods that nobody waits, if `tell`. With the lock held, and `cancels` raised.
static size_t list_callers(trp_actor *actor, uint64_t id, bool tell, trp_caller *callers,
                           size_t room)
{
    size_t count = 0;
    trp_running *first = atomic_load(&actor->running); // Pairs with trp_fence_store.
    trp_running *beside = atomic_load(&actor->async)->runs;
    for (trp_running *it = first != NULL ? first : beside; it != NULL;
         it = it == first ? beside : it->next) {
        if (it->message->target != id)
            continue;
        if (tell) {
            atomic_store_explicit(&it->cancelled, true, memory_order_relaxed); // A hint.
            trp_maker_wake(it);
        }
        if (count < room)
            callers[count] = trp_caller_of(it->message);
        count++;
    }
    return count;
}

// The callers, to be freed, and *count of them. From now on no method begins in the actor. NULL:
// none runs, and the actor may have gone, or there is no memory.
static trp_caller *stop_running(trp_actor *actor, uint64_t id, bool closed, size_t *count)
{
    trp_async *async = atomic_load(&actor->async);
    trp_caller *callers = NULL;
    pthread_mutex_lock(&async->lock);
    atomic_fetch_add(&actor->cancels, 1); // Nothing that runs ends before the lock is given back.
    trp_fence_heavy();
    *count = list_callers(actor, id, false, NULL, 0);
    if (*count > 0 || closed) {
        callers = trp_alloc(*count * sizeof *callers + 1);
        if (callers != NULL)
            *count = list_callers(actor, id, false, callers, *count);
    }
    // Until the last turn, for which `cancels` stays raised.
    bool kept = callers != NULL && !async->killed;
    async->killed = async->killed || kept;
    if (!kept)
        atomic_fetch_sub(&actor->cancels, 1);
    pthread_mutex_unlock(&async->lock);
    return callers;
}

void trp_give_up_running(trp_actor *actor, uint64_t id, bool closed)
{
    size_t count;
    trp_async *async = atomic_load(&actor->async); // Of its guest.
    trp_caller *callers = stop_running(actor, id, closed, &count);
    if (callers == NULL)
        return;
    troupe_error failure =
        trp_failure(TROUPE_MAYBE_EXECUTED, TROUPE_OUTCOME_MAYBE_EXECUTED, TROUPE_EXECUTED_MAYBE,
                    "the actor was killed before it answered; the call may have been executed");
    for (size_t i = 0; i < count; i++)
        trp_caller_fail(&callers[i], &failure, id);
    trp_free(callers);
    trp_deferrals_end(async, id);
    pthread_mutex_lock(&async->lock); // Only now: who hears of it could answer first.
    (void)list_callers(actor, id, true, NULL, 0);
    pthread_mutex_unlock(&async->lock);
}

void trp_kill_here(uint64_t id, bool give_up)
{
    trp_actor *actor = trp_actor_find(id);
    if (actor == NULL)
        return;
    bool guest = give_up && trp_guest_enter(actor); // Whoever closes it, it does not go meanwhile.
    bool closed = trp_actor_close(actor, id, TRP_ACTOR_KILLED, NULL);
    if (!guest)
        return;
    trp_give_up_running(actor, id, closed);
    trp_guest_leave(actor);
}
