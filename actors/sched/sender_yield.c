// sender_yield.c: see sched/sender_yield.h.
#include <actors/sched/sender_yield.h>

#include <actors/sched/scheduler_internal.h>
#include <runtime/base/clock.h>
#include <runtime/link/park.h>

enum {
    SENT_MAX = 4096, // Messages that a method sends before it pauses: half of a CPU's own cache.
    PAUSE_NS = 5000000,
    LAST_NS = 2 * PAUSE_NS, // Who has the queue does not look: its turn is long. Then one
    NEXT_NS = 1000000,      // goes on after the other.
    PAUSED_MAX = 32,        // Each has a thread, and what it has sent is under way.
};

// On the stack of who pauses. Its fields, but the last, under the scheduler's lock.
typedef struct trp_pauser {
    struct trp_pauser *next;
    trp_runner *runner;
    trp_binding binding;
    trp_runnable *followed; // It went to where this one runs; else NULL.
    _Atomic uint32_t gone_on;
} trp_pauser;

// ---- binding

void trp_bind_here(trp_binding *binding, pthread_t thread)
{
    int cpu = sched_getcpu();
    cpu_set_t here;
    if (binding->bound || cpu < 0 ||
        pthread_getaffinity_np(thread, sizeof binding->cpus, &binding->cpus) != 0 ||
        CPU_COUNT(&binding->cpus) == 1)
        return;
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    binding->bound = pthread_setaffinity_np(thread, sizeof here, &here) == 0;
}

void trp_unbind(trp_binding *binding)
{
    if (binding->bound)
        (void)pthread_setaffinity_np(pthread_self(), sizeof binding->cpus, &binding->cpus);
    binding->bound = false;
}

// ---- who pauses in a queue. With the scheduler's lock held, but for looks at the first.

static trp_pauser *first_of(const trp_runqueue *queue)
{
    return atomic_load_explicit(&queue->pausers, memory_order_relaxed);
}

static int64_t quiet_ns(const trp_runqueue *queue, int64_t now_ns)
{
    return now_ns - atomic_load_explicit(&queue->progress_ns, memory_order_relaxed);
}

static void note_progress(trp_runqueue *queue, int64_t now_ns)
{
    atomic_store_explicit(&queue->progress_ns, now_ns, memory_order_relaxed);
}

static void add(trp_runqueue *queue, trp_pauser *pauser)
{
    trp_pauser *last = first_of(queue);
    if (last == NULL) {
        note_progress(queue, trp_clock_ns());
        atomic_store_explicit(&queue->pausers, pauser, memory_order_relaxed);
        return;
    }
    while (last->next != NULL)
        last = last->next;
    last->next = pauser;
}

// False: it is not there any more.
static bool take_out(trp_runqueue *queue, trp_pauser *pauser)
{
    trp_pauser *at = first_of(queue);
    if (at == pauser) {
        atomic_store_explicit(&queue->pausers, pauser->next, memory_order_relaxed);
        return true;
    }
    while (at != NULL && at->next != pauser)
        at = at->next;
    if (at == NULL)
        return false;
    at->next = pauser->next;
    return true;
}

// It has waited for too long at the receiver's: its senders stay where they are for a while.
static void note_slow(const trp_pauser *pauser)
{
    if (pauser->followed != NULL)
        atomic_store_explicit(&pauser->followed->mailbox.slow, true, memory_order_relaxed);
}

// Takes the first out and lets it go on with that right (NULL: none); `near`: on this CPU.
static void let_go_on(trp_runqueue *from, trp_runqueue *right, bool near)
{
    trp_pauser *pauser = first_of(from);
    (void)take_out(from, pauser);
    trp_scheduler.paused--;
    trp_scheduler.active++;
    pauser->runner->away = false;
    pauser->runner->returns++;
    if (right != NULL)
        trp_runqueue_resume(right);
    atomic_store(&pauser->runner->queue, right);
    if (near)
        trp_bind_here(&pauser->binding, pauser->runner->thread);
    atomic_store(&pauser->gone_on, 1); // It may be gone now.
    trp_wake_later(&pauser->gone_on);
}

bool trp_pause_overdue(const trp_runqueue *queue, int64_t now_ns)
{
    return first_of(queue) != NULL && quiet_ns(queue, now_ns) > PAUSE_NS;
}

bool trp_pause_end(trp_runqueue *queue, bool overdue)
{
    trp_runner *me = trp_me;
    bool given = false;
    trp_scheduler_lock();
    trp_pauser *first = first_of(queue); // It may have left.
    if (first != NULL) {
        trp_runqueue *other = NULL;
        if (overdue) {
            note_slow(first);
            other = trp_queues_take();
        }
        given = other == NULL;
        if (given) {
            me->queue = NULL;
            me->woke_near = true;
        }
        note_progress(queue, trp_clock_ns());
        let_go_on(queue, given ? queue : other, given);
    }
    trp_scheduler_unlock();
    return given;
}

void trp_pause_end_all(void)
{
    for (int i = 0; i < trp_queues.count; i++)
        while (first_of(&trp_queues.each[i]) != NULL)
            let_go_on(&trp_queues.each[i], NULL, false);
}

// ---- pausing

// Sleeps until it may go on, or nobody has done so for long: then it does so by itself.
static void wait_for_others(trp_runqueue *queue, trp_pauser *mine)
{
    bool left = false;
    while (!left && atomic_load(&mine->gone_on) == 0) {
        int64_t now_ns = trp_clock_ns(), left_ns = LAST_NS - quiet_ns(queue, now_ns);
        if (left_ns > 0) {
            trp_nap(&mine->gone_on, 0, now_ns + left_ns);
            continue;
        }
        trp_scheduler_lock();
        left = quiet_ns(queue, now_ns) >= LAST_NS && take_out(queue, mine);
        if (left) {
            note_slow(mine);
            note_progress(queue, now_ns - LAST_NS + NEXT_NS);
            trp_scheduler.paused--;
            trp_runner_return(mine->runner);
        }
        trp_scheduler_unlock();
    }
}

// The method that runs here goes on when others have run, if there are any.
static void pause_for(trp_runner *me, trp_runnable *receiver)
{
    trp_runqueue *mine = me->queue, *there = trp_queues_home_of(receiver);
    trp_runnable *actor = trp_scheduler_turns.running();
    bool follows =
        receiver != actor && there != NULL && there != mine && trp_mailbox_deep(&receiver->mailbox);
    if (mine == NULL || (!follows && trp_runqueue_empty(mine)))
        return;
    trp_pauser pauser = {.runner = me, .followed = follows ? receiver : NULL};
    trp_runqueue *where = follows ? there : mine;
    trp_scheduler_lock();
    bool may = !trp_scheduler.stopping && !me->abandoned && trp_scheduler.paused < PAUSED_MAX &&
               where < trp_queues.each + trp_queues.count; // Still in use.
    if (may) {
        trp_scheduler.paused++;
        add(where, &pauser);
        trp_runner_leave(me, true);
    }
    trp_scheduler_unlock();
    if (!may)
        return;
    wait_for_others(where, &pauser);
    trp_unbind(&pauser.binding); // It is here now; what its method makes would inherit it.
    if ((mine = me->queue) != NULL && actor != NULL)
        trp_queues_home(actor, mine);
}

void trp_pause_sent(trp_runnable *receiver)
{
    trp_runner *me = trp_me;
    if (me == NULL || ++me->sent < SENT_MAX)
        return;
    me->sent = 0;
    pause_for(me, receiver);
}
