// pressure.c: see pressure.h.
#include <actors/pressure.h>

#include <runtime/memory.h>
#include <runtime/process.h>

#define POOL_BYTES ((int64_t)64 << 20)

typedef struct paused {
    trp_actor *actor; // The slot, which may have another by now.
    uint64_t id;
    uint32_t process;
    uint64_t incarnation;
} paused;

static struct {
    _Atomic int64_t pool; // Bytes that have been given back to their links and wait here.
    pthread_mutex_t lock; // Of the list.
    paused *list;
    size_t count, room;
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

// Whether it waits there already; else it does from now on. With the lock held.
static bool add(trp_actor *actor, uint64_t id, uint32_t process, uint64_t incarnation)
{
    for (size_t i = 0; i < pressure.count; i++)
        if (pressure.list[i].id == id && pressure.list[i].incarnation == incarnation)
            return true;
    if (pressure.count == pressure.room) {
        size_t room = pressure.room > 0 ? 2 * pressure.room : 16;
        paused *list = trp_alloc(room * sizeof *list);
        if (list == NULL)
            return true; // Without memory for it nobody is paused; the links' windows still bound.
        for (size_t i = 0; i < pressure.count; i++)
            list[i] = pressure.list[i];
        trp_free(pressure.list);
        pressure.list = list;
        pressure.room = room;
    }
    pressure.list[pressure.count++] = (paused){actor, id, process, incarnation};
    return false;
}

// Lets all go on that wait for that actor.
static void resume(trp_actor *actor, uint64_t id)
{
    bool others = false;
    pthread_mutex_lock(&pressure.lock);
    for (size_t i = 0; i < pressure.count;) {
        paused it = pressure.list[i];
        if (it.id != id) {
            others = others || it.actor == actor;
            i++;
            continue;
        }
        pressure.list[i] = pressure.list[--pressure.count];
        trp_process_pause(it.process, it.incarnation, id, false);
    }
    atomic_store(&actor->pressed, others);
    pthread_mutex_unlock(&pressure.lock);
}

static bool is_eased(trp_actor *actor)
{
    uint32_t max = atomic_load_explicit(&actor->mailbox.max, memory_order_relaxed);
    return trp_mailbox_count(&actor->mailbox) <= max / 4 &&
           trp_mailbox_bytes(&actor->mailbox) <= TRP_MAILBOX_BYTES_MAX / 4;
}

void trp_pressure_note(trp_actor *actor, uint64_t id, uint32_t process, uint64_t incarnation)
{
    uint32_t max = atomic_load_explicit(&actor->mailbox.max, memory_order_relaxed);
    if (trp_mailbox_count(&actor->mailbox) <= max / 2 &&
        trp_mailbox_bytes(&actor->mailbox) <= TRP_MAILBOX_BYTES_MAX / 2)
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
    trp_free(pressure.list);
    pressure.list = NULL;
    pressure.count = pressure.room = 0;
    atomic_store(&pressure.pool, 0);
    pthread_mutex_unlock(&pressure.lock);
}
