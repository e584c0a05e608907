// output_listener.c: the listeners whose process has not been heard yet (see
// host/output_listener.h).
#include <runtime/host/output_listener.h>

#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <stdatomic.h>

typedef struct waiting {
    struct waiting *next;
    uint32_t process;
    uint64_t incarnation;
    int64_t since_ms;
    trp_output_listener listener;
} waiting;

static struct {
    pthread_mutex_t lock;
    waiting *first;
    bool open;
    _Atomic int count; // Read without the lock: most lines have no listener.
    void (*settle)(void);
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Takes it out. With the lock.
static trp_output_listener take(waiting **at)
{
    waiting *it = *at;
    trp_output_listener listener = it->listener;
    *at = it->next;
    trp_free(it);
    atomic_fetch_sub(&all.count, 1);
    return listener;
}

// One whose process had printed its last before it was added is never taken.
static bool is_late(const waiting *it, int64_t now_ms)
{
    enum { LATE_MS = 10000 };
    return now_ms - it->since_ms > LATE_MS &&
           !trp_process_alive(it->process, it->incarnation, NULL);
}

bool trp_output_listener_add(uint32_t process, uint64_t incarnation,
                             const trp_output_listener *listener)
{
    int64_t now_ms = trp_clock_ms();
    waiting *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return false;
    pthread_mutex_lock(&all.lock);
    bool open = all.open;
    for (waiting **at = &all.first; open && *at != NULL;) {
        if (is_late(*at, now_ms)) {
            trp_output_listener late = take(at);
            late.end(late.user);
        } else {
            at = &(*at)->next;
        }
    }
    if (open) {
        *made = (waiting){all.first, process, incarnation, now_ms, *listener};
        all.first = made;
        atomic_fetch_add(&all.count, 1);
    }
    pthread_mutex_unlock(&all.lock);
    if (!open)
        trp_free(made);
    return open;
}

void trp_output_settle_set(void (*settle)(void))
{
    pthread_mutex_lock(&all.lock);
    all.settle = settle;
    pthread_mutex_unlock(&all.lock);
}

void trp_output_listeners_begin(void)
{
    pthread_mutex_lock(&all.lock);
    all.open = true;
    pthread_mutex_unlock(&all.lock);
}

bool trp_output_listener_take(uint64_t incarnation, trp_output_listener *listener)
{
    if (atomic_load(&all.count) == 0)
        return false;
    bool found = false;
    pthread_mutex_lock(&all.lock);
    for (waiting **at = &all.first; !found && *at != NULL;) {
        found = (*at)->incarnation == incarnation;
        if (found)
            *listener = take(at);
        else
            at = &(*at)->next;
    }
    pthread_mutex_unlock(&all.lock);
    return found;
}

void trp_output_listeners_end(void)
{
    pthread_mutex_lock(&all.lock);
    all.open = false;
    while (all.first != NULL) {
        trp_output_listener left = take(&all.first);
        left.end(left.user);
    }
    void (*settle)(void) = all.settle;
    pthread_mutex_unlock(&all.lock);
    if (settle != NULL)
        settle();
}
