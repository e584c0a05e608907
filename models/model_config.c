// model_config.c: a model's config, by the names of its members: defaults, what a checkpoint has,
// and what a user says.
#include <models/model.h>

#include <inttypes.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>

static const troupe_field *field_of(const troupe_type *type, trp_json name)
{
    for (size_t i = 0; i < type->field_count; i++)
        if (trp_json_equals(name, type->fields[i].name))
            return &type->fields[i];
    return NULL;
}

// A member that the type lacks is most likely a slip of the pen.
static troupe_status refuse(const char *what, const troupe_type *type, trp_json name,
                            const char *within)
{
    trp_buffer names = {0};
    for (size_t i = 0; i < type->field_count; i++)
        trp_buffer_printf(&names, "%s%s", i > 0 ? ", " : "", type->fields[i].name);
    troupe_status status = troupe_fail(
        TROUPE_NOT_FOUND, "%s have %.*s%s%s, which is no member of %s: its members are %.*s", what,
        name.size < 64 ? (int)name.size : 64, name.at, *within ? " in " : "", within, type->name,
        (int)names.size, names.data ? (const char *)names.data : "");
    trp_buffer_free(&names);
    return status;
}

static troupe_status check_members(const char *what, const troupe_type *type, trp_json object,
                                   const char *within)
{
    trp_json at = {0}, name, value;
    while (trp_json_next_member(object, &at, &name, &value)) {
        const troupe_field *field = field_of(type, name);
        if (!field)
            return refuse(what, type, name, within);
        // As deep as types nest, which the parser has bounded.
        if (field->type->kind == TROUPE_KIND_RECORD && field->count == 0)
            TROUPE_TRY(check_members(what, field->type, value, field->name));
    }
    return TROUPE_OK;
}

static troupe_status lay_over(const troupe_type *type, const char *json, const char *what,
                              bool strict, trp_arena *arena, void *config)
{
    trp_json object;
    if (trp_json_parse(json, strlen(json), &object) != TROUPE_OK)
        return trp_error_prefix("%s", what);
    if (!trp_json_is_object(object))
        return troupe_fail(TROUPE_WRONG_TYPE, "%s: expected an object of the members of %s", what,
                           type->name);
    if (strict)
        TROUPE_TRY(check_members(what, type, object, ""));
    if (trp_json_read(type, object, arena, config) != TROUPE_OK)
        return trp_error_prefix("%s", what);
    return TROUPE_OK;
}

troupe_status trp_model_config(const troupe_model *model, const char *file, const char *user,
                               const char *what, trp_arena *arena, void *config)
{
    memcpy(config, model->defaults, model->config->size);
    if (file)
        TROUPE_TRY(lay_over(model->config, file, "the checkpoint's config", false, arena, config));
    return user ? lay_over(model->config, user, what, true, arena, config) : TROUPE_OK;
}

troupe_status troupe_model_config_as(const troupe_model *model, const char *json, void *config)
{
    TRP_REQUIRE(model);
    TRP_REQUIRE(config);
    const trp_model *found;
    char what[96];
    TROUPE_TRY(trp_model_of(model, &found));
    trp_arena draft = {0}; // On failure *config is left alone.
    void *made = trp_arena_alloc(&draft, model->config->size);
    (void)snprintf(what, sizeof what, "the settings of model '%s'", model->name);
    troupe_status status =
        made ? trp_model_config(model, NULL, json, what, trp_arena_current(), made)
             : troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of '%s'", model->name);
    if (status == TROUPE_OK)
        memcpy(config, made, model->config->size);
    trp_arena_clear(&draft);
    return status;
}

// The same value of a member, however it is written.
static bool equal(trp_json a, trp_json b)
{
    trp_buffer one = {0}, other = {0};
    bool same = trp_json_canonical(a, &one) == TROUPE_OK &&
                trp_json_canonical(b, &other) == TROUPE_OK && !one.failed && !other.failed &&
                one.size == other.size && memcmp(one.data, other.data, one.size) == 0;
    trp_buffer_free(&one);
    trp_buffer_free(&other);
    return same;
}

void trp_model_differences(const trp_model *model, const char *file, const void *config, char *text,
                           size_t capacity)
{
    enum { SHOWN = 40 };
    trp_buffer mine = {0};
    trp_json then, now, at = {0}, name, value, other;
    size_t used = 0;
    text[0] = '\0';
    trp_json_value(&mine, model->table->config, config);
    bool known = file && !mine.failed && trp_json_parse(file, strlen(file), &then) == TROUPE_OK &&
                 trp_json_parse((const char *)mine.data, mine.size, &now) == TROUPE_OK;
    while (known && used < capacity && trp_json_next_member(now, &at, &name, &value)) {
        const troupe_field *field = field_of(model->table->config, name);
        if (!field || field == model->fitting || !trp_json_member(then, field->name, &other) ||
            equal(value, other))
            continue;
        int length = snprintf(text + used, capacity - used,
                              "%s%s is %.*s in the checkpoint's config and %.*s in this one",
                              used > 0 ? ", " : "", field->name,
                              other.size < SHOWN ? (int)other.size : SHOWN, other.at,
                              value.size < SHOWN ? (int)value.size : SHOWN, value.at);
        used += length > 0 ? (size_t)length : 0;
    }
    trp_buffer_free(&mine);
    trp_error_forget();
}
