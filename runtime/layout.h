// layout.h: where everything is in the segment: for segment.c, pages.c and store.c.
//
//     header | process table | ledgers | object table | page owners | block owners | data pages
//
// The file is sparse. The header and the process table are backed from the start, the rest by
// fallocate in steps before it is touched, so that no access ever ends in SIGBUS.
#ifndef TRP_LAYOUT_H
#define TRP_LAYOUT_H

#include <runtime/segment.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRP_PAGE_SIZE = 64 * 1024, // The unit of space.
    TRP_BLOCKS_SIZE = 4096,    // Of the owner words of a page's blocks.
    TRP_OBJECTS_MAX = 65536,
    TRP_LEDGER_CHUNK = 2048, // Objects in one system page of a ledger.
    TRP_LEDGER_CHUNKS = TRP_OBJECTS_MAX / TRP_LEDGER_CHUNK,
    TRP_OBJECT_CHUNK = 1024, // Rows of the object table that are backed at a time.
};

// One object. `word` says everything about its life; the rest is written by the one process that
// its state gives the right to, before the state that lets others read it.
typedef struct trp_object_row {
    _Atomic uint64_t word;  // state (3 bits), owner process (12), epoch (17), generation (32)
    _Atomic uint32_t page;  // First data page + 1; 0: no space recorded.
    _Atomic uint32_t block; // Block in a slab + 1; 0: whole pages.
    uint64_t size;
    uint64_t schema;
    uint32_t encoding;
    _Atomic uint32_t pages;      // Of whole pages: how many.
    _Atomic uint32_t fulfilling; // Of a promise: a thread is giving it its bytes.
    uint32_t unused[5];
} trp_object_row;

typedef struct trp_header {
    char magic[8];
    uint32_t version;
    uint32_t header_size;
    uint64_t capacity; // Bytes of data.
    uint64_t ledgers_at, objects_at, owners_at, blocks_at, data_at, end_at;
    uint32_t pages_max;
    _Atomic uint32_t deaths;
    _Atomic uint32_t pages_backed;   // Data pages that memory is reserved for: only grows.
    _Atomic uint32_t objects_backed; // Rows of the object table likewise.
    _Atomic uint32_t processes_high; // Slots from here on never held anything.
    _Atomic uint32_t ledger_backed[TRP_PROCESSES_MAX]; // A bit a chunk.
} trp_header;

// The segment as mapped here: writable, and read only at the same offsets.
extern struct trp_segment {
    int fd;
    char *base;
    const char *read_only;
    trp_header *header;
    size_t size; // Of either mapping.
} trp_segment;

static inline trp_object_row *trp_object_row_at(uint32_t slot)
{
    return (trp_object_row *)(void *)(trp_segment.base + trp_segment.header->objects_at) + slot;
}

// Reserves memory for [at, at + size) of the file. NO_MEMORY with a sentence.
troupe_status trp_segment_back(uint64_t at, uint64_t size);

#endif
