// cell_pool.c: see pool.h.
#include <runtime/base/cell_pool.h>

#include <runtime/base/attributes.h>
#include <runtime/base/memory.h>

#if defined(__SANITIZE_THREAD__)
#define EACH_BY_ITSELF 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EACH_BY_ITSELF 1
#endif
#endif
#ifndef EACH_BY_ITSELF
#define EACH_BY_ITSELF trp_memory_watched()
#endif

enum {
    // Of free cells of each size in its depot; what is above goes back to malloc. A whole mailbox
    // of small messages fits.
    BYTES_MAX = 10 << 20,
    LARGE_BYTES_MAX = 4 << 20, // The same for those above 512 bytes.
};

// ---- the end of a thread

static _Thread_local trp_magazine *asked; // The thread's magazines.
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static _Atomic bool key_made; // False again as the process ends, while threads may still ask.

static void put_batch(trp_depot *depot, trp_cell *cells, size_t count)
{
    cells->count = count;
    pthread_mutex_lock(&depot->lock);
    cells->next_batch = depot->batches;
    depot->batches = cells;
    depot->count++;
    pthread_mutex_unlock(&depot->lock);
}

static void thread_ends(void *unused)
{
    (void)unused;
    // Another destructor may use a magazine again: it then asks again, and this runs again.
    while (asked != NULL) {
        trp_magazine *mine = asked;
        asked = mine->next;
        if (mine->cells != NULL)
            put_batch(mine->depot, mine->cells, mine->depot->batch - mine->room);
        if (mine->spare != NULL)
            put_batch(mine->depot, mine->spare, mine->depot->batch);
        *mine = (trp_magazine){0};
    }
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, thread_ends) == 0;
}

// Where the library is unloaded, no thread's end may lead into it.
__attribute__((destructor)) static void library_ends(void)
{
    if (atomic_exchange(&key_made, false))
        (void)pthread_key_delete(key);
}

// Without a key the cells of this thread are lost when it ends, which is harmless.
static void ask(trp_magazine *mine, trp_depot *depot)
{
    (void)pthread_once(&once, make_key);
    mine->depot = depot;
    mine->room = depot->batch;
    mine->next = asked;
    asked = mine;
    if (key_made)
        (void)pthread_setspecific(key, &asked);
}

// ---- lists of free cells

// The thread has none left.
TRP_COLD trp_cell *refill(trp_magazine *mine, trp_depot *depot)
{
    if (mine->depot == NULL)
        ask(mine, depot);
    trp_cell *batch = mine->spare;
    mine->spare = NULL;
    mine->room = 0;
    if (batch == NULL) {
        pthread_mutex_lock(&depot->lock);
        batch = depot->batches;
        if (batch != NULL) {
            depot->batches = batch->next_batch;
            depot->count--;
        }
        pthread_mutex_unlock(&depot->lock);
        mine->room = depot->batch - (batch != NULL ? batch->count : 0);
    }
    return batch;
}

trp_cell *trp_magazine_take(trp_magazine *mine, trp_depot *depot)
{
    trp_cell *cell = mine->cells;
    if (cell == NULL && (cell = refill(mine, depot)) == NULL)
        return NULL;
    trp_magazine_pop(mine, cell);
    return cell;
}

// Returns what has no place.
TRP_COLD trp_cell *make_room(trp_magazine *mine, trp_depot *depot, size_t batches_max)
{
    trp_cell *spilled = NULL;
    if (mine->depot == NULL) {
        ask(mine, depot);
        return NULL;
    }
    // The depot's count is only looked at: a few batches more or less do not matter.
    if (mine->spare != NULL &&
        atomic_load_explicit(&depot->count, memory_order_relaxed) >= batches_max)
        spilled = mine->spare;
    else if (mine->spare != NULL)
        put_batch(depot, mine->spare, depot->batch);
    mine->spare = mine->cells;
    mine->cells = NULL;
    mine->room = depot->batch;
    return spilled;
}

trp_cell *trp_magazine_give(trp_magazine *mine, trp_depot *depot, trp_cell *cell,
                            size_t batches_max)
{
    trp_cell *spilled = mine->room == 0 ? make_room(mine, depot, batches_max) : NULL;
    trp_magazine_push(mine, cell);
    return spilled;
}

// ---- memory

// The two largest have room for 1 and 2 KiB of somebody's own and what the library puts beside
// them. Threads keep fewer of those.
static const size_t cell_sizes[TRP_POOL_SIZES] = {TRP_POOL_SMALLEST, 256, 512, 1280,
                                                  TRP_POOL_LARGEST};
static trp_depot depots[TRP_POOL_SIZES] = {
    {.batch = TRP_BATCH, .lock = PTHREAD_MUTEX_INITIALIZER},
    {.batch = TRP_BATCH, .lock = PTHREAD_MUTEX_INITIALIZER},
    {.batch = TRP_BATCH, .lock = PTHREAD_MUTEX_INITIALIZER},
    {.batch = TRP_BATCH / 2, .lock = PTHREAD_MUTEX_INITIALIZER},
    {.batch = TRP_BATCH / 4, .lock = PTHREAD_MUTEX_INITIALIZER}};
_Thread_local trp_magazine trp_pool_magazines[TRP_POOL_SIZES];

TRP_HOT size_t class_of(size_t size)
{
    return size <= TRP_POOL_SMALLEST ? 0 : size <= 256 ? 1 : size <= 512 ? 2 : size <= 1280 ? 3 : 4;
}

void *trp_pool_take_any(size_t size)
{
    if (EACH_BY_ITSELF || size > TRP_POOL_LARGEST)
        return trp_alloc(size);
    if (trp_memory_refuses())
        return NULL;
    size_t class_ = class_of(size);
    trp_cell *cell = trp_magazine_take(&trp_pool_magazines[class_], &depots[class_]);
    return cell != NULL ? cell : trp_alloc(cell_sizes[class_]);
}

// Of cells that have no place in their depot.
TRP_COLD void spill(trp_cell *cells)
{
    while (cells != NULL) {
        trp_cell *next = cells->next;
        trp_free(cells);
        cells = next;
    }
}

void trp_pool_give_any(void *memory, size_t size)
{
    if (EACH_BY_ITSELF || size > TRP_POOL_LARGEST || memory == NULL) {
        trp_free(memory);
        return;
    }
    size_t class_ = class_of(size);
    size_t bytes_max = cell_sizes[class_] <= 512 ? BYTES_MAX : LARGE_BYTES_MAX;
    size_t batches_max = bytes_max / cell_sizes[class_] / depots[class_].batch;
    spill(trp_magazine_give(&trp_pool_magazines[class_], &depots[class_], memory, batches_max));
}
