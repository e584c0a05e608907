// layout.h: where everything is in the segment, for the files of the runtime that read it there.
//
//     header | process table | doors | ledgers | object table | page table | block tables | data
//
// The file is sparse. The header and the process table are backed from the start, the rest by
// fallocate in steps before it is touched, so that no access ever ends in SIGBUS.
#ifndef TRP_SHM_LAYOUT_H
#define TRP_SHM_LAYOUT_H

#include <runtime/shm/segment.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRP_PAGE_SIZE = 64 * 1024, // The unit of space.
    TRP_BLOCK_MIN = 64,        // The smallest part of a page.
    TRP_PAGE_BLOCKS = TRP_PAGE_SIZE / TRP_BLOCK_MIN,
    TRP_OBJECTS_MAX = 1 << 18,
    TRP_LEDGER_CHUNK = 4096, // Objects by which a ledger is backed.
    TRP_OBJECT_CHUNK = 1024, // Rows of the object table that are backed at a time.
    TRP_PAGE_CHUNK = 512,    // Rows of the page table likewise.
    TRP_HINTS = 32,
    TRP_STRETCH = (2 << 20) / TRP_PAGE_SIZE, // Data pages in what may be one page of the system.
    TRP_DEATHS = 256,                        // The last ones, in the header.
    TRP_TYPE_NAMES = 256,
    TRP_TYPE_NAME = 48,
    TRP_SPILL_FOLDER_MAX = 512,
    TRP_RUN_FOLDER_MAX = 80,
};

// One object. `word` says everything about its life; the rest is written by the one process that
// its state gives the right to, before the state that lets others read it. `place` is written
// before the space is claimed, so that what a dead process had claimed is found by it: see pages.h.
typedef struct trp_object_row {
    _Alignas(64) _Atomic uint64_t word; // state (3 bits), process or epoch (23), generation (38)
    _Atomic uint64_t place;
    _Atomic uint64_t size;
    _Atomic uint64_t schema;
    _Atomic uint8_t encoding;
    _Atomic uint8_t open;     // Something that it names, near or far, may not be settled yet.
    _Atomic uint16_t awaited; // trp_row_mark: somebody may sleep on `word`. 0: nobody does.
    _Atomic uint16_t maker;   // The process that made it.
    _Atomic uint16_t kind;    // trp_object_kind. Written last, and 0 in a free row: who finds 0 in
                              // another looks at one whose other words are not written yet.
    _Atomic uint16_t keeper;  // Of what is inside: see store/nested.h.
    _Atomic uint16_t lent;    // Whether any process but the maker ever had a hold.
    _Atomic uint32_t inside;  // How many objects it names, or where it says so: store/nested.h.
    _Atomic uint32_t next;    // Of those that the node process is to free: slot + 1.
    _Atomic uint32_t made_ms; // When it was made, and when it was last pinned or let go of: see
    _Atomic uint32_t used_ms; // trp_row_now.
    _Atomic uint32_t where;   // Whether its bytes are at `place` or on disk: store/residency.h.
} trp_object_row;

// What a process holds of an object, and how often it has pinned it: see store/holds.h.
typedef uint32_t trp_ledger_cell;

// One data page.
typedef struct trp_page_row {
    _Atomic uint32_t owner;      // See pages.h.
    _Atomic uint32_t maybe_free; // Of a slab: 0 if it was found full. A hint.
} trp_page_row;

// The name of a type of which an object was made, for who looks at objects and has not that type.
typedef struct trp_type_name {
    _Atomic uint64_t schema; // 0: free. Set by who writes the rest, once.
    _Atomic uint32_t named;  // `name` is whole.
    char name[TRP_TYPE_NAME];
} trp_type_name;

// Who wants to know of what is freed.
typedef enum trp_awaited {
    TRP_AWAITED_ROOM = 1, // Somebody may sleep on `freed`.
    TRP_AWAITED_IDLE = 2, // The node process, to give memory back: on `work_rung`.
} trp_awaited;

// What the header begins with, and what never changes after. Who looks at a segment of strangers
// has a copy of it that was checked, and never reads it again.
typedef struct trp_plan {
    char magic[8];
    uint32_t version;
    uint32_t header_size;
    uint64_t capacity; // Bytes of data.
    uint64_t doors_at, ledgers_at, objects_at, pages_at, blocks_at, data_at, end_at;
    uint32_t pages_max;
    uint32_t huge; // The system gives pages of 2 MiB to who asks: see shm/huge_pages.c.
} trp_plan;

typedef struct trp_header {
    char magic[8]; // To `huge`: as in trp_plan.
    uint32_t version;
    uint32_t header_size;
    uint64_t capacity;
    uint64_t doors_at, ledgers_at, objects_at, pages_at, blocks_at, data_at, end_at;
    uint32_t pages_max;
    _Atomic uint32_t huge;
    _Atomic uint32_t pages_backed;   // Data pages that memory was reserved for: only grows.
    _Atomic uint32_t objects_backed; // Rows of the object table likewise.
    // Who is to be told that something was freed: trp_awaited. `freed` rises when there is room
    // again: see store/eviction.h.
    _Atomic uint32_t awaited, freed;
    // Objects that go to disk: where to (none: empty) and how many bytes at most; whether that was
    // made, whether small ones share a file, and when it failed last and with which errno. See
    // store/spill_file.h.
    char spill_folder[TRP_SPILL_FOLDER_MAX];
    uint64_t spill_bytes_max;
    _Atomic uint32_t spill_made, spill_sharing, spill_failed_ms, spill_told_ms, spill_error;
    char gap[64]; // Between what is read often and what is written often.
    // Hints of the allocator: any value is right.
    _Atomic uint32_t low[TRP_HINTS];        // Page: no 2^i free pages in a row begin before it.
    _Atomic uint32_t open_slabs[TRP_HINTS]; // page + 1, by size class
    _Atomic uint32_t given;                 // Rises before a page becomes a hole.
    // A bit a process: whether its ledger may hold anything.
    char other_gap[64];
    _Atomic uint64_t present[TRP_PROCESSES_MAX / 64];
    _Atomic uint64_t ledger_backed[TRP_PROCESSES_MAX]; // A bit a chunk.
    // A bit a process: what its ledger says does not count any more.
    _Atomic uint64_t ledger_closed[TRP_PROCESSES_MAX / 64];
    // From which process's ledger this one takes a hold back, + 1: see trp_store_take_back.
    _Atomic uint32_t taking[TRP_PROCESSES_MAX];
    // Objects that the node process is to free, linked by `next`: slot + 1; and a word that rises
    // with each, and when somebody frees what it awaits.
    _Atomic uint32_t orphans, work_rung;
    // Who has died, by count % TRP_DEATHS; see shm/doorbell.h. The node process writes it.
    _Atomic uint64_t deaths;
    struct {
        _Atomic uint64_t incarnation;
        _Atomic uint64_t process;
    } died[TRP_DEATHS];
    trp_node_table nodes;
    trp_type_name types[TRP_TYPE_NAMES]; // By schema % TRP_TYPE_NAMES and on from there.
    char run_folder[TRP_RUN_FOLDER_MAX]; // Where the driver can be asked: see node/query.h.
    _Atomic int foot_lines;              // At the foot of the terminal: see base/screen.h.
} trp_header;

_Static_assert(offsetof(trp_header, pages_backed) == sizeof(trp_plan) &&
                   offsetof(trp_header, huge) == offsetof(trp_plan, huge),
               "the header begins with the plan");
_Static_assert(TRP_OBJECTS_MAX / TRP_LEDGER_CHUNK <= 64, "a bit for each chunk of a ledger");
_Static_assert(sizeof(trp_object_row) == 64, "an object row is a cache line");

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

static inline trp_page_row *trp_page_row_at(uint32_t page)
{
    return (trp_page_row *)(void *)(trp_segment.base + trp_segment.header->pages_at) + page;
}

// Whether the system gives pages of 2 MiB for shared memory; and asks for them, for what is mapped
// here: for data, but not for the tables, whose parts are small and far between.
bool trp_segment_huge_allowed(void);
void trp_segment_huge_ask(void);
// Reserves memory as trp_segment_back does, by touching it: else it would come in small pages.
// False: errno says why; EINVAL: this system cannot.
bool trp_segment_huge_back(uint64_t at, uint64_t size);

// Where the process table is.
uint64_t trp_segment_processes_at(void);
// Maps the tables of a segment, its own file descriptor given, to be read and no more: not the
// objects' bytes. *plan is what its header said when that was checked: the mapping may say
// something else by now. TROUPE_CORRUPT, TROUPE_VERSION as trp_segment_attach.
troupe_status trp_segment_map_tables(int fd, const char **base, size_t *size, trp_plan *plan);
// Reserves memory for [at, at + size) of the file. NO_MEMORY with a sentence.
troupe_status trp_segment_back(uint64_t at, uint64_t size);
// Gives the memory back to the system: no process has these pages mapped any more, and none may
// touch them before they are reserved anew. False: the system does not take it.
bool trp_segment_unback(uint64_t at, uint64_t size);

#endif
