// memory.h: the one door to private memory. Nothing in the library calls malloc elsewhere, so that
// a test can make the nth allocation fail.
#ifndef TRP_BASE_MEMORY_H
#define TRP_BASE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

// Zeroed memory, or NULL. Freed with trp_free.
void *trp_alloc(size_t size);
// As realloc; the added part is not zeroed. On NULL the old block is untouched.
void *trp_realloc(void *block, size_t size);
char *trp_strdup(const char *text);
void trp_free(void *block);

// Whether this program has AddressSanitizer, which then sees all allocations, also of a library
// that was built without it: each piece has to be allocated and freed by itself, for a use after
// its end to be found.
bool trp_memory_watched(void);

// For static arrays of many pages, and what goes with them: they lie apart from the small
// variables, which then share a few pages. Each page that a process writes costs it a fault, after
// a fork too.
#define TRP_VAST __attribute__((section(".sbss.trp_vast")))

// Whether the hook below makes this allocation fail, for who has memory of his own.
bool trp_memory_refuses(void);
// Whether it may: some allocations are counted.
extern atomic_long trp_memory_allowed; // How many still succeed; negative: all.
static inline bool trp_memory_counts(void)
{
    return atomic_load_explicit(&trp_memory_allowed, memory_order_relaxed) >= 0;
}
// Test hook: from now on `count` allocations succeed, then every one fails; negative: none fails.
void trp_memory_fail_after(long count);

#endif
