// settings.c: see settings.h.
#include <tune/sweep/settings.h>

#include <stdio.h>
#include <string.h>

void trp_settings_merge(trp_json under, trp_json over, trp_buffer *out)
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
            trp_settings_merge(value, other, out);
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
