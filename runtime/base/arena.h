// arena.h: memory that is freed all at once: a bump allocator over chained blocks.
//
// Every thread has a current arena, from which troupe_arena_alloc takes: its own, or the one of the
// method that it runs. An arena is used by one thread at a time.
#ifndef TRP_BASE_ARENA_H
#define TRP_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

enum { TRP_ARENA_LOUD = 64 << 20 }; // Bytes of a thread's own at which it is told of.

typedef struct trp_arena_block trp_arena_block;
typedef struct trp_arena {
    trp_arena_block *blocks; // Newest first; NULL: empty. A zeroed trp_arena is ready for use.
} trp_arena;

// Zeroed, 16-byte aligned; NULL when memory is short.
void *trp_arena_alloc(trp_arena *arena, size_t size);
// Takes over a block of that size that trp_alloc has given, to be freed with the rest. false, and
// nothing is taken: no memory for that.
bool trp_arena_adopt(trp_arena *arena, void *block, size_t size);
// A copy of the text. NULL when memory is short.
char *trp_arena_text(trp_arena *arena, const char *text);
// Frees everything; the arena can be used again.
void trp_arena_clear(trp_arena *arena);
// How many bytes its blocks have, whether handed out or not.
size_t trp_arena_size(const trp_arena *arena);
// The same of the own arenas of all threads of the process together, without each one's largest
// block: one large value that a thread still works with is none that it has forgotten.
size_t trp_arena_kept(void);
// The calling thread's current arena.
trp_arena *trp_arena_current(void);
// Makes `arena` the thread's current one (NULL: its own) and returns the one before (NULL: its
// own).
trp_arena *trp_arena_swap(trp_arena *arena);

#endif
