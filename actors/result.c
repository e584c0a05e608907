// result.c: how a call ended, kept until it is fetched (see ref_table.h).
#include <actors/ref_table.h>

#include <runtime/memory.h>
#include <string.h>

void trp_result_fail(trp_result *result, const troupe_error *failure)
{
    result->kind = TRP_RESULT_FAILURE;
    result->moved = false;
    result->failure = trp_alloc(sizeof *failure);
    if (result->failure != NULL)
        *result->failure = *failure;
}

// NULL: no memory.
static trp_held_value *hold(const trp_shape *shape, const void *value)
{
    const troupe_type *type = shape->type;
    trp_held_value *held = trp_alloc(sizeof *held + type->size);
    if (held == NULL)
        return NULL;
    held->shape = *shape;
    if (shape->flat) {
        memcpy(held->bytes, value, type->size);
        return held;
    }
    if (trp_value_copy(type, value, &held->arena, held->bytes) == TROUPE_OK)
        return held;
    trp_arena_clear(&held->arena);
    trp_free(held);
    return NULL;
}

void trp_result_copy(trp_result *result, const trp_shape *shape, const void *value)
{
    const troupe_type *type = shape->type;
    result->moved = false;
    result->schema = troupe_type_hash(type);
    if (shape->flat && !shape->refs && type->size <= sizeof result->small) {
        result->kind = TRP_RESULT_SMALL;
        result->size = (uint16_t)type->size;
        memcpy(result->small, value, type->size);
        return;
    }
    result->kind = TRP_RESULT_VALUE;
    result->value = hold(shape, value);
    if (result->value != NULL)
        return;
    trp_refs_drop(shape, (void *)value);
    result->kind = TRP_RESULT_FAILURE;
    result->failure = NULL;
}

const void *trp_result_value(const trp_result *result)
{
    return result->kind == TRP_RESULT_SMALL ? result->small : result->value->bytes;
}

const troupe_type *trp_result_type(const trp_result *result)
{
    return result->kind == TRP_RESULT_SMALL ? trp_type_noted(result->schema)
                                            : result->value->shape.type;
}

void trp_result_free(trp_result *result)
{
    switch (result->kind) {
    case TRP_RESULT_FAILURE:
        trp_free(result->failure);
        break;
    case TRP_RESULT_VALUE:
        if (!result->moved)
            trp_refs_drop(&result->value->shape, result->value->bytes);
        trp_arena_clear(&result->value->arena);
        trp_free(result->value);
        break;
    case TRP_RESULT_BODY:
        result->body.kept = result->moved;
        trp_body_drop(&result->body);
        break;
    default:
        break;
    }
}
