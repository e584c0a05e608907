// nested_refs.c: see ref/nested_refs.h.
#include <actors/ref/nested_refs.h>

#include <actors/ref/call_table.h>
#include <actors/ref/promised_object.h>
#include <actors/ref/store_wait.h>
#include <runtime/base/memory.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/type.h>
#include <runtime/shm/parallel_copy.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/eviction.h>
#include <runtime/store/nested.h>
#include <string.h>

// Above so many bytes a value lies apart from the ids of what it names: they stay in memory when it
// goes to disk. Below, a second object is not worth what that frees.
enum { APART_MIN = 4096 };

// ---- making

static troupe_status reserve(trp_naming *named)
{
    if (named->count < named->room)
        return TROUPE_OK;
    uint32_t room = named->room == 0 ? 16 : named->room * 2;
    trp_object *ids = trp_realloc(named->ids, room * sizeof *ids);
    if (ids == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for references in an object");
    named->ids = ids;
    named->room = room;
    return TROUPE_OK;
}

troupe_status trp_naming_add(trp_naming *named, trp_object object)
{
    TROUPE_TRY(reserve(named));
    TROUPE_TRY(trp_store_hold(object, trp_process_slot()));
    named->ids[named->count++] = object;
    return TROUPE_OK;
}

typedef struct exporting {
    trp_naming *named;
    troupe_status status;
} exporting;

static void export_ref(troupe_ref *ref, void *user)
{
    exporting *work = user;
    if (work->status == TROUPE_OK)
        work->status = reserve(work->named);
    if (work->status == TROUPE_OK)
        work->status = trp_ref_export(ref);
    if (work->status == TROUPE_OK)
        work->named->ids[work->named->count++] = ref->id;
}

static troupe_status pack(const trp_shape *shape, const void *value, trp_arena *arena,
                          trp_naming *named, trp_buffer *packed)
{
    exporting work = {.named = named};
    void *copy = trp_arena_alloc(arena, shape->type->size);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a value");
    TROUPE_TRY(trp_value_copy(shape->type, value, arena, copy));
    trp_value_refs(shape->type, copy, export_ref, &work);
    TROUPE_TRY(work.status);
    return trp_pack(shape->type, copy, packed);
}

troupe_status trp_naming_pack(const trp_shape *shape, const void *value, trp_naming *named,
                              trp_buffer *packed)
{
    trp_arena arena = {0};
    troupe_status status = pack(shape, value, &arena, named, packed);
    trp_arena_clear(&arena);
    return status;
}

// Copies the ids into a new INNER object that is sealed as their list.
static troupe_status seal_list(trp_naming *named, trp_object list, void *memory)
{
    memcpy(memory, named->ids, named->count * sizeof named->ids[0]);
    troupe_status status = trp_store_contain(list, named->count);
    if (status == TROUPE_OK)
        status = trp_store_seal(list);
    if (status == TROUPE_OK)
        named->count = 0; // They are the list's.
    else
        trp_store_discard(list);
    return status;
}

troupe_status trp_naming_list(trp_naming *named, trp_object *list)
{
    void *memory;
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(
        trp_room_create(named->count * sizeof named->ids[0], 0, TRP_ENCODING_INNER, list, &memory));
    return seal_list(named, *list, memory);
}

static troupe_status put_apart(trp_naming *named, const trp_buffer *packed, uint64_t schema,
                               trp_object *object)
{
    trp_object list;
    void *memory;
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(trp_object_create(named->count * sizeof named->ids[0], 0, TRP_ENCODING_INNER, &list,
                                 &memory));
    TROUPE_TRY(seal_list(named, list, memory));
    troupe_status status =
        trp_object_create(packed->size, schema, TRP_ENCODING_PACKED, object, &memory);
    if (status == TROUPE_OK) {
        trp_copy(memory, packed->data, packed->size);
        status = trp_store_contain_list(*object, list);
        if (status == TROUPE_OK)
            status = trp_store_seal(*object);
        if (status != TROUPE_OK)
            trp_store_discard(*object);
    }
    if (status != TROUPE_OK)
        trp_store_release(list, trp_process_slot());
    return status;
}

static troupe_status put_together(trp_naming *named, const trp_buffer *packed, uint64_t schema,
                                  trp_object *object)
{
    void *memory;
    TRP_USE_SEGMENT(trp_use_refused());
    size_t before = named->count * sizeof named->ids[0];
    TROUPE_TRY(
        trp_object_create(before + packed->size, schema, TRP_ENCODING_PACKED, object, &memory));
    if (before > 0)
        memcpy(memory, named->ids, before);
    memcpy((char *)memory + before, packed->data, packed->size);
    troupe_status status = trp_store_contain(*object, named->count);
    if (status == TROUPE_OK)
        status = trp_store_seal(*object);
    if (status == TROUPE_OK)
        named->count = 0;
    else
        trp_store_discard(*object);
    return status;
}

troupe_status trp_naming_put(trp_naming *named, const trp_buffer *packed, uint64_t schema,
                             trp_object *object)
{
    bool apart = named->count > 0 && packed->size > APART_MIN;
    return apart ? put_apart(named, packed, schema, object)
                 : put_together(named, packed, schema, object);
}

void trp_naming_drop(trp_naming *named)
{
    for (uint32_t i = 0; i < named->count; i++)
        trp_store_release(named->ids[i], trp_process_slot());
    trp_free(named->ids);
    *named = (trp_naming){0};
}

// ---- reading

// References that were read are their reader's own: it takes a hold of each object that they name,
// which whoever they were read from keeps alive meanwhile.
typedef struct owning {
    const trp_object_info *from;
    uint32_t at;
    troupe_status status;
} owning;

static void own_ref(troupe_ref *ref, void *user)
{
    owning *work = user;
    const trp_object_info *from = work->from;
    if (work->status != TROUPE_OK)
        return;
    // They were listed by the same walk over the value, so they are in the same order.
    if (work->at == from->inside_count || from->inside[work->at] != ref->id)
        work->status =
            troupe_fail(TROUPE_MALFORMED, "an object names another one that it does not hold");
    else
        work->status = trp_store_hold(ref->id, trp_process_slot());
    if (work->status == TROUPE_OK)
        work->at++;
}

static void release_first(const trp_object_info *info, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        trp_store_release(info->inside[i], trp_process_slot());
}

troupe_status trp_naming_own(const trp_object_info *info, const troupe_type *type, void *value)
{
    owning work = {.from = info};
    trp_value_refs(type, value, own_ref, &work);
    if (work.status != TROUPE_OK)
        release_first(info, work.at);
    return work.status;
}

troupe_status trp_naming_hold(const trp_object_info *info)
{
    for (uint32_t i = 0; i < info->inside_count; i++) {
        troupe_status status = trp_store_hold(info->inside[i], trp_process_slot());
        if (status != TROUPE_OK) {
            release_first(info, i);
            return status;
        }
    }
    return TROUPE_OK;
}
