// result.c: how a call ended, kept until it is fetched (see ref_table.h).
#include <actors/object.h>
#include <actors/ref_table.h>

#include <runtime/memory.h>
#include <runtime/pool.h>
#include <runtime/process.h>
#include <string.h>

void trp_result_fail(trp_result *result, const troupe_error *failure)
{
    result->kind = TRP_RESULT_FAILURE;
    result->moved = false;
    result->failure = trp_alloc(sizeof *failure);
    if (result->failure != NULL)
        *result->failure = *failure;
}

static void free_held(trp_held_value *held)
{
    trp_arena_clear(&held->arena);
    trp_pool_give(held, sizeof *held + held->size);
}

// NULL: no memory.
static trp_held_value *hold(const trp_shape *shape, const void *value, size_t size)
{
    trp_held_value *held = trp_pool_take(sizeof *held + size);
    if (held == NULL)
        return NULL;
    *held = (trp_held_value){.shape = *shape, .size = size};
    if (shape->flat) {
        memcpy(held->bytes, value, size);
        return held;
    }
    if (trp_value_copy(shape->type, value, &held->arena, held->bytes) == TROUPE_OK)
        return held;
    free_held(held);
    return NULL;
}

// False: it does not fit.
static bool put_small(trp_result *result, const void *value, size_t size)
{
    if (size > sizeof result->small)
        return false;
    result->kind = TRP_RESULT_SMALL;
    result->size = (uint16_t)size;
    memcpy(result->small, value, size);
    return true;
}

void trp_result_image(trp_result *result, uint64_t schema, const void *image, size_t size)
{
    result->moved = false;
    result->schema = schema;
    if (put_small(result, image, size))
        return;
    result->kind = TRP_RESULT_VALUE;
    result->value = hold(&(trp_shape){.flat = true, .image = true}, image, size);
    if (result->value != NULL)
        return;
    result->kind = TRP_RESULT_FAILURE;
    result->failure = NULL;
}

void trp_result_copy(trp_result *result, const trp_shape *shape, const void *value)
{
    const troupe_type *type = shape->type;
    result->moved = false;
    result->schema = troupe_type_hash(type);
    if (shape->flat && !shape->refs && put_small(result, value, type->size))
        return;
    if (type->kind == TROUPE_KIND_BYTES &&
        ((const troupe_bytes *)value)->size > TRP_FRAME_INLINE_MAX &&
        trp_object_put(shape, value, &result->object) == TROUPE_OK) {
        trp_store_kind(result->object, TRP_KIND_RESULT);
        result->kind = TRP_RESULT_OBJECT;
        return;
    }
    result->kind = TRP_RESULT_VALUE;
    result->value = hold(shape, value, type->size);
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

size_t trp_result_size(const trp_result *result)
{
    return result->kind == TRP_RESULT_SMALL ? result->size : result->value->size;
}

const troupe_type *trp_result_type(const trp_result *result)
{
    const troupe_type *type = result->kind == TRP_RESULT_SMALL ? NULL : result->value->shape.type;
    if (type == NULL && (type = trp_type_noted(result->schema)) != NULL)
        return trp_type_is_flat(type) && type->size == trp_result_size(result) ? type : NULL;
    return type;
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
        free_held(result->value);
        break;
    case TRP_RESULT_OBJECT:
        trp_store_release(result->object, trp_process_slot());
        break;
    case TRP_RESULT_BODY:
        result->body.kept = result->moved;
        trp_body_drop(&result->body);
        break;
    default:
        break;
    }
}
