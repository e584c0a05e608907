// split.c: several results of one call: a reference to each field of the record that it answers.
//
// Each part is a row of the reference table, pending until the whole is ready; then the whole is
// read once, and each part gets its field as a result of its own. So a part costs what it holds,
// and nothing of the whole stays.
#include <actors/call/call.h>
#include <actors/class/call_error.h>
#include <actors/ref/call_table.h>
#include <actors/ref/leaks.h>
#include <actors/ref/ref.h>
#include <actors/ref/ref_visit.h>
#include <actors/ref/result.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>

typedef struct splitting {
    const troupe_type *type;
    troupe_ref whole; // Kept.
    size_t count;
    uint64_t rows[]; // Of the fields; 0: nobody wants that one.
} splitting;

static void resolve_field(uint64_t row, const troupe_field *field, const void *value)
{
    trp_shape shape = trp_shape_of(field->type);
    trp_result result;
    if (row == 0) {
        trp_refs_drop(&shape, (void *)value);
        return;
    }
    trp_result_copy(&result, &shape, value);
    (void)trp_entry_resolve(row, &result);
}

static void fail_all(const splitting *it, troupe_status status)
{
    troupe_error failure = *troupe_last_error();
    if (failure.status != status || failure.outcome == TROUPE_OUTCOME_NONE)
        failure = trp_failure_last(status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_MAYBE);
    for (size_t i = 0; i < it->count; i++)
        if (it->rows[i] != 0)
            (void)trp_entry_fail(it->rows[i], &failure);
}

// The whole is ready. May run where nothing may wait, with the method's own last error set.
static void end_splitting(void *user, troupe_ref ref)
{
    splitting *it = user;
    (void)ref;
    trp_arena arena = {0};
    troupe_error before;
    trp_error_hold(&before);
    trp_arena *outer = trp_arena_swap(&arena);
    unsigned char *value = trp_arena_alloc(&arena, it->type->size);
    troupe_status status =
        value != NULL
            ? troupe_get_as(it->type, it->whole, value, TROUPE_FOREVER)
            : troupe_fail(TROUPE_NO_MEMORY, "no memory for a value of type '%s'", it->type->name);
    if (value == NULL || status == TROUPE_TIMED_OUT)
        troupe_ref_drop(it->whole);
    if (status != TROUPE_OK)
        fail_all(it, status);
    for (size_t i = 0; i < it->count && status == TROUPE_OK; i++)
        resolve_field(it->rows[i], &it->type->fields[i], value + it->type->fields[i].offset);
    (void)trp_arena_swap(outer);
    trp_arena_clear(&arena);
    trp_error_restore(&before);
    trp_free(it);
}

static troupe_status check(const troupe_type *type, size_t count, troupe_ref ref)
{
    if (ref.id == TRP_REF_NO_MEMORY)
        return troupe_fail(TROUPE_NO_MEMORY, "there was no memory for the call to be split");
    TROUPE_TRY(trp_type_check(type));
    if (type->kind != TROUPE_KIND_RECORD || type->field_count != count)
        return troupe_fail(TROUPE_INVALID,
                           "%zu references were asked for, to the fields of '%s', which is not a "
                           "TROUPE_STRUCT with that many",
                           count, type->name);
    for (size_t i = 0; i < count; i++)
        if (type->fields[i].count > 0)
            return troupe_fail(
                TROUPE_UNSUPPORTED,
                "field '%s' of '%s' is a fixed array, which is not a value by itself: expected a "
                "counted array (troupe_array_...), or a record around it",
                type->fields[i].name, type->name);
    return trp_entry_behind(ref) != 0
               ? TROUPE_OK
               : troupe_fail(TROUPE_INVALID, "the reference is empty or stale: it was consumed or "
                                             "dropped before");
}

// References that all fail with the thread's last error.
static void refuse(troupe_ref *const *parts, size_t count, troupe_status status)
{
    for (size_t i = 0; i < count && parts != NULL; i++)
        if (parts[i] != NULL)
            *parts[i] = trp_call_failed(status);
}

void troupe_ref_split_as(const troupe_type *type, troupe_ref ref, troupe_ref *const *parts,
                         size_t count)
{
    trp_target nowhere = {0};
    troupe_status status = check(type, count, ref);
    splitting *it = NULL;
    if (status == TROUPE_OK && (it = trp_alloc(sizeof *it + count * sizeof it->rows[0])) == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory to split a call's result");
    if (status == TROUPE_OK)
        status = trp_ref_keep(ref, &it->whole);
    troupe_ref_drop(ref);
    if (status != TROUPE_OK) {
        trp_free(it);
        refuse(parts, count, status);
        return;
    }
    it->type = type;
    it->count = count;
    for (size_t i = 0; i < count; i++) {
        if (parts[i] == NULL)
            continue;
        uint64_t schema = trp_type_note(type->fields[i].type);
        uint64_t row = trp_entry_call(schema, &nowhere, 0);
        *parts[i] = (troupe_ref){row, schema};
        if (row == TRP_REF_NO_MEMORY)
            continue;
        trp_entry_part(row, it->whole.id);
        it->rows[i] = row;
        TRP_LEAKS_MADE(*parts[i], "troupe_ref_split");
    }
    trp_ref_when(it->whole, end_splitting, it);
}
