// residency.h: where an object's bytes are: in memory or on disk, and how they go from one to the
// other while any process may die at any instruction. The argument for each step is in
// docs/internals/runtime/spilling.md.
//
//     MEMORY --> SAVING(p) --> LEAVING(p) --> GOING(p) --> DISK, LOST --> COMING(p) --> MEMORY
//
// A row's `where`: state (3 bits), whether there may be a file (1), the process that does something
// (11), and a number that each step raises (17), so that a process that was stopped before a step
// and comes late changes nothing. In MEMORY, LEAVING and DISK a file that there is is whole: an
// object never changes, so one that came back keeps its file, and goes again from MEMORY to
// LEAVING. A row that is free is in MEMORY and has no file.
#ifndef TRP_STORE_RESIDENCY_H
#define TRP_STORE_RESIDENCY_H

#include <runtime/shm/layout.h>
#include <runtime/store/nested.h>
#include <runtime/store/row.h>

typedef enum trp_where {
    TRP_WHERE_MEMORY,
    TRP_WHERE_SAVING,  // In memory: p writes the file, or removes it.
    TRP_WHERE_LEAVING, // p looks whether anybody has pinned it.
    TRP_WHERE_GOING,   // p gives its place up.
    TRP_WHERE_DISK,
    TRP_WHERE_COMING, // p has it read.
    TRP_WHERE_LOST,   // DISK, where the file was found to be gone or damaged.
} trp_where;

static inline trp_where trp_where_state(uint32_t where)
{
    return (trp_where)(where & 7);
}
static inline bool trp_where_has_file(uint32_t where)
{
    return (where & 8) != 0;
}
static inline uint32_t trp_where_process(uint32_t where)
{
    return where >> 4 & 0x7ff;
}
static inline uint32_t trp_where_next(uint32_t where, trp_where state, bool file, uint32_t process)
{
    return ((where >> 15) + 1) << 15 | process << 4 | (uint32_t)file << 3 | (uint32_t)state;
}

// Whether the object is of a kind that may be on disk, whatever it is now. What it names must be
// known also while it is there, so not what has the ids in its own bytes.
static inline bool trp_where_movable(uint64_t word, const trp_object_row *row)
{
    uint32_t encoding = atomic_load_explicit(&row->encoding, memory_order_relaxed);
    uint32_t inside = atomic_load_explicit(&row->inside, memory_order_relaxed);
    return trp_row_state_of(word) == TRP_ROW_SEALED && encoding != TRP_ENCODING_INNER &&
           encoding != TRP_ENCODING_PARCEL && (inside == 0 || trp_inside_list(inside) != NULL);
}
static inline bool trp_where_in_memory(const trp_object_row *row)
{
    trp_where state = trp_where_state(atomic_load(&row->where));
    return state == TRP_WHERE_MEMORY || state == TRP_WHERE_SAVING;
}

// Whether a reader would have to wait for who moves it.
static inline bool trp_where_is_moved(uint32_t where)
{
    return trp_where_state(where) == TRP_WHERE_GOING || trp_where_state(where) == TRP_WHERE_COMING;
}

// Says which process this is.
void trp_where_open(uint32_t process);

// Of a row that this process has pinned: its bytes are in memory when this returns TROUPE_OK, and
// stay while it is pinned. Waits for who moves it, but not for room: NO_MEMORY. TIMED_OUT: who
// moves it was stopped, and did not go on for `patience_ms` (negative: waits for ever). CORRUPT:
// lost.
troupe_status trp_where_fetch(uint32_t slot, uint64_t generation, int patience_ms);
// Waits until nobody moves it. TIMED_OUT: somebody still does at that hour (trp_clock_ns).
troupe_status trp_where_await(uint32_t slot, uint64_t generation, int64_t deadline_ns);

// What trp_where_save says of one that stays: somebody has it pinned, or does something with it.
#define TRP_WHERE_BUSY TROUPE_BUSY
// Brings the object to disk and frees its place. One thread of the process at a time: between
// trp_where_begin (false: another did, and has been waited for) and trp_where_end.
troupe_status trp_where_save(uint32_t slot, uint64_t word);
bool trp_where_begin(void);
void trp_where_end(void);
// Removes the file of an object that is in memory. False: it has none, or somebody moves it.
// Between the same two calls.
bool trp_where_bare(uint32_t slot, uint64_t word);

// Of a row that is being freed: removes its file. Does no harm twice.
void trp_where_forget(uint32_t slot, uint64_t generation);
// The node process, after deaths: finishes what such a process was at with the row.
void trp_where_repair(uint32_t slot, bool (*is_dead)(uint32_t process, const void *set),
                      const void *set);

#endif
