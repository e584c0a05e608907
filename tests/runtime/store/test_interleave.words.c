// test_interleave.words.c: how the words of rows, pages and holds may change.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/pages_internal.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>

#define TO(state) (1u << (state))

static void check_row(const trp_object_row *row, uint64_t from, uint64_t to)
{
    enum { SETTLED = TO(TRP_ROW_SEALED) | TO(TRP_ROW_FAILED) | TO(TRP_ROW_SHARED) };
    static const unsigned next[] = {
        [TRP_ROW_FREE] = TO(TRP_ROW_FILLING) | TO(TRP_ROW_PROMISED),
        [TRP_ROW_FILLING] = SETTLED | TO(TRP_ROW_FULFILLING) | TO(TRP_ROW_FREEING),
        [TRP_ROW_PROMISED] = TO(TRP_ROW_FULFILLING) | TO(TRP_ROW_FAILED) | TO(TRP_ROW_FREEING),
        [TRP_ROW_FULFILLING] = TO(TRP_ROW_SEALED) | TO(TRP_ROW_FAILED),
        [TRP_ROW_SEALED] = TO(TRP_ROW_SEALED) | TO(TRP_ROW_FREEING),
        [TRP_ROW_FAILED] = TO(TRP_ROW_FAILED) | TO(TRP_ROW_FREEING),
        [TRP_ROW_SHARED] = TO(TRP_ROW_SHARED) | TO(TRP_ROW_FREEING),
        [TRP_ROW_FREEING] = TO(TRP_ROW_FREE),
    };
    trp_row_state before = trp_row_state_of(from), after = trp_row_state_of(to);
    uint64_t age = trp_row_generation(to) - trp_row_generation(from);
    if ((next[before] & TO(after)) == 0 || age != (before == TRP_ROW_FREE))
        explore_fail("a row went from state %d to %d, %lld generations on", (int)before, (int)after,
                     (long long)age);
    if (after == TRP_ROW_FAILED && row->inside != 0)
        explore_fail("what has failed names %x", row->inside);
}

static void check_where(uint32_t from, uint32_t to, uint64_t word)
{
    static const unsigned next[] = {
        [TRP_WHERE_MEMORY] = TO(TRP_WHERE_SAVING) | TO(TRP_WHERE_LEAVING),
        [TRP_WHERE_SAVING] = TO(TRP_WHERE_SAVING) | TO(TRP_WHERE_MEMORY) | TO(TRP_WHERE_LEAVING),
        [TRP_WHERE_LEAVING] = TO(TRP_WHERE_GOING) | TO(TRP_WHERE_MEMORY),
        [TRP_WHERE_GOING] = TO(TRP_WHERE_DISK),
        [TRP_WHERE_DISK] = TO(TRP_WHERE_COMING),
        [TRP_WHERE_COMING] = TO(TRP_WHERE_MEMORY) | TO(TRP_WHERE_DISK) | TO(TRP_WHERE_LOST),
        [TRP_WHERE_LOST] = TO(TRP_WHERE_COMING),
    };
    trp_where before = trp_where_state(from), after = trp_where_state(to);
    bool freed = trp_row_state_of(word) == TRP_ROW_FREEING && after == TRP_WHERE_MEMORY;
    if (!freed && (next[before] & TO(after)) == 0)
        explore_fail("an object went from place %d to %d", (int)before, (int)after);
}

typedef enum page_state {
    PAGE_FREE,
    PAGE_COLD,
    PAGE_GIVING,
    PAGE_HOLE,
    PAGE_UNBACKED,
    PAGE_OBJECT,
    PAGE_SLAB,
    PAGE_RECLAIM,
} page_state;

static page_state page_state_of(uint32_t owner)
{
    if (owner == 0 || owner == TRP_OWNER_COLD || owner == TRP_OWNER_HOLE)
        return owner == 0 ? PAGE_FREE : owner == TRP_OWNER_COLD ? PAGE_COLD : PAGE_HOLE;
    switch (trp_owner_kind_of(owner)) {
    case TRP_OWNER_OBJECT:
        return (owner & TRP_OWNER_UNBACKED) != 0 ? PAGE_UNBACKED : PAGE_OBJECT;
    case TRP_OWNER_SLAB:
        return PAGE_SLAB;
    case TRP_OWNER_RECLAIM:
        return PAGE_RECLAIM;
    default:
        return PAGE_GIVING;
    }
}

// A page of a large one goes with that, and keeps its memory as long as the rest.
static bool is_as_it_may_be(uint32_t page, page_state before, page_state after)
{
    bool huge = atomic_load(&trp_segment.header->huge) != 0;
    bool has_memory = (board.memory >> page & 1) != 0;
    if (huge && before == PAGE_GIVING)
        return after == PAGE_COLD || after == PAGE_HOLE;
    if (huge && before == PAGE_HOLE && after == PAGE_GIVING)
        return true;
    return after == PAGE_HOLE ? huge || !has_memory : after == PAGE_UNBACKED || has_memory;
}

static void check_page(uint32_t page, uint32_t from, uint32_t to)
{
    static const unsigned next[] = {
        [PAGE_FREE] = TO(PAGE_COLD) | TO(PAGE_OBJECT),
        [PAGE_COLD] = TO(PAGE_GIVING) | TO(PAGE_OBJECT),
        [PAGE_GIVING] = TO(PAGE_HOLE) | TO(PAGE_COLD),
        [PAGE_HOLE] = TO(PAGE_UNBACKED) | TO(PAGE_GIVING),
        [PAGE_UNBACKED] = TO(PAGE_OBJECT) | TO(PAGE_HOLE),
        [PAGE_OBJECT] = TO(PAGE_FREE) | TO(PAGE_SLAB),
        [PAGE_SLAB] = TO(PAGE_RECLAIM),
        [PAGE_RECLAIM] = TO(PAGE_SLAB) | TO(PAGE_FREE),
    };
    page_state before = page_state_of(from), after = page_state_of(to);
    bool same =
        before != PAGE_UNBACKED || after != PAGE_OBJECT || (from & ~TRP_OWNER_UNBACKED) == to;
    if ((next[before] & TO(after)) == 0 || !same || !is_as_it_may_be(page, before, after))
        explore_fail("page %u went from %x to %x, the pages with memory are %x", page, from, to,
                     board.memory);
}

static void check_cell(uint32_t to)
{
    if ((to & 0xffff) < to >> 16 || (to & 0xffff) > 1000)
        explore_fail("a cell has %u holds and %u pins", to & 0xffff, to >> 16);
}

void scene_changed(const void *word, size_t size, uint64_t from, uint64_t to)
{
    const trp_header *header = trp_segment.header;
    uint64_t at = (uint64_t)((const char *)word - trp_segment.base);
    if (at >= trp_segment.size)
        return;
    if (at >= header->objects_at && at < header->pages_at) {
        size_t inside = (at - header->objects_at) % sizeof(trp_object_row);
        const trp_object_row *row =
            (const trp_object_row *)(const void *)((const char *)word - inside);
        if (inside == offsetof(trp_object_row, word) && size == sizeof row->word)
            check_row(row, from, to);
        else if (inside == offsetof(trp_object_row, where))
            check_where((uint32_t)from, (uint32_t)to, *(const uint64_t *)(const void *)row);
    } else if (at >= header->pages_at && at < header->blocks_at) {
        uint64_t inside = at - header->pages_at;
        if (inside % sizeof(trp_page_row) == offsetof(trp_page_row, owner))
            check_page((uint32_t)(inside / sizeof(trp_page_row)), (uint32_t)from, (uint32_t)to);
    } else if (at >= header->ledgers_at && at < header->objects_at) {
        check_cell((uint32_t)to);
    }
}
