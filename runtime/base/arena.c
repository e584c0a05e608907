// arena.c: bump allocation over chained blocks, and which arena a thread takes from.
//
//     arena -> [newest block: used | free] -> [older block, full] -> ... -> NULL
//
// A block is zeroed when it is made and its bytes are handed out once, so nothing is zeroed twice.
// A thread's own arena is freed when the thread ends, and that of the last thread when the process
// ends.
#include <pthread.h>
#include <runtime/base/arena.h>
#include <runtime/base/cell_pool.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <troupe/wire.h>

struct trp_arena_block {
    trp_arena_block *next;
    size_t size, used; // Of the bytes after this header. 0: that is an `adopted`.
    size_t cell;       // Bytes that were allocated for it, with this header.
};

typedef struct adopted {
    void *block;
    size_t size;
} adopted;
_Static_assert(sizeof(trp_arena_block) % 16 == 0, "what follows a block's header is aligned");

// With AddressSanitizer every allocation gets a block of its own, so that reading past one is
// found.
#if defined(__SANITIZE_ADDRESS__)
#define BLOCK_FOR_EACH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BLOCK_FOR_EACH 1
#endif
#endif
#ifdef BLOCK_FOR_EACH
enum { FIRST_BLOCK = 0, LARGEST_BLOCK = 0 };
#else
enum {
    FIRST_BLOCK = 512 - sizeof(trp_arena_block), // All that most calls need.
    LARGEST_BLOCK = 256 * 1024,
};
#endif

// The thread's own; see below.
static _Thread_local trp_arena own;
// Of its blocks but for the largest: one value by itself, however large, is no growth.
static _Thread_local size_t own_kept, own_largest;
static _Atomic size_t all_kept; // Of all threads. Only a number to be said: relaxed.

// What a thread that never resets its arena was given stays: that is said once a process.
static void note_own(size_t more)
{
    static atomic_bool told;
    size_t kept = more > own_largest ? own_largest : more;
    own_largest = more > own_largest ? more : own_largest;
    own_kept += kept;
    atomic_fetch_add_explicit(&all_kept, kept, memory_order_relaxed);
    if (own_kept < TRP_ARENA_LOUD || atomic_exchange(&told, true))
        return;
    trp_log(TRP_WARN,
            "a thread keeps %zu MiB of texts and arrays that troupe_get and others have given it: "
            "troupe_arena_reset frees them, call it when they are not needed any more",
            own_kept >> 20);
}

static void forget_own(void)
{
    atomic_fetch_sub_explicit(&all_kept, own_kept, memory_order_relaxed);
    own_kept = own_largest = 0;
}

size_t trp_arena_kept(void)
{
    return atomic_load_explicit(&all_kept, memory_order_relaxed);
}

static size_t next_size(const trp_arena *arena)
{
    if (!arena->blocks || arena->blocks->size == 0)
        return FIRST_BLOCK;
    size_t doubled = arena->blocks->size * 2;
    return doubled <= LARGEST_BLOCK ? doubled : LARGEST_BLOCK;
}

// Zeroed.
static trp_arena_block *take_block(size_t room)
{
    size_t cell = sizeof(trp_arena_block) + room;
    bool pooled = cell <= TRP_POOL_LARGEST;
    trp_arena_block *block = (trp_arena_block *)(pooled ? trp_pool_take(cell) : trp_alloc(cell));
    if (!block)
        return NULL;
    if (pooled)
        memset(block, 0, cell);
    block->cell = cell;
    return block;
}

void *trp_arena_alloc(trp_arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX / 2)
        return NULL;
    size_t taken = size ? (size + 15) & ~(size_t)15 : 16;
    trp_arena_block *block = arena->blocks;
    if (block && taken <= block->size - block->used) {
        unsigned char *start = (unsigned char *)(block + 1) + block->used;
        block->used += taken;
        return start;
    }
    size_t usual = next_size(arena);
    // What is larger than a block has one of its own, of the exact size.
    size_t room = taken > usual ? size : usual;
    block = take_block(room);
    if (!block)
        return NULL;
    block->size = taken > room ? taken : room;
    block->used = taken;
    if (arena == &own)
        note_own(block->cell);
    if (taken > usual && arena->blocks) {
        // Behind the newest, whose free bytes go on being used.
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
    }
    return block + 1;
}

bool trp_arena_adopt(trp_arena *arena, void *block, size_t size)
{
    trp_arena_block *holder = take_block(sizeof(adopted));
    if (!holder)
        return false;
    *(adopted *)(holder + 1) = (adopted){block, size};
    trp_arena_block **behind = arena->blocks ? &arena->blocks->next : &arena->blocks;
    holder->next = *behind;
    *behind = holder;
    if (arena == &own)
        note_own(holder->cell + size);
    return true;
}

void trp_arena_clear(trp_arena *arena)
{
    if (arena == &own)
        forget_own();
    while (arena->blocks) {
        trp_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        if (block->size == 0)
            trp_free(((adopted *)(block + 1))->block);
        trp_pool_give(block, block->cell);
    }
}

size_t trp_arena_size(const trp_arena *arena)
{
    size_t size = 0;
    for (const trp_arena_block *block = arena->blocks; block; block = block->next)
        size += block->size > 0 ? block->size : ((const adopted *)(block + 1))->size;
    return size;
}

// ---- the thread's arena

static _Thread_local trp_arena *borrowed; // NULL: the thread's own is current.
static _Thread_local bool armed;          // The key's destructor will run for this thread.

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static _Atomic bool key_made;

static void thread_ends(void *arena)
{
    // Another destructor may use the arena again: it then arms itself again, and this runs again.
    armed = false;
    trp_arena_clear((trp_arena *)arena);
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, thread_ends) == 0;
}

// The thread that ends the process runs no key destructors; and where the library is unloaded
// before, none must be left that point into it.
__attribute__((destructor)) static void library_ends(void)
{
    trp_arena_clear(&own);
    armed = false;
    if (atomic_exchange(&key_made, false))
        (void)pthread_key_delete(key);
}

trp_arena *trp_arena_current(void)
{
    if (borrowed)
        return borrowed;
    if (!armed) {
        (void)pthread_once(&once, make_key);
        // Without a key the arena of this thread leaks when it ends, which is harmless.
        armed = key_made && pthread_setspecific(key, &own) == 0;
    }
    return &own;
}

trp_arena *trp_arena_swap(trp_arena *arena)
{
    trp_arena *before = borrowed;
    borrowed = arena == &own ? NULL : arena;
    return before;
}

void *troupe_arena_alloc(size_t size)
{
    return trp_arena_alloc(trp_arena_current(), size);
}

char *trp_arena_text(trp_arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = (char *)trp_arena_alloc(arena, size);
    return copy ? (char *)memcpy(copy, text, size) : NULL;
}

char *troupe_arena_text(const char *text)
{
    return text ? trp_arena_text(trp_arena_current(), text) : NULL;
}

void troupe_arena_reset(void)
{
    // Inside a method the arena belongs to the call.
    if (!borrowed)
        trp_arena_clear(&own);
}
