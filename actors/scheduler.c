// scheduler.c: see scheduler.h.
//
// A *queue* is the right to run turns: there are as many as turns may run at once. A *runner* is a
// thread. One that runs turns has a queue, but for the rest of a turn in which it waited and got
// none back. One without work sleeps; of those, one is the *watcher*: while others run, it looks
// every millisecond whether work waits behind a turn that takes long, and takes that over.
//
// `active` counts the runners that are awake and do not wait in a method. Who makes an actor
// runnable on a runner with a queue wakes nobody: that runner looks before it sleeps. Who does so
// elsewhere looks at `active` after the push; who is about to sleep lowers it and then looks for
// work: one of the two sees the other.
#include <actors/scheduler.h>

#include <actors/actor.h>
#include <actors/pause.h>
#include <actors/runqueue.h>
#include <actors/thread.h>
#include <actors/waits.h>
#include <runtime/clock.h>
#include <runtime/error.h>
#include <runtime/log.h>
#include <runtime/memory.h>
#include <runtime/park.h>
#include <signal.h>

enum {
    THREADS_MAX = 1024,
    QUEUES_MAX = THREADS_MAX - TRP_BLOCKED_MAX,
    LAST_WAIT_MS = 1000,
    HELP_MAX = 8,
    STREAK_MAX = 64, // Turns from `next` in a row before others get one.
    WATCH_NS = 1000000,
    WATCHES_MAX = 8, // Looks at a process that does nothing before the watcher sleeps as well.
};

typedef struct runner {
    pthread_t thread;
    struct runner *older;        // In the list of all.
    struct runner *next_idle;    // In the stack of those that sleep.
    trp_runqueue *_Atomic queue; // NULL: none. Changed by itself, and by the stop.
    _Atomic uint32_t word;       // Changes when it is to look; it parks on it.
    _Atomic bool idle;           // It sleeps, or is about to. Changed under the lock.
    _Atomic bool parked;         // A change of `word` must be told to the kernel.
    bool left;                   // Its thread is about to end, and to be joined.
    bool abandoned;              // It outlived the stop: it counts no more, and frees itself.
    bool woke_near;              // See trp_scheduler_woke_near.
    trp_binding binding;         // Until it runs; see pause.h.
} runner;

static struct {
    pthread_mutex_t lock; // Of all that follows but the queues and what is atomic.
    pthread_cond_t changed;
    runner *all, *idle, *watcher;
    int limit, living, blocked;
    bool ready, spinning;
    _Atomic int active;
    _Atomic bool stopping, over;
    trp_runqueue inject; // What threads without a queue made runnable.
    trp_runqueue queues[QUEUES_MAX];
} scheduler = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local runner *me; // NULL: no scheduler's thread.

// ---- waking. All with the lock held.

static void *runner_main(void *user);

// Tells a runner that sleeps to look, whatever for.
static void poke(runner *one)
{
    atomic_fetch_add(&one->word, 1);
    if (atomic_load(&one->parked)) // Set before it looks at `word` for the last time.
        trp_unpark(&one->word, 1);
}

static void remove_idle(runner *one)
{
    runner **at = &scheduler.idle;
    while (*at != NULL && *at != one)
        at = &(*at)->next_idle;
    if (*at != NULL)
        *at = one->next_idle;
    atomic_store(&one->idle, false);
}

static bool make_runner(bool active)
{
    if (scheduler.living >= THREADS_MAX)
        return false;
    runner *one = trp_alloc(sizeof *one);
    if (one == NULL)
        return false;
    one->idle = !active;
    if (!trp_thread_create(&one->thread, "troupe-run", runner_main, one)) {
        trp_free(one);
        if (scheduler.living == 0)
            trp_log(TRP_ERROR, "no thread could be made to run actors; they wait");
        return false;
    }
    one->older = scheduler.all;
    scheduler.all = one;
    scheduler.living++;
    if (!active) {
        one->next_idle = scheduler.idle;
        scheduler.idle = one;
    }
    return true;
}

// Sees to it that somebody watches those that run.
static void want_watcher(void)
{
    if (scheduler.watcher != NULL || scheduler.active >= scheduler.limit || scheduler.stopping)
        return;
    if (scheduler.idle == NULL && !make_runner(false))
        return;
    scheduler.watcher = scheduler.idle;
    poke(scheduler.watcher);
}

// Gets one more runner to look for work, if one may run. `near`: on this CPU.
static void wake_one(bool near)
{
    if (scheduler.stopping || scheduler.active >= scheduler.limit)
        return;
    // The one that reads messages while it sleeps runs what they woke itself.
    runner *one = me != NULL && me->idle ? me : scheduler.idle;
    if (one == NULL) {
        if (make_runner(true))
            scheduler.active++;
    } else {
        remove_idle(one);
        if (scheduler.watcher == one)
            scheduler.watcher = NULL;
        scheduler.active++;
        if (near)
            trp_bind_here(&one->binding, one->thread);
        poke(one);
    }
    want_watcher();
}

// ---- queues

// Gives the runner a queue that is free, one with work if there is one. With the lock held.
static bool attach(runner *one)
{
    trp_runqueue *found = NULL;
    for (int i = 0; i < scheduler.limit; i++) {
        trp_runqueue *queue = &scheduler.queues[i];
        if (!queue->taken && (found == NULL || !trp_runqueue_empty(queue)))
            found = queue;
        if (found != NULL && !trp_runqueue_empty(found))
            break;
    }
    if (found == NULL)
        return false;
    atomic_store(&found->taken, true);
    trp_runqueue_resume(found);
    one->queue = found;
    return true;
}

static void detach(runner *one)
{
    trp_runqueue *queue = one->queue;
    if (queue != NULL)
        atomic_store(&queue->taken, false);
    one->queue = NULL;
}

// Whether a queue that is not mine has what I should run.
static bool is_prey(trp_runqueue *queue)
{
    if (!atomic_load(&queue->taken))
        return !trp_runqueue_empty(queue);
    return trp_runqueue_worth(queue);
}

static bool work_waits(void)
{
    if (!trp_runqueue_empty(&scheduler.inject))
        return true;
    for (int i = 0; i < scheduler.limit; i++)
        if (is_prey(&scheduler.queues[i]))
            return true;
    return false;
}

static trp_actor *steal(trp_runqueue *mine)
{
    for (int i = 0; i < scheduler.limit; i++) {
        trp_runqueue *queue = &scheduler.queues[i];
        if (queue == mine || !is_prey(queue))
            continue;
        trp_actor *next = atomic_load(&queue->taken) ? NULL : trp_runqueue_take_next(queue);
        trp_runqueue_move(queue, mine, false);
        if (next != NULL || (next = trp_runqueue_take(mine)) != NULL)
            return next;
    }
    return NULL;
}

// The actor that gets the next turn; NULL: there is nothing to do.
static trp_actor *choose(trp_runqueue *mine)
{
    trp_actor *actor;
    if (mine->streak++ < STREAK_MAX && (actor = trp_runqueue_take_next(mine)) != NULL)
        return actor;
    mine->streak = 0;
    trp_runqueue_move(&scheduler.inject, mine, true);
    if ((actor = trp_runqueue_take(mine)) != NULL || (actor = trp_runqueue_take_next(mine)) != NULL)
        return actor;
    return steal(mine);
}

// ---- runners

// `until`: see trp_actor_turn.
static void run_turn(trp_runqueue *queue, trp_actor *actor, uint64_t until)
{
    bool again;
    uint32_t turns = atomic_load_explicit(&queue->turns, memory_order_relaxed);
    atomic_store_explicit(&queue->turns, turns + 1, memory_order_relaxed);
    uint32_t messages = trp_actor_turn(actor, until, &again);
    queue = atomic_load_explicit(&me->queue, memory_order_relaxed); // It may have waited.
    if (queue == NULL) {
        if (again)
            trp_scheduler_push(actor);
        return;
    }
    int64_t passed = trp_runqueue_measure(queue, messages);
    if (passed > 0) // A sample: the actor stands for those before it.
        atomic_fetch_add_explicit(&actor->cpu_ns, (uint64_t)passed, memory_order_relaxed);
    if (again)
        trp_runqueue_append(queue, actor);
    if (passed > 0 && trp_runqueue_worth(queue) &&
        atomic_load_explicit(&scheduler.active, memory_order_relaxed) < scheduler.limit) {
        pthread_mutex_lock(&scheduler.lock);
        wake_one(false);
        pthread_mutex_unlock(&scheduler.lock);
    }
}

static void run_turns(void)
{
    trp_runqueue *queue;
    trp_actor *actor;
    while ((queue = me->queue) != NULL && !atomic_load(&scheduler.stopping) &&
           (actor = choose(queue)) != NULL)
        run_turn(queue, actor, 0);
}

// The watcher's look: takes work over that waits behind a long turn. True: it did, and the runner
// is active now. With the lock held.
static bool take_over(void)
{
    trp_runqueue *hog = NULL;
    if (scheduler.active >= scheduler.limit)
        return false;
    bool all_long = true;
    for (int i = 0; i < scheduler.limit; i++) {
        trp_runqueue *queue = &scheduler.queues[i];
        uint32_t turns = atomic_load(&queue->turns);
        bool taken = atomic_load(&queue->taken);
        bool unserved = !taken || turns == queue->seen; // By nobody, or behind a long turn.
        all_long = all_long && unserved;
        queue->seen = turns;
        if (unserved && !trp_runqueue_empty(queue))
            hog = queue;
    }
    if (hog == NULL && (!all_long || trp_runqueue_empty(&scheduler.inject)))
        return false;
    if (!attach(me))
        return false;
    remove_idle(me);
    scheduler.watcher = NULL;
    scheduler.active++;
    trp_runqueue *mine = me->queue;
    if (hog != NULL && hog != mine) {
        trp_actor *next = trp_runqueue_take_next(hog);
        if (next != NULL)
            trp_runqueue_add(mine, next);
        trp_runqueue_move(hog, mine, false);
    }
    want_watcher();
    return true;
}

// Parks until there may be something to do. Without the lock.
static void doze(uint32_t seen, bool watch)
{
    atomic_store(&me->parked, true); // Before the kernel's look at `word`.
    trp_park(&me->word, seen, watch ? trp_clock_ns() + WATCH_NS : -1);
    atomic_store(&me->parked, false);
}

// Sleeps until this runner is woken for work or the stop. With the lock held.
static void sleep_idle(void)
{
    int quiet = 0; // Looks at a process that did nothing.
    bool spin = !scheduler.spinning && !me->woke_near;
    me->woke_near = false;
    while (me->idle && !scheduler.stopping) {
        uint32_t seen = me->word;
        bool watch = scheduler.watcher == me;
        scheduler.spinning = scheduler.spinning || spin;
        pthread_mutex_unlock(&scheduler.lock);
        if (spin)
            trp_spin(&me->word, seen);
        doze(seen, watch);
        pthread_mutex_lock(&scheduler.lock);
        if (spin)
            scheduler.spinning = false;
        spin = false;
        if (!me->idle || scheduler.watcher != me || take_over())
            continue;
        quiet = scheduler.active > 0 ? 0 : quiet + 1;
        if (quiet > WATCHES_MAX || scheduler.active >= scheduler.limit)
            scheduler.watcher = NULL;
    }
}

// Goes to sleep, unless there is work. With the lock held.
static void go_idle(void)
{
    detach(me);
    scheduler.active--; // Before the look for work; a push does the reverse.
    if (work_waits() && scheduler.active < scheduler.limit) {
        scheduler.active++;
        return;
    }
    pthread_cond_broadcast(&scheduler.changed);
    atomic_store(&me->idle, true);
    me->next_idle = scheduler.idle;
    scheduler.idle = me;
    if (scheduler.watcher == NULL && scheduler.active > 0)
        scheduler.watcher = me;
    sleep_idle();
}

static void *runner_main(void *user)
{
    me = user;
    pthread_mutex_lock(&scheduler.lock);
    if (me->idle)
        sleep_idle();
    while (!scheduler.stopping && !me->abandoned) {
        if (me->queue != NULL || attach(me)) {
            pthread_mutex_unlock(&scheduler.lock);
            trp_unbind(&me->binding); // It is here now; what methods make would inherit it.
            run_turns();
            pthread_mutex_lock(&scheduler.lock);
            if (scheduler.stopping || me->abandoned)
                break;
        }
        go_idle();
    }
    runner *mine = me;
    bool abandoned = mine->abandoned;
    if (!abandoned) {
        detach(mine);
        if (!mine->idle)
            scheduler.active--;
        scheduler.living--;
        mine->left = true;
        pthread_cond_broadcast(&scheduler.changed);
    }
    me = NULL;
    pthread_mutex_unlock(&scheduler.lock);
    if (abandoned)
        trp_free(mine);
    return NULL;
}

// ---- for others

void trp_scheduler_start(int threads)
{
    pthread_mutex_lock(&scheduler.lock);
    if (!scheduler.ready) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&scheduler.changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
        scheduler.ready = true;
    }
    scheduler.limit = threads < 1 ? 1 : threads > QUEUES_MAX ? QUEUES_MAX : threads;
    scheduler.stopping = false;
    scheduler.over = false;
    pthread_mutex_unlock(&scheduler.lock);
    trp_park_start();
}

// A runner is awake, or was woken: it sees the push before it sleeps.
static void tell_of_push(void)
{
    // Not a mere load: either this comes after go_idle's change, or that sees the push.
    int active = atomic_fetch_add(&scheduler.active, 0);
    bool worth = active == 0;
    // While those that run have long turns, another one gets it at once.
    for (int i = 0; !worth && active < scheduler.limit && i < scheduler.limit; i++)
        worth =
            atomic_load_explicit(&scheduler.queues[i].taken, memory_order_relaxed) &&
            atomic_load_explicit(&scheduler.queues[i].cost, memory_order_relaxed) > WATCH_NS / 10;
    if (!worth)
        return;
    pthread_mutex_lock(&scheduler.lock);
    if (!trp_runqueue_empty(&scheduler.inject))
        wake_one(false);
    pthread_mutex_unlock(&scheduler.lock);
}

void trp_scheduler_push(trp_actor *actor)
{
    trp_runqueue *queue =
        me != NULL ? atomic_load_explicit(&me->queue, memory_order_relaxed) : NULL;
    if (queue != NULL) {
        trp_runqueue_add(queue, actor);
        return;
    }
    if (atomic_load(&scheduler.over)) {
        trp_actor_abandon(actor);
        return;
    }
    trp_runqueue_append(&scheduler.inject, actor);
    tell_of_push();
}

void trp_scheduler_help(const trp_actor *actor, uint64_t call)
{
    static _Thread_local int depth; // Of turns on top of methods: each takes room on the stack.
    trp_runqueue *queue =
        me != NULL ? atomic_load_explicit(&me->queue, memory_order_relaxed) : NULL;
    if (queue == NULL || depth == HELP_MAX || atomic_load(&queue->next) != actor ||
        atomic_load_explicit(&scheduler.stopping, memory_order_relaxed))
        return;
    trp_actor *next = trp_runqueue_take_next(queue);
    if (next != actor) { // Another thread was faster.
        if (next != NULL)
            trp_runqueue_add(queue, next);
        return;
    }
    depth++;
    run_turn(queue, next, call);
    depth--;
}

static troupe_status block(bool near)
{
    trp_wait_begun();
    if (me == NULL)
        return TROUPE_OK;
    pthread_mutex_lock(&scheduler.lock);
    bool allowed = me->abandoned || scheduler.blocked < TRP_BLOCKED_MAX;
    if (allowed && !me->abandoned) {
        detach(me);
        scheduler.blocked++;
        scheduler.active--;
        if (work_waits())
            wake_one(near);
        pthread_cond_broadcast(&scheduler.changed);
    }
    pthread_mutex_unlock(&scheduler.lock);
    if (allowed)
        return TROUPE_OK;
    trp_wait_over();
    return trp_waits_full(TRP_BLOCKED_MAX);
}

troupe_status trp_scheduler_block(void)
{
    return block(false);
}

troupe_status trp_scheduler_block_near(void)
{
    return block(true);
}

void trp_scheduler_woke_near(void)
{
    if (me != NULL)
        me->woke_near = true;
}

bool trp_scheduler_runs_here(void)
{
    return me != NULL && me->queue != NULL;
}

bool trp_scheduler_crowded(void)
{
    if (me == NULL)
        return false;
    pthread_mutex_lock(&scheduler.lock);
    bool crowded = scheduler.blocked >= TRP_BLOCKED_MAX / 2;
    pthread_mutex_unlock(&scheduler.lock);
    return crowded;
}

void trp_scheduler_unblock(void)
{
    trp_wait_over();
    if (me == NULL)
        return;
    pthread_mutex_lock(&scheduler.lock);
    if (!me->abandoned) {
        scheduler.blocked--;
        scheduler.active++;
        (void)attach(me);
    }
    pthread_mutex_unlock(&scheduler.lock);
}

// ---- the end

// Waits until nothing is active (and, if `all`, every runner has left). With the lock held.
static bool wait_quiet(int64_t until_ns, bool all)
{
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (scheduler.active > 0 || (all && scheduler.living > 0))
        if (pthread_cond_timedwait(&scheduler.changed, &scheduler.lock, &until) != 0)
            return false;
    return true;
}

// Leaves those alone that still run a method. Returns the others. With the lock held.
static runner *abandon_some(void)
{
    runner *others = NULL, *older;
    for (runner *one = scheduler.all; one != NULL; one = older) {
        older = one->older;
        if (one->left) {
            one->older = others;
            others = one;
            continue;
        }
        one->abandoned = true; // It may be gone with the lock.
        detach(one);
        pthread_detach(one->thread);
    }
    scheduler.all = scheduler.idle = scheduler.watcher = NULL;
    scheduler.living = scheduler.blocked = 0;
    scheduler.active = 0;
    scheduler.spinning = false;
    return others;
}

bool trp_scheduler_stop(int timeout_ms, void (*hurry)(void))
{
    int64_t until_ns = trp_clock_ns() + (int64_t)timeout_ms * 1000000;
    pthread_mutex_lock(&scheduler.lock);
    scheduler.stopping = true;
    for (runner *one = scheduler.idle; one != NULL; one = one->next_idle)
        poke(one);
    if (scheduler.living > 0)
        (void)wait_quiet(until_ns, false);
    pthread_mutex_unlock(&scheduler.lock);

    hurry();

    int64_t last_ns = trp_clock_ns() + (int64_t)LAST_WAIT_MS * 1000000;
    pthread_mutex_lock(&scheduler.lock);
    bool all_left =
        scheduler.living == 0 || wait_quiet(until_ns > last_ns ? until_ns : last_ns, true);
    runner *left = abandon_some();
    pthread_mutex_unlock(&scheduler.lock);
    for (runner *older; left != NULL; left = older) {
        older = left->older;
        pthread_join(left->thread, NULL);
        trp_free(left);
    }
    return all_left;
}

bool trp_scheduler_over(void)
{
    return atomic_load(&scheduler.over);
}

trp_actor *trp_scheduler_clear(void)
{
    static trp_runqueue all;
    trp_actor *first = NULL, *actor;
    atomic_store(&scheduler.over, true);
    trp_runqueue_move(&scheduler.inject, &all, true);
    for (int i = 0; i < scheduler.limit; i++) {
        trp_runqueue_move(&scheduler.queues[i], &all, true);
        if ((actor = trp_runqueue_take_next(&scheduler.queues[i])) != NULL)
            trp_runqueue_append(&all, actor);
    }
    while ((actor = trp_runqueue_take(&all)) != NULL) {
        actor->next_runnable = first;
        first = actor;
    }
    return first;
}
