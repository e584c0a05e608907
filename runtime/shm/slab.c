// slab.c: blocks of 64 bytes to 32 KiB in pages that are divided evenly (see pages.h).
//
// The owners of a page's blocks lie in a table of their own, never in the page: a claim that comes
// late, to a page that is no slab any more, then writes only there, finds out and takes itself
// back. Slabs are given back only when pages are short, so that none is divided again and again.
#include <runtime/shm/pages_internal.h>

#include <runtime/base/fault.h>

enum { PROBES = 1024 }; // Pages looked at before a new slab is made.

// Multiples of 64 that leave little of a page unused.
static const uint16_t sizes[TRP_CLASSES] = {
    64,   128,  192,  256,  320,  384,  448,  512,  640,  768,  896,   1024,  1280,  1536,  1792,
    2048, 2688, 3264, 4096, 4672, 5440, 6528, 7232, 8192, 9344, 10880, 13056, 16384, 21824, 32768,
};

// What this thread used last, by class: hints.
static _Thread_local struct {
    uint32_t page[TRP_CLASSES]; // + 1
    uint16_t block[TRP_CLASSES];
} last;

// Where a thread begins to look in a page that it has not used: processes that share one do not
// write the same line of its table, 16 blocks long.
static uint32_t first_block(uint32_t count)
{
    static _Atomic uint32_t threads; // Of this process that have asked.
    static _Thread_local uint32_t mine;
    if (mine == 0)
        mine = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    return (trp_pages_self() * 48 + mine * 16) % count;
}

uint32_t trp_class_size(uint32_t class)
{
    return sizes[class];
}

static uint32_t class_of(size_t size)
{
    uint32_t low = 0, high = TRP_CLASSES - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (sizes[middle] < size)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_slab(uint32_t page, uint32_t class)
{
    return atomic_load(trp_page_owner(page)) == trp_owner(TRP_OWNER_SLAB, class, 0);
}

// ---- claiming

static bool claim(uint32_t page, uint32_t class, uint32_t block, uint32_t object,
                  _Atomic trp_place *place)
{
    _Atomic uint32_t *owner = trp_block_owner(page, block);
    uint32_t none = 0;
    if (atomic_load_explicit(owner, memory_order_relaxed) != 0)
        return false;
    // Before the block: the swap releases it.
    atomic_store_explicit(place, trp_place_block(page, class, block), memory_order_relaxed);
    TRP_FAULT("store");
    if (!atomic_compare_exchange_strong(owner, &none, object + 1))
        return false;
    TRP_FAULT("store");
    // Pairs with trp_slab_reclaim: it changes the page's owner first and then looks at the blocks,
    // we took the block first and now look at the page; at least one of the two sees the other.
    if (is_slab(page, class))
        return true;
    atomic_store(owner, 0);
    return false;
}

static bool claim_any(uint32_t page, uint32_t class, uint32_t object, _Atomic trp_place *place)
{
    uint32_t count = trp_class_blocks(class);
    uint32_t block = last.page[class] == page + 1 ? last.block[class] : first_block(count);
    for (uint32_t i = 0; i < count; i++, block++) {
        block = block < count ? block : 0;
        if (!claim(page, class, block, object, place))
            continue;
        last.page[class] = page + 1;
        last.block[class] = (uint16_t)(block + 1);
        return true;
    }
    return false;
}

static bool claim_in(uint32_t page, uint32_t class, uint32_t object, _Atomic trp_place *place)
{
    if (page >= trp_pages_backed() || !is_slab(page, class))
        return false;
    if (claim_any(page, class, object, place))
        return true;
    // Full. Says so, then looks again: who frees a block frees it first and then reads this.
    _Atomic uint32_t *maybe_free = &trp_page_row_at(page)->maybe_free;
    if (atomic_exchange(maybe_free, 0) == 0 || !claim_any(page, class, object, place))
        return false;
    atomic_store(maybe_free, 1);
    return true;
}

// Claims in a slab from page `from` to `to`; `hinted`: only in those that seem to have room.
static bool claim_among(uint32_t from, uint32_t to, bool hinted, uint32_t class, uint32_t object,
                        _Atomic trp_place *place)
{
    for (uint32_t page = from; page < to; page++)
        if (is_slab(page, class) &&
            (!hinted ||
             atomic_load_explicit(&trp_page_row_at(page)->maybe_free, memory_order_relaxed) != 0) &&
            claim_in(page, class, object, place))
            return true;
    return false;
}

// In the slab used last, in one that is known to have room, or in one not far away.
static bool claim_near(uint32_t class, uint32_t object, _Atomic trp_place *place)
{
    uint32_t hint =
        atomic_load_explicit(&trp_segment.header->open_slabs[class], memory_order_relaxed);
    if ((last.page[class] != 0 && claim_in(last.page[class] - 1, class, object, place)) ||
        (hint != 0 && claim_in(hint - 1, class, object, place)))
        return true;
    uint32_t backed = trp_pages_backed();
    uint32_t from = last.page[class] < backed ? last.page[class] : 0;
    uint32_t to = backed - from < PROBES ? backed : from + PROBES;
    uint32_t wrapped = from < PROBES ? from : PROBES;
    return claim_among(from, to, true, class, object, place) ||
           claim_among(0, wrapped, true, class, object, place);
}

// ---- slabs

// Makes a page a slab. It is the object's until then, so a death leaves nothing behind.
static troupe_status make_slab(uint32_t class, size_t size, uint32_t object,
                               _Atomic trp_place *place, uint32_t *page)
{
    TROUPE_TRY(trp_run_take(1, size, object, place, page));
    uint64_t table =
        trp_segment.header->blocks_at + (uint64_t)*page * TRP_PAGE_BLOCKS * sizeof(uint32_t);
    troupe_status status = trp_segment_back(table, TRP_PAGE_BLOCKS * sizeof(uint32_t));
    TRP_FAULT("store");
    if (status != TROUPE_OK) {
        trp_pages_free(trp_place_run(*page, 1), object);
        return status;
    }
    atomic_store(&trp_page_row_at(*page)->maybe_free, 1);
    // No block has an owner: the table is new, or was seen empty when the last slab ended.
    atomic_store(trp_page_owner(*page), trp_owner(TRP_OWNER_SLAB, class, 0));
    TRP_FAULT("store");
    atomic_store_explicit(&trp_segment.header->open_slabs[class], *page + 1, memory_order_relaxed);
    return TROUPE_OK;
}

bool trp_slab_is_empty(uint32_t page, uint32_t class)
{
    for (uint32_t block = 0; block < trp_class_blocks(class); block++)
        if (atomic_load(trp_block_owner(page, block)) != 0)
            return false;
    return true;
}

bool trp_slab_reclaim(uint32_t process)
{
    bool any = false;
    uint32_t backed = trp_pages_backed();
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t owner = atomic_load(trp_page_owner(page)), class = trp_owner_class(owner);
        if (trp_owner_kind_of(owner) != TRP_OWNER_SLAB || !trp_slab_is_empty(page, class) ||
            !atomic_compare_exchange_strong(trp_page_owner(page), &owner,
                                            trp_owner(TRP_OWNER_RECLAIM, class, process)))
            continue;
        TRP_FAULT("store");
        bool empty = trp_slab_is_empty(page, class); // See `claim`.
        atomic_store(trp_page_owner(page), empty ? 0 : trp_owner(TRP_OWNER_SLAB, class, 0));
        if (empty)
            trp_pages_freed(page, 1);
        TRP_FAULT("store");
        any = any || empty;
    }
    return any;
}

// ---- the whole

troupe_status trp_slab_take(size_t size, uint32_t object, _Atomic trp_place *place)
{
    enum { TRIES = 100 }; // Others may fill a new slab before its maker has a block of it.
    uint32_t class = class_of(size), page;
    if (claim_near(class, object, place))
        return TROUPE_OK;
    troupe_status status = TROUPE_OK;
    for (int i = 0; i < TRIES && status == TROUPE_OK; i++) {
        status = make_slab(class, size, object, place, &page);
        if (status == TROUPE_OK && claim_in(page, class, object, place))
            return TROUPE_OK;
    }
    // No page is left: any block that is large enough will do.
    for (; class < TRP_CLASSES; class ++)
        if (claim_among(0, trp_pages_backed(), false, class, object, place))
            return TROUPE_OK;
    return status != TROUPE_OK ? status : trp_pages_full(size);
}

void trp_slab_free(trp_place place, uint32_t object)
{
    uint32_t page = trp_place_page(place);
    _Atomic uint32_t *owner = trp_block_owner(page, trp_place_index(place));
    if (atomic_load_explicit(owner, memory_order_relaxed) != object + 1)
        return;
    // Pairs with the next claim, whose writes to the block come after ours, and with claim_in: it
    // says that the page is full first and then looks at the blocks, we freed one first and now
    // look whether it said so.
    atomic_store(owner, 0);
    TRP_FAULT("store");
    uint32_t class = trp_place_class(place);
    uint32_t block = trp_place_index(place);
    if (last.page[class] == page + 1 && block < last.block[class])
        last.block[class] = (uint16_t)block; // Still in this CPU's cache.
    trp_page_row *row = trp_page_row_at(page);
    if (atomic_load(&row->maybe_free) != 0)
        return;
    atomic_store(&row->maybe_free, 1);
    atomic_store_explicit(&trp_segment.header->open_slabs[class], page + 1, memory_order_relaxed);
}
