// slot.c: see slot.h. Free slots are kept by each thread, some at most; the rest are in one list.
#include <actors/actor/slot.h>

#include <actors/actor/actor.h>
#include <runtime/base/memory.h>

enum {
    CHUNK_BITS = 9,
    CHUNK = 1 << CHUNK_BITS, // Slots.
    CHUNKS = 1 << (TRP_SLOT_INDEX_BITS - CHUNK_BITS),
    LOCKS = 64,
    NEW = 16,       // That are first used together.
    KEPT_MAX = 128, // Free slots that a thread keeps; half of them move at once.
};

// Slots that may be taken, linked by `run.next`.
typedef struct kept {
    trp_runnable *first;
    uint32_t count;
} kept;

static trp_actor *_Atomic chunks[CHUNKS] TRP_VAST; // Set once, with release; see trp_slot_of.
static struct {
    pthread_mutex_t locks[LOCKS];
    pthread_mutex_t lock; // Of the rest.
    kept free;
    uint32_t next; // The first that nobody has had; 0: there is no chunk.
    _Atomic uint32_t count;
    pthread_key_t key;
} slots = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local kept mine;
static _Thread_local bool registered;

static void put(kept *list, trp_actor *actor)
{
    actor->run.next = list->first;
    list->first = &actor->run;
    list->count++;
}

static trp_actor *get(kept *list)
{
    trp_runnable *first = list->first;
    if (first == NULL)
        return NULL;
    list->first = first->next;
    list->count--;
    return trp_actor_of(first);
}

static void move(kept *from, kept *to, uint32_t count)
{
    for (trp_actor *actor; count > 0 && (actor = get(from)) != NULL; count--)
        put(to, actor);
}

// A thread that ends gives what it kept to the others.
static void thread_ends(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&slots.lock);
    move(&mine, &slots.free, mine.count);
    pthread_mutex_unlock(&slots.lock);
    registered = false;
}

__attribute__((constructor)) static void make_locks(void)
{
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&slots.locks[i], NULL);
    if (pthread_key_create(&slots.key, thread_ends) != 0)
        registered = true; // Then what threads keep is lost with them.
}

pthread_mutex_t *trp_slot_lock(uint64_t id)
{
    return &slots.locks[id % LOCKS];
}

static uint32_t index_of(uint64_t id)
{
    return (uint32_t)(id & ((UINT64_C(1) << TRP_SLOT_INDEX_BITS) - 1));
}

trp_actor *trp_slot_of(uint64_t id)
{
    uint32_t index = index_of(id);
    trp_actor *chunk = atomic_load_explicit(&chunks[index >> CHUNK_BITS], memory_order_acquire);
    return chunk != NULL ? &chunk[index & (CHUNK - 1)] : NULL;
}

uint32_t trp_slot_count(void)
{
    return atomic_load_explicit(&slots.count, memory_order_acquire);
}

uint32_t trp_slot_used(void)
{
    pthread_mutex_lock(&slots.lock);
    uint32_t used = slots.next > 0 ? slots.next - 1 : 0;
    pthread_mutex_unlock(&slots.lock);
    return used;
}

// Makes a chunk, whose slots (but number 0 of all) follow the last ones. With the lock held.
static bool grow(void)
{
    uint32_t count = slots.count == 0 ? 0 : slots.count + 1;
    if (count >> CHUNK_BITS >= CHUNKS)
        return false;
    char *memory = trp_alloc(CHUNK * sizeof(trp_actor) + TRP_LINE);
    if (memory == NULL)
        return false;
    trp_actor *chunk = (trp_actor *)(memory + TRP_LINE - (uintptr_t)memory % TRP_LINE);
    slots.next = count == 0 ? 1 : count;
    atomic_store_explicit(&chunks[count >> CHUNK_BITS], chunk, memory_order_release);
    atomic_store_explicit(&slots.count, count + CHUNK - 1, memory_order_release);
    return true;
}

// Some that nobody has had yet, in their order. The others of their chunk stay untouched: a process
// of one actor has no page of them. With the lock held.
static void take_new(kept *to)
{
    uint32_t end = slots.count + 1;
    if (slots.next == 0 || slots.next == end) {
        if (!grow())
            return;
        end = slots.count + 1;
    }
    uint32_t first = slots.next, some = end - first < NEW ? end - first : NEW;
    for (uint32_t index = first + some; index-- > first;) {
        trp_actor *actor = trp_slot_of(index);
        actor->index = index;
        put(to, actor); // The lowest is taken first.
    }
    slots.next = first + some;
}

trp_actor *trp_slot_take(void)
{
    trp_actor *actor = get(&mine);
    if (actor != NULL)
        return actor;
    if (!registered)
        registered = pthread_setspecific(slots.key, &slots) == 0;
    pthread_mutex_lock(&slots.lock);
    if (slots.free.first == NULL)
        take_new(&slots.free);
    // In their order, so that actors that are made one after the other lie so.
    kept turned = {0};
    move(&slots.free, &turned, KEPT_MAX / 2);
    move(&turned, &mine, KEPT_MAX / 2);
    pthread_mutex_unlock(&slots.lock);
    return get(&mine);
}

void trp_slot_give(trp_actor *actor)
{
    // A slot whose generations are used up is not used again.
    if (++actor->generation >> (64 - TRP_SLOT_INDEX_BITS - TRP_PHASE_BITS) != 0)
        return;
    if (!registered)
        registered = pthread_setspecific(slots.key, &slots) == 0;
    put(&mine, actor);
    if (mine.count <= KEPT_MAX)
        return;
    pthread_mutex_lock(&slots.lock);
    move(&mine, &slots.free, KEPT_MAX / 2);
    pthread_mutex_unlock(&slots.lock);
}

bool trp_slot_existed(uint64_t id)
{
    trp_actor *actor = trp_slot_of(id);
    if (actor == NULL || index_of(id) == 0)
        return false;
    uint64_t phase = atomic_load(&actor->phase), generation = id >> TRP_SLOT_INDEX_BITS;
    return generation < phase >> TRP_PHASE_BITS ||
           (generation == phase >> TRP_PHASE_BITS && trp_phase_state(phase) != TRP_ACTOR_NONE);
}
