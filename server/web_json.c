// web_json.c: see web_json.h.
#include <server/web_json.h>

#include <inttypes.h>
#include <string.h>

void web_name(trp_buffer *out, const char *name)
{
    unsigned char before = out->size > 0 ? out->data[out->size - 1] : '[';
    if (before != '{' && before != '[' && before != ':')
        trp_buffer_append(out, ",", 1);
    if (name == NULL)
        return;
    trp_json_text(out, name);
    trp_buffer_append(out, ":", 1);
}

void web_begin(trp_buffer *out, const char *name, char bracket)
{
    web_name(out, name);
    trp_buffer_append(out, &bracket, 1);
}

void web_end(trp_buffer *out, char bracket)
{
    trp_buffer_append(out, &bracket, 1);
}

void web_text(trp_buffer *out, const char *name, const char *text)
{
    if (text == NULL)
        return;
    web_name(out, name);
    trp_json_text(out, text);
}

void web_number(trp_buffer *out, const char *name, double value)
{
    web_name(out, name);
    trp_json_number(out, value);
}

void web_integer(trp_buffer *out, const char *name, int64_t value)
{
    web_name(out, name);
    trp_buffer_printf(out, "%" PRId64, value);
}

void web_flag(trp_buffer *out, const char *name, bool value)
{
    web_name(out, name);
    trp_buffer_printf(out, value ? "true" : "false");
}

void web_json(trp_buffer *out, const char *name, trp_json value)
{
    if (value.size == 0)
        return;
    web_name(out, name);
    trp_buffer_append(out, value.at, value.size);
}

void web_json_text(trp_buffer *out, const char *name, const char *text)
{
    trp_json value;
    if (text != NULL && trp_json_parse(text, strlen(text), &value) == TROUPE_OK)
        web_json(out, name, value);
}

void web_time(trp_buffer *out, const char *name, double at)
{
    if (at > 0)
        web_number(out, name, at);
}
