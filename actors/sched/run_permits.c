// run_permits.c: see sched/run_permits_internal.h.
#include <actors/sched/run_permits_internal.h>

enum { STREAK_MAX = 64 }; // Turns from `next` in a row before others get one.

trp_runqueues trp_queues;

void trp_queues_home(trp_runnable *actor, const trp_runqueue *queue)
{
    uint16_t home = (uint16_t)(queue - trp_queues.each);
    if (atomic_load_explicit(&actor->mailbox.home, memory_order_relaxed) != home)
        atomic_store_explicit(&actor->mailbox.home, home, memory_order_relaxed);
}

trp_runqueue *trp_queues_home_of(const trp_runnable *actor)
{
    uint16_t home = atomic_load_explicit(&actor->mailbox.home, memory_order_relaxed);
    return home < trp_queues.count ? &trp_queues.each[home] : NULL;
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
    for (int i = 0; i < trp_queues.count; i++)
        if (is_prey(&trp_queues.each[i]))
            return true;
    return false;
}

trp_runqueue *trp_queues_take(void)
{
    trp_runqueue *found = NULL;
    if (trp_queues.taken >= trp_queues.limit)
        return NULL;
    for (int i = 0; i < trp_queues.count; i++) {
        trp_runqueue *queue = &trp_queues.each[i];
        if (!queue->taken && (found == NULL || !trp_queues_empty(queue)))
            found = queue;
        if (found != NULL && !trp_queues_empty(found))
            break;
    }
    if (found != NULL) {
        atomic_store(&found->taken, true);
        trp_queues.taken++;
    }
    return found;
}

// Who looks at all queues, which most do without the lock, is to look at no more than are in use.
// What is nobody's and empty stays so while the lock is held: only who has a queue adds to it, and
// who pauses in one does so under the lock.
static void narrow(void)
{
    int count = trp_queues.count;
    for (; count > trp_queues.limit; count--) {
        trp_runqueue *last = &trp_queues.each[count - 1];
        if (last->taken || !trp_queues_empty(last))
            break;
    }
    if (count != trp_queues.count)
        trp_queues.count = count;
}

void trp_queues_share(trp_runqueue *queue)
{
    trp_runnable *next = trp_runqueue_take_next(queue);
    if (next != NULL)
        trp_runqueue_append(&trp_queues.inject, next);
    trp_runqueue_move(queue, &trp_queues.inject, true);
}

// Where turns have stalled there are more queues than threads that run turns: what is left in one
// would wait until a thread has nothing else to do.
void trp_queues_give(trp_runqueue *queue)
{
    if (trp_queues.count > trp_queues.limit || trp_queues.taken > trp_queues.limit)
        trp_queues_share(queue);
    atomic_store(&queue->taken, false);
    trp_queues.taken--;
    narrow();
}

void trp_queues_widen(int by)
{
    trp_queues.limit += by;
    if (trp_queues.count < trp_queues.limit)
        trp_queues.count = trp_queues.limit;
    narrow();
}

bool trp_queues_some_wait(void)
{
    bool some = !trp_runqueue_empty(&trp_queues.inject);
    for (int i = 0; i < trp_queues.count && !some; i++)
        some = !trp_runqueue_empty(&trp_queues.each[i]);
    return some;
}

trp_runnable *trp_queues_choose(trp_runqueue *mine)
{
    trp_runnable *actor;
    if (mine->streak++ < STREAK_MAX && (actor = trp_runqueue_take_next(mine)) != NULL)
        return actor;
    mine->streak = 0;
    trp_runqueue_move(&trp_queues.inject, mine, true);
    actor = trp_runqueue_take(mine);
    return actor != NULL ? actor : trp_runqueue_take_next(mine);
}

trp_runnable *trp_queues_steal(trp_runqueue *mine)
{
    for (int i = 0; i < trp_queues.count; i++) {
        trp_runqueue *queue = &trp_queues.each[i];
        if (queue == mine || !is_prey(queue))
            continue;
        trp_runnable *next = atomic_load(&queue->taken) ? NULL : trp_runqueue_take_next(queue);
        trp_runqueue_move(queue, mine, false);
        if (next != NULL || (next = trp_runqueue_take(mine)) != NULL)
            return next;
    }
    return NULL;
}

trp_runnable *trp_queues_clear(void)
{
    static trp_runqueue all;
    trp_runnable *first = NULL, *actor;
    trp_runqueue_move(&trp_queues.inject, &all, true);
    for (int i = 0; i < trp_queues.count; i++) {
        trp_runqueue_move(&trp_queues.each[i], &all, true);
        if ((actor = trp_runqueue_take_next(&trp_queues.each[i])) != NULL)
            trp_runqueue_append(&all, actor);
    }
    while ((actor = trp_runqueue_take(&all)) != NULL) {
        actor->next = first;
        first = actor;
    }
    return first;
}

static trp_runnable *sort_out(trp_runqueue *queue, trp_runnable *fresh)
{
    static trp_runqueue all; // Under the scheduler's lock.
    trp_runnable *actor = trp_runqueue_take_next(queue);
    if (actor != NULL)
        trp_runqueue_append(&all, actor);
    trp_runqueue_move(queue, &all, true);
    while ((actor = trp_runqueue_take(&all)) != NULL) {
        if (!trp_scheduler_turns.fresh(actor)) {
            trp_runqueue_append(queue, actor);
            continue;
        }
        actor->next = fresh;
        fresh = actor;
    }
    return fresh;
}

trp_runnable *trp_queues_take_fresh(void)
{
    trp_runnable *fresh = sort_out(&trp_queues.inject, NULL);
    for (int i = 0; i < trp_queues.count; i++)
        fresh = sort_out(&trp_queues.each[i], fresh);
    return fresh;
}
