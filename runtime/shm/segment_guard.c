// segment_guard.c: see shm/segment_guard.h.
#include <runtime/shm/segment_guard.h>

#include <pthread.h>
#include <runtime/base/memory.h>
#include <time.h>

_Thread_local trp_use *trp_use_mine;
_Atomic bool trp_use_open;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trp_use *_Atomic all;   // It grows at its head.
static _Atomic uint32_t crowd; // How often threads are inside for whose record there is no memory.

// ---- records

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static _Atomic bool key_made; // False again as the process ends, while threads may still begin.

static void thread_ends(void *unused)
{
    (void)unused;
    // Another destructor may use the segment again: it then takes one again, and this runs again.
    pthread_mutex_lock(&lock);
    trp_use_mine->taken = false;
    pthread_mutex_unlock(&lock);
    trp_use_mine = NULL;
}

// The other threads are not here, and nobody is inside who was.
static void in_forked_child(void)
{
    (void)pthread_mutex_init(&lock, NULL);
    atomic_store(&crowd, 0);
    for (trp_use *it = atomic_load(&all); it != NULL; it = it->next)
        if (it != trp_use_mine) {
            atomic_store(&it->depth, 0);
            it->taken = false;
        }
}

static void set_up(void)
{
    key_made = pthread_key_create(&key, thread_ends) == 0;
    (void)pthread_atfork(NULL, NULL, in_forked_child);
}

// Where the library is unloaded, no thread's end may lead into it.
__attribute__((destructor)) static void library_ends(void)
{
    if (atomic_exchange(&key_made, false))
        (void)pthread_key_delete(key);
}

static trp_use *take_record(void)
{
    pthread_mutex_lock(&lock);
    trp_use *it = atomic_load(&all);
    while (it != NULL && it->taken)
        it = it->next;
    if (it == NULL && (it = trp_alloc(sizeof *it)) != NULL) {
        it->next = atomic_load(&all);
        atomic_store(&all, it); // Before it says anything: who closes looks at all that speak.
    }
    if (it != NULL)
        it->taken = true;
    pthread_mutex_unlock(&lock);
    return it;
}

bool trp_use_begin_slowly(void)
{
    if (!atomic_load(&trp_use_open))
        return false;
    (void)pthread_once(&once, set_up);
    trp_use_mine = take_record();
    if (trp_use_mine != NULL) {
        if (key_made)
            (void)pthread_setspecific(key, trp_use_mine);
        return trp_use_begin();
    }
    atomic_fetch_add(&crowd, 1);
    if (atomic_load(&trp_use_open))
        return true;
    atomic_fetch_sub(&crowd, 1);
    return false;
}

void trp_use_end_slowly(void)
{
    atomic_fetch_sub(&crowd, 1);
}

// ---- closing

troupe_status trp_use_refused(void)
{
    return troupe_fail(TROUPE_NOT_STARTED, "Troupe has been stopped in this process");
}

void trp_use_allow(bool open)
{
    atomic_store(&trp_use_open, open);
}

static void await_zero(const _Atomic uint32_t *count)
{
    const struct timespec look = {0, 200000};
    while (atomic_load_explicit(count, memory_order_acquire) != 0)
        (void)nanosleep(&look, NULL);
}

void trp_use_await(void)
{
    trp_fence_heavy();
    for (const trp_use *it = atomic_load(&all); it != NULL; it = it->next)
        if (it != trp_use_mine)
            await_zero(&it->depth);
    await_zero(&crowd);
}
