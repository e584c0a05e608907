// page_words.h: what the words of the segment's pages and of an object's place mean.
#ifndef TRP_SHM_PAGE_WORDS_H
#define TRP_SHM_PAGE_WORDS_H

#include <runtime/shm/layout.h>
#include <runtime/shm/pages.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TRP_BLOCK_MAX = TRP_PAGE_SIZE / 2 }; // Larger sizes take whole pages.

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

static inline _Atomic uint32_t *trp_page_owner(uint32_t page)
{
    return &trp_page_row_at(page)->owner;
}
static inline uint32_t trp_pages_backed(void)
{
    // Acquire: pairs with `grow`, which raises it once the pages and their rows are backed.
    return atomic_load_explicit(&trp_segment.header->pages_backed, memory_order_acquire);
}

#endif
