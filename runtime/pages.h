// pages.h: space inside the segment, taken and freed by any process, without locks.
//
// Space comes in data pages of 64 KiB, each with an owner word:
//
//     0              free
//     object + 1     part of that object (large objects: a run of pages)
//     SLAB | class   cut into blocks of one size, each with an owner word outside
//     RECLAIM | ...  a slab that a process looks at to make it free
//
// Every piece of space names the object that owns it, so that what a dead process had taken and not
// recorded yet is found by looking for the owner.
#ifndef TRP_PAGES_H
#define TRP_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

typedef struct trp_space {
    uint32_t page;  // First data page.
    uint32_t pages; // How many; 0: a block in a slab,
    uint32_t block; // which one.
} trp_space;

// Says which process this is. Before any other call.
void trp_pages_open(uint32_t process);
// Takes space for `size` bytes (not 0) in the name of object row `object`. NO_MEMORY: no room left.
troupe_status trp_pages_take(size_t size, uint32_t object, trp_space *space);
void trp_pages_free(const trp_space *space, uint32_t object);
// Frees whatever the object owns, recorded or not, by looking at all space.
void trp_pages_free_all(uint32_t object);
// Settles slabs that a dead process was looking at.
void trp_pages_sweep(uint32_t process);
// Offset in the segment where the space begins, and what it takes as allocated.
uint64_t trp_pages_offset(const trp_space *space);
uint64_t trp_pages_bytes(const trp_space *space);

#endif
