// cell_pool.h: memory of a few fixed sizes that comes and goes with every message, and the lists of
// free cells behind it.
//
// Each thread keeps the cells that it freed and takes from them first. Where one thread only takes
// and another only gives, cells go from one to the other through a depot, a batch at a time:
//
//     thread A: spare, cells --full batch--> depot --batch--> cells, spare: thread B
#ifndef TRP_BASE_CELL_POOL_H
#define TRP_BASE_CELL_POOL_H

#include <pthread.h>
#include <runtime/base/memory.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
    TRP_POOL_SIZES = 5,
    TRP_POOL_SMALLEST = 128,
    TRP_POOL_LARGEST = 2560, // What is larger comes from trp_alloc.
    TRP_BATCH = 64,          // Cells, where the depot says nothing else.
};

// ---- lists of free cells

// What a cell is while it is free.
typedef struct trp_cell {
    struct trp_cell *next;
    struct trp_cell *next_batch; // In the depot: of the first cell of a batch,
    size_t count;                // which has so many cells.
} trp_cell;

typedef struct trp_depot {
    size_t batch;         // Cells that go to it at a time; does not change.
    pthread_mutex_t lock; // Of all that follows.
    trp_cell *batches;
    _Atomic size_t count; // Of batches; relaxed where it is looked at without the lock.
} trp_depot;

// A thread's own cells of one kind: a thread-local variable, zeroed at first. When the thread ends,
// the depot gets them.
typedef struct trp_magazine {
    trp_cell *cells, *spare; // Of `spare` there is a whole batch or none.
    size_t room;             // So many more fit into `cells`, once it is in use.
    trp_depot *depot;        // NULL: the thread's end was not asked for yet.
    struct trp_magazine *next;
} trp_magazine;

// A free cell; NULL: neither the thread nor the depot has one.
trp_cell *trp_magazine_take(trp_magazine *mine, trp_depot *depot);
// Keeps a free cell. Returns a chain of cells if the depot has `batches_max` batches already, so
// that there is no place for them; else NULL.
trp_cell *trp_magazine_give(trp_magazine *mine, trp_depot *depot, trp_cell *cell,
                            size_t batches_max);

// The same where the thread has that cell, its first, or room for one.
static inline void trp_magazine_pop(trp_magazine *mine, trp_cell *cell)
{
    mine->cells = cell->next;
    mine->room++;
    __builtin_prefetch(cell->next, 1);
}

static inline void trp_magazine_push(trp_magazine *mine, trp_cell *cell)
{
    cell->next = mine->cells;
    mine->cells = cell;
    mine->room--;
}

// ---- memory

// Memory of `size` bytes, 16-byte aligned, of undefined content; NULL when memory is short. Given
// back with the same size, by any thread. Under a sanitizer each piece is allocated and freed by
// itself, so that uses after the end are found.
static inline void *trp_pool_take(size_t size);
static inline void trp_pool_give(void *memory, size_t size);

// This thread's, of each size; under a sanitizer without cells and room.
extern _Thread_local trp_magazine trp_pool_magazines[TRP_POOL_SIZES];
// The same whatever the size is, and whatever is left in the magazine.
void *trp_pool_take_any(size_t size);
void trp_pool_give_any(void *memory, size_t size);

// Most pieces are of the smallest size.
static inline void *trp_pool_take(size_t size)
{
    trp_magazine *mine = &trp_pool_magazines[0];
    trp_cell *cell = mine->cells;
    if (size > TRP_POOL_SMALLEST || cell == NULL || trp_memory_counts())
        return trp_pool_take_any(size);
    trp_magazine_pop(mine, cell);
    return cell;
}

static inline void trp_pool_give(void *memory, size_t size)
{
    trp_magazine *mine = &trp_pool_magazines[0];
    if (size > TRP_POOL_SMALLEST || mine->room == 0 || memory == NULL)
        trp_pool_give_any(memory, size);
    else
        trp_magazine_push(mine, (trp_cell *)memory);
}

#endif
