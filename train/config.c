// config.c: packing a value with its references, and reading it (see train/config.h).
#include <actors/class/class.h>
#include <actors/ref/ref.h>
#include <actors/ref/ref_visit.h>
#include <runtime/base/arena.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/type.h>
#include <runtime/codec/unpack.h>
#include <train/config.h>

typedef struct exchange {
    const troupe_ref *refs;
    size_t count, next;
} exchange;

static void exchange_ref(troupe_ref *ref, void *user)
{
    exchange *with = (exchange *)user;
    *ref = with->next < with->count ? with->refs[with->next] : (troupe_ref){0};
    with->next++;
}

troupe_status trp_config_read(const troupe_type *type, const char *what, troupe_bytes packed,
                              const troupe_ref *refs, size_t count, void **value)
{
    void *read = troupe_arena_alloc(type->size);
    if (!read)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", what);
    trp_reader in = trp_reader_of(packed.data, packed.size);
    TROUPE_TRY(trp_unpack(type, &in, trp_arena_current(), read));
    TROUPE_TRY(trp_read_end(&in));
    exchange with = {refs, count, 0};
    trp_value_refs(type, read, exchange_ref, &with);
    if (with.next != count)
        return troupe_fail(TROUPE_MALFORMED, "%s came with %zu references for %zu", what, count,
                           with.next);
    *value = read;
    return TROUPE_OK;
}

static void count_ref(troupe_ref *ref, void *user)
{
    (void)ref;
    ++*(size_t *)user;
}

size_t trp_config_refs(const troupe_type *type, const void *value)
{
    size_t count = 0;
    trp_value_refs(type, (void *)(uintptr_t)value, count_ref, &count); // It changes nothing.
    return count;
}

typedef struct keeping {
    trp_packed *packed;
    troupe_status status;
} keeping;

static void keep_ref(troupe_ref *ref, void *user)
{
    keeping *work = (keeping *)user;
    trp_packed *packed = work->packed;
    if (work->status == TROUPE_OK)
        work->status = trp_ref_keep(*ref, &packed->refs[packed->ref_count]);
    if (work->status == TROUPE_OK)
        packed->ref_count++;
}

static troupe_status begin(trp_packed *packed, const char *what, size_t count)
{
    *packed = (trp_packed){.refs = (troupe_ref *)trp_alloc((count + 1) * sizeof *packed->refs)};
    return packed->refs ? TROUPE_OK
                        : troupe_fail(TROUPE_NO_MEMORY, "no memory for the references of %s", what);
}

static troupe_status kept(const keeping *work, const char *what)
{
    if (work->status == TROUPE_INVALID)
        return troupe_fail(TROUPE_INVALID, "reference %zu in %s is stale", work->packed->ref_count,
                           what);
    return work->status;
}

troupe_status trp_packed_take(trp_packed *packed, const troupe_type *type, const char *what,
                              const void *value)
{
    size_t count = trp_config_refs(type, value);
    TROUPE_TRY(begin(packed, what, count));
    keeping work = {.packed = packed};
    trp_value_refs(type, (void *)(uintptr_t)value, keep_ref, &work); // It changes nothing.
    TROUPE_TRY(kept(&work, what));
    TROUPE_TRY(trp_pack(type, value, &packed->bytes));
    return packed->bytes.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", what)
                                : TROUPE_OK;
}

troupe_status trp_packed_copy(trp_packed *packed, const char *what, troupe_bytes bytes,
                              const troupe_ref *refs, size_t count)
{
    TROUPE_TRY(begin(packed, what, count));
    keeping work = {.packed = packed};
    for (size_t i = 0; i < count; i++) {
        troupe_ref ref = refs[i];
        keep_ref(&ref, &work);
    }
    TROUPE_TRY(kept(&work, what));
    trp_buffer_append(&packed->bytes, bytes.data, bytes.size);
    return packed->bytes.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", what)
                                : TROUPE_OK;
}

troupe_status trp_packed_lend(const trp_packed *packed, const troupe_type *type, const char *what,
                              void **value, uint64_t *lent)
{
    *lent = 0;
    trp_shape shape = trp_shape_of(type);
    TROUPE_TRY(trp_config_read(type, what, (troupe_bytes){packed->bytes.data, packed->bytes.size},
                               packed->refs, packed->ref_count, value));
    return trp_refs_borrow(&shape, *value, lent);
}

void trp_packed_free(trp_packed *packed)
{
    for (size_t i = 0; i < packed->ref_count; i++)
        troupe_ref_drop(packed->refs[i]);
    trp_free(packed->refs);
    trp_buffer_free(&packed->bytes);
    *packed = (trp_packed){0};
}
