// test_interleave.words.c: how the words of rows, pages and holds may change.
#include <support.h>

#include <interleave/scenes.h>
#include <runtime/layout.h>
#include <runtime/pages_inner.h>
#include <runtime/store_row.h>
#include <runtime/store_where.h>

#define TO(state) (1u << (state))

static void check_row(uint64_t from, uint64_t to)
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

static void check_page(uint32_t from, uint32_t to)
{
    bool was_object = trp_owner_kind_of(from) == TRP_OWNER_OBJECT && from != 0;
    bool is_object = trp_owner_kind_of(to) == TRP_OWNER_OBJECT && to != 0;
    bool was_slab = trp_owner_kind_of(from) == TRP_OWNER_SLAB;
    bool same = (from & ~TRP_OWNER_UNBACKED) == (to & ~TRP_OWNER_UNBACKED);
    if ((was_object && is_object && !same) || (was_slab && (is_object || to == 0)))
        explore_fail("a page went from %x to %x", from, to);
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
            check_row(from, to);
        else if (inside == offsetof(trp_object_row, where))
            check_where((uint32_t)from, (uint32_t)to, *(const uint64_t *)(const void *)row);
    } else if (at >= header->pages_at && at < header->blocks_at) {
        if ((at - header->pages_at) % sizeof(trp_page_row) == offsetof(trp_page_row, owner))
            check_page((uint32_t)from, (uint32_t)to);
    } else if (at >= header->ledgers_at && at < header->objects_at) {
        check_cell((uint32_t)to);
    }
}
