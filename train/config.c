// config.c: reading a packed config (see train/config.h).
#include <runtime/base/arena.h>
#include <runtime/codec/msgpack.h>
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

troupe_status trp_config_read(const troupe_trainer *trainer, troupe_bytes packed,
                              const troupe_ref *refs, size_t count, void **config)
{
    const troupe_type *type = trainer->config;
    void *value = troupe_arena_alloc(type->size);
    if (!value)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of '%s'", trainer->name);
    trp_reader in = trp_reader_of(packed.data, packed.size);
    TROUPE_TRY(trp_unpack(type, &in, trp_arena_current(), value));
    TROUPE_TRY(trp_read_end(&in));
    exchange with = {refs, count, 0};
    trp_value_refs(type, value, exchange_ref, &with);
    if (with.next != count)
        return troupe_fail(TROUPE_MALFORMED, "the config of '%s' came with %zu references for %zu",
                           trainer->name, count, with.next);
    *config = value;
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
