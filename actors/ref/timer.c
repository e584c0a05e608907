// timer.c: see timer.h. Deadlines are in a binary heap. What is over before its deadline leaves its
// entry there until then, or until there are twice as many as after the last sweep: such entries
// are swept out.
#include <actors/ref/timer.h>

#include <actors/ref/object.h>
#include <actors/ref/ref.h>
#include <actors/sched/scheduler.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/read.h>

enum { SWEEP_MIN = 1024, LOOK_MS = 2 };

typedef struct due {
    int64_t at_ns;
    const trp_timer_kind *kind; // NULL: nothing is due.
    uint64_t id;
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
    return it->kind->pending == NULL || it->kind->pending(it->id);
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
        if (next.kind == NULL && ready == NULL) {
            wait_for_next();
            continue;
        }
        pthread_mutex_unlock(&timer.lock);
        if (next.kind != NULL)
            next.kind->ring(next.id);
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

bool trp_timer_at(int64_t at_ns, const trp_timer_kind *kind, uint64_t id)
{
    pthread_mutex_lock(&timer.lock);
    bool added = run_thread() && add_due((due){at_ns, kind, id});
    if (added && timer.heap[0].at_ns == at_ns)
        pthread_cond_signal(&timer.changed);
    pthread_mutex_unlock(&timer.lock);
    return added;
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
