// group.c: one message to each of many actors, and all their answers: as an array, or as one
// reference.
#include <actors/lib/group.h>

#include <actors/async/async.h>
#include <actors/call/call.h>
#include <actors/class/call_error.h>
#include <actors/class/class.h>
#include <actors/class/take_once.h>
#include <actors/ref/call_table.h>
#include <actors/ref/leaks.h>
#include <actors/ref/ref.h>
#include <actors/ref/ref_visit.h>
#include <actors/ref/result.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <troupe/pool.h>

// ---- to all

troupe_status troupe_group_tell_as(const troupe_actor *actors, size_t count,
                                   const troupe_class *class_, size_t method, const void *args)
{
    if (count > 0)
        TRP_REQUIRE(actors);
    TRP_REQUIRE(class_);
    TRP_REQUIRE(args);
    TRP_REQUIRE_COUNT(count, sizeof *actors);
    troupe_error first = {.status = TROUPE_OK};
    for (size_t i = 0; i < count; i++) {
        if (troupe_tell_as(actors[i], class_, method, args) == TROUPE_OK ||
            first.status != TROUPE_OK)
            continue;
        (void)trp_error_prefix("actor %zu of %zu", i, count);
        first = *troupe_last_error();
    }
    return first.status == TROUPE_OK ? TROUPE_OK : trp_error_set(&first);
}

void troupe_group_call_as(const troupe_actor *actors, size_t count, const troupe_class *class_,
                          size_t method, const void *args, size_t stride, troupe_ref *refs)
{
    if (TRP_IS_NULL(refs) || TRP_IS_ABSURD(count, sizeof *refs))
        return;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *own = args != NULL ? (const unsigned char *)args + i * stride : NULL;
        refs[i] = TRP_IS_NULL(actors) ? trp_call_failed(TRP_NULL(actors))
                                      : troupe_call_as(actors[i], class_, method, own);
        TRP_LEAKS_MADE(refs[i], "troupe_group_call");
    }
}

// ---- one reference to all

typedef struct joint {
    trp_registered row;     // Under the number of its own row.
    _Atomic uint32_t holds; // Of the registry, and of who cancels.
    const troupe_type *array;
    _Atomic size_t missing; // And one more, until all are looked at.
    size_t count;
    troupe_ref refs[];
} joint;

// What every kind of counted array looks like.
typedef struct any_array {
    const void *items;
    size_t count;
} any_array;

static trp_registry joints TRP_VAST; // Those whose parts have not all ended.

__attribute__((constructor)) static void make_registry(void)
{
    trp_registry_init(&joints);
}

static void release(joint *all)
{
    if (atomic_fetch_sub(&all->holds, 1) == 1)
        trp_free(all);
}

static void end_joint(joint *all)
{
    trp_arena arena = {0};
    trp_result result;
    trp_shape shape = trp_shape_of(all->array);
    trp_arena *before = trp_arena_swap(&arena);
    size_t size = all->array->item->size;
    void *values = trp_arena_alloc(&arena, all->count * size + 1);
    troupe_status status = TROUPE_NO_MEMORY;
    if (values != NULL)
        status = troupe_get_all_as(all->array->item, all->refs, all->count, values, TROUPE_FOREVER);
    any_array array = {values, values != NULL ? all->count : 0};
    if (status == TROUPE_OK) {
        trp_result_copy(&result, &shape, &array);
    } else {
        troupe_error failure = *troupe_last_error();
        if (status == TROUPE_TIMED_OUT) { // A stopped process moves one to disk or back.
            failure.status = status = TROUPE_DEADLINE_EXCEEDED;
            for (size_t i = 0; i < all->count; i++)
                troupe_ref_drop(all->refs[i]);
        }
        trp_refs_drop(&shape, &array); // Of those that did not fail.
        if (failure.status != status)
            failure = trp_failure(status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_MAYBE,
                                  "no memory for %zu answers", all->count);
        trp_result_fail(&result, &failure);
    }
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    (void)trp_registry_take(&joints, all->row.id);
    (void)trp_entry_resolve(all->row.id, &result);
    release(all);
}

static void note_one(void *user, troupe_ref ref)
{
    joint *all = user;
    (void)ref;
    if (atomic_fetch_sub(&all->missing, 1) == 1)
        end_joint(all);
}

troupe_ref troupe_ref_join_as(const troupe_type *array_type, const troupe_ref *refs, size_t count)
{
    if (TRP_IS_NULL(array_type))
        return trp_call_failed(TRP_NULL(array_type));
    if (count > 0 && TRP_IS_NULL(refs))
        return trp_call_failed(TRP_NULL(refs));
    if (TRP_IS_ABSURD(count, sizeof *refs))
        return trp_call_failed(TRP_ABSURD(count));
    trp_target nowhere = {0};
    uint64_t schema = trp_type_note(array_type);
    joint *all = trp_alloc(sizeof *all + count * sizeof all->refs[0]);
    troupe_ref whole = {TRP_REF_NO_MEMORY, schema};
    if (all != NULL)
        whole.id = trp_entry_call(schema, &nowhere, 0);
    if (whole.id == TRP_REF_NO_MEMORY) {
        trp_free(all);
        for (size_t i = 0; i < count; i++)
            troupe_ref_drop(refs[i]);
        return whole;
    }
    all->row.id = whole.id;
    all->holds = 1;
    all->array = array_type;
    all->count = count;
    all->missing = count + 1;
    for (size_t i = 0; i < count; i++)
        all->refs[i] = refs[i];
    trp_registry_add(&joints, &all->row);
    for (size_t i = 0; i < count; i++)
        trp_ref_when(refs[i], note_one, all);
    note_one(all, whole);
    TRP_LEAKS_MADE(whole, "troupe_ref_join");
    return whole;
}

bool trp_join_cancel(uint64_t call, const troupe_cancel_options *how, troupe_status *status)
{
    joint *all = (joint *)trp_registry_lock(&joints, call);
    if (all == NULL)
        return false;
    atomic_fetch_add(&all->holds, 1);
    trp_registry_unlock(&joints, call);
    size_t count = 0;
    troupe_error worst = {.status = TROUPE_NOT_FOUND}; // That one has ended is none for the whole.
    for (size_t i = 0; i < all->count; i++) {
        troupe_status one = troupe_cancel_with(all->refs[i], how);
        count += one == TROUPE_OK;
        if (one != TROUPE_OK && (i == 0 || one == TROUPE_UNSUPPORTED))
            worst = *troupe_last_error();
    }
    *status = count > 0 ? TROUPE_OK : trp_error_set(&worst);
    release(all);
    return true;
}
