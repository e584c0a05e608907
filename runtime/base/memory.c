// memory.c: the library's private memory, with a switch that makes the nth allocation fail.
#include <runtime/base/memory.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// No sensible block is larger; above this AddressSanitizer ends the process instead of failing.
static const size_t block_max = (size_t)1 << 39;

// The sanitizer's, in a program that has it.
extern void __asan_poison_memory_region(void const volatile *at, size_t size) __attribute__((weak));

#if defined(TRP_JEMALLOC) // See cmake/Allocator.cmake.

// jemalloc's, of its manual jemalloc(3): sizes above 0; `flags` 0, or to be zeroed.
enum { ZEROED = 0x40 };
extern void *trp_mallocx(size_t size, int flags);
extern void *trp_rallocx(void *block, size_t size, int flags);
extern void trp_dallocx(void *block, int flags);

// What a program with AddressSanitizer frees late or twice is only seen by its own malloc.
static void *block_alloc(size_t size)
{
    return trp_memory_watched() ? calloc(1, size) : trp_mallocx(size, ZEROED);
}
static void *block_realloc(void *block, size_t size)
{
    if (trp_memory_watched())
        return realloc(block, size);
    return block ? trp_rallocx(block, size, 0) : trp_mallocx(size, 0);
}
static void block_free(void *block)
{
    if (trp_memory_watched())
        free(block);
    else if (block)
        trp_dallocx(block, 0);
}

#else

static void *block_alloc(size_t size)
{
    return calloc(1, size);
}
static void *block_realloc(void *block, size_t size)
{
    return realloc(block, size);
}
static void block_free(void *block)
{
    free(block);
}

#endif

// A large block is written all over: with a page fault for each 4 KiB that takes twice as long.
// Where the system gives pages of 2 MiB to who asks for them (transparent_hugepage is "madvise").
enum { LARGE_PAGE = 2 << 20, LARGE = 4 * LARGE_PAGE };

static void ask_for_large_pages(void *block, size_t size)
{
    uintptr_t from = ((uintptr_t)block + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    uintptr_t to = ((uintptr_t)block + size) / LARGE_PAGE * LARGE_PAGE;
    int kept = errno;
    (void)madvise((void *)from, to - from, MADV_HUGEPAGE); // NOLINT(performance-no-int-to-ptr)
    errno = kept;
}

bool trp_memory_watched(void)
{
    return &__asan_poison_memory_region != NULL;
}

// Relaxed: it orders nothing but itself.
atomic_long trp_memory_allowed = -1;

bool trp_memory_refuses(void)
{
    long left = atomic_load_explicit(&trp_memory_allowed, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak_explicit(&trp_memory_allowed, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return false;
    }
    return left == 0;
}

void *trp_alloc(size_t size)
{
    if (trp_memory_refuses() || size > block_max)
        return NULL;
    // calloc(1, 0) may return NULL, which here always means failure.
    void *block = block_alloc(size ? size : 1);
    if (block != NULL && size >= LARGE)
        ask_for_large_pages(block, size);
    return block;
}

void *trp_realloc(void *block, size_t size)
{
    if (trp_memory_refuses() || size > block_max)
        return NULL;
    return block_realloc(block, size ? size : 1);
}

char *trp_strdup(const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    char *copy = (char *)trp_alloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void trp_free(void *block)
{
    block_free(block);
}

void trp_memory_fail_after(long count)
{
    atomic_store_explicit(&trp_memory_allowed, count < 0 ? -1 : count, memory_order_relaxed);
}
