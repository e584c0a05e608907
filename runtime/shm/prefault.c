// prefault.c: mapping long runs before they are written (see trp_pages_warm in
// shm/pages_internal.h).
//
// Each process maps each page of the segment for itself, by a fault at its first touch: for a large
// object these took twice as long as the copy. One call for all of them takes half of that for
// fresh memory, which must be zeroed besides, and a quarter for what another process has written
// before: then the system maps pages around each, writable, though they are only asked for to read.
#include <runtime/shm/pages_internal.h>

#include <runtime/base/memory.h>
#include <stdbool.h>
#include <sys/mman.h>

enum {
    LONG = 16,          // Pages: 1 MiB. Shorter runs are not worth a system call.
    PAGES_MAX = 1 << 20 // 64 GiB; what is beyond is mapped as it is touched.
};

#if !defined(MADV_POPULATE_READ)
enum { MADV_POPULATE_READ = 22, MADV_POPULATE_WRITE = 23 };
#endif

// A bit a page: whether this process has mapped it here. What is given back is mapped nowhere, so
// all are forgotten then. A bit that is wrong costs time and no more.
static _Atomic uint64_t mapped[PAGES_MAX / 64] TRP_VAST;
static _Atomic uint32_t mapped_to; // All bits from here on are 0.
static _Atomic uint32_t given;     // As it was in the header.

void trp_pages_warm_open(void)
{
    uint32_t to = atomic_load_explicit(&mapped_to, memory_order_relaxed);
    for (uint32_t i = 0; i < (to + 63) / 64; i++)
        atomic_store_explicit(&mapped[i], 0, memory_order_relaxed);
}

// Sets the bits of a run; whether all were set.
static bool note(uint32_t first, uint32_t count)
{
    bool all = true;
    for (uint32_t page = first; page < first + count;) {
        uint32_t in_word = 64 - page % 64, left = first + count - page;
        uint32_t now = left < in_word ? left : in_word;
        uint64_t bits = (now == 64 ? UINT64_MAX : (UINT64_C(1) << now) - 1) << page % 64;
        _Atomic uint64_t *word = &mapped[page / 64];
        if ((atomic_load_explicit(word, memory_order_relaxed) & bits) != bits) {
            all = false;
            (void)atomic_fetch_or_explicit(word, bits, memory_order_relaxed);
        }
        page += now;
    }
    uint32_t to = atomic_load_explicit(&mapped_to, memory_order_relaxed);
    while (to < first + count &&
           !atomic_compare_exchange_weak_explicit(&mapped_to, &to, first + count,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
    return all;
}

void trp_pages_warm(uint32_t first, uint32_t count, bool fresh)
{
    if (count < LONG || first >= PAGES_MAX || count > PAGES_MAX - first)
        return;
    uint32_t now = atomic_load(&trp_segment.header->given);
    if (atomic_exchange_explicit(&given, now, memory_order_relaxed) != now)
        trp_pages_warm_open();
    if (note(first, count))
        return;
    // Older systems cannot, and then each page is mapped when it is touched.
    (void)madvise(trp_segment.base + trp_place_offset(trp_place_run(first, count)),
                  (size_t)count * TRP_PAGE_SIZE, fresh ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}
