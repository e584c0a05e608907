// pages.h: space inside the segment, taken and freed by any process, without locks.
//
// Space comes in data pages of 64 KiB, each with an owner word:
//
//     0                 free
//     object + 1        part of that object (large objects: a run of pages), or about to be a slab
//     SLAB | class      cut into blocks of one size, whose owners are in the page's block table
//     RECLAIM | ...     a slab that a process looks at to make it free
//     COLD              free for a while
//     GIVING | process  free, and that process gives its memory back to the system
//     HOLE              free, without memory; object + 1 | UNBACKED is taken from that, but there
//                       may be no memory yet
//
// Every piece of space names the object that owns it, and the object's row names the piece (its
// place) from before it is claimed: so what a dead process had claimed is found by its rows, and
// freeing a place means to free whatever of it names the object, right at any moment and as often
// as one likes.
#ifndef TRP_SHM_PAGES_H
#define TRP_SHM_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

// Where an object's bytes are: a run of pages or a block of a slab; 0: nowhere.
typedef uint64_t trp_place;

// Says which process this is. Before any other call.
void trp_pages_open(uint32_t process);
// Takes space for `size` bytes (not 0) in the name of object row `object`, 64-byte aligned and
// backed; *place says where, also while it is tried. NO_MEMORY: no room left; nothing is taken
// then.
troupe_status trp_pages_take(size_t size, uint32_t object, _Atomic trp_place *place);
// Frees whatever of `place` names the object.
void trp_pages_free(trp_place place, uint32_t object);
// Settles pages that a dead process had in hand: slabs that it looked at, and what it gave back.
void trp_pages_sweep(uint32_t process);

enum { TRP_PAGES_KEEP = 16 }; // 1 MiB.

// Offset in the segment where the space begins, and what it takes as allocated (nowhere: 0).
uint64_t trp_place_offset(trp_place place);
uint64_t trp_place_bytes(trp_place place);
// Whether the place is one of the segment's and has room for so many bytes: a process that wrote
// where it should not may have put anything there.
bool trp_place_holds(trp_place place, uint64_t size);

#endif
