// settings.c: see settings.h.
#include <tune/sweep/settings.h>

#include <runtime/base/buffer.h>
#include <stdio.h>
#include <string.h>

// Writes what both objects have, where both have it what the second has.
static void merge(trp_json under, trp_json over, trp_buffer *out)
{
    trp_json at = {0}, name, value, other;
    size_t count = 0;
    trp_buffer_append(out, "{", 1);
    while (trp_json_next_member(under, &at, &name, &value)) {
        char text[128];
        bool has = name.size - 2 < sizeof text;
        (void)snprintf(text, sizeof text, "%.*s", has ? (int)name.size - 2 : 0, name.at + 1);
        has = has && trp_json_member(over, text, &other);
        trp_buffer_printf(out, "%s%.*s: ", count++ > 0 ? ", " : "", (int)name.size, name.at);
        if (has && trp_json_is_object(value) && trp_json_is_object(other))
            merge(value, other, out);
        else
            trp_buffer_append(out, has ? other.at : value.at, has ? other.size : value.size);
    }
    at = (trp_json){0};
    while (trp_json_next_member(over, &at, &name, &value)) {
        char text[128];
        (void)snprintf(text, sizeof text, "%.*s", (int)name.size - 2, name.at + 1);
        if (trp_json_member(under, text, &other))
            continue;
        trp_buffer_printf(out, "%s%.*s: ", count++ > 0 ? ", " : "", (int)name.size, name.at);
        trp_buffer_append(out, value.at, value.size);
    }
    trp_buffer_append(out, "}", 1);
}

// {"a": {"b": value}} of the name a.b, with its quotes.
static void put_nested(trp_json name, trp_json value, trp_buffer *out)
{
    size_t depth = 1;
    trp_buffer_append(out, "{", 1);
    for (size_t i = 0; i < name.size; i++) {
        bool dot = name.at[i] == '.';
        trp_buffer_append(out, dot ? "\": {\"" : &name.at[i], dot ? 5 : 1);
        depth += dot;
    }
    trp_buffer_append(out, ": ", 2);
    trp_buffer_append(out, value.at, value.size);
    while (depth-- > 0)
        trp_buffer_append(out, "}", 1);
}

static void nest(trp_json flat, trp_buffer *out)
{
    trp_json at = {0}, name, value, all, one;
    trp_buffer whole = {0}, next = {0}, both = {0};
    trp_buffer_append(&whole, "{}", 2);
    while (trp_json_next_member(flat, &at, &name, &value)) {
        next.size = both.size = 0;
        put_nested(name, value, &next);
        out->failed = out->failed || whole.failed || next.failed ||
                      trp_json_parse((const char *)whole.data, whole.size, &all) != TROUPE_OK ||
                      trp_json_parse((const char *)next.data, next.size, &one) != TROUPE_OK;
        if (out->failed)
            break;
        merge(all, one, &both);
        trp_buffer swapped = whole;
        whole = both;
        both = swapped;
    }
    trp_buffer_append(out, whole.data, whole.failed ? 0 : whole.size);
    out->failed = out->failed || whole.failed;
    trp_buffer_free(&whole);
    trp_buffer_free(&next);
    trp_buffer_free(&both);
}

const char *trp_settings_lay(trp_json under, trp_json drawn, trp_arena *arena)
{
    trp_buffer nested = {0}, whole = {0};
    trp_json over;
    nest(drawn, &nested);
    if (!nested.failed &&
        trp_json_parse((const char *)nested.data, nested.size, &over) == TROUPE_OK)
        merge(under, over, &whole);
    else
        whole.failed = true;
    trp_buffer_free(&nested);
    return trp_buffer_keep(&whole, arena);
}
