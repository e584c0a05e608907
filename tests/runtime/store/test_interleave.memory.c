// test_interleave.memory.c: what the system does for the scenes: memory of the data's pages is a
// word that others may see or change between any two steps, as the rest of the segment is, and that
// comes back when a schedule is undone. Tables have memory as ever.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/base/error.h>
#include <runtime/shm/pages_internal.h>

#undef trp_segment_back

enum { STEP = 1024 }; // As the scenes look at whole pages.

static int most = PAGES; // Pages for which there is memory.

void scene_limit_memory(int pages)
{
    most = pages;
}

static bool is_data(uint64_t at)
{
    return at >= trp_segment.header->data_at;
}

// A bit for each page that any of [at, at + size) is in.
static uint32_t pages_of(uint64_t at, uint64_t size)
{
    uint64_t from = at - trp_segment.header->data_at, to = from + size;
    EXPLORE_EXPECT(size > 0 && to <= (uint64_t)PAGES * PAGE);
    uint32_t first = (uint32_t)(from / PAGE), end = (uint32_t)((to + PAGE - 1) / PAGE);
    return ((1u << end) - 1) & ~((1u << first) - 1);
}

static uint32_t look(const char *why)
{
    explore_drain(); // All that was stored before a call of the system is seen.
    explore_reach(&board.memory, sizeof board.memory, why);
    return board.memory;
}

static void change(uint32_t memory)
{
    if (board.memory == memory)
        return;
    explore_write(&board.memory, sizeof board.memory);
    board.memory = memory;
}

troupe_status scene_back(uint64_t at, uint64_t size)
{
    if (!is_data(at))
        return trp_segment_back(at, size);
    uint32_t next = look("memory is reserved") | pages_of(at, size);
    if (__builtin_popcount(next) > most)
        return troupe_fail(TROUPE_NO_MEMORY, "there is memory for %d pages", most);
    change(next);
    return TROUPE_OK;
}

// What is given back is 0 when it comes again.
bool scene_unback(uint64_t at, uint64_t size)
{
    EXPLORE_EXPECT(is_data(at) && at % PAGE == 0 && size % PAGE == 0);
    uint32_t pages = pages_of(at, size);
    change(look("memory is given back") & ~pages);
    for (uint64_t i = 0; i < size; i += STEP)
        trp_segment.base[at + i] = 0;
    return true;
}

void scene_expect_memory(const void *data, size_t size)
{
    const char *at = data, *base = trp_segment.base;
    if (at < base || at >= base + trp_segment.size)
        base = trp_segment.read_only;
    uint32_t pages = pages_of((uint64_t)(at - base), size), memory = atomic_load(&board.memory);
    if ((memory & pages) != pages)
        explore_fail("the pages %x are in use, those with memory are %x", pages, memory);
}

// Holes of a large page keep their memory as long as any other page of it.
void scene_expect_exact_memory(void)
{
    uint32_t backed = trp_pages_backed(), known = (1u << backed) - 1, holes = 0;
    for (uint32_t page = 0; page < backed; page++)
        if (atomic_load(trp_page_owner(page)) == TRP_OWNER_HOLE)
            holes |= 1u << page;
    uint32_t memory = board.memory & known, others = known & ~holes;
    bool exact = memory == others;
    if (atomic_load(&trp_segment.header->huge) != 0 && others != 0)
        exact = (memory & others) == others;
    if (!exact)
        explore_fail("of %u pages %x are holes, and %x have memory", backed, holes, memory);
}
