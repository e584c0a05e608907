// pages.c: runs of 64 KiB pages (see pages.h).
//
// A run is claimed by compare-and-swap from its first page upwards and rolled back where a page is
// taken, so of two that run into each other the one ahead goes on. The search takes what this
// process freed last where that is just as long, else the lowest run that is long enough: so the
// small and the short gather at the low end, and what is free above stays in one piece. Hints say
// where to begin; only where they lead to nothing is the whole table read, and only where that has
// nothing do fresh pages come.
#include <runtime/shm/pages.h>

#include <runtime/base/fault.h>
#include <runtime/shm/pages_internal.h>
#include <sched.h>

enum {
    GROW_FIRST = 4,  // Pages by which the backed space grows: 256 KiB, since what is backed is
                     // zeroed while a process starts,
    GROW_MIN = 16,   // then 1 MiB
    GROW_MAX = 1024, // to 64 MiB.
    PROBES = 1024,   // Steps of a search before all of the table is read.
    NEAR = 256,      // Pages.
    RETRIES = 1000,  // Searches of a full table while others give pages back.
};

static uint32_t self;               // This process's slot.
static _Thread_local bool conflict; // It met another's claim: what looks full may not be.
// Of the run that was claimed last: some pages were holes. Once the system had no memory for such,
// this search passes them by.
static _Thread_local bool holes;
static _Thread_local troupe_status no_holes;

void trp_pages_open(uint32_t process)
{
    self = process;
    trp_pages_warm_open();
}

uint32_t trp_pages_self(void)
{
    return self;
}

// ---- places

uint64_t trp_place_bytes(trp_place place)
{
    switch (trp_place_kind_of(place)) {
    case TRP_PLACE_RUN:
        return (uint64_t)trp_place_count(place) * TRP_PAGE_SIZE;
    case TRP_PLACE_BLOCK:
        // Who looks at the tables of others meets any class.
        return trp_place_class(place) < TRP_CLASSES ? trp_class_size(trp_place_class(place)) : 0;
    default:
        return 0;
    }
}

uint64_t trp_place_offset(trp_place place)
{
    uint64_t at = trp_segment.header->data_at + (uint64_t)trp_place_page(place) * TRP_PAGE_SIZE;
    if (trp_place_kind_of(place) == TRP_PLACE_BLOCK)
        at += (uint64_t)trp_place_index(place) * trp_class_size(trp_place_class(place));
    return at;
}

bool trp_place_holds(trp_place place, uint64_t size)
{
    uint32_t page = trp_place_page(place), class = trp_place_class(place);
    uint32_t pages = trp_segment.header->pages_max;
    switch (trp_place_kind_of(place)) {
    case TRP_PLACE_RUN:
        return page < pages && trp_place_count(place) <= pages - page &&
               size <= trp_place_bytes(place);
    case TRP_PLACE_BLOCK:
        return page < pages && class < TRP_CLASSES && size <= trp_class_size(class) &&
               (trp_place_index(place) + 1) * trp_class_size(class) <= TRP_PAGE_SIZE;
    default:
        return size == 0;
    }
}

// ---- claiming

// Frees those of `count` pages that are the object's. Only its owner does this, so none of them
// changes between the two steps. `backing`: for what is UNBACKED memory may have been reserved.
static void free_pages(uint32_t first, uint32_t count, uint32_t object, bool backing)
{
    for (uint32_t page = first; page < first + count; page++) {
        uint32_t owner = atomic_load_explicit(trp_page_owner(page), memory_order_relaxed);
        // Release: pairs with the next claim, whose writes to the page come after ours.
        if (owner == object + 1) {
            atomic_store_explicit(trp_page_owner(page), 0, memory_order_release);
        } else if (owner == (TRP_OWNER_UNBACKED | (object + 1))) {
            if (backing)
                (void)trp_pages_unback(page, 1);
            TRP_FAULT("store");
            atomic_store_explicit(trp_page_owner(page), TRP_OWNER_HOLE, memory_order_release);
        }
        TRP_FAULT("store");
    }
}

troupe_status trp_pages_back(uint32_t first, uint32_t count)
{
    return trp_segment_back(trp_place_offset(trp_place_run(first, count)),
                            (uint64_t)count * TRP_PAGE_SIZE);
}

bool trp_pages_unback(uint32_t first, uint32_t count)
{
    return trp_segment_unback(trp_place_offset(trp_place_run(first, count)),
                              (uint64_t)count * TRP_PAGE_SIZE);
}

// Reserves memory for those pages of the object's run that were holes, as they lie together.
static troupe_status back_holes(uint32_t first, uint32_t count, uint32_t object)
{
    uint32_t hole = TRP_OWNER_UNBACKED | (object + 1), end = first + count;
    for (uint32_t page = first; page < end;) {
        uint32_t from = page;
        while (page < end && page - from < GROW_MAX &&
               atomic_load_explicit(trp_page_owner(page), memory_order_relaxed) == hole)
            page++;
        if (page == from) {
            page++;
            continue;
        }
        TROUPE_TRY(trp_pages_back(from, page - from));
        TRP_FAULT("store");
        for (; from < page; from++) {
            atomic_store_explicit(trp_page_owner(from), object + 1, memory_order_relaxed);
            TRP_FAULT("store");
        }
    }
    return TROUPE_OK;
}

static bool is_free(uint32_t owner)
{
    return owner == 0 ||
           (trp_owner_is_free(owner) && (owner != TRP_OWNER_HOLE || no_holes == TROUPE_OK));
}

static bool claim_page(uint32_t page, uint32_t object)
{
    uint32_t owner = 0, mine = object + 1;
    // Acquire: pairs with the releases in free_pages, and with who made it a hole.
    while (!atomic_compare_exchange_strong_explicit(trp_page_owner(page), &owner, mine,
                                                    memory_order_acq_rel, memory_order_relaxed)) {
        if (!is_free(owner))
            return false;
        mine = owner == TRP_OWNER_HOLE ? TRP_OWNER_UNBACKED | (object + 1) : object + 1;
    }
    holes = holes || owner == TRP_OWNER_HOLE;
    return true;
}

// Claims `count` pages from `first` on, all or none.
static bool claim(uint32_t first, uint32_t count, uint32_t object, _Atomic trp_place *place)
{
    // Before any page: the swaps below release it.
    atomic_store_explicit(place, trp_place_run(first, count), memory_order_relaxed);
    TRP_FAULT("store");
    holes = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!claim_page(first + i, object)) {
            conflict = true;
            free_pages(first, i, object, false);
            return false;
        }
        TRP_FAULT("store");
    }
    if (holes && (no_holes = back_holes(first, count, object)) != TROUPE_OK) {
        free_pages(first, count, object, true);
        return false;
    }
    return true;
}

// How many pages from `page` on belong to the same object, as far as that is known at once.
static uint32_t span(uint32_t page, uint32_t to, uint32_t owner)
{
    if (page + 1 == to || trp_owner_kind_of(owner) != TRP_OWNER_OBJECT || owner > TRP_OBJECTS_MAX ||
        atomic_load_explicit(trp_page_owner(page + 1), memory_order_relaxed) != owner)
        return 1;
    trp_place place =
        atomic_load_explicit(&trp_object_row_at(owner - 1)->place, memory_order_relaxed);
    uint32_t first = trp_place_page(place), count = trp_place_count(place);
    bool inside =
        trp_place_kind_of(place) == TRP_PLACE_RUN && page >= first && page - first < count;
    return inside ? first + count - page : 1;
}

static uint32_t log2_of(uint32_t count)
{
    return 31 - (uint32_t)__builtin_clz(count);
}

// Runs begin at multiples of a power of two near their length, at most of this many pages, as long
// as there is room: so what is free between them fits others of their kind.
enum { ALIGNMENT_MAX = 16 };

static uint32_t alignment_of(uint32_t count)
{
    return count >= ALIGNMENT_MAX ? ALIGNMENT_MAX : 1u << log2_of(count);
}

// Claims the first run of free pages from `from` to `to`, in at most `probes` steps. Negative:
// looks at every page, and at every place for the run. *none_before: before it no run was seen of
// so many pages as the largest power of two that is not above `count`.
static bool find_run(uint32_t from, uint32_t to, uint32_t count, uint32_t object,
                     _Atomic trp_place *place, int probes, uint32_t *none_before)
{
    bool bounded = probes >= 0, found = false, seen = false;
    uint32_t alignment = bounded ? alignment_of(count) : 1, least = 1u << log2_of(count);
    uint32_t first = (from + alignment - 1) / alignment * alignment, page = first;
    while (page < to && !found && (!bounded || probes-- > 0)) {
        uint32_t owner = atomic_load_explicit(trp_page_owner(page), memory_order_relaxed);
        page += is_free(owner) ? 1 : 0;
        if (is_free(owner) && page - first < count)
            continue;
        if (!seen)
            *none_before = first;
        seen = seen || page - first >= least;
        if (is_free(owner)) {
            found = claim(first, count, object, place);
        } else {
            conflict = conflict || trp_owner_is_in_hand(owner);
            page += bounded ? span(page, to, owner) : 1;
        }
        first = page = (page + alignment - 1) / alignment * alignment;
    }
    return found;
}

// ---- where to look

// What this process freed last, by log2 of the count: it is in its page tables, and perhaps in its
// cache.
static _Atomic uint64_t own_runs[TRP_HINTS];

void trp_pages_freed(uint32_t first, uint32_t count)
{
    atomic_store_explicit(&own_runs[log2_of(count)], (uint64_t)count << 32 | first,
                          memory_order_relaxed);
    uint32_t backed = trp_pages_backed();
    for (uint32_t level = 0; level < TRP_HINTS && 1u << level <= backed; level++) {
        _Atomic uint32_t *low = &trp_segment.header->low[level];
        uint32_t from = first >= 1u << level ? first + 1 - (1u << level) : 0;
        if (atomic_load_explicit(low, memory_order_relaxed) > from)
            atomic_store_explicit(low, from, memory_order_relaxed);
    }
}

// Short ones only where they are not far from where a search would begin: else what is long and
// free would soon have something short in it everywhere.
static bool find_recycled(uint32_t count, uint32_t object, _Atomic trp_place *place)
{
    uint32_t backed = trp_pages_backed(), level = log2_of(count);
    uint64_t run = atomic_load_explicit(&own_runs[level], memory_order_relaxed);
    uint32_t first = (uint32_t)run;
    uint32_t low = atomic_load_explicit(&trp_segment.header->low[level], memory_order_relaxed);
    // It may be from another segment, which has ended.
    if (run >> 32 != count || first > backed || count > backed - first ||
        (count < ALIGNMENT_MAX && first > low + NEAR))
        return false;
    (void)atomic_compare_exchange_strong_explicit(&own_runs[level], &run, 0, memory_order_relaxed,
                                                  memory_order_relaxed);
    return claim(first, count, object, place);
}

// The lowest, as long as it is found in so many steps: a run of free pages is seen page by page.
static bool find_low(uint32_t count, uint32_t object, _Atomic trp_place *place)
{
    _Atomic uint32_t *low = &trp_segment.header->low[log2_of(count)];
    uint32_t from = atomic_load_explicit(low, memory_order_relaxed), none_before = from;
    int probes = PROBES + (count < INT32_MAX / 8 ? 4 * (int)count : 0);
    bool found = find_run(from, trp_pages_backed(), count, object, place, probes, &none_before);
    if (none_before > from) // Unless somebody freed something meanwhile.
        (void)atomic_compare_exchange_strong_explicit(low, &from, none_before, memory_order_relaxed,
                                                      memory_order_relaxed);
    return found;
}

// The lowest of all. A hint may be too high: then this puts it right.
static bool find_known(uint32_t count, uint32_t object, _Atomic trp_place *place)
{
    uint32_t none_before = 0;
    bool found = find_run(0, trp_pages_backed(), count, object, place, INT32_MAX, &none_before);
    atomic_store_explicit(&trp_segment.header->low[log2_of(count)], none_before,
                          memory_order_relaxed);
    return found;
}

troupe_status trp_pages_full(size_t size)
{
    uint32_t backed = trp_pages_backed();
    uint64_t fresh = trp_segment.header->pages_max - backed, left = fresh, longest = fresh, run = 0;
    for (uint32_t page = 0; page < backed; page++) {
        bool is_left =
            trp_owner_is_free(atomic_load_explicit(trp_page_owner(page), memory_order_relaxed));
        left += is_left;
        run = is_left ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return troupe_fail(
        TROUPE_NO_MEMORY,
        "the store has no room for %zu more bytes: %llu of %llu bytes are in use, "
        "the longest free run is %llu (.store_bytes_max of troupe_start is its limit)",
        size, (unsigned long long)(trp_segment.header->capacity - left * TRP_PAGE_SIZE),
        (unsigned long long)trp_segment.header->capacity,
        (unsigned long long)longest * TRP_PAGE_SIZE);
}

// Backs more pages, at least `count` beyond those backed now, as far as there are more. Several
// processes may do so at once: backing twice does no harm. *from is where they began.
static troupe_status grow(uint32_t count, uint32_t *from)
{
    trp_header *header = trp_segment.header;
    uint32_t backed = trp_pages_backed(), step = backed / 4;
    uint32_t least = backed < GROW_FIRST ? GROW_FIRST : backed < GROW_MIN ? backed : GROW_MIN;
    *from = backed;
    step = step < least ? least : step > GROW_MAX ? GROW_MAX : step;
    step = step < count ? count : step;
    if (atomic_load(&header->huge) != 0) // In whole pages of the system.
        step = (backed + step + TRP_STRETCH - 1) / TRP_STRETCH * TRP_STRETCH - backed;
    if (step > header->pages_max - backed)
        step = header->pages_max - backed;
    if (step == 0)
        return TROUPE_OK;
    uint32_t target = backed + step;
    TROUPE_TRY(trp_segment_back(header->pages_at + (uint64_t)backed * sizeof(trp_page_row),
                                (uint64_t)step * sizeof(trp_page_row)));
    TROUPE_TRY(trp_pages_back(backed, step));
    TRP_FAULT("store");
    while (backed < target && !atomic_compare_exchange_weak(&header->pages_backed, &backed, target))
        continue;
    return TROUPE_OK;
}

static troupe_status find_fresh(uint32_t count, uint32_t object, _Atomic trp_place *place,
                                bool *found)
{
    uint32_t from;
    do {
        TROUPE_TRY(grow(count, &from));
        *found = find_run(from > count ? from - count : 0, trp_pages_backed(), count, object, place,
                          INT32_MAX, &(uint32_t){0});
    } while (!*found && from < trp_segment.header->pages_max);
    return TROUPE_OK;
}

troupe_status trp_run_take(uint32_t count, size_t size, uint32_t object, _Atomic trp_place *place,
                           uint32_t *first)
{
    no_holes = TROUPE_OK;
    bool found = find_recycled(count, object, place) || find_low(count, object, place) ||
                 find_known(count, object, place);
    troupe_status status = TROUPE_OK;
    bool fresh = !found;
    if (fresh)
        status = find_fresh(count, object, place, &found);
    // Where nothing is left to grow into, every page counts, also those of empty slabs, and those
    // that others have claimed in vain and are about to give back.
    for (int i = 0; !found && i < RETRIES; i++) {
        conflict = false;
        found = find_run(0, trp_pages_backed(), count, object, place, -1, &(uint32_t){0});
        if (found || trp_slab_reclaim(self))
            continue;
        if (!conflict)
            break;
        (void)sched_yield();
    }
    if (!found && (status != TROUPE_OK || no_holes != TROUPE_OK))
        return status != TROUPE_OK ? status : no_holes;
    if (!found)
        return trp_pages_full(size);
    *first = trp_place_page(atomic_load_explicit(place, memory_order_relaxed));
    trp_pages_warm(*first, count, fresh || holes);
    return TROUPE_OK;
}

// ---- the whole

troupe_status trp_pages_take(size_t size, uint32_t object, _Atomic trp_place *place)
{
    if (size <= TRP_BLOCK_MAX)
        return trp_slab_take(size, object, place);
    uint32_t first;
    return trp_run_take((uint32_t)((size + TRP_PAGE_SIZE - 1) / TRP_PAGE_SIZE), size, object, place,
                        &first);
}

void trp_pages_free(trp_place place, uint32_t object)
{
    if (!trp_place_holds(place, 0))
        return; // Damaged: what it was stays taken.
    if (trp_place_kind_of(place) == TRP_PLACE_BLOCK) {
        trp_slab_free(place, object);
    } else if (trp_place_kind_of(place) == TRP_PLACE_RUN) {
        free_pages(trp_place_page(place), trp_place_count(place), object, true);
        trp_pages_freed(trp_place_page(place), trp_place_count(place));
    }
}

void trp_pages_sweep(uint32_t process)
{
    uint32_t backed = trp_pages_backed();
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t owner = atomic_load(trp_page_owner(page));
        if (!trp_owner_is_in_hand(owner) || trp_owner_process(owner) != process)
            continue;
        if (trp_owner_kind_of(owner) == TRP_OWNER_RECLAIM) {
            atomic_store(trp_page_owner(page),
                         trp_owner(TRP_OWNER_SLAB, trp_owner_class(owner), 0));
        } else {
            (void)trp_pages_unback(page, 1);
            (void)atomic_fetch_add(&trp_segment.header->given, 1);
            atomic_store(trp_page_owner(page), TRP_OWNER_HOLE);
        }
    }
}
