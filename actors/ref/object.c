// object.c: values in the store: put, create and seal, and views.
#include <actors/ref/object.h>

#include <actors/class/call_error.h>
#include <actors/ref/call_table.h>
#include <actors/ref/leaks.h>
#include <actors/ref/nested_refs.h>
#include <actors/ref/ref.h>
#include <actors/ref/store_wait.h>
#include <actors/ref/tensor.h>
#include <actors/sched/scheduler.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/unpack.h>
#include <runtime/shm/parallel_copy.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/inspect.h>
#include <runtime/store/read.h>
#include <string.h>
#include <troupe/object.h>

// ---- putting

// A reference that fails with the thread's last error.
static troupe_ref failed_ref(uint64_t schema, troupe_status status)
{
    trp_target nobody = {0};
    troupe_error failure = *troupe_last_error();
    if (failure.status != status || status == TROUPE_TIMED_OUT)
        failure = trp_failure_last(status, TROUPE_OUTCOME_NONE, TROUPE_EXECUTED_NO);
    uint64_t id = trp_entry_call(schema, &nobody, 0);
    if (id != TRP_REF_NO_MEMORY)
        (void)trp_entry_fail(id, &failure);
    return (troupe_ref){id, schema};
}

static troupe_status put(const void *data, size_t size, uint64_t schema, trp_encoding encoding,
                         trp_object *object)
{
    void *memory;
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(trp_object_create(size, schema, encoding, object, &memory));
    if (size > 0)
        trp_copy(memory, data, size);
    troupe_status status = trp_store_seal(*object);
    if (status != TROUPE_OK)
        trp_store_discard(*object);
    return status;
}

static troupe_status put_with_refs(const trp_shape *shape, const void *value, trp_object *object)
{
    trp_buffer packed = {0};
    trp_naming named = {0};
    troupe_status status = trp_naming_pack(shape, value, &named, &packed);
    if (status == TROUPE_OK)
        status = trp_naming_put(&named, &packed, trp_type_show(shape->type), object);
    trp_buffer_free(&packed);
    trp_naming_drop(&named);
    return status;
}

troupe_status trp_object_put(const trp_shape *shape, const void *value, trp_object *object)
{
    const troupe_type *type = shape->type;
    uint64_t schema = trp_type_show(type);
    if (type->kind == TROUPE_KIND_BYTES) {
        const troupe_bytes *bytes = value;
        return put(bytes->data, bytes->size, schema, TRP_ENCODING_BYTES, object);
    }
    if (type->kind == TROUPE_KIND_TENSOR)
        return trp_tensor_put(value, object);
    if (shape->flat)
        return put(value, type->size, schema, TRP_ENCODING_IMAGE, object);
    trp_buffer packed = {0};
    troupe_status status = trp_pack(type, value, &packed);
    if (status == TROUPE_OK && packed.failed)
        status =
            troupe_fail(TROUPE_NO_MEMORY, "no memory to pack a value of type '%s'", type->name);
    if (status == TROUPE_OK)
        status = put(packed.data, packed.size, schema, TRP_ENCODING_PACKED, object);
    trp_buffer_free(&packed);
    return status;
}

static troupe_status put_value(const troupe_type *type, const void *value, trp_object *object)
{
    trp_shape shape = trp_shape_of(type);
    return shape.refs ? put_with_refs(&shape, value, object)
                      : trp_object_put(&shape, value, object);
}

static troupe_ref put_as(const troupe_type *type, const void *value)
{
    trp_object object = 0;
    uint64_t schema = 0;
    troupe_status status = trp_process_check();
    if (status == TROUPE_OK)
        status = trp_type_check(type);
    if (status == TROUPE_OK) {
        schema = trp_type_note(type);
        status = put_value(type, value, &object);
    }
    return status == TROUPE_OK ? (troupe_ref){object, schema} : failed_ref(schema, status);
}

troupe_ref troupe_put_as(const troupe_type *type, const void *value)
{
    troupe_ref ref = TRP_IS_NULL(value) ? failed_ref(0, TRP_NULL(value)) : put_as(type, value);
    TRP_LEAKS_MADE(ref, "troupe_put");
    return ref;
}

troupe_ref troupe_put_bytes(const void *data, size_t size)
{
    troupe_ref ref = size > 0 && TRP_IS_NULL(data)
                         ? failed_ref(0, TRP_NULL(data))
                         : put_as(&troupe_type_troupe_bytes, &(troupe_bytes){data, size});
    TRP_LEAKS_MADE(ref, "troupe_put_bytes");
    return ref;
}

troupe_status troupe_buffer_create(size_t size, troupe_buffer *buffer)
{
    TRP_REQUIRE(buffer);
    trp_object object;
    void *data;
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_object_create(size, trp_type_note(&troupe_type_troupe_bytes), TRP_ENCODING_BYTES,
                                 &object, &data));
    trp_store_kind(object, TRP_KIND_BUFFER);
    trp_type_show(&troupe_type_troupe_bytes);
    TRP_LEAKS_MADE(((troupe_ref){object, trp_type_note(&troupe_type_troupe_bytes)}),
                   "troupe_buffer_create");
    *buffer = (troupe_buffer){.data = data, .size = size, .id_ = object};
    return TROUPE_OK;
}

troupe_status troupe_buffer_seal(troupe_buffer *buffer, troupe_ref *ref)
{
    TRP_REQUIRE(buffer);
    TRP_REQUIRE(ref);
    TROUPE_TRY(trp_process_check());
    if (buffer->id_ == 0)
        return troupe_fail(TROUPE_INVALID, "the buffer was sealed or discarded before");
    TROUPE_TRY(trp_store_seal(buffer->id_));
    TRP_LEAKS_MOVED(((troupe_ref){.id = buffer->id_}), "troupe_buffer_seal");
    *ref = (troupe_ref){buffer->id_, trp_store_look(buffer->id_).schema};
    *buffer = (troupe_buffer){0};
    return TROUPE_OK;
}

void troupe_buffer_discard(troupe_buffer *buffer)
{
    if (TRP_IS_NULL(buffer))
        return;
    if (buffer->id_ != 0 && trp_process_running()) {
        trp_leaks_gone(buffer->id_);
        trp_store_discard(buffer->id_);
    }
    *buffer = (troupe_buffer){0};
}

// ---- reading

troupe_status trp_schema_check(uint64_t wanted, uint64_t found)
{
    char wanted_name[64], found_name[64];
    if (wanted == found)
        return TROUPE_OK;
    return troupe_fail(TROUPE_WRONG_TYPE, "the reference is to a value of type %s, not %s",
                       trp_type_label(found, found_name), trp_type_label(wanted, wanted_name));
}

troupe_status trp_object_failure(const trp_object_info *info)
{
    if (info->state == TRP_OBJECT_FILLING)
        return troupe_fail(TROUPE_TIMED_OUT, "the value is not ready yet");
    if (info->state == TRP_OBJECT_ABSENT)
        return troupe_last_error()->status;
    if (info->state != TRP_OBJECT_FAILED)
        return troupe_fail(TROUPE_INVALID, "the reference is stale or foreign: there is no such "
                                           "object");
    troupe_error failure =
        trp_failure(TROUPE_MAYBE_EXECUTED, TROUPE_OUTCOME_MAYBE_EXECUTED, TROUPE_EXECUTED_MAYBE,
                    "the value of a call was promised, and the process that promised it has died "
                    "or found no room for it in the store");
    if (info->size > 0)
        trp_failure_read(info->data, info->size, &failure);
    return trp_error_set(&failure);
}

static bool has_value(const trp_object_info *info)
{
    return info->state == TRP_OBJECT_SEALED || info->state == TRP_OBJECT_SHARED;
}

// Pins the object if it has a value; else sets the failure that there is in its place.
static troupe_status pin(trp_object object, trp_object_info *info)
{
    *info = trp_object_pin(object);
    if (has_value(info))
        return TROUPE_OK;
    troupe_status status = trp_object_failure(info);
    if (info->state == TRP_OBJECT_FAILED)
        trp_store_unpin(object);
    return status;
}

static troupe_status copy_bytes(const trp_object_info *info, troupe_bytes *value)
{
    void *copy = troupe_arena_alloc(info->size);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu bytes", info->size);
    if (info->size > 0)
        trp_copy(copy, info->data, info->size);
    *value = (troupe_bytes){copy, info->size};
    return TROUPE_OK;
}

static troupe_status read_pinned(const trp_object_info *info, const trp_shape *shape, void *value)
{
    const troupe_type *type = shape->type;
    TROUPE_TRY(trp_schema_check(trp_type_note(type), info->schema));
    if (info->encoding == TRP_ENCODING_BYTES)
        return copy_bytes(info, value);
    if (info->encoding == TRP_ENCODING_TENSOR)
        return trp_tensor_read(info, type, trp_arena_current(), value);
    if (info->encoding == TRP_ENCODING_IMAGE) {
        if (!shape->flat || info->size != type->size)
            return troupe_fail(TROUPE_WRONG_TYPE, "an object of %zu bytes is not a '%s'",
                               info->size, type->name);
        memcpy(value, info->data, info->size);
        return TROUPE_OK;
    }
    trp_reader in = trp_reader_of(info->data, info->size);
    TROUPE_TRY(trp_unpack(type, &in, trp_arena_current(), value));
    TROUPE_TRY(trp_read_end(&in));
    return shape->refs ? trp_naming_own(info, type, value) : TROUPE_OK;
}

troupe_status trp_object_read(trp_object object, const trp_shape *shape, void *value)
{
    trp_object_info info;
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(pin(object, &info));
    troupe_status status = read_pinned(&info, shape, value);
    trp_store_unpin(object);
    return status;
}

static troupe_status lend_pinned(const trp_object_info *info, const trp_shape *shape,
                                 trp_arena *arena, void *room, void **args)
{
    const troupe_type *type = shape->type;
    *args = room;
    TROUPE_TRY(trp_schema_check(trp_type_note(type), info->schema));
    if (info->encoding == TRP_ENCODING_IMAGE && shape->flat && info->size == type->size) {
        *args = (void *)info->data;
        return TROUPE_OK;
    }
    if (info->encoding == TRP_ENCODING_BYTES && type->kind == TROUPE_KIND_BYTES) {
        *(troupe_bytes *)room = (troupe_bytes){info->data, info->size};
        return TROUPE_OK;
    }
    if (info->encoding == TRP_ENCODING_TENSOR)
        return trp_tensor_read(info, type, NULL, room);
    if (info->encoding != TRP_ENCODING_PACKED)
        return troupe_fail(TROUPE_MALFORMED, "an object of %zu bytes is not a '%s'", info->size,
                           type->name);
    trp_reader in = trp_reader_of(info->data, info->size);
    TROUPE_TRY(trp_unpack_lent(type, &in, arena, room));
    return trp_read_end(&in);
}

troupe_status trp_object_lend_args(trp_object object, const trp_shape *shape, trp_arena *arena,
                                   void *room, void **args)
{
    trp_object_info info;
    *args = room;
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(pin(object, &info));
    troupe_status status = lend_pinned(&info, shape, arena, room, args);
    if (status != TROUPE_OK)
        trp_store_unpin(object);
    return status;
}

static troupe_status pack_pinned(const trp_object_info *info, trp_buffer *out)
{
    if (info->encoding == TRP_ENCODING_IMAGE) {
        const troupe_type *type = trp_type_noted(info->schema);
        if (type == NULL || type->size != info->size)
            return troupe_fail(TROUPE_UNSUPPORTED,
                               "the object's type is not known in this process, so it cannot be "
                               "packed");
        return trp_pack(type, info->data, out);
    }
    if (info->encoding == TRP_ENCODING_TENSOR) {
        troupe_tensor tensor;
        TROUPE_TRY(trp_tensor_read(info, &troupe_type_troupe_tensor, NULL, &tensor));
        return trp_pack(&troupe_type_troupe_tensor, &tensor, out);
    }
    if (info->encoding == TRP_ENCODING_BYTES)
        trp_write_bytes(out, info->data, info->size);
    else
        trp_buffer_append(out, info->data, info->size);
    return TROUPE_OK;
}

troupe_status trp_packed_give(const trp_buffer *packed, troupe_bytes *value)
{
    void *copy = packed->failed ? NULL : troupe_arena_alloc(packed->size);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a packed value");
    if (packed->size > 0)
        memcpy(copy, packed->data, packed->size);
    *value = (troupe_bytes){copy, packed->size};
    return TROUPE_OK;
}

troupe_status trp_object_pack(trp_object object, troupe_bytes *value)
{
    trp_object_info info;
    trp_buffer packed = {0};
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(pin(object, &info));
    troupe_status status = pack_pinned(&info, &packed);
    if (status == TROUPE_OK)
        status = trp_packed_give(&packed, value);
    if (status == TROUPE_OK) // Last: nothing that fails after it has to give them back.
        status = trp_naming_hold(&info);
    trp_store_unpin(object);
    trp_buffer_free(&packed);
    return status;
}

// ---- views

static troupe_status check_lendable(const trp_object_info *info)
{
    TROUPE_TRY(trp_schema_check(troupe_type_hash(&troupe_type_troupe_bytes), info->schema));
    return info->encoding == TRP_ENCODING_BYTES
               ? TROUPE_OK
               : troupe_fail(TROUPE_WRONG_TYPE, "the object was not made from bytes");
}

// Lends an object's bytes, and pins it for the view.
static troupe_status lend(trp_object object, troupe_view *view)
{
    trp_object_info info;
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(pin(object, &info));
    troupe_status status = check_lendable(&info);
    if (status != TROUPE_OK)
        trp_store_unpin(object);
    else
        *view = (troupe_view){.data = info.data, .size = info.size, .id_ = object};
    return status;
}

static troupe_status view_bytes(troupe_ref ref, troupe_view *view, int timeout_ms)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_ref_await(ref, timeout_ms));
    uint64_t behind = trp_entry_behind(ref);
    if ((behind & TRP_REF_OBJECT) != 0)
        return lend(behind, view);
    trp_object whole = trp_entry_object(behind);
    if (whole != 0)
        return lend(whole, view);
    // A call's small result is in this process's memory: the view gets an object of its own.
    trp_shape shape = trp_shape_of(&troupe_type_troupe_bytes);
    troupe_bytes bytes;
    trp_arena arena = {0};
    trp_object object = 0;
    trp_arena *before = trp_arena_swap(&arena);
    troupe_status status = trp_ref_read(ref, &shape, &bytes);
    if (status == TROUPE_OK)
        status =
            put(bytes.data, bytes.size, trp_type_note(shape.type), TRP_ENCODING_BYTES, &object);
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    TROUPE_TRY(status);
    status = lend(object, view);
    trp_store_release(object, trp_process_slot());
    return status;
}

troupe_status troupe_view_bytes(troupe_ref ref, troupe_view *view, int timeout_ms)
{
    TRP_REQUIRE(view);
    TROUPE_TRY(view_bytes(ref, view, timeout_ms));
    TRP_LEAKS_VIEW(view->id_, "troupe_view_bytes");
    return TROUPE_OK;
}

void troupe_view_end(troupe_view *view)
{
    if (TRP_IS_NULL(view))
        return;
    if (view->id_ != 0 && trp_process_running()) {
        trp_leaks_view_end(view->id_);
        trp_store_unpin(view->id_);
    }
    *view = (troupe_view){0};
}
