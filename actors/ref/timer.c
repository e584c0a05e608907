// timer.c: see timer.h. Deadlines are in a binary heap. A call that ended in time leaves its row
// there until its hour, or until more than half of the rows are such: then they are swept out.
#include <actors/ref/timer.h>

#include <actors/actor/actor.h>
#include <actors/async/async.h>
#include <actors/class/call_error.h>
#include <actors/task/task.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/shm/process_table.h>

enum { SWEEP_MIN = 1024, LOOK_MS = 2 };

typedef struct due {
    int64_t at_ns;
    enum { CALL, ALARM, TASKS } kind;
    uint64_t id; // Of a call, or of an actor's alarm.
} due;

static struct {
    pthread_mutex_t lock; // Of all that follows.
    pthread_cond_t changed;
    pthread_t thread;
    bool running, stopping;
    due *heap;
    size_t count, capacity, sweep_at;
    trp_when *watched;
} timer = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

// ---- the heap: with the lock held

static void sift_down(size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < timer.count; child++)
            if (timer.heap[child].at_ns < timer.heap[least].at_ns)
                least = child;
        if (least == i)
            return;
        due other = timer.heap[i];
        timer.heap[i] = timer.heap[least];
        timer.heap[least] = other;
        i = least;
    }
}

static void sift_up(size_t i)
{
    while (i > 0 && timer.heap[i].at_ns < timer.heap[(i - 1) / 2].at_ns) {
        due other = timer.heap[i];
        timer.heap[i] = timer.heap[(i - 1) / 2];
        timer.heap[(i - 1) / 2] = other;
        i = (i - 1) / 2;
    }
}

static bool is_pending(const due *it)
{
    if (it->kind != CALL)
        return it->kind == TASKS || trp_alarm_pending(it->id);
    trp_entry *entry = trp_entry_lock(it->id);
    bool pending = entry != NULL && !entry->done;
    if (entry != NULL)
        trp_entry_unlock(entry);
    return pending;
}

static void sweep(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < timer.count; i++)
        if (is_pending(&timer.heap[i]))
            timer.heap[kept++] = timer.heap[i];
    timer.count = kept;
    for (size_t i = kept / 2; i-- > 0;)
        sift_down(i);
    timer.sweep_at = kept * 2 > SWEEP_MIN ? kept * 2 : SWEEP_MIN;
}

static bool add_due(due next)
{
    if (timer.count >= timer.sweep_at)
        sweep();
    if (timer.count == timer.capacity) {
        size_t capacity = timer.capacity == 0 ? 64 : timer.capacity * 2;
        due *heap = trp_realloc(timer.heap, capacity * sizeof *heap);
        if (heap == NULL)
            return false;
        timer.heap = heap;
        timer.capacity = capacity;
    }
    timer.heap[timer.count] = next;
    sift_up(timer.count++);
    return true;
}

// ---- the thread

static void time_out(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return;
    bool pending = !entry->done && !entry->sending, started = entry->started;
    bool force = entry->force;
    trp_target target = entry->target;
    entry->expired = true; // If it has not started, it will not.
    trp_entry_unlock(entry);
    if (!pending)
        return;
    troupe_error failure = trp_failure(
        TROUPE_TIMED_OUT, TROUPE_OUTCOME_TIMED_OUT,
        started ? TROUPE_EXECUTED_MAYBE : TROUPE_EXECUTED_NO,
        started ? "the deadline of a call passed before it was answered; it may have been executed"
                : "the deadline of a call passed before it could be run");
    trp_failure_target(&failure, &target);
    (void)trp_entry_fail(call, &failure);
    if (force)
        trp_cancel_overdue(call, &target);
}

bool trp_object_ready(trp_object object)
{
    return trp_runtime_is_lost() || trp_store_look(object).state != TRP_OBJECT_FILLING;
}

// Takes out what is ready. With the lock held.
static trp_when *take_ready(void)
{
    trp_when *ready = NULL;
    for (trp_when **at = &timer.watched; *at != NULL;) {
        trp_when *when = *at;
        if (timer.stopping || trp_object_ready(when->object)) {
            *at = when->next;
            when->next = ready;
            ready = when;
        } else {
            at = &when->next;
        }
    }
    return ready;
}

static void tell_ready(trp_when *ready)
{
    while (ready != NULL) {
        trp_when *when = ready;
        ready = when->next;
        trp_when_call(when);
    }
}

static void wait_for_next(void)
{
    int64_t until_ns = timer.count > 0 ? timer.heap[0].at_ns : -1;
    int64_t look_ns = trp_clock_ns() + (int64_t)LOOK_MS * 1000000;
    if (timer.watched != NULL && (until_ns < 0 || look_ns < until_ns))
        until_ns = look_ns;
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    if (until_ns < 0)
        pthread_cond_wait(&timer.changed, &timer.lock);
    else
        (void)pthread_cond_clockwait(&timer.changed, &timer.lock, CLOCK_MONOTONIC, &until);
}

static void ring(const due *it)
{
    switch (it->kind) {
    case CALL:
        time_out(it->id);
        break;
    case ALARM:
        trp_alarm_ring(it->id);
        break;
    case TASKS:
        trp_tasks_look();
        break;
    }
}

static void *timer_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&timer.lock);
    while (!timer.stopping) {
        due next = {0};
        if (timer.count > 0 && timer.heap[0].at_ns <= trp_clock_ns()) {
            next = timer.heap[0];
            timer.heap[0] = timer.heap[--timer.count];
            sift_down(0);
        }
        trp_when *ready = take_ready();
        if (next.id == 0 && ready == NULL) {
            wait_for_next();
            continue;
        }
        pthread_mutex_unlock(&timer.lock);
        if (next.id != 0)
            ring(&next);
        tell_ready(ready);
        pthread_mutex_lock(&timer.lock);
    }
    pthread_mutex_unlock(&timer.lock);
    return NULL;
}

// With the lock held.
static bool run_thread(void)
{
    if (!timer.running && !timer.stopping) {
        timer.sweep_at = SWEEP_MIN;
        timer.running =
            trp_thread_start(&timer.thread, "troupe-timer", timer_main, NULL) == TROUPE_OK;
    }
    return timer.running && !timer.stopping;
}

static bool add(due next)
{
    pthread_mutex_lock(&timer.lock);
    bool added = run_thread() && add_due(next);
    if (added && timer.heap[0].at_ns == next.at_ns)
        pthread_cond_signal(&timer.changed);
    pthread_mutex_unlock(&timer.lock);
    return added;
}

bool trp_timer_call(int64_t deadline_ns, uint64_t call)
{
    return add((due){deadline_ns, CALL, call});
}

bool trp_timer_alarm(int64_t at_ns, uint64_t alarm)
{
    return add((due){at_ns, ALARM, alarm});
}

bool trp_timer_tasks(int64_t at_ns)
{
    return add((due){at_ns, TASKS, 1});
}

bool trp_timer_watch(trp_when *when)
{
    pthread_mutex_lock(&timer.lock);
    bool added = run_thread();
    if (added) {
        when->next = timer.watched;
        timer.watched = when;
        pthread_cond_signal(&timer.changed);
    }
    pthread_mutex_unlock(&timer.lock);
    return added;
}

void trp_timer_stop(void)
{
    pthread_mutex_lock(&timer.lock);
    bool running = timer.running;
    timer.stopping = true;
    pthread_cond_signal(&timer.changed);
    pthread_mutex_unlock(&timer.lock);
    if (running)
        pthread_join(timer.thread, NULL);
    pthread_mutex_lock(&timer.lock);
    trp_when *left = take_ready();
    trp_free(timer.heap);
    timer.heap = NULL;
    timer.count = timer.capacity = 0;
    timer.running = false;
    pthread_mutex_unlock(&timer.lock);
    tell_ready(left);
    pthread_mutex_lock(&timer.lock);
    timer.stopping = false;
    pthread_mutex_unlock(&timer.lock);
}
