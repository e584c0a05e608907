// stored_value.c: see ref/stored_value.h.
#include <actors/ref/stored_value.h>

#include <actors/ref/call_table.h>
#include <actors/ref/promised_object.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <string.h>

// Calls `each` for every object that a body lists, until one is refused; *value (may be NULL) is
// where the packed value begins. MALFORMED: it is no body.
static troupe_status walk(const void *data, size_t size,
                          troupe_status (*each)(trp_object object, void *user), void *user,
                          trp_reader *value)
{
    trp_reader in = trp_reader_of(data, size);
    uint64_t count, object;
    TROUPE_TRY(trp_read_uint(&in, &count));
    if (count > (size_t)(in.end - in.at))
        return troupe_fail(TROUPE_MALFORMED, "what is kept lists more references than it can have");
    for (uint64_t i = 0; i < count; i++) {
        TROUPE_TRY(trp_read_uint(&in, &object));
        if (each != NULL)
            TROUPE_TRY(each(object, user));
    }
    if (value != NULL)
        *value = in;
    return TROUPE_OK;
}

static troupe_status release(trp_object object, void *user)
{
    (void)user;
    trp_store_release(object, trp_process_slot());
    return TROUPE_OK;
}

// Counts those that were held: if one is refused, only they are given back.
static troupe_status hold(trp_object object, void *user)
{
    size_t *held = user;
    TROUPE_TRY(trp_store_hold(object, trp_process_slot()));
    ++*held;
    return TROUPE_OK;
}

static troupe_status release_some(trp_object object, void *user)
{
    size_t *held = user;
    if (*held == 0)
        return TROUPE_STOPPED;
    --*held;
    return release(object, NULL);
}

void trp_kept_refuse(const void *data, size_t size)
{
    if (size > 0)
        (void)walk(data, size, release, NULL, NULL);
}

static troupe_status no_memory(size_t size)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory to keep %zu bytes", size);
}

static troupe_status copy(const void *data, size_t size, trp_kept *kept)
{
    *kept = (trp_kept){.data = trp_alloc(size + 1), .size = size};
    if (kept->data == NULL)
        return no_memory(size);
    memcpy(kept->data, data, size);
    return TROUPE_OK;
}

troupe_status trp_kept_take(const void *data, size_t size, bool held, trp_kept *kept)
{
    size_t taken = 0;
    *kept = (trp_kept){0};
    TROUPE_TRY(walk(data, size, NULL, NULL, NULL));
    troupe_status status = held ? TROUPE_OK : walk(data, size, hold, &taken, NULL);
    if (status == TROUPE_OK)
        status = copy(data, size, kept);
    if (status != TROUPE_OK && held)
        trp_kept_refuse(data, size);
    else if (status != TROUPE_OK)
        (void)walk(data, size, release_some, &taken, NULL);
    return status;
}

typedef struct matching {
    const troupe_ref *refs;
    size_t count, held;
} matching;

static troupe_status match(trp_object object, void *user)
{
    matching *work = user;
    if (work->held == work->count)
        return troupe_fail(TROUPE_MALFORMED, "what is kept lists more references than came along");
    troupe_ref ref = work->refs[work->held];
    TROUPE_TRY(trp_ref_export(&ref));
    if (ref.id == object) {
        work->held++;
        return TROUPE_OK;
    }
    trp_store_release(ref.id, trp_process_slot());
    return troupe_fail(TROUPE_MALFORMED, "what is kept lists a reference that did not come along");
}

troupe_status trp_kept_take_with(const void *data, size_t size, const troupe_ref *refs,
                                 size_t count, trp_kept *kept)
{
    matching work = {.refs = refs, .count = count};
    *kept = (trp_kept){0};
    troupe_status status = walk(data, size, match, &work, NULL);
    if (status == TROUPE_OK)
        status = copy(data, size, kept);
    if (status != TROUPE_OK)
        (void)walk(data, size, release_some, &work.held, NULL);
    return status;
}

troupe_status trp_kept_pack(const trp_shape *shape, const void *value, trp_kept *kept)
{
    // As if it were for this process, and for a reader who knows no types.
    trp_parcel parcel = {.process = trp_process_slot(), .plain = true};
    *kept = (trp_kept){0};
    troupe_status status = trp_parcel_pack(&parcel, shape, value);
    if (status == TROUPE_OK)
        status = copy(parcel.bytes.data, parcel.bytes.size, kept);
    if (status == TROUPE_OK)
        parcel.held_count = 0; // They are what is kept.
    trp_parcel_drop(&parcel);
    return status;
}

troupe_status trp_kept_packed(const troupe_bytes *packed, trp_kept *kept)
{
    trp_parcel parcel = {0};
    *kept = (trp_kept){0};
    trp_parcel_append(&parcel, packed->data, packed->size);
    troupe_status status = parcel.bytes.failed ? no_memory(packed->size)
                                               : copy(parcel.bytes.data, parcel.bytes.size, kept);
    trp_parcel_drop(&parcel);
    return status;
}

void trp_kept_drop(trp_kept *kept)
{
    if (kept->data != NULL)
        trp_kept_refuse(kept->data, kept->size);
    trp_free(kept->data);
    *kept = (trp_kept){0};
}

static troupe_status lend(trp_object object, void *user)
{
    trp_parcel *parcel = user;
    trp_object *held = trp_realloc(parcel->held, (parcel->held_count + 1) * sizeof *held);
    if (held == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for references in a message");
    parcel->held = held;
    TROUPE_TRY(trp_store_hold(object, trp_process_slot()));
    held[parcel->held_count++] = object;
    return TROUPE_OK;
}

troupe_status trp_kept_lend(const trp_kept *kept, trp_parcel *parcel)
{
    return kept->data != NULL ? walk(kept->data, kept->size, lend, parcel, NULL) : TROUPE_OK;
}

troupe_bytes trp_kept_value(const trp_kept *kept)
{
    trp_reader value = trp_reader_of(kept->data, kept->size);
    if (kept->size > 0)
        (void)walk(kept->data, kept->size, NULL, NULL, &value);
    return (troupe_bytes){value.at, (size_t)(value.end - value.at)};
}
