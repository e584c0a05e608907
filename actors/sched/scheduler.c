// scheduler.c: see scheduler.h.
//
// A *queue* is the right to run turns: there are as many as turns may run at once. A *runner* is a
// thread. One that runs turns has a queue, but for the rest of a turn in which it waited, or paused
// (sched/sender_yield.c), and got none back. One without work sleeps; of those, one is the
// *watcher*: while others run, it looks every millisecond whether work waits behind a turn that
// takes long, and takes that over. Where all places are taken it looks less often, and makes places
// for what waits behind methods that hold their threads (sched/blocked_threads.c). While some
// runners are active there is a watcher: a thread that changes their number sees to that before it
// releases the lock.
//
// `active` counts the runners that are awake and neither wait nor pause in a method. Making an
// actor runnable on a runner with a queue wakes no thread: that runner looks before it sleeps.
// Elsewhere a thread that does so looks at `active` after the push; one that is about to sleep
// lowers it and then looks for work: one of the two sees the other.
#include <actors/sched/scheduler.h>

#include <actors/sched/blocked_threads_internal.h>
#include <actors/sched/scheduler_internal.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/base/thread.h>
#include <runtime/link/park.h>
#include <signal.h>
#include <troupe/actor.h>
#include <unistd.h>

enum {
    HELP_MAX = 8,
    WATCH_NS = 1000000,
    NAP_NS = 5000000,
    DROWSY_NS = 10000000, // Between looks while all places are taken and nothing has stalled.
    LAST_WAIT_MS = 1000,  // At the end: for those whose waits were ended,
    OVERDUE_MS = 5,       // and for the others.
    WATCHES_MAX = 8,      // Looks at a process that does nothing before the watcher sleeps as well.
};

trp_runners trp_scheduler TRP_VAST = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Thread_local trp_runner *trp_me;
_Thread_local int trp_run_callbacks;
trp_turns trp_scheduler_turns;
_Atomic bool trp_stopping;

// ---- the lock, and waking

// Whom this thread wakes when it lets the lock go: else they would wait for that.
static _Thread_local struct {
    _Atomic uint32_t *words[4]; // By their addresses alone: they may be gone.
    int count;
} wakes;

void trp_scheduler_lock(void)
{
    pthread_mutex_lock(&trp_scheduler.lock);
}

void trp_scheduler_unlock(void)
{
    pthread_mutex_unlock(&trp_scheduler.lock);
    while (wakes.count > 0)
        trp_unpark(wakes.words[--wakes.count], 1);
}

// Its change has been made. With the lock held.
void trp_wake_later(_Atomic uint32_t *word)
{
    if (wakes.count == sizeof wakes.words / sizeof wakes.words[0])
        trp_unpark(word, 1);
    else
        wakes.words[wakes.count++] = word;
}

// All that follows with the lock held.

static void *runner_main(void *user);

// Tells a runner that sleeps to look, whatever for.
void trp_runner_poke(trp_runner *one)
{
    atomic_fetch_add(&one->word, 1);
    if (atomic_load(&one->parked)) // Set before it looks at `word` for the last time.
        trp_wake_later(&one->word);
}

static void remove_idle(trp_runner *one)
{
    trp_runner **at = &trp_scheduler.idle;
    while (*at != NULL && *at != one)
        at = &(*at)->next_idle;
    if (*at != NULL)
        *at = one->next_idle;
    atomic_store(&one->idle, false);
}

static bool make_runner(bool active)
{
    if (trp_scheduler.living >= TRP_THREADS_MAX)
        return false;
    trp_runner *one = trp_alloc(sizeof *one);
    if (one == NULL)
        return false;
    one->idle = !active;
    troupe_error kept; // It is not the method's failure.
    trp_error_hold(&kept);
    bool started = trp_thread_start(&one->thread, "troupe-run", runner_main, one) == TROUPE_OK;
    trp_error_restore(&kept);
    if (!started) {
        trp_free(one);
        if (trp_scheduler.living == 0)
            trp_log(TRP_ERROR, "no thread could be made to run actors; they wait");
        return false;
    }
    one->older = trp_scheduler.all;
    trp_scheduler.all = one;
    trp_scheduler.living++;
    if (!active) {
        one->next_idle = trp_scheduler.idle;
        trp_scheduler.idle = one;
    }
    return true;
}

// Sees to it that somebody watches those that run. After each change of their number.
static void want_watcher(void)
{
    if (trp_scheduler.active <= 0 || trp_scheduler.stopping)
        return;
    if (trp_scheduler.watcher != NULL) {
        if (trp_scheduler.drowsy && trp_scheduler.active < trp_queues.limit) {
            trp_scheduler.drowsy = false;
            trp_runner_poke(trp_scheduler.watcher);
        }
        return;
    }
    if (trp_scheduler.idle == NULL && !make_runner(false))
        return;
    trp_scheduler.watcher = trp_scheduler.idle;
    trp_runner_poke(trp_scheduler.watcher);
}

// Gets one more runner to look for work, if one may run. `near`: on this CPU.
void trp_wake_one(bool near)
{
    if (trp_scheduler.stopping || trp_scheduler.active >= trp_queues.limit)
        return;
    // The one that reads messages while it sleeps runs what they woke itself.
    trp_runner *one = trp_me != NULL && trp_me->idle ? trp_me : trp_scheduler.idle;
    if (one == NULL) {
        if (make_runner(true))
            trp_scheduler.active++;
    } else {
        remove_idle(one);
        if (trp_scheduler.watcher == one)
            trp_scheduler.watcher = NULL;
        trp_scheduler.active++;
        if (near)
            trp_bind_here(&one->binding, one->thread);
        trp_runner_poke(one);
    }
    want_watcher();
}

// ---- queues

// Gives the runner a queue that is free. With the lock held.
bool trp_runner_attach(trp_runner *one)
{
    trp_runqueue *found = trp_queues_take();
    if (found != NULL)
        trp_runqueue_resume(found);
    one->queue = found;
    return found != NULL;
}

void trp_runner_detach(trp_runner *one)
{
    trp_runqueue *queue = one->queue;
    one->queue = NULL;
    if (queue != NULL)
        trp_queues_give(queue);
}

void trp_runner_leave(trp_runner *one, bool near)
{
    (void)trp_stall_end(one);
    one->away = true;
    trp_runner_detach(one);
    trp_scheduler.active--; // Before the look for work; a push does the reverse.
    if (trp_queues_work_waits())
        trp_wake_one(near);
    want_watcher(); // Also where it was not needed before, as all places were taken.
}

void trp_runner_return(trp_runner *one)
{
    trp_scheduler.active++;
    one->away = false;
    one->returns++;
    (void)trp_runner_attach(one);
    want_watcher(); // It may sleep, since nobody was active.
}

// ---- runners

// `until`: see trp_turns.
static void run_turn(trp_runqueue *queue, trp_runnable *actor, uint64_t until)
{
    bool again;
    trp_me->sent = 0;
    trp_queues_home(actor, queue);
    uint32_t messages = trp_scheduler_turns.turn(actor, until, &again);
    if (until == 0 && atomic_load_explicit(&trp_me->stalled, memory_order_relaxed))
        trp_stall_over();
    queue = atomic_load_explicit(&trp_me->queue, memory_order_relaxed); // It may have waited.
    if (queue == NULL) {
        if (again)
            trp_scheduler_push(actor);
        return;
    }
    int64_t passed = trp_runqueue_measure(queue, messages);
    if (passed > 0) // A sample: the actor stands for those before it.
        atomic_fetch_add_explicit(&actor->cpu_ns, (uint64_t)passed, memory_order_relaxed);
    if (again) {
        trp_queues_home(actor, queue);
        trp_runqueue_append(queue, actor);
    }
    if (passed > 0 && trp_runqueue_worth(queue) &&
        atomic_load_explicit(&trp_scheduler.active, memory_order_relaxed) < trp_queues.limit) {
        trp_scheduler_lock();
        trp_wake_one(false);
        trp_scheduler_unlock();
    }
}

// Turns on top of this one do not count: what waits in the queue waits for the end of this one.
static void run_next(trp_runqueue *queue, trp_runnable *actor)
{
    uint32_t turns = atomic_load_explicit(&queue->turns, memory_order_relaxed);
    atomic_store_explicit(&queue->turns, turns + 1, memory_order_relaxed);
    run_turn(queue, actor, 0);
}

static void run_turns(void)
{
    trp_runqueue *queue;
    while ((queue = trp_me->queue) != NULL && !atomic_load(&trp_scheduler.stopping)) {
        bool some = atomic_load_explicit(&queue->pausers, memory_order_relaxed) != NULL;
        if (some && trp_pause_overdue(queue, queue->read_ns) && trp_pause_end(queue, true))
            return;
        trp_runnable *actor = trp_queues_choose(queue);
        if (actor == NULL && some && trp_pause_end(queue, false))
            return;
        if (actor == NULL && (actor = trp_queues_steal(queue)) == NULL)
            return;
        run_next(queue, actor);
    }
}

// The watcher's look: takes work over that waits behind a long turn. True: it did, and the runner
// is active now. With the lock held.
static bool take_over(void)
{
    trp_runqueue *hog = NULL;
    if (trp_scheduler.active >= trp_queues.limit)
        return false;
    bool all_long = true;
    for (int i = 0; i < trp_queues.count; i++) {
        trp_runqueue *queue = &trp_queues.each[i];
        uint32_t turns = atomic_load(&queue->turns);
        bool taken = atomic_load(&queue->taken);
        bool unserved = !taken || turns == queue->seen; // By nobody, or behind a long turn.
        all_long = all_long && unserved;
        queue->seen = turns;
        if (unserved && !(taken ? trp_runqueue_empty(queue) : trp_queues_empty(queue)))
            hog = queue;
    }
    if (hog == NULL && (!all_long || trp_runqueue_empty(&trp_queues.inject)))
        return false;
    if (!trp_runner_attach(trp_me))
        return false;
    remove_idle(trp_me);
    trp_scheduler.watcher = NULL;
    trp_scheduler.active++;
    trp_runqueue *mine = trp_me->queue;
    if (hog != NULL && hog != mine) {
        trp_runnable *next = trp_runqueue_take_next(hog);
        if (next != NULL)
            trp_runqueue_add(mine, next);
        trp_runqueue_move(hog, mine, false);
    }
    want_watcher();
    return true;
}

// Parks until there may be something to do. Without the lock.
// `shortly`: it has lent its right, and will have it back soon.
static void doze(uint32_t seen, bool watch, bool drowsy, bool shortly)
{
    int64_t every = drowsy ? DROWSY_NS : WATCH_NS;
    atomic_store(&trp_me->parked, true); // Before the kernel's look at `word`.
    if (shortly)
        trp_nap(&trp_me->word, seen, trp_clock_ns() + (watch ? every : NAP_NS));
    else
        trp_park(&trp_me->word, seen, watch ? trp_clock_ns() + every : -1);
    atomic_store(&trp_me->parked, false);
}

// Sleeps until this runner is woken for work or the stop. With the lock held.
static void sleep_idle(void)
{
    int quiet = 0; // Looks at a process that did nothing.
    bool shortly = trp_me->woke_near, spin = !trp_scheduler.spinning && !shortly;
    trp_me->woke_near = false;
    while (trp_me->idle && !trp_scheduler.stopping) {
        uint32_t seen = trp_me->word;
        bool watch = trp_scheduler.watcher == trp_me;
        bool drowsy = watch && trp_scheduler.active >= trp_queues.limit && !trp_scheduler.stalled;
        if (watch)
            trp_scheduler.drowsy = drowsy;
        trp_scheduler.spinning = trp_scheduler.spinning || spin;
        trp_scheduler_unlock();
        if (spin)
            trp_spin(&trp_me->word, seen);
        doze(seen, watch, drowsy, shortly);
        trp_scheduler_lock();
        if (spin)
            trp_scheduler.spinning = false;
        spin = shortly = false;
        if (trp_runner_watches())
            trp_stalls_watch();
        if (!trp_runner_watches()) // It may just have been woken, as that lets the lock go.
            continue;
        if (take_over())
            continue;
        quiet = trp_scheduler.active > 0 ? 0 : quiet + 1;
        if (quiet > WATCHES_MAX)
            trp_scheduler.watcher = NULL;
    }
}

// Goes to sleep, unless there is work. With the lock held.
static void go_idle(void)
{
    (void)trp_stall_end(trp_me); // It may have been taken for stalled while it got the lock.
    trp_runner_detach(trp_me);
    trp_scheduler.active--; // Before the look for work; a push does the reverse.
    if (trp_queues_work_waits() && trp_scheduler.active < trp_queues.limit) {
        trp_scheduler.active++;
        trp_me->woke_near = false;
        return;
    }
    pthread_cond_broadcast(&trp_scheduler.changed);
    atomic_store(&trp_me->idle, true);
    trp_me->next_idle = trp_scheduler.idle;
    trp_scheduler.idle = trp_me;
    if (trp_scheduler.watcher == NULL && trp_scheduler.active > 0)
        trp_scheduler.watcher = trp_me;
    sleep_idle();
}

static void *runner_main(void *user)
{
    trp_me = user;
    trp_scheduler_lock();
    trp_me->tid = (int)gettid();
    trp_me->turning = trp_scheduler_turns.turning();
    if (trp_me->idle)
        sleep_idle();
    while (!trp_scheduler.stopping && !trp_me->abandoned) {
        if (trp_me->queue != NULL || trp_runner_attach(trp_me)) {
            trp_scheduler_unlock();
            trp_unbind(&trp_me->binding); // It is here now; what methods make would inherit it.
            run_turns();
            trp_scheduler_lock();
            if (trp_scheduler.stopping || trp_me->abandoned)
                break;
        }
        trp_unbind(&trp_me->binding); // Another one was faster.
        go_idle();
    }
    trp_runner *mine = trp_me;
    bool abandoned = mine->abandoned;
    if (!abandoned) {
        (void)trp_stall_end(mine);
        trp_runner_detach(mine);
        if (!mine->idle)
            trp_scheduler.active--;
        trp_scheduler.living--;
        mine->left = true;
        pthread_cond_broadcast(&trp_scheduler.changed);
    }
    trp_me = NULL;
    trp_scheduler_unlock();
    if (abandoned)
        trp_free(mine);
    return NULL;
}

// ---- for others

void trp_scheduler_start(int threads)
{
    trp_scheduler_lock();
    if (!trp_scheduler.ready) {
        trp_cond_open(&trp_scheduler.changed);
        trp_scheduler.ready = true;
    }
    int most = TRP_QUEUES_MAX - TRP_BLOCKED_MAX;
    trp_queues.limit = trp_queues.count = threads < 1 ? 1 : threads > most ? most : threads;
    trp_queues.taken = 0;
    trp_scheduler.stopping = false;
    trp_scheduler.over = false;
    trp_scheduler_unlock();
    trp_spin_start();
}

// A runner is awake, or was woken: it sees the push before it sleeps.
static void tell_of_push(void)
{
    // Not a mere load: either this comes after go_idle's change, or that sees the push.
    int active = atomic_fetch_add(&trp_scheduler.active, 0);
    bool worth = active == 0;
    // While those that run have long turns, another one gets it at once.
    for (int i = 0; !worth && active < trp_queues.limit && i < trp_queues.count; i++)
        worth =
            atomic_load_explicit(&trp_queues.each[i].taken, memory_order_relaxed) &&
            atomic_load_explicit(&trp_queues.each[i].cost, memory_order_relaxed) > WATCH_NS / 10;
    if (!worth)
        return;
    trp_scheduler_lock();
    if (!trp_runqueue_empty(&trp_queues.inject))
        trp_wake_one(false);
    trp_scheduler_unlock();
}

void trp_scheduler_push(trp_runnable *actor)
{
    trp_runqueue *queue =
        trp_me != NULL ? atomic_load_explicit(&trp_me->queue, memory_order_relaxed) : NULL;
    if (queue != NULL) {
        trp_queues_home(actor, queue);
        trp_runqueue_add(queue, actor);
        return;
    }
    if (atomic_load(&trp_scheduler.over)) {
        trp_scheduler_turns.abandon(actor);
        return;
    }
    trp_runqueue_append(&trp_queues.inject, actor);
    tell_of_push();
}

void trp_scheduler_leave(trp_runnable *actor)
{
    atomic_store_explicit(&actor->mailbox.home, UINT16_MAX, memory_order_relaxed); // No queue's.
}

void trp_scheduler_help(const trp_runnable *actor, uint64_t call)
{
    static _Thread_local int depth; // Of turns on top of methods: each takes room on the stack.
    trp_runqueue *queue =
        trp_me != NULL ? atomic_load_explicit(&trp_me->queue, memory_order_relaxed) : NULL;
    if (queue == NULL || depth == HELP_MAX || atomic_load(&queue->next) != actor ||
        atomic_load_explicit(&trp_scheduler.stopping, memory_order_relaxed))
        return;
    trp_runnable *next = trp_runqueue_take_next(queue);
    if (next != actor) { // Another thread was faster.
        if (next != NULL)
            trp_runqueue_add(queue, next);
        return;
    }
    uint32_t sent = trp_me->sent; // By the method below.
    depth++;
    run_turn(queue, next, call);
    depth--;
    trp_me->sent = sent;
}

troupe_status trp_scheduler_block(void)
{
    trp_wait_begun();
    if (trp_me == NULL)
        return TROUPE_OK;
    if (trp_me->waits > 0) { // In troupe_blocking_call: another thread has taken over already.
        trp_me->waits++;
        return TROUPE_OK;
    }
    trp_scheduler_lock();
    int stalled = trp_scheduler.stalled - trp_me->stalled;
    bool allowed = trp_me->abandoned || trp_scheduler.blocked + stalled < TRP_BLOCKED_MAX;
    if (allowed && !trp_me->abandoned) {
        trp_scheduler.blocked++;
        trp_runner_leave(trp_me, false);
        pthread_cond_broadcast(&trp_scheduler.changed);
    }
    trp_scheduler_unlock();
    if (allowed) {
        trp_me->waits = 1;
        return TROUPE_OK;
    }
    trp_wait_over();
    return trp_scheduler_turns.full(TRP_BLOCKED_MAX, stalled);
}

troupe_status troupe_blocking_call(troupe_status (*wait)(void *user), void *user)
{
    TRP_REQUIRE(wait);
    TROUPE_TRY(trp_scheduler_block());
    troupe_status status = wait(user);
    trp_scheduler_unblock();
    return status;
}

bool trp_scheduler_crowded(void)
{
    if (trp_me == NULL)
        return false;
    trp_scheduler_lock();
    bool crowded = trp_scheduler.blocked + trp_scheduler.stalled >= TRP_BLOCKED_MAX / 2;
    trp_scheduler_unlock();
    return crowded;
}

void trp_scheduler_unblock(void)
{
    trp_wait_over();
    if (trp_me == NULL || --trp_me->waits > 0)
        return;
    trp_scheduler_lock();
    if (!trp_me->abandoned) {
        trp_scheduler.blocked--;
        trp_runner_return(trp_me);
    }
    trp_scheduler_unlock();
}

void trp_run_callback_begin(void)
{
    trp_run_callbacks++;
}

void trp_run_callback_end(void)
{
    trp_run_callbacks--;
}

// ---- the end: methods are waited for, and those that do not return are left behind

// Waits until nothing is active. With the lock held.
static bool wait_quiet(int64_t until_ns)
{
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (trp_scheduler.active > 0)
        if (pthread_cond_timedwait(&trp_scheduler.changed, &trp_scheduler.lock, &until) != 0)
            return false;
    return true;
}

// Whether somebody runs that has not had all the time, or (`all`) anybody. With the lock held.
static bool some_run(bool all)
{
    for (const trp_runner *one = trp_scheduler.all; one != NULL; one = one->older)
        if (!one->left && (all || !one->overdue))
            return true;
    return false;
}

// The time is over (`late`), or nothing is active, and no wait is left: waits until every runner
// has left, but for one whose method neither waited nor ended. With the lock held.
static bool wait_last(int64_t until_ns, bool late)
{
    int64_t now_ns = trp_clock_ns(), most_ns = now_ns + (int64_t)LAST_WAIT_MS * 1000000;
    int64_t overdue_ns = now_ns + (int64_t)OVERDUE_MS * 1000000;
    if (most_ns < until_ns)
        most_ns = until_ns;
    for (;;) {
        bool others = some_run(false);
        int64_t end_ns = others || !late ? most_ns : overdue_ns;
        struct timespec end = {end_ns / 1000000000, end_ns % 1000000000};
        if (!some_run(true))
            return true;
        if (pthread_cond_timedwait(&trp_scheduler.changed, &trp_scheduler.lock, &end) != 0 &&
            others == some_run(false))
            return false;
    }
}

// Leaves those alone that still run a method. Returns the others. With the lock held.
static trp_runner *abandon_some(void)
{
    trp_runner *others = NULL, *older;
    for (trp_runner *one = trp_scheduler.all; one != NULL; one = older) {
        older = one->older;
        if (one->left) {
            one->older = others;
            others = one;
            continue;
        }
        one->abandoned = true; // It may be gone with the lock.
        trp_runner_detach(one);
        pthread_detach(one->thread);
    }
    trp_scheduler.all = trp_scheduler.idle = trp_scheduler.watcher = NULL;
    trp_scheduler.living = trp_scheduler.blocked = trp_scheduler.paused = 0;
    trp_scheduler.stalled = trp_scheduler.computing = 0;
    trp_scheduler.drowsy = false;
    trp_scheduler.active = 0;
    trp_scheduler.spinning = false;
    return others;
}

bool trp_scheduler_stop(int64_t until_ns, void (*hurry)(void))
{
    trp_scheduler_lock();
    trp_scheduler.stopping = true;
    for (trp_runner *one = trp_scheduler.idle; one != NULL; one = one->next_idle)
        trp_runner_poke(one);
    trp_pause_end_all();
    trp_scheduler_unlock(); // Which wakes them.
    trp_scheduler_lock();
    bool late = trp_scheduler.living > 0 && !wait_quiet(until_ns);
    for (trp_runner *one = trp_scheduler.all; one != NULL; one = one->older)
        one->overdue = late && !one->idle && !one->away;
    trp_scheduler_unlock();

    hurry();

    trp_scheduler_lock();
    bool all_left = wait_last(until_ns, late);
    trp_runner *left = abandon_some();
    trp_stalls_told(false);
    trp_scheduler_unlock();
    for (trp_runner *older; left != NULL; left = older) {
        older = left->older;
        pthread_join(left->thread, NULL);
        trp_free(left);
    }
    return all_left;
}

bool trp_scheduler_over(void)
{
    return atomic_load(&trp_scheduler.over);
}

trp_runnable *trp_scheduler_clear(void)
{
    atomic_store(&trp_scheduler.over, true);
    return trp_queues_clear();
}
