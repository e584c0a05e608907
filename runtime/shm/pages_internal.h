// pages_internal.h: what pages.c (runs of pages) and shm/slab.c (blocks of a page) share.
#ifndef TRP_SHM_PAGES_INTERNAL_H
#define TRP_SHM_PAGES_INTERNAL_H

#include <runtime/shm/layout.h>
#include <runtime/shm/pages.h>
#include <stdbool.h>

// Owner of a page:  kind (2 bits) | class (6) | process (24), or an object's number + 1.
typedef enum trp_owner_kind {
    TRP_OWNER_OBJECT,
    TRP_OWNER_SLAB,
    TRP_OWNER_RECLAIM,
    TRP_OWNER_IDLE, // The class says how far it has gone.
} trp_owner_kind;

// Free pages on their way to the system. 0 is free, too.
typedef enum trp_idle { TRP_IDLE_COLD, TRP_IDLE_GIVING, TRP_IDLE_HOLE } trp_idle;
#define TRP_OWNER_COLD (UINT32_C(3) << 30)
#define TRP_OWNER_HOLE (UINT32_C(3) << 30 | (uint32_t)TRP_IDLE_HOLE << 24)
// With an object's number + 1: its page was a hole, and memory may not be reserved for it yet.
#define TRP_OWNER_UNBACKED (UINT32_C(1) << 29)

static inline uint32_t trp_owner(trp_owner_kind kind, uint32_t class, uint32_t process)
{
    return (uint32_t)kind << 30 | class << 24 | process;
}
static inline trp_owner_kind trp_owner_kind_of(uint32_t owner)
{
    return (trp_owner_kind)(owner >> 30);
}
static inline uint32_t trp_owner_class(uint32_t owner)
{
    return owner >> 24 & 63;
}
static inline uint32_t trp_owner_process(uint32_t owner)
{
    return owner & 0xffffff;
}
static inline bool trp_owner_is_free(uint32_t owner)
{
    return owner == 0 || owner == TRP_OWNER_COLD || owner == TRP_OWNER_HOLE;
}
// Whether a process holds it for a moment and it may be free then.
static inline bool trp_owner_is_in_hand(uint32_t owner)
{
    return trp_owner_kind_of(owner) == TRP_OWNER_RECLAIM ||
           (trp_owner_kind_of(owner) == TRP_OWNER_IDLE && !trp_owner_is_free(owner));
}

// Place:  kind (2 bits) | count (31) | page (31), or kind | class (6) | block (16) | page (31).
typedef enum trp_place_kind { TRP_PLACE_NONE, TRP_PLACE_RUN, TRP_PLACE_BLOCK } trp_place_kind;

static inline trp_place trp_place_run(uint32_t page, uint32_t count)
{
    return (trp_place)TRP_PLACE_RUN << 62 | (trp_place)count << 31 | page;
}
static inline trp_place trp_place_block(uint32_t page, uint32_t class, uint32_t block)
{
    return (trp_place)TRP_PLACE_BLOCK << 62 | (trp_place) class << 47 | (trp_place)block << 31 |
           page;
}
static inline trp_place_kind trp_place_kind_of(trp_place place)
{
    return (trp_place_kind)(place >> 62);
}
static inline uint32_t trp_place_page(trp_place place)
{
    return place & 0x7fffffff;
}
static inline uint32_t trp_place_count(trp_place place)
{
    return place >> 31 & 0x7fffffff;
}
static inline uint32_t trp_place_class(trp_place place)
{
    return place >> 47 & 63;
}
static inline uint32_t trp_place_index(trp_place place)
{
    return place >> 31 & 0xffff;
}

enum {
    TRP_CLASSES = 30,
    TRP_BLOCK_MAX = TRP_PAGE_SIZE / 2, // Larger sizes take whole pages.
};
uint32_t trp_class_size(uint32_t class);
static inline uint32_t trp_class_blocks(uint32_t class)
{
    return TRP_PAGE_SIZE / trp_class_size(class);
}
static inline _Atomic uint32_t *trp_page_owner(uint32_t page)
{
    return &trp_page_row_at(page)->owner;
}
static inline _Atomic uint32_t *trp_block_owner(uint32_t page, uint32_t block)
{
    _Atomic uint32_t *tables =
        (_Atomic uint32_t *)(void *)(trp_segment.base + trp_segment.header->blocks_at);
    return tables + (size_t)page * TRP_PAGE_BLOCKS + block;
}
static inline uint32_t trp_pages_backed(void)
{
    // Acquire: pairs with `grow`, which raises it once the pages and their rows are backed.
    return atomic_load_explicit(&trp_segment.header->pages_backed, memory_order_acquire);
}

uint32_t trp_pages_self(void); // This process.
// Claims `count` pages in a row for the object. NO_MEMORY.
troupe_status trp_run_take(uint32_t count, size_t size, uint32_t object, _Atomic trp_place *place,
                           uint32_t *first);
// Pages were freed: a hint for all who look for a run that they may be part of.
void trp_pages_freed(uint32_t first, uint32_t count);
// Maps a long run that is about to be written, where this process has not mapped it yet. `fresh`:
// nobody has written it.
void trp_pages_warm(uint32_t first, uint32_t count, bool fresh);
void trp_pages_warm_open(void); // Nothing is mapped.
// Reserves memory for pages, or gives it back to the system; false: that failed, and nothing did.
troupe_status trp_pages_back(uint32_t first, uint32_t count);
bool trp_pages_unback(uint32_t first, uint32_t count);
// Sets the error of a store in which there is no room for `size` bytes.
troupe_status trp_pages_full(size_t size);

troupe_status trp_slab_take(size_t size, uint32_t object, _Atomic trp_place *place);
void trp_slab_free(trp_place place, uint32_t object);
// Makes empty slabs free pages again. Whether there was one.
bool trp_slab_reclaim(uint32_t process);
bool trp_slab_is_empty(uint32_t page, uint32_t class);

#endif
