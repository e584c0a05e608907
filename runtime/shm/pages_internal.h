// pages_internal.h: what pages.c (runs of pages) and shm/slab.c (blocks of a page) share.
#ifndef TRP_SHM_PAGES_INTERNAL_H
#define TRP_SHM_PAGES_INTERNAL_H

#include <runtime/shm/page_words.h>
#include <runtime/shm/pages.h>
#include <stdbool.h>

enum {
    TRP_CLASSES = 30,
};
uint32_t trp_class_size(uint32_t class);
static inline uint32_t trp_class_blocks(uint32_t class)
{
    return TRP_PAGE_SIZE / trp_class_size(class);
}
static inline _Atomic uint32_t *trp_block_owner(uint32_t page, uint32_t block)
{
    _Atomic uint32_t *tables =
        (_Atomic uint32_t *)(void *)(trp_segment.base + trp_segment.header->blocks_at);
    return tables + (size_t)page * TRP_PAGE_BLOCKS + block;
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
