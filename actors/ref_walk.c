// ref_walk.c: what is done to each reference inside a value that changes hands.
#include <actors/ref_table.h>

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
        *ref = troupe_keep(*ref);
}

void trp_refs_keep_borrowed(const trp_shape *shape, void *value)
{
    trp_value_refs(shape->type, value, keep_borrowed, NULL);
}

static void share(troupe_ref *ref, void *user)
{
    (void)user;
    *ref = troupe_keep(*ref);
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
    uint64_t alias = trp_entry_alias(*ref, true);
    if (alias == 0) {
        work->stale = true;
        return;
    }
    trp_entry *entry = trp_entry_lock(alias);
    entry->next_borrowed = work->first;
    trp_entry_unlock(entry);
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

void trp_refs_return(uint64_t chain)
{
    while (chain != 0) {
        trp_entry *entry = trp_entry_lock(chain);
        if (entry == NULL)
            return;
        uint64_t next = entry->next_borrowed;
        trp_entry_unlock(entry);
        trp_entry_release(chain);
        chain = next;
    }
}
