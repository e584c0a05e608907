// blocked_threads.c: turns that hold their thread: methods that sleep, read a file or wait for a
// lock of their own, which the scheduler cannot see.
//
// Where all places are taken and something waits, the watcher looks at the threads whose turn has
// not ended since its last look. One that has used no CPU meanwhile, and is not about to run, has
// *stalled*: its place goes to another thread, as if the method waited by a call of the library,
// until the turn ends. One that computes for long gives its place up too, since what waits behind
// it may be short, but only as many as there are places: else all that is to be computed would run
// at once. No more than TRP_BLOCKED_MAX threads wait or have stalled.
#include <actors/sched/blocked_threads_internal.h>

#include <actors/class/call_error.h>
#include <fcntl.h>
#include <runtime/base/clock.h>
#include <runtime/base/fault.h>
#include <runtime/base/slow.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    IDLE_PART = 8,           // A thread that used less of the time than one in so many may sleep.
    COMPUTES_NS = 100000000, // A turn that computes for longer gives its place up.
};

_Thread_local const troupe_error *trp_starts_refused;

// ---- one thread

static int64_t cpu_of(const trp_runner *one)
{
    clockid_t clock;
    struct timespec used;
    if (pthread_getcpuclockid(one->thread, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

// Whether the kernel would run the thread if it had a CPU for it. Where that cannot be read, as no
// file can be opened, what the thread has used must do.
static bool wants_cpu(const trp_runner *one)
{
    char path[64], text[128];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", one->tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *state = strrchr(text, ')');
    return state != NULL && strlen(state) >= 3 && state[2] == 'R';
}

// Whether its turn is the one that it had at the last look; notes the one that it has.
static bool is_long(trp_runner *one, int64_t now_ns)
{
    const trp_runqueue *queue = one->queue;
    uint32_t turns = queue != NULL ? atomic_load_explicit(&queue->turns, memory_order_relaxed) : 0;
    bool same = one->seen.ns != 0 && one->seen.queue == queue && one->seen.turns == turns &&
                one->seen.returns == one->returns;
    if (!same) {
        one->seen.queue = queue;
        one->seen.turns = turns;
        one->seen.returns = one->returns;
        one->seen.since_ns = one->seen.ns = now_ns;
        one->seen.cpu_ns = cpu_of(one);
    }
    return same;
}

static bool sleeps(trp_runner *one, int64_t now_ns)
{
    int64_t cpu_ns = cpu_of(one), used = cpu_ns - one->seen.cpu_ns, passed = now_ns - one->seen.ns;
    one->seen.cpu_ns = cpu_ns;
    one->seen.ns = now_ns;
    return used * IDLE_PART < passed && !wants_cpu(one);
}

// ---- all of them. With the scheduler's lock held.

static bool runs(const trp_runner *one)
{
    return !one->idle && !one->away && !one->left;
}

static void stall(trp_runner *one, bool computes)
{
    one->computes = computes;
    atomic_store_explicit(&one->stalled, true, memory_order_relaxed);
    trp_scheduler.stalled++;
    trp_scheduler.computing += computes;
    trp_queues_widen(1);
}

static bool may_stall(void)
{
    return trp_scheduler.blocked + trp_scheduler.stalled < TRP_BLOCKED_MAX;
}

bool trp_stall_end(trp_runner *one)
{
    if (!one->stalled || one->abandoned)
        return false;
    atomic_store_explicit(&one->stalled, false, memory_order_relaxed);
    trp_scheduler.stalled--;
    trp_scheduler.computing -= one->computes;
    trp_queues_widen(-1);
    return true;
}

bool trp_stalls_look(void)
{
    if (trp_scheduler.active < trp_queues.limit || !trp_queues_some_wait())
        return false;
    int64_t now_ns = trp_clock_ns();
    int found = 0, base = trp_queues.limit - trp_scheduler.stalled, all = 0, held = 0;
    for (trp_runner *one = trp_scheduler.all; one != NULL; one = one->older) {
        if (!runs(one))
            continue;
        all++;
        trp_runqueue *queue = one->queue;
        if (one->stalled) {
            held++;
            if (queue != NULL) // What its method wakes; all others may be busy for ever.
                trp_queues_share(queue);
            continue;
        }
        if (one->tid == 0 || !is_long(one, now_ns)) // 0: it is about to begin.
            continue;
        held++;
        bool computes = !sleeps(one, now_ns);
        if (!may_stall() || (computes && (now_ns - one->seen.since_ns < COMPUTES_NS ||
                                          trp_scheduler.computing >= base)))
            continue;
        stall(one, computes);
        found++;
    }
    return found == 0 && held == all && !may_stall();
}

// Where others have its place by now, it gives its own up.
void trp_stall_over(void)
{
    trp_scheduler_lock();
    if (trp_stall_end(trp_me) && trp_scheduler.active > trp_queues.limit)
        trp_runner_detach(trp_me);
    trp_scheduler_unlock();
}

// ---- where all threads are held

enum { LISTED = 6 };

typedef struct holder {
    trp_runnable *actor;
    uint64_t id;
} holder;

// Who holds the threads: the first few; returns how many do. With the scheduler's lock held.
static size_t find_holders(holder found[LISTED])
{
    size_t count = 0;
    for (const trp_runner *one = trp_scheduler.all; one != NULL; one = one->older) {
        bool may = !one->idle && !one->left && one->turning != NULL;
        trp_runnable *actor = may ? atomic_load_explicit(one->turning, memory_order_acquire) : NULL;
        if (actor == NULL)
            continue;
        if (count < LISTED)
            found[count] = (holder){actor, trp_scheduler_turns.id(actor)};
        count++;
    }
    return count;
}

// Says who holds the threads: the first few, and how many more; returns how many do.
static size_t list_holders(char *text, size_t capacity)
{
    holder found[LISTED];
    trp_scheduler_lock();
    size_t count = find_holders(found), used = 0, listed = 0;
    trp_scheduler_unlock();
    for (; listed < count && listed < LISTED; listed++) {
        char one[128];
        trp_scheduler_turns.describe(found[listed].actor, found[listed].id, one, sizeof one);
        if (used + strlen(one) + 32 > capacity)
            break;
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", used > 0 ? "; " : "", one);
    }
    if (count > listed)
        snprintf(text + used, capacity - used, "; and %zu more", count - listed);
    else if (count == 0)
        text[0] = '\0';
    return count;
}

// TROUPE_BUSY, with a sentence that says whose methods hold the threads.
static troupe_status fail_full(void)
{
    char text[400];
    size_t count = list_holders(text, sizeof text);
    return troupe_fail(TROUPE_BUSY,
                       "no thread is left in %s to start an actor: %zu methods hold one each, and "
                       "%d that block or wait are the limit: %s",
                       trp_process_text(trp_process_slot()).text, count, TRP_BLOCKED_MAX, text);
}

// Who has asked for an actor that would begin here is told, at once. With the lock held, which is
// let go meanwhile.
static void refuse(void)
{
    trp_runnable *fresh = trp_queues_take_fresh(), *next;
    if (fresh == NULL)
        return;
    trp_scheduler_unlock();
    TRP_FAULT("refuse");
    troupe_error failure =
        trp_failure_last(fail_full(), TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
    trp_starts_refused = &failure;
    for (; fresh != NULL; fresh = next) {
        bool again;
        next = fresh->next;
        (void)trp_scheduler_turns.turn(fresh, 0, &again);
        if (again) // The runtime stops, and ends what is in its queues.
            trp_scheduler_push(fresh);
    }
    trp_starts_refused = NULL;
    trp_scheduler_lock();
}

void trp_stalls_told(bool full)
{
    static trp_slow slow;
    static enum { ROOM, FULL, BEING_TOLD } known;
    char text[256];
    bool nothing_new = full ? known == FULL && !trp_slow_is_due(&slow) : known == ROOM;
    if (known == BEING_TOLD || nothing_new)
        return;
    bool first = known == ROOM;
    known = BEING_TOLD;
    if (first) {
        trp_slow_begin(&slow, TRP_SLOW_THREADS);
        slow.who = "what is to run";
        (void)trp_slow_is_due(&slow);
        known = FULL;
        return;
    }
    trp_scheduler_unlock();
    if (full) {
        size_t count = list_holders(text, sizeof text);
        trp_slow_tell(&slow, "a thread of %s: %zu methods hold one each: %s",
                      trp_process_text(trp_process_slot()).text, count, text);
    } else {
        trp_slow_end(&slow);
    }
    trp_scheduler_lock();
    known = full ? FULL : ROOM;
}

void trp_stalls_watch(void)
{
    bool full = trp_stalls_look();
    trp_stalls_told(full);
    if (full && trp_runner_watches())
        refuse();
}
