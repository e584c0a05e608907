// template.c: see tune/command/template.h.
#include <tune/command/template.h>

#include <runtime/base/error.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX = 128 }; // As of a space's rows, with its end.

// Bytes of the name that stands between braces at `text`; 0: it is none.
static size_t name_length(const char *text)
{
    size_t length = strspn(text + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789._-");
    return length < NAME_MAX && text[1 + length] == '}' ? length : 0;
}

// A member by its name, or by a way through nested ones: "plan.steps".
static bool find_member(trp_json object, const char *name, trp_json *value)
{
    char part[NAME_MAX];
    if (trp_json_member(object, name, value))
        return true;
    size_t length = strcspn(name, ".");
    if (name[length] == '\0' || length == 0)
        return false;
    snprintf(part, sizeof part, "%.*s", (int)length, name);
    return trp_json_member(object, part, value) && find_member(*value, name + length + 1, value);
}

// Whether a member is called what stands between braces at `text`, though braces take no such name.
static bool is_odd_name(const char *text, trp_json params)
{
    char name[NAME_MAX];
    trp_json value;
    size_t length = strcspn(text + 1, "}");
    if (text[1 + length] == '\0' || length >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)length, text + 1);
    return trp_json_member(params, name, &value);
}

static troupe_status write_value(trp_json value, trp_buffer *out)
{
    trp_arena arena = {0};
    troupe_text text = NULL;
    troupe_status status = TROUPE_OK;
    if (!trp_json_is_text(value)) {
        trp_buffer_append(out, value.at, value.size);
    } else {
        status = trp_json_read(&troupe_type_troupe_text, value, &arena, &text);
        if (status == TROUPE_OK)
            trp_buffer_append(out, text, strlen(text));
    }
    trp_arena_clear(&arena);
    return status;
}

troupe_status trp_template_fill(const char *text, trp_json params, int trial, bool optional,
                                trp_buffer *out)
{
    char name[NAME_MAX];
    trp_json value;
    for (const char *at = text; *at != '\0';) {
        size_t plain = strcspn(at, "{"), length = 0;
        trp_buffer_append(out, at, plain);
        at += plain;
        if (*at == '\0')
            break;
        if (at[1] == '{') {
            trp_buffer_append(out, "{", 1);
            at += 2;
            continue;
        }
        length = name_length(at);
        snprintf(name, sizeof name, "%.*s", (int)length, at + 1);
        if (strcmp(name, "params") == 0)
            trp_buffer_append(out, params.at, params.size);
        else if (strcmp(name, "trial") == 0)
            trp_buffer_printf(out, "%d", trial);
        else if (length > 0 && find_member(params, name, &value))
            TROUPE_TRY(write_value(value, out));
        else if (length > 0 && !optional)
            return troupe_fail(TROUPE_INVALID,
                               "the argument '%.100s' has {%s}, which the space has not: expected "
                               "one of its names, {params}, {trial}, or {{ for a brace",
                               text, name);
        else if (length == 0 && !optional && is_odd_name(at, params))
            return troupe_fail(TROUPE_INVALID,
                               "the argument '%.100s' has a name between braces that is not of "
                               "letters, digits, '.', '_' and '-' alone: the program finds it in "
                               "{params} and TROUPE_CONFIG",
                               text);
        else if (length == 0) {
            trp_buffer_append(out, "{", 1);
            at++;
            continue;
        }
        at += length + 2;
    }
    return out->failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the arguments of a trial")
                       : TROUPE_OK;
}
