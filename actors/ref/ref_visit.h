// ref_visit.h: what is done to each reference inside a value that changes hands.
#ifndef TRP_REF_REF_VISIT_H
#define TRP_REF_REF_VISIT_H

#include <actors/ref/call_table.h>

// Drops each reference in a value / replaces each borrowed one by one that is kept / adds an owner
// to each. Where they fail, as troupe_ref_keep, the value has no references any more.
void trp_refs_drop(const trp_shape *shape, void *value);
troupe_status trp_refs_keep_borrowed(const trp_shape *shape, void *value);
troupe_status trp_refs_share(const trp_shape *shape, void *value);

// Copies arguments that are kept beside the call which has them: each reference has one owner more.
troupe_status trp_args_copy(const trp_shape *shape, const void *args, trp_arena *arena,
                            void **copy);

// Replaces each reference in a value by a borrowed alias, and chains them: *chain is the first.
// TROUPE_INVALID: one is stale; TROUPE_NO_MEMORY.
troupe_status trp_refs_borrow(const trp_shape *shape, void *value, uint64_t *chain);

// The same for references to objects, whose holds are those in the list and become the aliases'.
// On failure the others are given back; what is chained is not. MALFORMED: the list is another.
troupe_status trp_refs_adopt(const trp_shape *shape, void *value, const trp_listed *listed,
                             uint64_t *chain);

// The same where each names an object of which this process has a hold that becomes the alias's. On
// failure those of the others are given back.
troupe_status trp_refs_take_over(const trp_shape *shape, void *value, uint64_t *chain);
void trp_refs_return(uint64_t chain);

#endif
