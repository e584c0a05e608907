// side_thread.c: threads for methods that run beside their actors. One is made when there is a
// message and none is idle; one that has been idle for long ends.
#include <actors/async/side_thread.h>

#include <actors/async/concurrency_group.h>
#include <actors/async/urgent.h>
#include <actors/sched/scheduler.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/thread.h>

enum {
    THREADS_MAX = 256,
    WAITING_MAX = 4096,
    IDLE_MS = 5000,
};

static struct {
    pthread_mutex_t lock; // Of all that follows.
    pthread_cond_t work, changed;
    trp_lane waiting; // Messages, linked by `below`.
    uint32_t count;   // Of them.
    int living, idle;
    bool stopping;
} helpers = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .work = PTHREAD_COND_INITIALIZER,
             .changed = PTHREAD_COND_INITIALIZER};

static struct timespec after_ms(int ms)
{
    int64_t at_ns = trp_clock_ns() + (int64_t)ms * 1000000;
    return (struct timespec){at_ns / 1000000000, at_ns % 1000000000};
}

// With the lock held.
static trp_message *take(void)
{
    trp_link *link = helpers.waiting.first;
    if (link == NULL)
        return NULL;
    helpers.waiting.first = trp_link_next(link);
    helpers.count--;
    return (trp_message *)link;
}

// Waits for a message. With the lock held. False: it was long enough.
static bool idle(void)
{
    struct timespec until = after_ms(IDLE_MS);
    helpers.idle++;
    int late = 0;
    while (helpers.waiting.first == NULL && !helpers.stopping && late == 0)
        late = pthread_cond_clockwait(&helpers.work, &helpers.lock, CLOCK_MONOTONIC, &until);
    helpers.idle--;
    return helpers.waiting.first != NULL || late == 0;
}

static void *helper_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&helpers.lock);
    for (;;) {
        trp_message *message = helpers.stopping ? NULL : take();
        if (message == NULL) {
            if (helpers.stopping || !idle())
                break;
            continue;
        }
        pthread_mutex_unlock(&helpers.lock);
        trp_beside_run(message);
        pthread_mutex_lock(&helpers.lock);
    }
    helpers.living--;
    pthread_cond_broadcast(&helpers.changed);
    pthread_mutex_unlock(&helpers.lock);
    return NULL;
}

// Gets a thread for what waits. With the lock held.
static void get_thread(void)
{
    pthread_t thread;
    if (helpers.idle >= (int)helpers.count) {
        pthread_cond_signal(&helpers.work);
        return;
    }
    if (helpers.living >= THREADS_MAX)
        return;
    if (trp_thread_start(&thread, "troupe-beside", helper_main, NULL) == TROUPE_OK) {
        pthread_detach(thread);
        helpers.living++;
    } else if (helpers.living == 0) {
        trp_log(TRP_ERROR, "no thread could be made to run urgent methods; they wait");
    }
}

bool trp_helper_push(trp_message *message, bool always)
{
    pthread_mutex_lock(&helpers.lock);
    bool taken = !helpers.stopping && (always || helpers.count < WAITING_MAX);
    if (taken) {
        message->link.below = 0;
        if (helpers.waiting.first == NULL)
            helpers.waiting.first = &message->link;
        else
            helpers.waiting.last->below = (uintptr_t)&message->link;
        helpers.waiting.last = &message->link;
        helpers.count++;
        get_thread();
    }
    pthread_mutex_unlock(&helpers.lock);
    return taken;
}

void trp_helpers_start(void)
{
    pthread_mutex_lock(&helpers.lock);
    helpers.stopping = false;
    pthread_mutex_unlock(&helpers.lock);
}

void trp_helpers_stop(int64_t until_ns)
{
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    pthread_mutex_lock(&helpers.lock);
    helpers.stopping = true;
    pthread_cond_broadcast(&helpers.work);
    while (helpers.living > 0 &&
           pthread_cond_clockwait(&helpers.changed, &helpers.lock, CLOCK_MONOTONIC, &until) == 0)
        continue;
    trp_link *left = helpers.waiting.first;
    helpers.waiting.first = NULL;
    helpers.count = 0;
    pthread_mutex_unlock(&helpers.lock);
    for (trp_link *link = left, *next; link != NULL; link = next) {
        next = trp_link_next(link);
        trp_beside_run((trp_message *)link); // Which sees that the runtime stops.
    }
}
