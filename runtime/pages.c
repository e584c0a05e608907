// pages.c: runs of 64 KiB pages (see pages.h).
//
// A run is claimed by compare-and-swap from its first page upwards and rolled back where a page is
// taken, so of two that run into each other the one ahead goes on. The search takes what was freed
// last, then looks from the first page on (which packs best), then from where it last stopped, both
// a bounded number of steps far, and prefers fresh pages to a longer search; only where there are
// none is the whole table read.
#include <runtime/pages.h>

#include <runtime/fault.h>
#include <runtime/pages_inner.h>
#include <sched.h>

enum {
    GROW_MIN = 16,   // Pages by which the backed space grows: 1 MiB
    GROW_MAX = 1024, // to 64 MiB.
    PROBES = 1024,   // Steps of a search before fresh pages are preferred.
    RETRIES = 1000,  // Searches of a full table while others give pages back.
};

static uint32_t self;                // This process's slot.
static _Thread_local uint32_t rotor; // Where this thread's last search stopped.
static _Thread_local bool conflict;  // It met another's claim: what looks full may not be.

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
        return trp_class_size(trp_place_class(place));
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

// ---- claiming

// Frees those of `count` pages that are the object's. Only its owner does this, so none of them
// changes between the two steps.
static void free_pages(uint32_t first, uint32_t count, uint32_t object)
{
    for (uint32_t page = first; page < first + count; page++) {
        // Release: pairs with the next claim, whose writes to the page come after ours.
        if (atomic_load_explicit(trp_page_owner(page), memory_order_relaxed) == object + 1)
            atomic_store_explicit(trp_page_owner(page), 0, memory_order_release);
        TRP_FAULT("store");
    }
}

// Claims `count` pages from `first` on, all or none.
static bool claim(uint32_t first, uint32_t count, uint32_t object, _Atomic trp_place *place)
{
    // Before any page: the swaps below release it.
    atomic_store_explicit(place, trp_place_run(first, count), memory_order_relaxed);
    TRP_FAULT("store");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t none = 0;
        // Acquire: pairs with the release in free_pages.
        if (!atomic_compare_exchange_strong_explicit(trp_page_owner(first + i), &none, object + 1,
                                                     memory_order_acq_rel, memory_order_relaxed)) {
            conflict = true;
            free_pages(first, i, object);
            return false;
        }
        TRP_FAULT("store");
    }
    rotor = first + count;
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
// looks at every page, and at every place for the run.
static bool find_run(uint32_t from, uint32_t to, uint32_t count, uint32_t object,
                     _Atomic trp_place *place, int probes)
{
    bool bounded = probes >= 0;
    uint32_t alignment = bounded ? alignment_of(count) : 1;
    uint32_t first = (from + alignment - 1) / alignment * alignment;
    for (uint32_t page = first; page < to;) {
        if (bounded && probes-- == 0)
            return false;
        uint32_t owner = atomic_load_explicit(trp_page_owner(page), memory_order_relaxed);
        if (owner == 0) {
            page++;
            if (page - first < count)
                continue;
            if (claim(first, count, object, place))
                return true;
        } else {
            page += bounded ? span(page, to, owner) : 1;
        }
        page = first = (page + alignment - 1) / alignment * alignment;
    }
    return false;
}

// ---- where to look

// What this process freed last, by log2 of the count: it is in its page tables, and perhaps in its
// cache. The one before that is offered to all.
static _Atomic uint64_t own_runs[TRP_HINTS];

static void remember(uint32_t first, uint32_t count)
{
    uint32_t level = log2_of(count);
    uint64_t before = atomic_exchange_explicit(&own_runs[level], (uint64_t)count << 32 | first,
                                               memory_order_relaxed);
    if (before != 0)
        atomic_store_explicit(&trp_segment.header->freed_runs[level], before, memory_order_relaxed);
}

static bool find_hinted(_Atomic uint64_t *hints, uint32_t count, uint32_t object,
                        _Atomic trp_place *place)
{
    uint32_t backed = trp_pages_backed();
    for (uint32_t level = log2_of(count); level <= log2_of(count) + 1 && level < TRP_HINTS;
         level++) {
        _Atomic uint64_t *hint = &hints[level];
        uint64_t run = atomic_load_explicit(hint, memory_order_relaxed);
        uint32_t first = (uint32_t)run, length = (uint32_t)(run >> 32);
        // This process's own may be from another segment, which has ended.
        if (length < count || first > backed || length > backed - first)
            continue;
        (void)atomic_compare_exchange_strong_explicit(hint, &run, 0, memory_order_relaxed,
                                                      memory_order_relaxed);
        if (!claim(first, count, object, place))
            continue;
        if (length > count)
            remember(first + count, length - count);
        return true;
    }
    return false;
}

static bool find_recycled(uint32_t count, uint32_t object, _Atomic trp_place *place)
{
    return find_hinted(own_runs, count, object, place) ||
           find_hinted(trp_segment.header->freed_runs, count, object, place);
}

// A run of free pages is seen page by page, so a search for a long one takes more steps.
static int probes_for(uint32_t count)
{
    return PROBES + (count < INT32_MAX / 8 ? 4 * (int)count : 0);
}

static bool find_known(uint32_t count, uint32_t object, _Atomic trp_place *place)
{
    uint32_t backed = trp_pages_backed();
    int probes = probes_for(count);
    if (find_run(0, backed, count, object, place, probes))
        return true;
    return rotor > PROBES && rotor < backed &&
           find_run(rotor, backed, count, object, place, probes);
}

troupe_status trp_pages_full(size_t size)
{
    uint32_t backed = trp_pages_backed();
    uint64_t fresh = trp_segment.header->pages_max - backed, left = fresh, longest = fresh, run = 0;
    for (uint32_t page = 0; page < backed; page++) {
        bool is_free = atomic_load_explicit(trp_page_owner(page), memory_order_relaxed) == 0;
        left += is_free;
        run = is_free ? run + 1 : 0;
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
    *from = backed;
    step = step < GROW_MIN ? GROW_MIN : step > GROW_MAX ? GROW_MAX : step;
    step = step < count ? count : step;
    if (step > header->pages_max - backed)
        step = header->pages_max - backed;
    if (step == 0)
        return TROUPE_OK;
    uint32_t target = backed + step;
    TROUPE_TRY(trp_segment_back(header->pages_at + (uint64_t)backed * sizeof(trp_page_row),
                                (uint64_t)step * sizeof(trp_page_row)));
    TROUPE_TRY(trp_segment_back(header->data_at + (uint64_t)backed * TRP_PAGE_SIZE,
                                (uint64_t)step * TRP_PAGE_SIZE));
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
                          INT32_MAX);
    } while (!*found && from < trp_segment.header->pages_max);
    return TROUPE_OK;
}

troupe_status trp_run_take(uint32_t count, size_t size, uint32_t object, _Atomic trp_place *place,
                           uint32_t *first)
{
    bool found = find_recycled(count, object, place) || find_known(count, object, place);
    troupe_status status = TROUPE_OK;
    bool fresh = !found;
    if (fresh)
        status = find_fresh(count, object, place, &found);
    // Where nothing is left to grow into, every page counts, also those of empty slabs, and those
    // that others have claimed in vain and are about to give back.
    for (int i = 0; !found && i < RETRIES; i++) {
        conflict = false;
        found = find_run(0, trp_pages_backed(), count, object, place, -1);
        if (found || trp_slab_reclaim(self))
            continue;
        if (!conflict)
            break;
        (void)sched_yield();
    }
    if (!found)
        return status != TROUPE_OK ? status : trp_pages_full(size);
    *first = trp_place_page(atomic_load_explicit(place, memory_order_relaxed));
    trp_pages_warm(*first, count, fresh);
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
    if (trp_place_kind_of(place) == TRP_PLACE_BLOCK) {
        trp_slab_free(place, object);
    } else if (trp_place_kind_of(place) == TRP_PLACE_RUN) {
        free_pages(trp_place_page(place), trp_place_count(place), object);
        remember(trp_place_page(place), trp_place_count(place));
    }
}

void trp_pages_sweep(uint32_t process)
{
    uint32_t backed = trp_pages_backed();
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t owner = atomic_load(trp_page_owner(page));
        if (trp_owner_kind_of(owner) == TRP_OWNER_RECLAIM && trp_owner_process(owner) == process)
            atomic_store(trp_page_owner(page),
                         trp_owner(TRP_OWNER_SLAB, trp_owner_class(owner), 0));
    }
}
