// memory_state.h: a rank's state in memory: one object of the store, which stays there.
#ifndef TRP_MEMORY_STATE_H
#define TRP_MEMORY_STATE_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <runtime/store/store.h>
#include <troupe/train.h>

// What a rank has staged in memory for its next report.
typedef struct trp_staged {
    trp_object state;  // Held by this process; 0: none.
    bool torn;         // There was one, and it could not be kept.
    bool warned;       // That was said.
    trp_buffer packed; // Between two states: pages that were touched before are filled sooner.
} trp_staged;

// Packs a value, which replaces what was staged. TROUPE_INVALID: it has references;
// TROUPE_NO_MEMORY and TROUPE_TOO_LARGE: there is no room for it, and nothing is staged.
troupe_status trp_staged_put(trp_staged *staged, const troupe_type *type, const void *value);
// Gives up what is staged: it was sent, or is not to be.
void trp_staged_drop(trp_staged *staged);
void trp_staged_end(trp_staged *staged);

// Reads a state that this process holds; what *value points to goes to `arena`. `whose` it is
// stands in the sentences. TROUPE_WRONG_TYPE names both types.
troupe_status trp_memory_state_read(trp_object state, const char *whose, const troupe_type *type,
                                    trp_arena *arena, void *value);

#endif
