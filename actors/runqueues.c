// runqueues.c: see runqueues.h.
#include <actors/runqueues.h>

#include <actors/actor.h>

enum { STREAK_MAX = 64 }; // Turns from `next` in a row before others get one.

trp_runqueues trp_queues;

void trp_queues_home(trp_actor *actor, const trp_runqueue *queue)
{
    uint16_t home = (uint16_t)(queue - trp_queues.each);
    if (atomic_load_explicit(&actor->mailbox.home, memory_order_relaxed) != home)
        atomic_store_explicit(&actor->mailbox.home, home, memory_order_relaxed);
}

trp_runqueue *trp_queues_home_of(const trp_actor *actor)
{
    uint16_t home = atomic_load_explicit(&actor->mailbox.home, memory_order_relaxed);
    bool pinned = atomic_load_explicit(&actor->pinned, memory_order_relaxed);
    return home < trp_queues.limit && !pinned ? &trp_queues.each[home] : NULL;
}

bool trp_queues_empty(trp_runqueue *queue)
{
    return trp_runqueue_empty(queue) &&
           atomic_load_explicit(&queue->pausers, memory_order_relaxed) == NULL;
}

// Whether a queue that is not mine has what I should run.
static bool is_prey(trp_runqueue *queue)
{
    if (!atomic_load(&queue->taken))
        return !trp_queues_empty(queue);
    return trp_runqueue_worth(queue);
}

bool trp_queues_work_waits(void)
{
    if (!trp_runqueue_empty(&trp_queues.inject))
        return true;
    for (int i = 0; i < trp_queues.limit; i++)
        if (is_prey(&trp_queues.each[i]))
            return true;
    return false;
}

trp_runqueue *trp_queues_take(void)
{
    trp_runqueue *found = NULL;
    for (int i = 0; i < trp_queues.limit; i++) {
        trp_runqueue *queue = &trp_queues.each[i];
        if (!queue->taken && (found == NULL || !trp_queues_empty(queue)))
            found = queue;
        if (found != NULL && !trp_queues_empty(found))
            break;
    }
    if (found != NULL)
        atomic_store(&found->taken, true);
    return found;
}

trp_actor *trp_queues_choose(trp_runqueue *mine)
{
    trp_actor *actor;
    if (mine->streak++ < STREAK_MAX && (actor = trp_runqueue_take_next(mine)) != NULL)
        return actor;
    mine->streak = 0;
    trp_runqueue_move(&trp_queues.inject, mine, true);
    actor = trp_runqueue_take(mine);
    return actor != NULL ? actor : trp_runqueue_take_next(mine);
}

trp_actor *trp_queues_steal(trp_runqueue *mine)
{
    for (int i = 0; i < trp_queues.limit; i++) {
        trp_runqueue *queue = &trp_queues.each[i];
        if (queue == mine || !is_prey(queue))
            continue;
        trp_actor *next = atomic_load(&queue->taken) ? NULL : trp_runqueue_take_next(queue);
        trp_runqueue_move(queue, mine, false);
        if (next != NULL || (next = trp_runqueue_take(mine)) != NULL)
            return next;
    }
    return NULL;
}

trp_actor *trp_queues_clear(void)
{
    static trp_runqueue all;
    trp_actor *first = NULL, *actor;
    trp_runqueue_move(&trp_queues.inject, &all, true);
    for (int i = 0; i < trp_queues.limit; i++) {
        trp_runqueue_move(&trp_queues.each[i], &all, true);
        if ((actor = trp_runqueue_take_next(&trp_queues.each[i])) != NULL)
            trp_runqueue_append(&all, actor);
    }
    while ((actor = trp_runqueue_take(&all)) != NULL) {
        actor->next_runnable = first;
        first = actor;
    }
    return first;
}
