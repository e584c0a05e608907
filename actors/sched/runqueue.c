// runqueue.c: see runqueue_internal.h.
#include <actors/sched/runqueue_internal.h>

#include <runtime/base/clock.h>
#include <sched.h>

enum {
    SPINS = 100,
    WINDOW_MAX = 16,      // Turns between two looks at the clock, while they are
    SHORT_NS = 2000,      // shorter than this.
    WORTH_TURNS = 100000, // ns of waiting work, about what a wake-up across CPUs costs twice,
    WORTH_MESSAGE = 1000, // and ns a message: below, the cache lines that move cost more.
};

static void lock(trp_runqueue *queue)
{
    int spins = 0;
    while (atomic_exchange_explicit(&queue->locked, true, memory_order_acquire))
        while (atomic_load_explicit(&queue->locked, memory_order_relaxed))
            if (++spins % SPINS == 0)
                sched_yield(); // Its holder has lost its CPU.
}

static void unlock(trp_runqueue *queue)
{
    atomic_store_explicit(&queue->locked, false, memory_order_release);
}

static void set_count(trp_runqueue *queue, uint32_t count)
{
    // Seen by who looks for work before it sleeps, with fences between; see the scheduler.
    atomic_store_explicit(&queue->count, count, memory_order_release);
}

static uint32_t count_of(trp_runqueue *queue)
{
    return atomic_load_explicit(&queue->count, memory_order_relaxed);
}

static void link_list(trp_runqueue *queue, trp_runnable *first, trp_runnable *last, uint32_t count)
{
    if (queue->first == NULL)
        queue->first = first;
    else
        queue->last->next = first;
    queue->last = last;
    set_count(queue, count_of(queue) + count);
}

void trp_runqueue_append(trp_runqueue *queue, trp_runnable *actor)
{
    actor->next = NULL;
    lock(queue);
    link_list(queue, actor, actor, 1);
    unlock(queue);
}

void trp_runqueue_add(trp_runqueue *queue, trp_runnable *actor)
{
    // Nobody else fills it, so a load and a store do.
    if (atomic_load_explicit(&queue->next, memory_order_relaxed) == NULL)
        atomic_store_explicit(&queue->next, actor, memory_order_release); // With the exchange.
    else
        trp_runqueue_append(queue, actor);
}

trp_runnable *trp_runqueue_take(trp_runqueue *queue)
{
    if (count_of(queue) == 0)
        return NULL;
    lock(queue);
    trp_runnable *actor = queue->first;
    if (actor != NULL) {
        queue->first = actor->next;
        set_count(queue, count_of(queue) - 1);
    }
    unlock(queue);
    return actor;
}

trp_runnable *trp_runqueue_take_next(trp_runqueue *queue)
{
    if (atomic_load_explicit(&queue->next, memory_order_relaxed) == NULL)
        return NULL;
    return atomic_exchange_explicit(&queue->next, NULL, memory_order_acquire);
}

void trp_runqueue_move(trp_runqueue *from, trp_runqueue *to, bool all)
{
    if (count_of(from) == 0)
        return;
    lock(from);
    uint32_t count = count_of(from), moved = all ? count : (count + 1) / 2;
    trp_runnable *first = from->first, *last = first;
    if (first != NULL) {
        for (uint32_t i = 1; i < moved; i++)
            last = last->next;
        from->first = last->next;
        last->next = NULL;
        set_count(from, count - moved);
    }
    unlock(from);
    if (first == NULL)
        return;
    lock(to);
    link_list(to, first, last, moved);
    unlock(to);
}

bool trp_runqueue_empty(trp_runqueue *queue)
{
    return atomic_load(&queue->count) == 0 && atomic_load(&queue->next) == NULL;
}

// ---- what turns cost

// A moving average of wall-clock times. One that is far above the others may be of a thread that
// lost its CPU for a while: it counts as not more than about twice as long.
static uint32_t average(uint32_t before, int64_t now)
{
    int64_t limit = before == 0 ? UINT32_MAX / 8 : 2 * (int64_t)before + SHORT_NS / 2;
    if (limit > UINT32_MAX / 8)
        limit = UINT32_MAX / 8;
    if (now > limit)
        now = limit;
    return before == 0 ? (uint32_t)now : (uint32_t)((3 * (uint64_t)before + (uint64_t)now) / 4);
}

int64_t trp_runqueue_measure(trp_runqueue *queue, uint32_t messages)
{
    queue->messages += messages;
    if (++queue->since < queue->window)
        return 0;
    int64_t now = trp_clock_ns(), passed = now - queue->read_ns;
    uint32_t cost =
        average(atomic_load_explicit(&queue->cost, memory_order_relaxed), passed / queue->since);
    atomic_store_explicit(&queue->cost, cost, memory_order_relaxed);
    if (queue->messages > 0)
        atomic_store_explicit(&queue->weight,
                              average(atomic_load_explicit(&queue->weight, memory_order_relaxed),
                                      passed / queue->messages),
                              memory_order_relaxed);
    queue->window = cost >= SHORT_NS             ? 1
                    : queue->window < WINDOW_MAX ? queue->window * 2
                                                 : WINDOW_MAX;
    queue->since = queue->messages = 0;
    queue->read_ns = now;
    return passed > 0 ? passed : 1;
}

void trp_runqueue_resume(trp_runqueue *queue)
{
    queue->read_ns = trp_clock_ns();
    queue->since = queue->messages = 0;
    queue->window = 1;
}

bool trp_runqueue_worth(trp_runqueue *queue)
{
    uint64_t cost = atomic_load_explicit(&queue->cost, memory_order_relaxed);
    return atomic_load_explicit(&queue->weight, memory_order_relaxed) > WORTH_MESSAGE &&
           cost * count_of(queue) > WORTH_TURNS;
}
