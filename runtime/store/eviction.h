// eviction.h: room in a full store: objects that are not being read go to disk, those used longest
// ago first; threads that can wait are woken when there may be more; and the holders are named in
// the error text where there is none.
#ifndef TRP_STORE_EVICTION_H
#define TRP_STORE_EVICTION_H

#include <runtime/shm/layout.h>
#include <runtime/store/store.h>

// As trp_store_create, but brings others to disk until there is room. Does not wait for any, and
// may be called with locks of layers above held.
troupe_status trp_room_create(size_t size, uint64_t schema, trp_encoding encoding, trp_object *id,
                              void **data);
// The same without saying who has the room, for who tries more than once.
troupe_status trp_room_try(size_t size, uint64_t schema, trp_encoding encoding, trp_object *id,
                           void **data);
// Brings objects to disk, for `size` bytes and some more. False: none was; to try again is
// pointless before somebody gives something up.
bool trp_room_make(size_t size);

// To wait for room: asks for what rises when there may be some, tries, and waits while it is that,
// `timeout_ms` at most.
uint32_t trp_room_expect(void);
void trp_room_wait(uint32_t seen, int timeout_ms);
void trp_room_wake(void);
// An object was freed, or is not pinned any more.
static inline void trp_room_rise(void)
{
    // Pairs with trp_room_expect: it writes this and then tries; we freed and now read it. So does
    // trp_pages_tend.
    if (atomic_load(&trp_segment.header->awaited) != 0)
        trp_room_wake();
}
// The same after a death: who died may have taken it upon itself to wake the others.
void trp_room_rise_for_all(void);

// Adds to the last error, which says that there is no room, who has most of it, and why no more
// goes to disk. `waited_ms`: 0: not at all.
troupe_status trp_room_explain(int64_t waited_ms);

#endif
