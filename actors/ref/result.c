// result.c: how a call ended, kept until it is fetched (see ref/call_table.h).
#include <actors/ref/result.h>

#include <actors/class/call_error.h>
#include <actors/ref/body.h>
#include <actors/ref/call_table.h>
#include <actors/ref/object.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/cell_pool.h>
#include <runtime/base/memory.h>
#include <runtime/codec/type.h>
#include <runtime/link/dispatch.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/inspect.h>
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

// Of this thread: what a result names may be the last to name another, but however long a chain of
// them is, nothing recurses.
static _Thread_local struct {
    trp_held_value *first;
    bool busy;
} dropping;

static void drop_held(trp_held_value *held)
{
    held->next = dropping.first;
    dropping.first = held;
    if (dropping.busy)
        return;
    dropping.busy = true;
    while ((held = dropping.first) != NULL) {
        dropping.first = held->next;
        trp_refs_drop(&held->shape, held->bytes);
        free_held(held);
    }
    dropping.busy = false;
}

static troupe_status hold(const trp_shape *shape, const void *value, size_t size,
                          trp_held_value **result)
{
    trp_held_value *held = trp_pool_take(sizeof *held + size);
    if (held == NULL)
        return TROUPE_NO_MEMORY;
    *held = (trp_held_value){.shape = *shape, .size = size};
    troupe_status status = TROUPE_OK;
    if (shape->flat)
        memcpy(held->bytes, value, size);
    else
        status = trp_value_copy(shape->type, value, &held->arena, held->bytes);
    if (status == TROUPE_OK)
        *result = held;
    else
        free_held(held);
    return status;
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
    trp_shape shape = {.flat = true, .image = true};
    if (hold(&shape, image, size, &result->value) == TROUPE_OK)
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
    bool whole = type->kind == TROUPE_KIND_BYTES || type->kind == TROUPE_KIND_TENSOR;
    if (whole && trp_value_weight(type, value) > TRP_FRAME_INLINE_MAX + type->size &&
        trp_object_put(shape, value, &result->object) == TROUPE_OK) {
        trp_store_kind(result->object, TRP_KIND_RESULT);
        result->kind = TRP_RESULT_OBJECT;
        return;
    }
    result->kind = TRP_RESULT_VALUE;
    troupe_status status = hold(shape, value, type->size, &result->value);
    if (status == TROUPE_OK)
        return;
    troupe_error failure = trp_failure_last(status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES);
    trp_refs_drop(shape, (void *)value);
    if (status != TROUPE_NO_MEMORY) {
        trp_result_fail(result, &failure);
        return;
    }
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
        if (result->moved || !result->value->shape.refs)
            free_held(result->value);
        else
            drop_held(result->value);
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

troupe_status trp_result_receive(trp_result *result, const trp_frame *frame)
{
    if (trp_process_is_far(frame->from) && !trp_body_far_good(frame)) {
        trp_process_refused("its value names objects, or cannot be read");
        return troupe_fail(TROUPE_MALFORMED, "a value came from %s that cannot be read",
                           trp_process_text(frame->from).text);
    }
    if ((frame->flags & TRP_FRAME_UNHELD) != 0)
        return trp_body_unheld();
    if ((frame->flags & TRP_FRAME_IMAGE) != 0) {
        trp_result_image(result, frame->schema, frame->body, frame->body_size);
        return TROUPE_OK;
    }
    bool object = (frame->flags & TRP_FRAME_OBJECT) != 0;
    *result =
        (trp_result){.kind = object ? TRP_RESULT_OBJECT : TRP_RESULT_BODY, .schema = frame->schema};
    return object ? trp_frame_object(frame, &result->object)
                  : trp_body_take(&result->body, frame, NULL);
}
