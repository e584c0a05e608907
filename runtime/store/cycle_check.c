// cycle_check.c: a walk along what objects name, while others make promises true (see
// store/cycle_check.h).
//
// Only what is open is walked along: what was settled throughout when it was sealed leads to no
// promise. Promises that others are about to fulfil are walked along as well, by what their rows
// say, which may be taken back at any moment: so nothing that is reached through one of these is
// known to stay, and each id counts only if the row that it was read from is the same after.
#include <runtime/store/cycle_check.h>

#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <runtime/shm/pages.h>
#include <runtime/store/nested.h>

typedef struct found {
    trp_object id;
    bool stays; // It is held, through what is sealed, while we walk.
} found;

typedef struct walk {
    trp_object promise;
    uint64_t *seen; // A bit a row.
    found *all;     // In the order in which they were met.
    size_t count, room;
    bool closed, failed;
} walk;

static bool grow(walk *it)
{
    size_t room = it->room > 0 ? 2 * it->room : 64;
    found *all = trp_realloc(it->all, room * sizeof *all);
    if (all == NULL)
        return false;
    it->all = all;
    it->room = room;
    return true;
}

static void meet(walk *it, trp_object id, bool stays)
{
    uint32_t slot = trp_row_slot(id);
    if (id == it->promise) {
        it->closed = true;
        return;
    }
    if (!trp_inside_is_open(id) || (it->seen[slot / 64] >> slot % 64 & 1) != 0)
        return;
    it->seen[slot / 64] |= UINT64_C(1) << slot % 64;
    if (it->count < it->room || grow(it))
        it->all[it->count++] = (found){id, stays};
    else
        it->failed = true;
}

static bool is_there(trp_object id)
{
    uint64_t word;
    return trp_row_find(id, &word) != NULL;
}

static void follow_list(walk *it, found from, trp_object_row *row, uint32_t inside, bool stays)
{
    uint64_t word = atomic_load(&trp_inside_list(inside)->word);
    // As long as the row says so, that is its list.
    if (is_there(from.id) && atomic_load(&row->inside) == inside)
        meet(it, trp_row_id(inside & ~TRP_INSIDE_LIST, trp_row_generation(word)), stays);
}

static void follow(walk *it, found from)
{
    uint64_t word;
    trp_object_row *row = trp_row_find(from.id, &word);
    uint32_t inside = row != NULL ? atomic_load(&row->inside) : 0;
    TRP_FAULT("store");
    if (inside == 0)
        return;
    bool stays = from.stays && trp_row_settled(word);
    if (trp_inside_list(inside) != NULL) {
        follow_list(it, from, row, inside, stays);
        return;
    }
    trp_place place = atomic_load(&row->place);
    const trp_object *ids =
        (const trp_object *)(const void *)(trp_segment.read_only + trp_place_offset(place));
    if (!trp_inside_fits(row, inside))
        return; // Damaged, or another's by now.
    // Its row first: then the place was this object's, and there is memory behind all of it.
    for (uint32_t i = 0; i < inside && !it->closed && !it->failed && is_there(from.id); i++) {
        trp_object id = __atomic_load_n(&ids[i], __ATOMIC_RELAXED);
        if (is_there(from.id))
            meet(it, id, stays);
    }
}

// Where all that something names is settled by now, nobody need walk along it again. Last things
// first: most of what is inside was met later.
static void close_settled(const walk *it)
{
    for (size_t i = it->count; i-- > 0;) {
        uint64_t word;
        trp_object one;
        const trp_object *ids;
        trp_object_row *row = it->all[i].stays ? trp_row_find(it->all[i].id, &word) : NULL;
        if (row == NULL || !trp_row_settled(word))
            continue;
        uint32_t count = trp_inside_names(row, &one, &ids);
        bool open = false;
        for (uint32_t k = 0; k < count && !open; k++)
            open = trp_inside_is_open(ids[k]);
        if (!open)
            atomic_store(&row->open, 0);
    }
}

troupe_status trp_ring_check(trp_object promise, trp_object list)
{
    walk it = {.promise = promise, .seen = trp_alloc(TRP_OBJECTS_MAX / 8)};
    if (it.seen == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to look at what a result names");
    meet(&it, list, true);
    for (size_t i = 0; i < it.count && !it.closed && !it.failed; i++)
        follow(&it, it.all[i]);
    if (!it.closed && !it.failed)
        close_settled(&it);
    trp_free(it.all);
    trp_free(it.seen);
    if (it.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to look at what a result names");
    return !it.closed
               ? TROUPE_OK
               : troupe_fail(TROUPE_INVALID,
                             "the result of a call refers back to the reference to that result, "
                             "which was passed on: such a cycle would never be freed");
}
