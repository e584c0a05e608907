// pages.c: space inside the segment (see pages.h). All owner words are claimed by compare-and-swap
// and freed by a store; each is the whole truth about its piece of space, so there is no step
// between which a death could leave two of them in disagreement.
#include <runtime/pages.h>

#include <runtime/fault.h>
#include <runtime/layout.h>
#include <string.h>

enum {
    CLASS_MIN_SHIFT = 6,  // 64 bytes
    CLASS_MAX_SHIFT = 14, // 16 KiB; more takes whole pages.
    CLASSES = CLASS_MAX_SHIFT - CLASS_MIN_SHIFT + 1,
    GROW_MIN = 16,   // Pages by which the backed space grows: 1 MiB
    GROW_MAX = 1024, // to 64 MiB.
};
#define SLAB 0x80000000u
#define RECLAIM 0xc0000000u
#define KIND 0xc0000000u

// Where this process looks first. Hints only: any value is right.
static struct {
    _Atomic uint32_t run;
    _Atomic uint32_t slab[CLASSES];
} hints;
static uint32_t self; // This process's slot.

void trp_pages_open(uint32_t process)
{
    self = process;
    memset(&hints, 0, sizeof hints);
}

static _Atomic uint32_t *owner_of(uint32_t page)
{
    return (_Atomic uint32_t *)(void *)(trp_segment.base + trp_segment.header->owners_at) + page;
}

// The owners of a page's blocks lie outside the page: who claims a block too late, when its slab is
// free again or another's data, must not write there.
static uint64_t blocks_at(uint32_t page)
{
    return trp_segment.header->blocks_at + (uint64_t)page * TRP_BLOCKS_SIZE;
}

static _Atomic uint32_t *block_owner(uint32_t page, uint32_t block)
{
    return (_Atomic uint32_t *)(void *)(trp_segment.base + blocks_at(page)) + block;
}

// ---- slabs

static uint32_t class_of(size_t size)
{
    uint32_t class = 0;
    while (((size_t)1 << (class + CLASS_MIN_SHIFT)) < size)
        class ++;
    return class;
}

// The class of the slab with this mark; CLASSES if it marks no slab.
static uint32_t class_of_mark(uint32_t mark)
{
    return (mark & KIND) == SLAB      ? mark & 0xff
           : (mark & KIND) == RECLAIM ? mark >> 16 & 0xff
                                      : CLASSES;
}

static uint32_t class_size(uint32_t class)
{
    return 1u << (class + CLASS_MIN_SHIFT);
}

static uint32_t class_blocks(uint32_t class)
{
    return TRP_PAGE_SIZE / class_size(class);
}

// Takes a free block of the slab, if it has one.
static bool take_block(uint32_t page, uint32_t class, uint32_t object, trp_space *space)
{
    uint32_t count = class_blocks(class);
    for (uint32_t block = 0; block < count; block++) {
        uint32_t free = 0;
        _Atomic uint32_t *owner = block_owner(page, block);
        if (atomic_load(owner) != 0 || !atomic_compare_exchange_strong(owner, &free, object + 1))
            continue;
        TRP_FAULT("store");
        // Pairs with `reclaim`: it changes the mark first and then looks at the owners, we set the
        // owner first and then look at the mark; at least one of the two sees the other.
        if (atomic_load(owner_of(page)) != (SLAB | class)) {
            free = object + 1; // A new slab may have cleared it since.
            (void)atomic_compare_exchange_strong(owner, &free, 0);
            return false;
        }
        *space = (trp_space){.page = page, .pages = 0, .block = block};
        return true;
    }
    return false;
}

static bool slab_is_empty(uint32_t page, uint32_t class)
{
    uint32_t count = class_blocks(class);
    for (uint32_t block = 0; block < count; block++)
        if (atomic_load(block_owner(page, block)) != 0)
            return false;
    return true;
}

// Makes empty slabs free pages again. Whether there was one.
static bool reclaim(void)
{
    bool any = false;
    uint32_t backed = trp_segment.header->pages_backed;
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t mark = atomic_load(owner_of(page));
        if ((mark & KIND) != SLAB || !slab_is_empty(page, mark & 0xff))
            continue;
        uint32_t looking = RECLAIM | (mark & 0xff) << 16 | self;
        if (!atomic_compare_exchange_strong(owner_of(page), &mark, looking))
            continue;
        TRP_FAULT("store");
        bool empty = slab_is_empty(page, mark & 0xff); // See take_block.
        atomic_store(owner_of(page), empty ? 0 : mark);
        any = any || empty;
    }
    return any;
}

void trp_pages_sweep(uint32_t process)
{
    uint32_t backed = trp_segment.header->pages_backed;
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t mark = atomic_load(owner_of(page));
        if ((mark & KIND) != RECLAIM || (mark & 0xffff) != process)
            continue;
        uint32_t class = mark >> 16 & 0xff;
        atomic_store(owner_of(page), slab_is_empty(page, class) ? 0 : (SLAB | class));
    }
}

// ---- runs of pages

// Takes `count` pages from `first` on, all or none; *taken is how many were free.
static bool take_pages(uint32_t first, uint32_t count, uint32_t object, uint32_t *taken)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t free = 0;
        if (atomic_compare_exchange_strong(owner_of(first + i), &free, object + 1)) {
            TRP_FAULT("store");
            continue;
        }
        for (uint32_t k = 0; k < i; k++)
            atomic_store(owner_of(first + k), 0);
        *taken = i;
        return false;
    }
    return true;
}

// Looks for a run among the pages from `from` to `to`.
static bool find_run(uint32_t from, uint32_t to, uint32_t count, uint32_t object, uint32_t *first)
{
    uint32_t run = 0;
    for (uint32_t page = from; page < to; page++) {
        if (atomic_load_explicit(owner_of(page), memory_order_relaxed) != 0) {
            run = 0;
            continue;
        }
        if (++run < count)
            continue;
        uint32_t taken = 0;
        if (take_pages(page + 1 - count, count, object, &taken)) {
            *first = page + 1 - count;
            return true;
        }
        page = page + 1 - count + taken; // Behind the one that another process was first to take.
        run = 0;
    }
    return false;
}

static troupe_status no_room(size_t size)
{
    const trp_header *header = trp_segment.header;
    uint32_t used = 0, backed = header->pages_backed;
    for (uint32_t page = 0; page < backed; page++)
        used += atomic_load(owner_of(page)) != 0;
    return troupe_fail(TROUPE_NO_MEMORY,
                       "the store has no room for %zu more bytes: %llu of %llu bytes are in use "
                       "(.store_bytes_max of troupe_start is its limit)",
                       size, (unsigned long long)used * TRP_PAGE_SIZE,
                       (unsigned long long)header->capacity);
}

// Backs more pages, at least `count` beyond those backed now. Several processes may do so at once:
// backing twice does no harm.
static troupe_status grow(uint32_t count, size_t size)
{
    trp_header *header = trp_segment.header;
    uint32_t backed = header->pages_backed, step = backed / 4;
    step = step < GROW_MIN ? GROW_MIN : step > GROW_MAX ? GROW_MAX : step;
    step = step < count ? count : step;
    if (step > header->pages_max - backed)
        step = header->pages_max - backed;
    if (step == 0)
        return no_room(size);
    uint32_t target = backed + step;
    TROUPE_TRY(trp_segment_back(header->owners_at, (uint64_t)target * sizeof(uint32_t)));
    TROUPE_TRY(trp_segment_back(header->data_at + (uint64_t)backed * TRP_PAGE_SIZE,
                                (uint64_t)step * TRP_PAGE_SIZE));
    while (backed < target && !atomic_compare_exchange_weak(&header->pages_backed, &backed, target))
        continue;
    return TROUPE_OK;
}

static troupe_status take_run(uint32_t count, size_t size, uint32_t object, uint32_t *first)
{
    bool reclaimed = false;
    for (;;) {
        uint32_t backed = trp_segment.header->pages_backed;
        uint32_t hint = atomic_load_explicit(&hints.run, memory_order_relaxed);
        if (hint >= backed)
            hint = 0;
        if (find_run(hint, backed, count, object, first) ||
            (hint > 0 && find_run(0, backed, count, object, first))) {
            // First fit: all pages before the hint are taken, as far as this process knows.
            if (*first == hint || count == 1)
                atomic_store_explicit(&hints.run, *first + count, memory_order_relaxed);
            return TROUPE_OK;
        }
        if (grow(count, size) == TROUPE_OK)
            continue;
        if (reclaimed || !reclaim())
            return TROUPE_NO_MEMORY;
        reclaimed = true;
    }
}

static troupe_status take_small(size_t size, uint32_t object, trp_space *space)
{
    uint32_t class = class_of(size);
    uint32_t backed = trp_segment.header->pages_backed;
    uint32_t hint = atomic_load_explicit(&hints.slab[class], memory_order_relaxed);
    for (uint32_t i = 0; i < backed; i++) {
        uint32_t page = (hint + i) % backed;
        if (atomic_load(owner_of(page)) != (SLAB | class) ||
            !take_block(page, class, object, space))
            continue;
        atomic_store_explicit(&hints.slab[class], page, memory_order_relaxed);
        return TROUPE_OK;
    }
    uint32_t page;
    TROUPE_TRY(take_run(1, size, object, &page));
    // The page is the object's until it is a slab, so a death before that leaves nothing behind.
    trp_space whole = {.page = page, .pages = 1};
    troupe_status status = trp_segment_back(blocks_at(page), TRP_BLOCKS_SIZE);
    if (status != TROUPE_OK) {
        trp_pages_free(&whole, object);
        return status;
    }
    for (uint32_t block = 1; block < class_blocks(class); block++)
        atomic_store(block_owner(page, block), 0);
    TRP_FAULT("store");
    atomic_store(block_owner(page, 0), object + 1);
    TRP_FAULT("store");
    atomic_store(owner_of(page), SLAB | class);
    TRP_FAULT("store");
    atomic_store_explicit(&hints.slab[class], page, memory_order_relaxed);
    *space = (trp_space){.page = page, .pages = 0, .block = 0};
    return TROUPE_OK;
}

troupe_status trp_pages_take(size_t size, uint32_t object, trp_space *space)
{
    if (size <= (size_t)1 << CLASS_MAX_SHIFT)
        return take_small(size, object, space);
    uint32_t count = (uint32_t)((size + TRP_PAGE_SIZE - 1) / TRP_PAGE_SIZE), first;
    TROUPE_TRY(take_run(count, size, object, &first));
    *space = (trp_space){.page = first, .pages = count, .block = 0};
    return TROUPE_OK;
}

void trp_pages_free(const trp_space *space, uint32_t object)
{
    uint32_t mine = object + 1;
    if (space->pages == 0) {
        (void)atomic_compare_exchange_strong(block_owner(space->page, space->block), &mine, 0);
        return;
    }
    for (uint32_t i = 0; i < space->pages; i++) {
        mine = object + 1;
        (void)atomic_compare_exchange_strong(owner_of(space->page + i), &mine, 0);
        TRP_FAULT("store");
    }
    // What was freed has its pages faulted: it is used again before fresh ones.
    if (space->page < atomic_load_explicit(&hints.run, memory_order_relaxed))
        atomic_store_explicit(&hints.run, space->page, memory_order_relaxed);
}

void trp_pages_free_all(uint32_t object)
{
    uint32_t backed = trp_segment.header->pages_backed;
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t mark = atomic_load(owner_of(page)), mine = object + 1;
        if (mark == mine) {
            atomic_store(owner_of(page), 0);
            continue;
        }
        uint32_t class = class_of_mark(mark);
        for (uint32_t block = 0; class < CLASSES && block < class_blocks(class); block++) {
            mine = object + 1;
            (void)atomic_compare_exchange_strong(block_owner(page, block), &mine, 0);
        }
    }
}

uint64_t trp_pages_offset(const trp_space *space)
{
    uint64_t at = trp_segment.header->data_at + (uint64_t)space->page * TRP_PAGE_SIZE;
    if (space->pages > 0)
        return at;
    return at +
           (uint64_t)space->block * class_size(class_of_mark(atomic_load(owner_of(space->page))));
}

uint64_t trp_pages_bytes(const trp_space *space)
{
    if (space->pages > 0)
        return (uint64_t)space->pages * TRP_PAGE_SIZE;
    return class_size(class_of_mark(atomic_load(owner_of(space->page))));
}
