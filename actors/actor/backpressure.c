// backpressure.c: see actor/backpressure.h.
#include <actors/actor/backpressure.h>

#include <runtime/base/hash.h>
#include <runtime/base/memory.h>
#include <runtime/link/peer.h>

#define POOL_BYTES ((int64_t)64 << 20)

typedef struct paused {
    uint64_t id; // The slot may have another actor by now.
    uint32_t process;
    uint64_t incarnation;
    uint64_t messages, bytes; // That have come since.
} paused;

// Who is paused for the actor of a slot.
typedef struct pressed {
    trp_actor *actor;
    paused *list;
    size_t count, room;
    UT_hash_handle hh;
} pressed;

static struct {
    _Atomic int64_t pool; // Bytes that have been given back to their links and wait here.
    pthread_mutex_t lock; // Of the table.
    pressed *table;
} pressure = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- shares

void trp_share_take(trp_share *share, uint32_t process, uint64_t incarnation, size_t size)
{
    int64_t pool = atomic_load_explicit(&pressure.pool, memory_order_relaxed);
    *share = (trp_share){.size = size};
    share->pooled = pool + (int64_t)size <= POOL_BYTES;
    share->windowed = !share->pooled;
    if (!share->pooled)
        return;
    if (size > 0)
        atomic_fetch_add_explicit(&pressure.pool, (int64_t)size, memory_order_relaxed);
    trp_process_credit(process, incarnation, size);
}

void trp_share_return(trp_share *share, uint32_t process, uint64_t incarnation)
{
    if (share->windowed)
        trp_process_credit(process, incarnation, share->size);
    else if (share->pooled && share->size > 0)
        atomic_fetch_sub_explicit(&pressure.pool, (int64_t)share->size, memory_order_relaxed);
    share->windowed = share->pooled = false;
}

// ---- pauses

// With the lock held, as for the following.
static pressed *find(const trp_actor *actor)
{
    pressed *it = NULL;
    HASH_FIND(hh, pressure.table, &actor, sizeof actor, it);
    return it;
}

static paused *find_paused(const trp_actor *actor, uint64_t id, uint64_t incarnation)
{
    pressed *of = find(actor);
    for (size_t i = 0; of != NULL && i < of->count; i++)
        if (of->list[i].id == id && of->list[i].incarnation == incarnation)
            return &of->list[i];
    return NULL;
}

static pressed *find_or_make(trp_actor *actor)
{
    pressed *it = find(actor);
    if (it == NULL && (it = trp_alloc(sizeof *it)) != NULL) {
        it->actor = actor;
        TRP_HASH_ADD(hh, pressure.table, actor, sizeof it->actor, it);
        if (!TRP_HASH_HAS(hh, it)) {
            trp_free(it);
            return NULL;
        }
    }
    return it;
}

// Whether it waits there already; else it does from now on. Without memory for it nobody is paused;
// the links' windows still bound.
static bool add(trp_actor *actor, uint64_t id, uint32_t process, uint64_t incarnation)
{
    if (find_paused(actor, id, incarnation) != NULL)
        return true;
    pressed *of = find_or_make(actor);
    if (of == NULL)
        return true;
    if (of->count == of->room) {
        size_t room = of->room > 0 ? 2 * of->room : 16;
        paused *list = trp_realloc(of->list, room * sizeof *list);
        if (list == NULL)
            return true;
        of->list = list;
        of->room = room;
    }
    of->list[of->count++] = (paused){.id = id, .process = process, .incarnation = incarnation};
    return false;
}

static void forget(pressed *it)
{
    HASH_DEL(pressure.table, it);
    trp_free(it->list);
    trp_free(it);
}

// Lets all go on that wait for that actor.
static void resume(trp_actor *actor, uint64_t id)
{
    pthread_mutex_lock(&pressure.lock);
    pressed *of = find(actor);
    for (size_t i = 0; of != NULL && i < of->count;) {
        paused it = of->list[i];
        if (it.id != id) {
            i++;
            continue;
        }
        of->list[i] = of->list[--of->count];
        trp_process_pause(it.process, it.incarnation, id, false);
    }
    bool others = of != NULL && of->count > 0;
    if (of != NULL && !others)
        forget(of);
    atomic_store(&actor->pressed, others);
    pthread_mutex_unlock(&pressure.lock);
}

static bool is_eased(trp_actor *actor)
{
    uint32_t max = atomic_load_explicit(&actor->run.mailbox.max, memory_order_relaxed);
    return trp_mailbox_count(&actor->run.mailbox) <= max / 4 &&
           trp_mailbox_bytes(&actor->run.mailbox) <= TRP_MAILBOX_BYTES_MAX / 4;
}

void trp_pressure_note(trp_actor *actor, uint64_t id, uint32_t process, uint64_t incarnation)
{
    uint32_t max = atomic_load_explicit(&actor->run.mailbox.max, memory_order_relaxed);
    if (trp_mailbox_count(&actor->run.mailbox) <= max / 2 &&
        trp_mailbox_bytes(&actor->run.mailbox) <= TRP_MAILBOX_BYTES_MAX / 2)
        return;
    pthread_mutex_lock(&pressure.lock);
    if (!add(actor, id, process, incarnation))
        trp_process_pause(process, incarnation, id, true);
    atomic_store(&actor->pressed, true);
    pthread_mutex_unlock(&pressure.lock);
    // It may have emptied its mailbox, or ended, before it could see that it is pressed: it looks
    // at that afterwards, and we look at the mailbox and its end now.
    if (is_eased(actor) || atomic_load(&actor->phase) != trp_phase_of(id, TRP_ACTOR_OPEN))
        resume(actor, id);
}

bool trp_pressure_beyond(trp_actor *actor, uint64_t id, uint64_t incarnation, size_t size)
{
    if (!atomic_load(&actor->pressed))
        return false;
    pthread_mutex_lock(&pressure.lock);
    paused *it = find_paused(actor, id, incarnation);
    bool beyond =
        it != NULL && (it->messages >= TRP_WINDOW_MESSAGES || it->bytes >= TRP_WINDOW_BYTES);
    if (it != NULL && !beyond) {
        it->messages++;
        it->bytes += size;
    }
    pthread_mutex_unlock(&pressure.lock);
    return beyond;
}

void trp_pressure_ease(trp_actor *actor, uint64_t id)
{
    if (is_eased(actor))
        resume(actor, id);
}

void trp_pressure_end(trp_actor *actor, uint64_t id)
{
    if (atomic_load(&actor->pressed))
        resume(actor, id);
}

void trp_pressure_forget(void)
{
    pthread_mutex_lock(&pressure.lock);
    pressed *it, *next;
    HASH_ITER(hh, pressure.table, it, next)
    {
        forget(it);
    }
    atomic_store(&pressure.pool, 0);
    pthread_mutex_unlock(&pressure.lock);
}
