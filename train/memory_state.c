// memory_state.c: see memory_state.h.
#include <actors/class/class.h>
#include <runtime/base/error.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/unpack.h>
#include <runtime/shm/parallel_copy.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <runtime/store/eviction.h>
#include <runtime/store/inspect.h>
#include <runtime/store/read.h>
#include <train/config.h>
#include <train/memory_state.h>

// ---- staging one

// A parcel is what never goes to disk. Others may, to make room; nobody is waited for.
static troupe_status put(const trp_buffer *packed, const troupe_type *type, trp_object *state)
{
    void *memory;
    TRP_USE_SEGMENT(trp_use_refused());
    TROUPE_TRY(
        trp_room_create(packed->size, trp_type_show(type), TRP_ENCODING_PARCEL, state, &memory));
    trp_store_kind(*state, TRP_KIND_VALUE);
    trp_copy(memory, packed->data, packed->size);
    troupe_status status = trp_store_seal(*state);
    if (status != TROUPE_OK)
        trp_store_discard(*state);
    return status;
}

static troupe_status pack(trp_staged *staged, const troupe_type *type, const void *value)
{
    size_t refs = trp_config_refs(type, value);
    if (refs > 0)
        return troupe_fail(TROUPE_INVALID,
                           "the state, a %s, has %zu references, which end with the process",
                           type->name, refs);
    staged->packed.size = 0;
    TROUPE_TRY(trp_pack(type, value, &staged->packed));
    if (!staged->packed.failed)
        return TROUPE_OK;
    trp_buffer_free(&staged->packed);
    return troupe_fail(TROUPE_NO_MEMORY, "no memory to pack a state, a %s", type->name);
}

troupe_status trp_staged_put(trp_staged *staged, const troupe_type *type, const void *value)
{
    trp_object state = 0;
    trp_staged_drop(staged); // First: its room may be what the new one needs.
    troupe_status status = pack(staged, type, value);
    if (status == TROUPE_OK && put(&staged->packed, type, &state) != TROUPE_OK)
        status = trp_error_prefix("no room for a state in memory");
    staged->state = status == TROUPE_OK ? state : 0;
    staged->torn = status != TROUPE_OK;
    return status;
}

void trp_staged_drop(trp_staged *staged)
{
    trp_object state = staged->state;
    staged->state = 0;
    staged->torn = false;
    TRP_USE_SEGMENT();
    if (state != 0)
        trp_store_release(state, trp_process_slot());
}

void trp_staged_end(trp_staged *staged)
{
    trp_staged_drop(staged);
    trp_buffer_free(&staged->packed);
}

// ---- reading one

static troupe_status unpack(const trp_object_info *info, const char *whose, const troupe_type *type,
                            trp_arena *arena, void *value)
{
    char found[64];
    if (info->schema != trp_type_note(type))
        return troupe_fail(TROUPE_WRONG_TYPE, "%s is of type %s, not '%s'", whose,
                           trp_type_label(info->schema, found), type->name);
    return trp_unpack_whole(type, info->data, info->size, arena, value);
}

troupe_status trp_memory_state_read(trp_object state, const char *whose, const troupe_type *type,
                                    trp_arena *arena, void *value)
{
    TRP_USE_SEGMENT(trp_use_refused());
    trp_object_info info = trp_store_pin(state);
    if (info.state != TRP_OBJECT_SEALED) {
        if (info.state == TRP_OBJECT_ABSENT)
            return trp_error_prefix("%s cannot be read", whose);
        if (info.state == TRP_OBJECT_FAILED)
            trp_store_unpin(state);
        return troupe_fail(TROUPE_CORRUPT, "%s is gone from the store", whose);
    }
    troupe_status status = unpack(&info, whose, type, arena, value);
    trp_store_unpin(state);
    return status;
}
