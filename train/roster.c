// roster.c: see roster.h.
#include <train/roster.h>

#include <runtime/base/clock.h>
#include <runtime/base/thread.h>
#include <time.h>

// With the lock.
static void make_ready(trp_roster *roster)
{
    if (roster->ready)
        return;
    trp_cond_open(&roster->changed);
    roster->ready = true;
}

static void *run(void *user)
{
    trp_roster *roster = user;
    (void)pthread_detach(pthread_self());
    pthread_mutex_lock(&roster->lock);
    roster->serve();
    roster->running = false;
    pthread_mutex_unlock(&roster->lock);
    return NULL;
}

bool trp_roster_add(trp_roster *roster, trp_roster_item *item)
{
    pthread_t thread;
    pthread_mutex_lock(&roster->lock);
    make_ready(roster);
    trp_roster_item **at = &roster->first;
    while (*at != NULL)
        at = &(*at)->next;
    *at = item;
    if (!roster->running)
        roster->running = trp_thread_start(&thread, roster->name, run, roster) == TROUPE_OK;
    bool running = roster->running;
    if (!running)
        *at = NULL;
    pthread_mutex_unlock(&roster->lock);
    return running;
}

void trp_roster_end(trp_roster *roster, trp_roster_item *item)
{
    pthread_mutex_lock(&roster->lock);
    item->ended = true;
    trp_roster_change(roster);
    pthread_mutex_unlock(&roster->lock);
}

void trp_roster_close(trp_roster *roster, trp_roster_item *item)
{
    pthread_mutex_lock(&roster->lock);
    item->closed = true;
    trp_roster_change(roster);
    pthread_mutex_unlock(&roster->lock);
}

void trp_roster_await(trp_roster *roster, const trp_roster_item *item, int timeout_ms)
{
    int64_t until_ms = trp_clock_ms() + timeout_ms;
    pthread_mutex_lock(&roster->lock);
    while (item->ended && !item->done && trp_clock_ms() < until_ms)
        trp_roster_await_change(roster, until_ms);
    pthread_mutex_unlock(&roster->lock);
}

// With the lock.
static bool is_busy(const trp_roster *roster)
{
    bool busy = false;
    for (const trp_roster_item *it = roster->first; it != NULL; it = it->next)
        busy = busy || ((it->ended || it->closed) && !it->done);
    return busy;
}

void trp_roster_settle(trp_roster *roster, int timeout_ms)
{
    int64_t until_ms = trp_clock_ms() + timeout_ms;
    pthread_mutex_lock(&roster->lock);
    while (is_busy(roster) && trp_clock_ms() < until_ms)
        trp_roster_await_change(roster, until_ms);
    pthread_mutex_unlock(&roster->lock);
}

void trp_roster_change(trp_roster *roster)
{
    pthread_cond_broadcast(&roster->changed);
}

void trp_roster_await_change(trp_roster *roster, int64_t until_ms)
{
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    (void)pthread_cond_timedwait(&roster->changed, &roster->lock, &until);
}

void trp_roster_remove(trp_roster *roster, const trp_roster_item *item)
{
    trp_roster_item **at = &roster->first;
    while (*at != item)
        at = &(*at)->next;
    *at = item->next;
}
