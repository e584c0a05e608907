// row.h: the words and ids of object rows, and what the files of the store share (see
// store.h; the argument for each step is in docs/internals/runtime/store.md).
//
// A row's word holds its state, its generation and a tag: while something is half done, the process
// that does it (so that after its death the sweep knows what to finish); once the object is
// settled, the epoch of its holds. All accesses that decide about life are sequentially consistent.
#ifndef TRP_STORE_ROW_H
#define TRP_STORE_ROW_H

#include <runtime/shm/layout.h>
#include <runtime/store/store.h>
#include <time.h>

typedef enum trp_row_state {
    TRP_ROW_FREE,
    TRP_ROW_FILLING,    // by the process in the tag
    TRP_ROW_PROMISED,   // by the process in the tag
    TRP_ROW_FULFILLING, // a promise that the process in the tag is giving its bytes
    TRP_ROW_SEALED,     // settled, from here: the tag is the epoch
    TRP_ROW_FAILED,
    TRP_ROW_SHARED,  // to here
    TRP_ROW_FREEING, // by the process in the tag
} trp_row_state;

// A tag is wide enough that it does not come round while somebody reads the holds, and a generation
// that a stale id is not met again by chance.
enum {
    TRP_STATE_BITS = 3,
    TRP_TAG_BITS = 23,
    TRP_GENERATION_BITS = 64 - TRP_STATE_BITS - TRP_TAG_BITS,
    TRP_ID_SLOT_BITS = 20,
};
#define TRP_TAG_MASK ((1u << TRP_TAG_BITS) - 1)
#define TRP_ID_BIT (UINT64_C(1) << 63)
#define TRP_GENERATION_MASK ((UINT64_C(1) << TRP_GENERATION_BITS) - 1)

static inline uint64_t trp_row_word(trp_row_state state, uint32_t tag, uint64_t generation)
{
    return (uint64_t)state | (uint64_t)tag << TRP_STATE_BITS |
           generation << (TRP_STATE_BITS + TRP_TAG_BITS);
}

static inline trp_row_state trp_row_state_of(uint64_t word)
{
    return (trp_row_state)(word & ((1u << TRP_STATE_BITS) - 1));
}

static inline uint32_t trp_row_tag(uint64_t word)
{
    return word >> TRP_STATE_BITS & TRP_TAG_MASK;
}

static inline uint64_t trp_row_generation(uint64_t word)
{
    return word >> (TRP_STATE_BITS + TRP_TAG_BITS);
}

// What who waits for an object leaves in its row (`awaited`); not 0.
static inline uint16_t trp_row_mark(uint64_t word)
{
    return (uint16_t)(trp_row_generation(word) % UINT16_MAX + 1);
}

static inline bool trp_row_unsettled(uint64_t word)
{
    trp_row_state state = trp_row_state_of(word);
    return state == TRP_ROW_FILLING || state == TRP_ROW_PROMISED || state == TRP_ROW_FULFILLING;
}

static inline bool trp_row_settled(uint64_t word)
{
    trp_row_state state = trp_row_state_of(word);
    return state == TRP_ROW_SEALED || state == TRP_ROW_FAILED || state == TRP_ROW_SHARED;
}

static inline trp_object trp_row_id(uint32_t slot, uint64_t generation)
{
    return TRP_ID_BIT | generation << TRP_ID_SLOT_BITS | slot;
}

static inline uint32_t trp_row_slot(trp_object id)
{
    return (uint32_t)id & ((1u << TRP_ID_SLOT_BITS) - 1);
}

// The hour for rows: milliseconds that wrap round after 49 days; only differences mean anything.
static inline uint32_t trp_row_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint32_t)now.tv_sec * 1000 + (uint32_t)(now.tv_nsec / 1000000);
}

// How long before `now_ms` something was noted. What others have noted since then was just now, not
// 49 days ago.
static inline uint32_t trp_row_age(uint32_t noted_ms, uint32_t now_ms)
{
    enum { AHEAD_MS = 60000 };
    uint32_t age_ms = now_ms - noted_ms;
    return age_ms > UINT32_MAX - AHEAD_MS ? 0 : age_ms;
}

// This process's ledger.
extern uint32_t trp_store_self;

// What a new object is for, until somebody says otherwise.
static inline trp_object_kind trp_row_kind(trp_row_state state, trp_encoding encoding)
{
    if (encoding == TRP_ENCODING_INNER)
        return TRP_KIND_INNER;
    return state == TRP_ROW_PROMISED ? TRP_KIND_RESULT : TRP_KIND_VALUE;
}

// Adds to the thread's last error who holds the store. Returns its status.
troupe_status trp_store_blame(void);
// As trp_store_create, without that. `make_room`: brings others to disk for it.
troupe_status trp_store_try(size_t size, uint64_t schema, trp_encoding encoding, bool make_room,
                            trp_object *id, void **data);

// The row behind an id, with its word; NULL if the id is stale or was never one.
trp_object_row *trp_row_find(trp_object id, uint64_t *word);
// Frees a row that is FREEING, by this process or by one that died doing so. Each step does no harm
// twice.
void trp_row_free(uint32_t slot);
// Frees the object if it is settled and nobody holds it.
void trp_row_free_if_unheld(uint32_t slot);
// From the unsettled `word` to a settled state; who waits is woken. False if it was another by now.
bool trp_row_settle(uint32_t slot, uint64_t word, trp_row_state state);
// Wakes who waits for the row's word, which is of that generation, to change.
void trp_row_wake(trp_object_row *row, uint64_t word);
// Says, once a process, that a word of a row is not what it was: some process of the node has
// written where it should not.
void trp_row_say_damaged(uint32_t slot);
// Wakes the thread of the node process that waits for work (trp_store_await_work).
void trp_store_ring_node(void);

#endif
