// promised_object.c: calls whose references leave their process: the object that stands for the
// result there, and filling it when the call has ended.
#include <actors/ref/promised_object.h>

#include <actors/class/call_error.h>
#include <actors/ref/call_table.h>
#include <actors/ref/nested_refs.h>
#include <actors/ref/object.h>
#include <actors/ref/result.h>
#include <actors/ref/store_wait.h>
#include <runtime/base/log.h>
#include <runtime/codec/pack.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/inspect.h>
#include <runtime/store/read.h>

// The value of a result as an object keeps it.
typedef struct encoded {
    trp_buffer packed;
    trp_naming named;
    const void *data; // May be in `packed`.
    size_t size;
    trp_encoding encoding;
} encoded;

typedef struct noting {
    trp_naming *named;
    troupe_status status;
} noting;

static void note_held(trp_object object, void *user)
{
    noting *work = user;
    if (work->status == TROUPE_OK)
        work->status = trp_naming_add(work->named, object);
}

static troupe_status encode_body(const trp_body *body, bool bytes, encoded *out)
{
    trp_reader in;
    noting work = {.named = &out->named};
    TROUPE_TRY(trp_body_open(body, &in));
    trp_body_each(body, note_held, &work);
    TROUPE_TRY(work.status);
    if (bytes)
        return trp_read_bytes(&in, &out->data, &out->size);
    out->data = in.at;
    out->size = (size_t)(in.end - in.at);
    return TROUPE_OK;
}

static troupe_status encode_value(const trp_result *result, bool bytes, encoded *out)
{
    const void *value = trp_result_value(result);
    const troupe_type *type = trp_result_type(result);
    if (bytes) {
        out->data = ((const troupe_bytes *)value)->data;
        out->size = ((const troupe_bytes *)value)->size;
        return TROUPE_OK;
    }
    if (type == NULL) {
        out->encoding = TRP_ENCODING_IMAGE;
        out->data = value;
        out->size = trp_result_size(result);
        return TROUPE_OK;
    }
    trp_shape shape = trp_shape_of(type);
    TROUPE_TRY(shape.refs ? trp_naming_pack(&shape, value, &out->named, &out->packed)
                          : trp_pack(type, value, &out->packed));
    out->data = out->packed.data;
    out->size = out->packed.size;
    return TROUPE_OK;
}

// What is an object of its own is pinned then.
static troupe_status encode(const trp_result *result, encoded *out)
{
    bool bytes = result->schema == troupe_type_hash(&troupe_type_troupe_bytes);
    out->encoding = bytes ? TRP_ENCODING_BYTES : TRP_ENCODING_PACKED;
    if (result->kind == TRP_RESULT_BODY)
        return encode_body(&result->body, bytes, out);
    if (result->kind != TRP_RESULT_OBJECT)
        return encode_value(result, bytes, out);
    trp_object_info info = trp_store_pin_within(result->object, trp_object_patience_ms());
    if (info.state != TRP_OBJECT_SEALED) // Whoever sent it had sealed it.
        return trp_object_failure(&info);
    out->encoding = info.encoding;
    out->data = info.data;
    out->size = info.size;
    return TROUPE_OK;
}

// Without room in the store the promise fails, which those who wait for it are told.
static void fulfil_encoded(trp_object promise, const encoded *value, trp_object list)
{
    troupe_status status =
        trp_store_fulfil(promise, value->encoding, value->data, value->size, false);
    if (status != TROUPE_OK && list != 0)
        trp_store_release(list, trp_process_slot());
}

static troupe_status fulfil_value(trp_object promise, const trp_result *result)
{
    encoded value = {0};
    trp_object list = 0;
    troupe_status status = encode(result, &value);
    bool pinned = status == TROUPE_OK && result->kind == TRP_RESULT_OBJECT;
    if (status == TROUPE_OK && value.named.count > 0) {
        status = trp_naming_list(&value.named, &list);
        if (status == TROUPE_OK && (status = trp_store_contain_list(promise, list)) != TROUPE_OK)
            trp_store_release(list, trp_process_slot());
    }
    if (status == TROUPE_OK)
        fulfil_encoded(promise, &value, list);
    if (pinned)
        trp_store_unpin(result->object);
    trp_naming_drop(&value.named);
    trp_buffer_free(&value.packed);
    return status;
}

static void fulfil(trp_object promise, const trp_result *result)
{
    troupe_error failure;
    TRP_USE_SEGMENT(); // Else nobody waits for it any more.
    if (result->kind != TRP_RESULT_FAILURE) {
        troupe_status status = fulfil_value(promise, result);
        if (status == TROUPE_OK)
            return;
        failure = trp_failure_last(status, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_YES);
    } else if (result->failure != NULL) {
        failure = *result->failure;
    } else {
        failure = trp_failure(TROUPE_NO_MEMORY, TROUPE_OUTCOME_FAILED, TROUPE_EXECUTED_MAYBE,
                              "no memory for a call's result");
    }
    trp_buffer packed = {0};
    trp_failure_write(&failure, &packed);
    if (packed.failed ||
        trp_store_fulfil(promise, TRP_ENCODING_PACKED, packed.data, packed.size, true) != TROUPE_OK)
        trp_log(TRP_ERROR, "a promised result could not be delivered: %s",
                troupe_last_error()->text);
    trp_buffer_free(&packed);
}

// ---- calls that have ended, whose results name others that have

// Of this thread: to fulfil one promise may make others, but however long a chain of results that
// is, nothing recurses.
static _Thread_local struct {
    uint64_t first; // The last one that was met, with its promise's hold; linked by `next_promise`.
    bool busy;
} late;

void trp_promise_fulfil(trp_object promise, const trp_result *result)
{
    bool outer = !late.busy;
    late.busy = true;
    fulfil(promise, result);
    while (outer && late.first != 0) {
        uint64_t call = late.first;
        trp_entry *entry = trp_entry_lock(call); // Held by its promise.
        promise = entry->promise;
        late.first = entry->next_promise;
        trp_entry_unlock(entry);
        fulfil(promise, &entry->result);
        trp_entry_release(call);
    }
    if (outer)
        late.busy = false;
}

// Has a promise fulfilled whose call has ended, which it holds: now, or after the one that this
// thread is at.
static void fulfil_late(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    trp_object promise = entry->promise;
    if (late.busy) {
        entry->next_promise = late.first;
        late.first = call;
    }
    trp_entry_unlock(entry);
    if (late.busy)
        return;
    trp_promise_fulfil(promise, &entry->result);
    trp_entry_release(call);
}

// The promised object of a CALL, made if there is none, and held once more.
static troupe_status promise_for(uint64_t call, trp_object *object)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return troupe_fail(TROUPE_INVALID, "a reference in a message was consumed before");
    troupe_status status = TROUPE_OK;
    bool ended = false;
    if (entry->promise == 0) {
        status = trp_store_promise(entry->schema, &entry->promise);
        if (status == TROUPE_OK)
            entry->holds++; // Until it is fulfilled.
        const troupe_type *type = trp_type_noted(entry->schema);
        if (type != NULL)
            trp_store_name_type(entry->schema, type->name);
        ended = status == TROUPE_OK && entry->done;
    }
    if (status == TROUPE_OK)
        status = trp_store_hold(entry->promise, trp_process_slot());
    *object = entry->promise;
    trp_entry_unlock(entry);
    if (ended)
        fulfil_late(call);
    return status;
}

troupe_status trp_ref_export(troupe_ref *ref)
{
    uint64_t behind = trp_entry_behind(*ref);
    if (behind == 0)
        return troupe_fail(TROUPE_INVALID, "a reference in a message is stale: it was consumed or "
                                           "dropped before");
    if ((behind & TRP_REF_OBJECT) == 0)
        return promise_for(behind, &ref->id);
    TROUPE_TRY(trp_store_hold(behind, trp_process_slot()));
    ref->id = behind;
    return TROUPE_OK;
}
