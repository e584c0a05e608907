// stored_tune.c: sweeps over a version whose code is another program's: each trial is a submission
// of the version. What the space draws is JSON alone, which is laid over the settings that all
// trials have.
#include <tune/sweep/stored_tune.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>
#include <troupe/repository.h>
#include <troupe/stored.h>
#include <tune/space/named.h>
#include <tune/space/own.h>
#include <tune/sweep/settings.h>
#include <tune/sweep/sweep.h>

enum { ROWS_MAX = 256 };

// A version as a trainer of what the space draws.
typedef struct stored {
    troupe_trainer trainer; // First.
    trp_arena arena, texts; // Its own; of who began it.
    char ref[TROUPE_REPOSITORY_NAME_MAX + 32];
    const char *json; // Of all trials; NULL: nothing.
    troupe_stored_options how;
    troupe_space *space;
    trp_sweep_port port;
} stored;

static troupe_status no_memory(const char *ref)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep over %s", ref);
}

// ---- the settings of a trial

static const char *settings_of(const troupe_trainer *trainer, const void *config, trp_arena *arena)
{
    const stored *it = (const stored *)(const void *)trainer;
    const trp_text_config *drawn = (const trp_text_config *)config;
    trp_json under = {"{}", 2}, params;
    if (trp_json_parse(drawn->params, strlen(drawn->params), &params) != TROUPE_OK ||
        (it->json && trp_json_parse(it->json, strlen(it->json), &under) != TROUPE_OK))
        return NULL;
    return trp_settings_lay(under, params, arena);
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
                 : no_memory(it->ref);
    trp_arena_clear(&arena);
    // Of what is the same in each trial a sweep is told by these.
    if (status == TROUPE_NOT_FOUND || status == TROUPE_WRONG_TYPE || status == TROUPE_CORRUPT)
        return troupe_fail(TROUPE_INVALID, "%s", troupe_last_error()->text);
    return status;
}

// ---- the space

static troupe_status take_own_space(stored *it, const troupe_version_info *version)
{
    const char *space = NULL;
    for (size_t i = 0; i < version->note_count; i++)
        if (strcmp(version->notes[i].name, TRP_OWN_SPACE) == 0)
            space = version->notes[i].text;
    if (!space)
        return troupe_fail(TROUPE_NOT_FOUND,
                           "%s was pushed without a space (TROUPE_SPACE): expected one for the "
                           "sweep",
                           it->ref);
    if (troupe_space_parse(space, &it->space) == TROUPE_OK)
        return TROUPE_OK;
    return trp_error_prefix("%s", it->ref);
}

// A name is a way through objects.
static troupe_status check_space(const stored *it)
{
    for (size_t i = 0; i < it->space->count; i++)
        if (strchr(it->space->rows[i].name, '['))
            return troupe_fail(TROUPE_INVALID,
                               "the space has %s, an item of an array, which settings of %s cannot "
                               "name",
                               it->space->rows[i].name, it->ref);
    return TROUPE_OK;
}

// ---- the sweep

static void release(const troupe_trainer *trainer)
{
    stored *it = (stored *)(uintptr_t)trainer;
    troupe_space_free(&it->space);
    trp_arena_clear(&it->arena);
    trp_arena_clear(&it->texts);
    trp_free(it);
}

static troupe_status keep_text(stored *it, const char **text)
{
    size_t size = *text ? strlen(*text) + 1 : 0;
    char *copy = size > 0 ? (char *)trp_arena_alloc(&it->arena, size) : NULL;
    if (size > 0 && !copy)
        return no_memory(it->ref);
    *text = size > 0 ? (const char *)memcpy(copy, *text, size) : NULL;
    return TROUPE_OK;
}

// The version, by its number: an alias may move meanwhile. Whether its program is whole shows when
// the first trial is submitted.
static troupe_status find(stored *it, const char *ref, troupe_version_info *version)
{
    TROUPE_TRY(troupe_repository_describe(ref, version, .repository = it->how.repository));
    snprintf(it->ref, sizeof it->ref, "%s@%" PRId64, version->key, version->version);
    it->trainer = (troupe_trainer){
        .abi = TROUPE_ABI, .name = version->model, .config = &troupe_type_trp_text_config};
    return keep_text(it, &it->trainer.name);
}

static troupe_status prepare(stored *it, const char *ref, const char *json)
{
    troupe_version_info version;
    trp_json value;
    TROUPE_TRY(find(it, ref, &version));
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
    if (!it->space)
        TROUPE_TRY(take_own_space(it, &version));
    return check_space(it);
}

static troupe_status make(const char *ref, const char *json, troupe_space *space,
                          const troupe_tune_options *how, stored **made)
{
    troupe_stored_options given;
    const troupe_stored_options *asked =
        how && how->size > offsetof(troupe_tune_options, stored) ? how->stored : NULL;
    troupe_status status = TRP_OPTIONS_TAKE(".stored of troupe_tune_stored", given, asked);
    stored *it = status == TROUPE_OK ? trp_alloc(sizeof *it) : NULL;
    *made = NULL;
    if (!it) {
        troupe_space_free(&space);
        return status == TROUPE_OK ? no_memory(ref) : status;
    }
    *it = (stored){.how = given, .space = space, .port = trp_sweep_train};
    it->how.size = sizeof it->how;
    it->port.submit = submit;
    it->port.program = NULL;
    it->port.has_gates = false; // A gate would have to be in another program.
    status = prepare(it, ref, json);
    if (status == TROUPE_OK)
        *made = it;
    else
        release(&it->trainer);
    return status;
}

troupe_status trp_stored_tune_begin(const char *ref, const char *settings, troupe_space *space,
                                    troupe_sweep **sweep, const troupe_tune_options *how,
                                    trp_arena *texts)
{
    stored *it;
    troupe_status status = make(ref, settings, space, how, &it);
    if (status != TROUPE_OK) {
        trp_sweep_consume(how);
        if (texts)
            trp_arena_clear(texts);
        return status;
    }
    if (texts)
        it->texts = *texts;
    troupe_space *own = it->space;
    it->space = NULL;
    status = trp_sweep_begin_json(&it->port, &it->trainer, own, NULL, sweep, how);
    if (status == TROUPE_OK) {
        (*sweep)->settings = settings_of;
        (*sweep)->release = release;
    } else {
        release(&it->trainer);
    }
    return status;
}

// The rows as a space; NULL: there are none.
static troupe_status parse_rows(const troupe_param *rows, size_t count, troupe_space **space)
{
    trp_buffer text = {0};
    *space = NULL;
    if (count > ROWS_MAX)
        return troupe_fail(TROUPE_INVALID, "the space has %zu rows: expected at most %d", count,
                           ROWS_MAX);
    if (count == 0)
        return TROUPE_OK;
    troupe_status status = trp_space_named(rows, count, &text);
    trp_buffer_append(&text, "", 1);
    if (status == TROUPE_OK && text.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a space");
    if (status == TROUPE_OK)
        status = troupe_space_parse((const char *)text.data, space);
    trp_buffer_free(&text);
    return status;
}

static troupe_status begin(const char *ref, const char *json, const troupe_param *space,
                           size_t count, troupe_sweep **sweep, const troupe_tune_options *how)
{
    troupe_space *parsed;
    if (!sweep) {
        trp_sweep_consume(how);
        return troupe_failed_(TRP_NULL(sweep));
    }
    *sweep = NULL;
    troupe_status status = TRP_IS_NULL(ref)                  ? TRP_NULL(ref)
                           : count > 0 && TRP_IS_NULL(space) ? TRP_NULL(space)
                                                             : TROUPE_OK;
    if (status == TROUPE_OK)
        status = parse_rows(space, count, &parsed);
    if (status == TROUPE_OK)
        return trp_stored_tune_begin(ref, json, parsed, sweep, how, NULL);
    trp_sweep_consume(how);
    return status;
}

troupe_status troupe_sweep_start_stored_with(const char *ref, const char *json,
                                             const troupe_param *space, size_t count,
                                             troupe_sweep **sweep, const troupe_tune_options *how)
{
    return begin(ref, json, space, count, sweep, how);
}

troupe_status troupe_tune_stored_with(const char *ref, const char *json, const troupe_param *space,
                                      size_t count, troupe_sweep **sweep,
                                      const troupe_tune_options *how)
{
    TROUPE_TRY(begin(ref, json, space, count, sweep, how));
    return trp_sweep_await(sweep);
}
