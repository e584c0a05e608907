// source_generator.c: columns whose rows a function of the program makes (models/source.h).
#include <models/source.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/tensor.h>
#include <string.h>
#include <train/config.h>
#include <train/registry.h>

enum { NAME_MAX_BYTES = 63 };

static trp_named_list generators = TRP_NAMED_LIST_INIT;

static troupe_status check(const troupe_generator *generator)
{
    if (generator->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "a generator was compiled for generation %u of the library, this is %u",
                           generator->abi, TROUPE_ABI);
    if (!generator->name || !*generator->name || strlen(generator->name) > NAME_MAX_BYTES)
        return troupe_fail(TROUPE_INVALID, "a generator has no name of 1 to %d bytes",
                           NAME_MAX_BYTES);
    if (!generator->fill)
        return troupe_fail(TROUPE_INVALID, "the generator '%s' has no function", generator->name);
    if (!generator->config || generator->config->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_INVALID, "the generator '%s' has no type of its config",
                           generator->name);
    return TROUPE_OK;
}

troupe_status troupe_generator_register(const troupe_generator *generator)
{
    TRP_REQUIRE(generator);
    TROUPE_TRY(check(generator));
    const void *there;
    TROUPE_TRY(trp_named_add(&generators, generator->name, generator, &there));
    const troupe_generator *other = (const troupe_generator *)there;
    if (other->fill != generator->fill ||
        troupe_type_hash(other->config) != troupe_type_hash(generator->config))
        return troupe_fail(TROUPE_EXISTS, "another generator has the name '%s'", generator->name);
    return TROUPE_OK;
}

const troupe_generator *trp_generator_find(const char *name, uint64_t schema)
{
    const troupe_generator *found = (const troupe_generator *)trp_named_find(&generators, name);
    if (found && troupe_type_hash(found->config) == schema)
        return found;
    if (!found)
        (void)troupe_fail(TROUPE_NOT_FOUND, "the generator '%s' is not registered in this process",
                          name);
    else
        (void)troupe_fail(TROUPE_WRONG_TYPE,
                          "the generator '%s' has a config with schema %016" PRIx64
                          " in this process, and %016" PRIx64 " where it was named",
                          name, troupe_type_hash(found->config), schema);
    return NULL;
}

// The config, packed, in the arena.
static troupe_status pack_config(trp_look *look, const troupe_from *from, troupe_bytes *packed)
{
    const troupe_type *type = from->generator->config;
    if (trp_config_refs(type, from->config) > 0)
        return troupe_fail(TROUPE_INVALID, "the config of its generator '%s' has references",
                           from->generator->name);
    trp_buffer out = {0};
    troupe_status status = trp_pack(type, from->config, &out);
    void *copy =
        status == TROUPE_OK && !out.failed ? trp_arena_alloc(&look->arena, out.size + 1) : NULL;
    if (copy)
        *packed = (troupe_bytes){memcpy(copy, out.data, out.size), out.size};
    else if (status == TROUPE_OK)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of its generator '%s'",
                             from->generator->name);
    trp_buffer_free(&out);
    return status;
}

troupe_status trp_look_at_generator(trp_look *look, const troupe_from *from, trp_source *source)
{
    size_t size;
    if (!from->generator || !from->config)
        return troupe_fail(TROUPE_INVALID, "it has no generator, or no config of that");
    TROUPE_TRY(troupe_generator_register(from->generator));
    if (troupe_dtype_size(from->shape.dtype) == 0)
        return troupe_fail(TROUPE_INVALID, "its generator's numbers have no type");
    TROUPE_TRY(
        trp_tensor_size(&(troupe_tensor){.dtype = from->shape.dtype,
                                         .ndim = from->shape.ndim > 0 ? from->shape.ndim - 1 : 0},
                        &size));
    TROUPE_TRY(pack_config(look, from, &source->config));
    source->kind = TRP_SOURCE_GENERATOR;
    source->dtype = (int)from->shape.dtype;
    source->ndim = (int)from->shape.ndim;
    memcpy(source->shape, from->shape.shape, sizeof source->shape);
    source->generator = from->generator->name;
    source->schema = troupe_type_hash(from->generator->config);
    return TROUPE_OK;
}
