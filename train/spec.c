// spec.c: making, packing, reading and comparing what a job is (see train/spec.h).
#include <runtime/base/error.h>
#include <runtime/codec/json.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/unpack.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <train/config.h>
#include <train/spec.h>
#include <train/trainer.h>
#include <unistd.h>
// The code itself: a library more is five mappings more that each fork copies.
#define XXH_INLINE_ALL
#define XXH_NO_INLINE_HINTS 1 // Else it cannot be compiled for a debugger.
#include <xxhash.h>

enum { VERSION = 1 };

static const char *executable(trp_path *path)
{
    ssize_t length = readlink("/proc/self/exe", path->text, sizeof path->text - 1);
    path->text[length > 0 ? length : 0] = '\0';
    return path->text;
}

// Makes the JSON object that an option is canonical, in the arena; *kept stays where none is given.
static troupe_status take_object(const char *option, const char *given, trp_arena *arena,
                                 const char **kept)
{
    trp_json value;
    trp_buffer text = {0};
    if (given == NULL)
        return TROUPE_OK;
    if (trp_json_parse(given, strlen(given), &value) != TROUPE_OK) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "option .%s is not JSON", option);
        return trp_error_prefix(prefix);
    }
    if (!trp_json_is_object(value))
        return troupe_fail(TROUPE_INVALID, "option .%s is '%.60s': expected a JSON object", option,
                           given);
    troupe_status status = trp_json_canonical(value, &text);
    *kept = trp_buffer_keep(&text, arena);
    if (status == TROUPE_OK && *kept == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for .%s", option);
    return status;
}

troupe_status trp_spec_metadata(const char *given, trp_arena *arena, const char **kept)
{
    return take_object("metadata", given, arena, kept);
}

troupe_status trp_spec_make(const troupe_trainer *trainer, const trp_packed *config,
                            const troupe_train_options *options, trp_arena *arena,
                            trp_job_spec *spec)
{
    trp_path program;
    size_t size = config->bytes.size;
    void *copy = trp_arena_alloc(arena, size + 1);
    *spec = (trp_job_spec){
        .version = VERSION,
        .program = trp_arena_text(arena, executable(&program)),
        .trainer = trainer->name,
        .schema = troupe_type_hash(trainer->config),
        .config = {copy, size},
        .ref_count = config->ref_count,
        .options = trp_options_pack(options),
    };
    if (copy == NULL || spec->program == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of a job");
    if (size > 0)
        memcpy(copy, config->bytes.data, size);
    TROUPE_TRY(trp_spec_metadata(spec->options.metadata, arena, &spec->options.metadata));
    return take_object("params", spec->options.params, arena, &spec->options.params);
}

troupe_status trp_spec_set_data(trp_job_spec *spec, const troupe_data_given *given,
                                const trp_packed *source, trp_arena *arena)
{
    size_t size = source->bytes.size;
    const troupe_data_table *table = given->table;
    void *copy = trp_arena_alloc(arena, size + 1);
    char *share = given->share ? trp_arena_alloc(arena, strlen(given->share) + 1) : NULL;
    if (copy == NULL || (given->share && !share))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the data of a job");
    spec->data_share = share ? strcpy(share, given->share) : NULL;
    if (size > 0)
        memcpy(copy, source->bytes.data, size);
    spec->data_name = table->name;
    spec->data_schema = troupe_type_hash(table->source);
    spec->data = (troupe_bytes){copy, size};
    spec->data_ref_count = source->ref_count;
    return TROUPE_OK;
}

troupe_status trp_spec_pack(const trp_job_spec *spec, trp_buffer *out)
{
    TROUPE_TRY(trp_pack(&troupe_type_trp_job_spec, spec, out));
    return out->failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the spec of a job")
                       : TROUPE_OK;
}

troupe_status trp_spec_read(troupe_bytes packed, trp_arena *arena, trp_job_spec *spec,
                            const troupe_trainer **trainer)
{
    trp_path program;
    if (trp_unpack_whole(&troupe_type_trp_job_spec, packed.data, packed.size, arena, spec) !=
        TROUPE_OK)
        return trp_error_prefix("the spec of a job cannot be read");
    if (spec->version < 1 || spec->program == NULL || spec->trainer == NULL)
        return troupe_fail(TROUPE_MALFORMED,
                           "the spec of a job is of version %d and names no program or no trainer",
                           spec->version);
    if (spec->version > VERSION)
        return troupe_fail(TROUPE_VERSION,
                           "the spec of a job is of version %d, this library reads up to %d",
                           spec->version, VERSION);
    if (strcmp(spec->program, executable(&program)) != 0)
        return troupe_fail(TROUPE_UNSUPPORTED, "the job is one of the program %s, and this is %s",
                           spec->program, program.text);
    const troupe_trainer *found = trp_trainer_find(spec->trainer, spec->schema);
    if (found == NULL)
        return troupe_last_error()->status;
    *trainer = found;
    return TROUPE_OK;
}

troupe_status trp_spec_config(const trp_job_spec *spec, const troupe_trainer *trainer,
                              trp_arena *arena, const char **json)
{
    trp_buffer text = {0};
    void *config = trp_arena_alloc(arena, trainer->config->size);
    if (config == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of '%s'", trainer->name);
    TROUPE_TRY(
        trp_unpack_whole(trainer->config, spec->config.data, spec->config.size, arena, config));
    size_t count = trp_config_refs(trainer->config, config);
    if (count != spec->ref_count)
        return troupe_fail(TROUPE_MALFORMED, "the config of '%s' came with %zu references for %zu",
                           trainer->name, spec->ref_count, count);
    trp_json_value(&text, trainer->config, config);
    *json = trp_buffer_keep(&text, arena);
    return *json != NULL
               ? TROUPE_OK
               : troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of '%s'", trainer->name);
}

// ---- comparing

trp_packed_options trp_spec_identity(trp_packed_options options)
{
    options.storage = options.name = options.metadata = options.params = NULL;
    options.open = options.console = options.server = options.priority = options.sync = 0;
    options.force = false;
    options.start_at = 0;
    return options;
}

troupe_status trp_spec_hash(const trp_job_spec *spec, trp_spec_hash_text *hash)
{
    trp_buffer packed = {0};
    trp_job_spec same = *spec;
    same.program = "";
    same.options = trp_spec_identity(spec->options);
    TROUPE_TRY(trp_spec_pack(&same, &packed));
    XXH128_hash_t digest = XXH3_128bits(packed.data, packed.size);
    trp_buffer_free(&packed);
    snprintf(hash->text, sizeof hash->text, "%016llx%016llx", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64);
    return TROUPE_OK;
}

static const char *named(trp_arena *arena, const char *of, trp_json name)
{
    trp_buffer text = {0};
    trp_buffer_printf(&text, "%s", of);
    trp_buffer_append(&text, name.at + 1, name.size - 2); // Names of members are plain.
    const char *copy = trp_buffer_keep(&text, arena);
    return copy != NULL ? copy : of;
}

// The first member of the config that differs.
static const char *config_differs(const trp_job_spec *one, const trp_job_spec *other,
                                  const troupe_trainer *trainer, trp_arena *arena)
{
    const char *texts[2];
    trp_json values[2], at = {0}, name, value, there;
    if (trp_spec_config(one, trainer, arena, &texts[0]) != TROUPE_OK ||
        trp_spec_config(other, trainer, arena, &texts[1]) != TROUPE_OK)
        return "config";
    for (int i = 0; i < 2; i++)
        values[i] = (trp_json){texts[i], strlen(texts[i])};
    for (size_t field = 0; trp_json_next_member(values[0], &at, &name, &value); field++)
        if (!trp_json_member(values[1], trainer->config->fields[field].name, &there) ||
            there.size != value.size || memcmp(there.at, value.at, value.size) != 0)
            return named(arena, "config.", name);
    return "config"; // In what JSON does not show: elements of a tensor, references.
}

static bool bytes_differ(troupe_bytes one, troupe_bytes other)
{
    return one.size != other.size || (one.size > 0 && memcmp(one.data, other.data, one.size) != 0);
}

static bool texts_differ(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one != other : strcmp(one, other) != 0;
}

const char *trp_spec_differ(const trp_job_spec *one, const trp_job_spec *other,
                            const troupe_trainer *trainer, trp_arena *arena)
{
    if (strcmp(one->program, other->program) != 0)
        return "program";
    if (strcmp(one->trainer, other->trainer) != 0 || one->schema != other->schema)
        return "trainer";
    if (bytes_differ(one->config, other->config))
        return config_differs(one, other, trainer, arena);
    const char *option = trp_options_differ(&one->options, &other->options);
    if (option != NULL) {
        char *text = trp_arena_alloc(arena, strlen(option) + 2);
        return text != NULL ? strcat(strcpy(text, "."), option) : option;
    }
    if (texts_differ(one->data_name, other->data_name) || one->data_schema != other->data_schema ||
        bytes_differ(one->data, other->data) || texts_differ(one->data_share, other->data_share))
        return ".data";
    return NULL;
}
