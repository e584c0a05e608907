// result.c: how a call ended, kept until it is fetched (see ref_table.h).
#include <actors/ref_table.h>

#include <runtime/memory.h>
#include <string.h>

void trp_result_fail(trp_result *result, const troupe_error *failure)
{
    *result = (trp_result){.kind = TRP_RESULT_FAILURE};
    result->failure = trp_alloc(sizeof *failure);
    if (result->failure != NULL)
        *result->failure = *failure;
}

void trp_result_copy(trp_result *result, const trp_shape *shape, const void *value)
{
    const troupe_type *type = shape->type;
    *result = (trp_result){.kind = TRP_RESULT_VALUE, .shape = *shape};
    result->schema = troupe_type_hash(type);
    void *copy = result->small;
    if (type->size > sizeof result->small)
        copy = result->value = trp_alloc(type->size);
    if (copy == NULL)
        goto no_memory;
    if (shape->flat)
        memcpy(copy, value, type->size);
    else if (trp_value_copy(type, value, &result->arena, copy) != TROUPE_OK)
        goto no_memory;
    return;

no_memory:
    trp_refs_drop(shape, (void *)value);
    trp_arena_clear(&result->arena);
    trp_free(result->value);
    *result = (trp_result){.kind = TRP_RESULT_FAILURE};
}

const void *trp_result_value(const trp_result *result)
{
    return result->value != NULL ? result->value : result->small;
}

void trp_result_free(trp_result *result)
{
    if (result->kind == TRP_RESULT_VALUE && !result->moved)
        trp_refs_drop(&result->shape, (void *)trp_result_value(result));
    if (result->kind == TRP_RESULT_BODY) {
        result->body.kept = result->moved;
        trp_body_drop(&result->body);
    }
    trp_arena_clear(&result->arena);
    trp_free(result->value);
    trp_free(result->failure);
    *result = (trp_result){.kind = TRP_RESULT_FAILURE};
}
