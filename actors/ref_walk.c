// ref_walk.c: what is done to each reference inside a value that changes hands.
#include <actors/ref_table.h>

#include <actors/ref.h>
#include <runtime/process.h>
#include <string.h>

static void drop(troupe_ref *ref, void *user)
{
    (void)user;
    troupe_drop(*ref);
}

void trp_refs_drop(const trp_shape *shape, void *value)
{
    if (shape->refs)
        trp_value_refs(shape->type, value, drop, NULL);
}

static bool is_borrowed(uint64_t id)
{
    trp_entry *entry = trp_entry_lock(id);
    bool borrowed = entry != NULL && entry->borrowed;
    if (entry != NULL)
        trp_entry_unlock(entry);
    return borrowed;
}

static void keep_borrowed(troupe_ref *ref, void *user)
{
    (void)user;
    if (is_borrowed(ref->id))
        *ref = trp_ref_keep(*ref);
}

void trp_refs_keep_borrowed(const trp_shape *shape, void *value)
{
    trp_value_refs(shape->type, value, keep_borrowed, NULL);
}

static void share(troupe_ref *ref, void *user)
{
    (void)user;
    *ref = trp_ref_keep(*ref);
}

void trp_refs_share(const trp_shape *shape, void *value)
{
    trp_value_refs(shape->type, value, share, NULL);
}

troupe_status trp_args_copy(const trp_shape *shape, const void *args, trp_arena *arena, void **copy)
{
    void *made = trp_arena_alloc(arena, shape->type->size);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for arguments");
    if (shape->flat)
        memcpy(made, args, shape->type->size);
    else
        TROUPE_TRY(trp_value_copy(shape->type, args, arena, made));
    if (shape->refs)
        trp_refs_share(shape, made);
    *copy = made;
    return TROUPE_OK;
}

typedef struct borrowing {
    uint64_t first;
    bool stale;
} borrowing;

static void borrow(troupe_ref *ref, void *user)
{
    borrowing *work = user;
    uint64_t alias = trp_entry_borrow(*ref, work->first);
    if (alias == 0)
        work->stale = true;
    else
        work->first = ref->id = alias;
}

troupe_status trp_refs_borrow(const trp_shape *shape, void *value, uint64_t *chain)
{
    borrowing work = {0};
    trp_value_refs(shape->type, value, borrow, &work);
    *chain = work.first;
    return work.stale ? troupe_fail(TROUPE_INVALID, "a reference in the arguments is stale: it was "
                                                    "consumed or dropped before")
                      : TROUPE_OK;
}

typedef struct adopting {
    const trp_listed *listed;
    size_t next; // The first that is not an alias's yet.
    uint64_t first;
    troupe_status status;
} adopting;

// The sender made its list by the same walk, so it is in the same order.
static void adopt(troupe_ref *ref, void *user)
{
    adopting *work = user;
    if (work->status != TROUPE_OK)
        return;
    if (work->next == work->listed->count || (ref->id & TRP_REF_OBJECT) == 0 ||
        trp_listed_at(work->listed, work->next) != ref->id) {
        work->status = TROUPE_MALFORMED;
        return;
    }
    uint64_t alias = trp_entry_adopt(*ref, work->first);
    if (alias == 0) {
        work->status = TROUPE_NO_MEMORY;
        return;
    }
    work->next++;
    work->first = ref->id = alias;
}

troupe_status trp_refs_adopt(const trp_shape *shape, void *value, const trp_listed *listed,
                             uint64_t *chain)
{
    adopting work = {.listed = listed};
    trp_value_refs(shape->type, value, adopt, &work);
    *chain = work.first;
    if (work.status == TROUPE_OK && work.next != listed->count)
        work.status = TROUPE_MALFORMED;
    if (work.status == TROUPE_OK)
        return TROUPE_OK;
    trp_listed_release(listed, work.next);
    return work.status == TROUPE_NO_MEMORY
               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for references in a message")
               : troupe_fail(TROUPE_MALFORMED, "a message lists other references than it has");
}

void trp_refs_return(uint64_t chain)
{
    while (chain != 0)
        chain = trp_entry_return(chain);
}
