// stored_tune.c: sweeps over a version whose code is another program's: each trial is a submission
// of the version. What the space draws goes into a config of numbers alone, whose type is made of
// the rows' names and which is laid over the settings that all trials have, as JSON.
#include <models/stored.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>
#include <train/spec.h>
#include <troupe/stored.h>
#include <tune/sweep/settings.h>
#include <tune/sweep/sweep.h>

enum { ROWS_MAX = 256 };

// A version as a trainer of what the space draws.
typedef struct stored {
    troupe_trainer trainer; // First.
    troupe_type type;
    trp_arena arena;
    char ref[TRP_NAME_SIZE + 32];
    const char *json; // Of all trials; NULL: nothing.
    troupe_stored_options how;
    troupe_param *rows;
    size_t count;
    trp_sweep_port port;
} stored;

// ---- the type

static troupe_status no_memory(const stored *it)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep over %s", it->ref);
}

static size_t part_of(const char *name)
{
    return strcspn(name, ".");
}

// The name of row `index` behind the first `depth` bytes; NULL: it is not below those of `like`.
static const char *below(const stored *it, size_t index, const char *like, size_t depth)
{
    const char *name = it->rows[index].name;
    return strncmp(name, like, depth) == 0 ? name + depth : NULL;
}

// Makes the record of all rows whose names begin as `like` does, and lays them out from *end on.
static troupe_status make_record(stored *it, const char *like, size_t depth, size_t *end,
                                 troupe_type *type)
{
    static const double number;
    size_t begin = *end, count = 0;
    troupe_field *fields = (troupe_field *)trp_arena_alloc(&it->arena, it->count * sizeof *fields);
    uint64_t *hash = (uint64_t *)trp_arena_alloc(&it->arena, sizeof *hash);
    if (!fields || !hash)
        return no_memory(it);
    for (size_t i = 0; i < it->count; i++) {
        const char *name = below(it, i, like, depth);
        size_t size = name ? part_of(name) : 0;
        bool known = !name;
        for (size_t at = 0; at < count && !known; at++)
            known = strlen(fields[at].name) == size && strncmp(fields[at].name, name, size) == 0;
        if (known && name && name[size] == '\0')
            return troupe_fail(TROUPE_INVALID, "space[%zu] (%s): it is in the space already", i,
                               it->rows[i].name);
        if (known)
            continue;
        char *own = (char *)trp_arena_alloc(&it->arena, size + 1);
        troupe_type *of = (troupe_type *)trp_arena_alloc(&it->arena, sizeof *of);
        if (!own || !of)
            return no_memory(it);
        memcpy(own, name, size);
        own[size] = '\0';
        fields[count] = (troupe_field){own, *end - begin, &troupe_type_double, 0};
        if (name[size] == '.') {
            TROUPE_TRY(make_record(it, it->rows[i].name, depth + size + 1, end, of));
            fields[count].type = of;
        } else {
            it->rows[i].offset = *end;
            it->rows[i].field_size = sizeof number;
            *end += sizeof number;
        }
        count++;
    }
    *hash = 0;
    *type = (troupe_type){.abi = TROUPE_ABI,
                          .kind = TROUPE_KIND_RECORD,
                          .name = it->ref,
                          .size = *end - begin,
                          .fields = fields,
                          .field_count = count,
                          .hash = hash};
    return TROUPE_OK;
}

static troupe_status check_name(size_t index, const troupe_param *row)
{
    const char *name = row->name;
    bool good = name && *name && !strchr(name, '[') && name[strlen(name) - 1] != '.' &&
                name[0] != '.' && !strstr(name, "..");
    if (!good)
        return troupe_fail(TROUPE_INVALID,
                           "space[%zu] is of \"%.100s\": expected the name of a number of the "
                           "config, as rate or fitting.batch",
                           index, name ? name : "");
    if (row->text)
        return troupe_fail(TROUPE_INVALID,
                           "space[%zu] (%s): it is a text, which belongs to the settings of all "
                           "trials",
                           index, name);
    return TROUPE_OK;
}

static troupe_status make_type(stored *it, const troupe_param *space, size_t count)
{
    size_t end = 0;
    if (count < 1 || count > ROWS_MAX)
        return troupe_fail(TROUPE_INVALID, "the space has %zu rows: expected 1 to %d", count,
                           ROWS_MAX);
    it->rows = (troupe_param *)trp_arena_alloc(&it->arena, count * sizeof *it->rows);
    if (!it->rows)
        return no_memory(it);
    for (size_t i = 0; i < count; i++) {
        const troupe_param *given = (const troupe_param *)trp_row_at(space, i);
        TROUPE_TRY(TRP_OPTIONS_TAKE("a row of a space", it->rows[i], given));
        it->rows[i].size = sizeof it->rows[i];
        TROUPE_TRY(check_name(i, &it->rows[i]));
    }
    it->count = count;
    return make_record(it, "", 0, &end, &it->type);
}

// ---- the settings of a trial

static const char *settings_of(const troupe_trainer *trainer, const void *config, trp_arena *arena)
{
    const stored *it = (const stored *)(const void *)trainer;
    trp_buffer drawn = {0}, whole = {0};
    trp_json under = {"{}", 2}, over;
    trp_json_value(&drawn, &it->type, config);
    if (!drawn.failed && trp_json_parse((const char *)drawn.data, drawn.size, &over) == TROUPE_OK &&
        (!it->json || trp_json_parse(it->json, strlen(it->json), &under) == TROUPE_OK))
        trp_settings_merge(under, over, &whole);
    trp_buffer_free(&drawn);
    return whole.size > 0 ? trp_buffer_keep(&whole, arena) : NULL;
}

static troupe_status submit(const troupe_trainer *trainer, const void *config,
                            const troupe_follower *follower, troupe_job **job,
                            const troupe_train_options *how)
{
    const stored *it = (const stored *)(const void *)trainer;
    troupe_stored_options options = it->how;
    trp_arena arena = {0};
    const char *settings = settings_of(trainer, config, &arena);
    options.train = how;
    troupe_status status =
        settings ? troupe_submit_stored_with(it->ref, settings, follower, job, &options)
                 : no_memory(it);
    trp_arena_clear(&arena);
    // Of what is the same in each trial a sweep is told by these.
    if (status == TROUPE_NOT_FOUND || status == TROUPE_WRONG_TYPE || status == TROUPE_CORRUPT)
        return troupe_fail(TROUPE_INVALID, "%s", troupe_last_error()->text);
    return status;
}

// ---- the sweep

static void release(const troupe_trainer *trainer)
{
    stored *it = (stored *)(uintptr_t)trainer;
    trp_arena_clear(&it->arena);
    trp_free(it);
}

static troupe_status keep_text(stored *it, const char **text)
{
    size_t size = *text ? strlen(*text) + 1 : 0;
    char *copy = size > 0 ? (char *)trp_arena_alloc(&it->arena, size) : NULL;
    if (size > 0 && !copy)
        return no_memory(it);
    *text = size > 0 ? (const char *)memcpy(copy, *text, size) : NULL;
    return TROUPE_OK;
}

static troupe_status prepare(stored *it, const char *ref, const char *json,
                             const troupe_param *space, size_t count)
{
    trp_stored_version version;
    trp_json value;
    TROUPE_TRY(trp_stored_find(it->how.repository, ref, &it->arena, &version));
    memcpy(it->ref, version.of.ref, sizeof it->ref); // An alias may move meanwhile.
    it->json = json;
    TROUPE_TRY(keep_text(it, &it->json));
    TROUPE_TRY(keep_text(it, &it->how.repository));
    TROUPE_TRY(keep_text(it, &it->how.data));
    if (json && (trp_json_parse(json, strlen(json), &value) != TROUPE_OK))
        return trp_error_prefix("the settings");
    if (json && !trp_json_is_object(value))
        return troupe_fail(TROUPE_WRONG_TYPE, "the settings: expected an object");
    it->port.model = it->ref;
    it->port.settings = it->json;
    TROUPE_TRY(make_type(it, space, count));
    it->trainer =
        (troupe_trainer){.abi = TROUPE_ABI, .name = version.manifest.trainer, .config = &it->type};
    return TROUPE_OK;
}

static troupe_status run(const char *ref, const char *json, const troupe_param *space, size_t count,
                         troupe_sweep **sweep, const troupe_tune_options *how)
{
    troupe_stored_options given;
    const troupe_stored_options *asked =
        how && how->size > offsetof(troupe_tune_options, stored) ? how->stored : NULL;
    troupe_status status = TRP_OPTIONS_TAKE(".stored of troupe_tune_stored", given, asked);
    stored *it = status == TROUPE_OK ? trp_alloc(sizeof *it) : NULL;
    if (status == TROUPE_OK && !it)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep over %s", ref);
    if (it) {
        *it = (stored){.how = given, .port = trp_sweep_train};
        it->how.size = sizeof it->how;
        it->port.submit = submit;
        it->port.program = NULL;
        it->port.has_gates = false; // A gate would have to be in another program.
        status = prepare(it, ref, json, space, count);
    }
    if (status != TROUPE_OK) {
        trp_sweep_consume(how);
        if (it)
            release(&it->trainer);
        return status;
    }
    status = trp_sweep_run(&it->port, &it->trainer, it->rows, it->count, sweep, how);
    if (*sweep) {
        (*sweep)->settings = settings_of;
        (*sweep)->release = release;
    } else {
        release(&it->trainer);
    }
    return status;
}

troupe_status troupe_tune_stored_with(const char *ref, const char *json, const troupe_param *space,
                                      size_t count, troupe_sweep **sweep,
                                      const troupe_tune_options *how)
{
    TRP_REQUIRE(ref);
    TRP_REQUIRE(space);
    TRP_REQUIRE(sweep);
    *sweep = NULL;
    return run(ref, json, space, count, sweep, how);
}
