// tensor.c: tensors in the store: put, created and filled in place, and lent (see troupe/tensor.h).
#include <actors/ref/tensor.h>

#include <actors/ref/call_table.h>
#include <actors/ref/leaks.h>
#include <actors/ref/object.h>
#include <actors/ref/ref.h>
#include <actors/ref/store_wait.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/codec/tensor.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/inspect.h>
#include <runtime/store/read.h>
#include <string.h>

// ---- making

// An object with its head, to be filled at *elements (`size` bytes) and sealed.
static troupe_status begin(const troupe_tensor *like, size_t size, trp_object *object,
                           void **elements)
{
    void *memory;
    TROUPE_TRY(trp_object_create(TRP_TENSOR_HEAD + size, trp_type_show(&troupe_type_troupe_tensor),
                                 TRP_ENCODING_TENSOR, object, &memory));
    trp_tensor_head(like, memory);
    *elements = (unsigned char *)memory + TRP_TENSOR_HEAD;
    return TROUPE_OK;
}

troupe_status trp_tensor_put(const troupe_tensor *tensor, trp_object *object)
{
    size_t size;
    void *elements;
    TROUPE_TRY(trp_tensor_good(tensor, &size));
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(begin(tensor, size, object, &elements));
    if (size > 0)
        memcpy(elements, tensor->data, size);
    troupe_status status = trp_store_seal(*object);
    if (status != TROUPE_OK)
        trp_store_discard(*object);
    return status;
}

troupe_status troupe_tensor_create(const troupe_tensor *like, troupe_buffer *buffer)
{
    TRP_REQUIRE(like);
    TRP_REQUIRE(buffer);
    size_t size;
    void *elements;
    trp_object object;
    TROUPE_TRY(trp_process_check());
    if (like->dtype == TROUPE_DTYPE_NONE)
        return troupe_fail(TROUPE_INVALID, "expected a tensor's element type, found none");
    TROUPE_TRY(trp_tensor_size(like, &size));
    TROUPE_TRY(begin(like, size, &object, &elements));
    trp_store_kind(object, TRP_KIND_BUFFER);
    TRP_LEAKS_MADE(((troupe_ref){object, trp_type_show(&troupe_type_troupe_tensor)}),
                   "troupe_tensor_create");
    *buffer = (troupe_buffer){.data = elements, .size = size, .id_ = object};
    return TROUPE_OK;
}

// ---- reading

troupe_status trp_tensor_read(const trp_object_info *info, const troupe_type *type,
                              trp_arena *arena, void *value)
{
    troupe_tensor tensor;
    if (type->kind != TROUPE_KIND_TENSOR)
        return troupe_fail(TROUPE_MALFORMED, "a tensor in an object is not a '%s'", type->name);
    TROUPE_TRY(trp_tensor_open(info->data, info->size, &tensor));
    if (arena != NULL)
        TROUPE_TRY(trp_tensor_own(&tensor, arena));
    *(troupe_tensor *)value = tensor;
    return TROUPE_OK;
}

// ---- views

// Opens the tensor that an object is, compares it with what was asked, and pins it for the view.
static troupe_status lend(trp_object object, troupe_dtype dtype, int ndim, troupe_tensor *tensor)
{
    TRP_USE_SEGMENT(trp_use_refused());
    trp_object_info info = trp_object_pin(object);
    bool pinned = info.state != TRP_OBJECT_FILLING && info.state != TRP_OBJECT_GONE &&
                  info.state != TRP_OBJECT_ABSENT;
    troupe_status status = info.state == TRP_OBJECT_SEALED
                               ? trp_tensor_open(info.data, info.size, tensor)
                               : trp_object_failure(&info);
    if (status == TROUPE_OK)
        status = troupe_tensor_check(tensor, dtype, ndim);
    if (status != TROUPE_OK && pinned)
        trp_store_unpin(object);
    return status;
}

// What is in this process's memory or packed is put in the store, for this view alone.
static troupe_status lend_own(troupe_ref ref, troupe_dtype dtype, int ndim, troupe_tensor *tensor,
                              trp_object *object)
{
    trp_shape shape = trp_shape_of(&troupe_type_troupe_tensor);
    trp_arena arena = {0};
    trp_arena *before = trp_arena_swap(&arena);
    troupe_status status = trp_ref_read(ref, &shape, tensor);
    if (status == TROUPE_OK)
        status = troupe_tensor_check(tensor, dtype, ndim);
    if (status == TROUPE_OK)
        status = trp_tensor_put(tensor, object);
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    TROUPE_TRY(status);
    status = lend(*object, dtype, ndim, tensor);
    trp_store_release(*object, trp_process_slot()); // The pin holds it.
    return status;
}

troupe_status troupe_view_tensor(troupe_ref ref, troupe_dtype dtype, int ndim,
                                 troupe_tensor *tensor, troupe_view *view, int timeout_ms)
{
    TRP_REQUIRE(tensor);
    TRP_REQUIRE(view);
    troupe_tensor found;
    size_t size;
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_ref_await(ref, timeout_ms));
    uint64_t behind = trp_entry_behind(ref);
    trp_object object = (behind & TRP_REF_OBJECT) != 0 ? behind : trp_entry_object(behind);
    trp_object_info info = {0};
    if (object != 0)
        info = trp_store_look(object);
    bool sealed = info.state == TRP_OBJECT_SEALED && info.encoding == TRP_ENCODING_TENSOR;
    TROUPE_TRY(sealed ? lend(object, dtype, ndim, &found)
                      : lend_own(ref, dtype, ndim, &found, &object));
    TROUPE_TRY(trp_tensor_size(&found, &size)); // Was checked: it cannot fail.
    *tensor = found;
    *view = (troupe_view){.data = found.data, .size = size, .id_ = object};
    TRP_LEAKS_VIEW(object, "troupe_view_tensor");
    return TROUPE_OK;
}
