// nested.h: objects that name others. The ids lie in front of the value, 8 bytes each, or in
// a list, which is an object of its own that the first one names; what they name is held, once for
// each, in the ledger of one process, the object's keeper: its maker, or the node process, which
// adopts what a dead keeper had. Only the keeper itself and the node process take from that ledger
// for it, so no death leaves a count that is wrong (docs/internals/runtime/nested-objects.md).
#ifndef TRP_STORE_NESTED_H
#define TRP_STORE_NESTED_H

#include <runtime/shm/pages.h>
#include <runtime/store/row.h>
#include <runtime/store/store.h>

// A row's `inside`: how many ids lie in front of its value; or this bit, and the row of its list.
#define TRP_INSIDE_LIST (UINT32_C(1) << 31)

// The row of the list that `inside` says; NULL: it has none.
static inline trp_object_row *trp_inside_list(uint32_t inside)
{
    uint32_t slot = inside & ~TRP_INSIDE_LIST;
    return (inside & TRP_INSIDE_LIST) != 0 && slot < TRP_OBJECTS_MAX ? trp_object_row_at(slot)
                                                                     : NULL;
}

// Whether the row's memory has room for so many ids: else one of its words was damaged.
static inline bool trp_inside_fits(const trp_object_row *row, uint64_t count)
{
    uint64_t size = atomic_load_explicit(&row->size, memory_order_relaxed);
    return count * sizeof(trp_object) <= size &&
           trp_place_holds(atomic_load_explicit(&row->place, memory_order_relaxed), size);
}

// What a row names that does not change meanwhile: how many, and where their ids are. *one is room
// for an id.
uint32_t trp_inside_names(trp_object_row *row, trp_object *one, const trp_object **ids);
// Whether an object, or anything that it names, near or far, may not be settled yet. It never
// becomes true of one of which it is not.
bool trp_inside_is_open(trp_object id);

// Frees a row that this process has just made FREEING: with what is inside, or by the node process.
void trp_inside_free(uint32_t slot);
// The node process alone, one thread at a time, and never beside a sweep: takes over what dead
// keepers had in objects that live, before their ledgers are closed;
void trp_inside_adopt(bool (*is_dead)(uint32_t process, const void *user), const void *user);
// frees what the others have left it to free;
void trp_inside_drain(void);
// and frees a row that a process was freeing when it died, after trp_inside_drain.
void trp_inside_free_left(uint32_t slot);

// The object, which is being filled by this process, will name others: their ids are the first
// `count` * 8 bytes of its memory, and not part of its value. This process has a hold of each (once
// more for each time that it is named), which is the object's from now on.
troupe_status trp_store_contain(trp_object id, uint32_t count);

#endif
