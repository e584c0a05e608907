// wait_notes.c: see sched/wait_notes.h.
//
// Each thread that has waited in a method has a note of its own, which it alone writes and which
// stays in a list until the thread ends. So a wait costs a few stores; a reader may see half of one
// that is being written: ids that go together with nothing, which are described as such.
#include <actors/sched/wait_notes.h>

#include <actors/sched/scheduler.h>
#include <pthread.h>

// ---- notes

typedef struct note {
    struct note *next, **link;
    _Atomic uint32_t kind; // Relaxed, all of them: they are read for people.
    _Atomic uint32_t process;
    _Atomic uint64_t actor, subject;
    const char *_Atomic method;
    trp_wait_look planned; // By the thread alone,
    bool listed;           // as this.
} note;

static struct {
    pthread_mutex_t lock; // Of the list.
    note *first;
    pthread_key_t key; // Its destructor takes a thread's note out.
} notes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local note mine;

static void forget_note(void *user)
{
    note *it = user;
    pthread_mutex_lock(&notes.lock);
    *it->link = it->next;
    if (it->next != NULL)
        it->next->link = it->link;
    pthread_mutex_unlock(&notes.lock);
}

__attribute__((constructor)) static void make_key(void)
{
    (void)pthread_key_create(&notes.key, forget_note);
}

static bool list_note(void)
{
    if (mine.listed)
        return true;
    if (pthread_setspecific(notes.key, &mine) != 0)
        return false; // Its waits are not seen.
    pthread_mutex_lock(&notes.lock);
    mine.link = &notes.first;
    mine.next = notes.first;
    if (mine.next != NULL)
        mine.next->link = &mine.next;
    notes.first = &mine;
    pthread_mutex_unlock(&notes.lock);
    mine.listed = true;
    return true;
}

void trp_wait_for(trp_wait_kind kind, uint64_t subject, uint32_t process)
{
    mine.planned = (trp_wait_look){.kind = kind, .subject = subject, .process = process};
}

static void show(const trp_wait_look *wait)
{
    atomic_store_explicit(&mine.actor, wait->actor, memory_order_relaxed);
    atomic_store_explicit(&mine.method, wait->method, memory_order_relaxed);
    atomic_store_explicit(&mine.subject, wait->subject, memory_order_relaxed);
    atomic_store_explicit(&mine.process, wait->process, memory_order_relaxed);
    atomic_store_explicit(&mine.kind, (uint32_t)wait->kind, memory_order_relaxed);
}

void trp_wait_begun(void)
{
    uint64_t actor;
    const char *method;
    if (!trp_scheduler_turns.waiter(&actor, &method) || !list_note())
        return;
    trp_wait_look wait = mine.planned;
    if (wait.kind == TRP_WAIT_NONE)
        wait.kind = TRP_WAIT_OTHER;
    wait.actor = actor;
    wait.method = method;
    show(&wait);
}

void trp_wait_over(void)
{
    mine.planned.kind = TRP_WAIT_NONE;
    atomic_store_explicit(&mine.kind, TRP_WAIT_NONE, memory_order_relaxed);
}

size_t trp_waits_copy(trp_wait_look *waits, size_t room)
{
    size_t count = 0;
    pthread_mutex_lock(&notes.lock);
    for (note *it = notes.first; it != NULL; it = it->next) {
        trp_wait_look wait = {
            .kind = (trp_wait_kind)atomic_load_explicit(&it->kind, memory_order_relaxed),
            .actor = atomic_load_explicit(&it->actor, memory_order_relaxed),
            .subject = atomic_load_explicit(&it->subject, memory_order_relaxed),
            .process = atomic_load_explicit(&it->process, memory_order_relaxed),
            .method = atomic_load_explicit(&it->method, memory_order_relaxed)};
        if (wait.kind == TRP_WAIT_NONE)
            continue;
        if (count < room)
            waits[count] = wait;
        count++;
    }
    pthread_mutex_unlock(&notes.lock);
    return count;
}
