// promise.c: calls whose references leave their process: the object that stands for the result
// there, and filling it when the call has ended.
#include <actors/ref_table.h>

#include <actors/failure.h>
#include <actors/object.h>
#include <runtime/log.h>
#include <string.h>

// The value of a result as an object keeps it: `data`, which may be in `packed`. An object that is
// the result is pinned then.
static troupe_status encode(const trp_result *result, trp_buffer *packed, const void **data,
                            size_t *size, trp_encoding *encoding)
{
    bool bytes = result->schema == troupe_type_hash(&troupe_type_troupe_bytes);
    *encoding = bytes ? TRP_ENCODING_BYTES : TRP_ENCODING_PACKED;
    if (result->kind == TRP_RESULT_BODY) {
        trp_reader in;
        TROUPE_TRY(trp_body_open(&result->body, &in));
        if (bytes)
            return trp_read_bytes(&in, data, size);
        *data = in.at;
        *size = (size_t)(in.end - in.at);
        return TROUPE_OK;
    }
    if (result->kind == TRP_RESULT_OBJECT) {
        trp_object_info info = trp_store_pin(result->object);
        if (info.state != TRP_OBJECT_SEALED) // Whoever sent it had sealed it.
            return trp_object_failure(&info);
        *encoding = info.encoding;
        *data = info.data;
        *size = info.size;
        return TROUPE_OK;
    }
    const void *value = trp_result_value(result);
    const troupe_type *type = trp_result_type(result);
    if (bytes) {
        *data = ((const troupe_bytes *)value)->data;
        *size = ((const troupe_bytes *)value)->size;
    } else if (type == NULL) {
        *encoding = TRP_ENCODING_IMAGE;
        *data = value;
        *size = trp_result_size(result);
    } else {
        TROUPE_TRY(trp_pack(type, value, packed));
        if (packed->failed)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for a call's result");
        *data = packed->data;
        *size = packed->size;
    }
    return TROUPE_OK;
}

static troupe_status fulfil_value(trp_object promise, const trp_result *result)
{
    trp_buffer packed = {0};
    const void *data = NULL;
    size_t size = 0;
    trp_encoding encoding;
    troupe_status status = encode(result, &packed, &data, &size, &encoding);
    // Without room in the store the promise fails, which those who wait for it are told.
    if (status == TROUPE_OK)
        (void)trp_store_fulfil(promise, encoding, data, size, false);
    if (status == TROUPE_OK && result->kind == TRP_RESULT_OBJECT)
        trp_store_unpin(result->object);
    trp_buffer_free(&packed);
    return status;
}

static bool result_has_refs(const trp_result *result)
{
    if (result->kind != TRP_RESULT_BODY)
        return result->kind == TRP_RESULT_VALUE && result->value->shape.refs;
    trp_reader in = trp_reader_of(result->body.data, result->body.size);
    uint64_t count = 0;
    return trp_read_uint(&in, &count) == TROUPE_OK && count > 0;
}

void trp_promise_fulfil(trp_object promise, const trp_result *result)
{
    troupe_error failure;
    if (result->kind != TRP_RESULT_FAILURE) {
        troupe_status status = TROUPE_UNSUPPORTED;
        if (result_has_refs(result))
            (void)troupe_fail(status, "a call whose result holds references was passed to another "
                                      "process as a reference: get it, and pass those on");
        else
            status = fulfil_value(promise, result);
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

// The promised object of a CALL, made if there is none. `process` gets a hold of it.
static troupe_status promise_for(uint64_t call, uint32_t process, trp_object *object)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return troupe_fail(TROUPE_INVALID, "a reference in a message was consumed before");
    troupe_status status = TROUPE_OK;
    bool late = false;
    if (entry->promise == 0) {
        status = trp_store_promise(entry->schema, &entry->promise);
        if (status == TROUPE_OK)
            entry->holds++; // Until it is fulfilled.
        const troupe_type *type = trp_type_noted(entry->schema);
        if (type != NULL)
            trp_store_name_type(entry->schema, type->name);
        late = status == TROUPE_OK && entry->done;
    }
    if (status == TROUPE_OK)
        status = trp_store_hold(entry->promise, process);
    *object = entry->promise;
    trp_entry_unlock(entry);
    if (late) {
        trp_promise_fulfil(*object, &entry->result);
        trp_entry_release(call);
    }
    return status;
}

troupe_status trp_ref_export(troupe_ref *ref, uint32_t process)
{
    uint64_t behind = trp_entry_behind(*ref);
    if (behind == 0)
        return troupe_fail(TROUPE_INVALID, "a reference in a message is stale: it was consumed or "
                                           "dropped before");
    if ((behind & TRP_REF_OBJECT) == 0)
        return promise_for(behind, process, &ref->id);
    TROUPE_TRY(trp_store_hold(behind, process));
    ref->id = behind;
    return TROUPE_OK;
}
