// ref_visit.c: what is done to each reference inside a value that changes hands.
#include <actors/ref/ref_visit.h>

#include <actors/ref/call_table.h>
#include <actors/ref/ref.h>
#include <runtime/codec/type.h>
#include <runtime/shm/process_table.h>
#include <string.h>

static void drop(troupe_ref *ref, void *user)
{
    (void)user;
    troupe_ref_drop(*ref);
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

// From the first that cannot be kept on there are none.
static void keep(troupe_ref *ref, troupe_status *status)
{
    if (*status == TROUPE_OK)
        *status = trp_ref_keep(*ref, ref);
    else
        *ref = (troupe_ref){0};
}

static void keep_borrowed(troupe_ref *ref, void *user)
{
    if (is_borrowed(ref->id))
        keep(ref, user);
}

// All of them, or none.
static troupe_status keep_each(const trp_shape *shape, void *value,
                               void (*keep_one)(troupe_ref *ref, void *status))
{
    troupe_status status = TROUPE_OK;
    trp_value_refs(shape->type, value, keep_one, &status);
    if (status != TROUPE_OK)
        trp_refs_drop(shape, value);
    return status;
}

troupe_status trp_refs_keep_borrowed(const trp_shape *shape, void *value)
{
    return keep_each(shape, value, keep_borrowed);
}

static void share(troupe_ref *ref, void *user)
{
    if (trp_entry_behind(*ref) == 0)
        *ref = (troupe_ref){0}; // It was stale when it was put there: no failure of who reads it.
    else
        keep(ref, user);
}

troupe_status trp_refs_share(const trp_shape *shape, void *value)
{
    return keep_each(shape, value, share);
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
        TROUPE_TRY(trp_refs_share(shape, made));
    *copy = made;
    return TROUPE_OK;
}

typedef struct borrowing {
    uint64_t first;
    troupe_status status;
} borrowing;

static void borrow(troupe_ref *ref, void *user)
{
    borrowing *work = user;
    if (work->status == TROUPE_OK)
        work->status = trp_entry_alias(*ref, true, work->first, &ref->id);
    if (work->status == TROUPE_OK)
        work->first = ref->id;
}

troupe_status trp_refs_borrow(const trp_shape *shape, void *value, uint64_t *chain)
{
    borrowing work = {0};
    trp_value_refs(shape->type, value, borrow, &work);
    *chain = work.first;
    return work.status == TROUPE_INVALID
               ? troupe_fail(TROUPE_INVALID, "a reference in the arguments is stale: it was "
                                             "consumed or dropped before")
               : work.status;
}

static void take_over(troupe_ref *ref, void *user)
{
    borrowing *work = user;
    uint64_t alias = work->status == TROUPE_OK ? trp_entry_adopt(*ref, work->first) : 0;
    if (alias != 0) {
        work->first = ref->id = alias;
    } else {
        work->status = TROUPE_NO_MEMORY;
        trp_store_release(ref->id, trp_process_slot());
    }
}

troupe_status trp_refs_take_over(const trp_shape *shape, void *value, uint64_t *chain)
{
    borrowing work = {0};
    trp_value_refs(shape->type, value, take_over, &work);
    *chain = work.first;
    return work.status == TROUPE_OK
               ? TROUPE_OK
               : troupe_fail(TROUPE_NO_MEMORY, "no memory for references in a message");
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
