// json.c: values as JSON. troupe_print writes for people and cuts; here every digit counts.
#include <runtime/codec/json.h>

#include <inttypes.h>
#include <math.h>
#include <runtime/codec/decimal.h>
#include <runtime/codec/msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Whether it stands in a text as it is.
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static void write_text(trp_buffer *out, const char *text, size_t size)
{
    trp_buffer_append(out, "\"", 1);
    for (size_t at = 0, run = 0; at < size; at += run) {
        unsigned char c = (unsigned char)text[at];
        for (run = 0; at + run < size && is_plain((unsigned char)text[at + run]);)
            run++;
        if (run > 0) {
            trp_buffer_append(out, text + at, run);
            continue;
        }
        run = 1;
        if (c == '"' || c == '\\')
            trp_buffer_printf(out, "\\%c", c);
        else if (c < 0x20)
            trp_buffer_printf(out, "\\u%04x", c);
        else if (c >= 0xc0 && trp_text_good(text + at, size - at < 4 ? size - at : 4) >= 2)
            trp_buffer_append(out, text + at, run = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2);
        else // Not UTF-8: no reader would take the file.
            trp_buffer_append(out, "\xef\xbf\xbd", 3);
    }
    trp_buffer_append(out, "\"", 1);
}

void trp_json_text(trp_buffer *out, const char *text)
{
    if (text == NULL)
        trp_buffer_append(out, "null", 4);
    else
        write_text(out, text, strlen(text));
}

// Many numbers are whole (counts, steps, times): these are the same text as an integer, which takes
// a tenth of the time. False: it is none, is negative, or %g would write it with an exponent.
static bool write_whole(trp_buffer *out, double value, bool single)
{
    char text[24];
    if (!(fabs(value) < (single ? 1e6 : 1e15)) || value != trunc(value) || signbit(value))
        return false;
    char *at = text + sizeof text;
    uint64_t left = (uint64_t)value;
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    trp_buffer_append(out, at, (size_t)(text + sizeof text - at));
    return true;
}

static void write_real(trp_buffer *out, double value, bool single)
{
    char text[TRP_DECIMAL_MAX];
    if (write_whole(out, value, single))
        return;
    if (!isfinite(value))
        write_text(out, text,
                   (size_t)snprintf(text, sizeof text, "%s",
                                    isnan(value) ? "NaN"
                                    : value > 0  ? "Infinity"
                                                 : "-Infinity"));
    else
        trp_buffer_append(out, text, trp_decimal_write(value, single, text));
}

void trp_json_number(trp_buffer *out, double value)
{
    write_real(out, value, false);
}

static void write_bytes(trp_buffer *out, const unsigned char *data, size_t size)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    trp_buffer_append(out, "\"", 1);
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned bits = (unsigned)data[i] << 16;
        bits |= left > 1 ? (unsigned)data[i + 1] << 8 : 0;
        bits |= left > 2 ? data[i + 2] : 0;
        char four[4] = {letters[bits >> 18], letters[bits >> 12 & 63],
                        left > 1 ? letters[bits >> 6 & 63] : '=',
                        left > 2 ? letters[bits & 63] : '='};
        trp_buffer_append(out, four, sizeof four);
    }
    trp_buffer_append(out, "\"", 1);
}

static void write_integer(trp_buffer *out, const troupe_type *type, const void *value)
{
    uint64_t bits = 0;
    memcpy(&bits, value, type->size); // Little-endian, as every supported machine is.
    int unused = 64 - (int)type->size * 8;
    if (type->kind == TROUPE_KIND_UINT)
        trp_buffer_printf(out, "%" PRIu64, bits);
    else
        trp_buffer_printf(out, "%" PRId64, (int64_t)(bits << unused) >> unused);
}

static void write_items(trp_buffer *out, const troupe_type *type, const char *items, size_t count)
{
    trp_buffer_append(out, "[", 1);
    for (size_t i = 0; i < count; i++) {
        trp_buffer_append(out, ", ", i == 0 ? 0 : 2);
        trp_json_value(out, type, items + i * type->size);
    }
    trp_buffer_append(out, "]", 1);
}

static void write_record(trp_buffer *out, const troupe_type *type, const char *value)
{
    trp_buffer_append(out, "{", 1);
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        trp_buffer_append(out, ", ", i == 0 ? 0 : 2);
        trp_json_text(out, field->name);
        trp_buffer_append(out, ": ", 2);
        if (field->count > 0 && field->type->kind == TROUPE_KIND_CHAR)
            write_text(out, value + field->offset, strnlen(value + field->offset, field->count));
        else if (field->count == 0)
            trp_json_value(out, field->type, value + field->offset);
        else
            write_items(out, field->type, value + field->offset, field->count);
    }
    trp_buffer_append(out, "}", 1);
}

void trp_json_value(trp_buffer *out, const troupe_type *type, const void *value)
{
    trp_counted array; // Copied out rather than read in place, as all that may lie unaligned.
    troupe_bytes bytes;
    const char *text;
    double real;
    float single;
    switch (type->kind) {
    case TROUPE_KIND_BOOL:
        trp_buffer_printf(out, "%s", *(const bool *)value ? "true" : "false");
        break;
    case TROUPE_KIND_CHAR:
    case TROUPE_KIND_INT:
    case TROUPE_KIND_UINT:
        write_integer(out, type, value);
        break;
    case TROUPE_KIND_FLOAT:
        if (type->size == sizeof single) {
            memcpy(&single, value, sizeof single);
            write_real(out, (double)single, true);
        } else {
            memcpy(&real, value, sizeof real);
            trp_json_number(out, real);
        }
        break;
    case TROUPE_KIND_TEXT:
        memcpy(&text, value, sizeof text);
        trp_json_text(out, text);
        break;
    case TROUPE_KIND_BYTES:
        memcpy(&bytes, value, sizeof bytes);
        write_bytes(out, (const unsigned char *)bytes.data, bytes.size);
        break;
    case TROUPE_KIND_RECORD:
        write_record(out, type, value);
        break;
    case TROUPE_KIND_ARRAY:
        memcpy(&array, value, sizeof array);
        write_items(out, type->item, (const char *)array.items, array.count);
        break;
    default: // References, actors and tensors mean nothing elsewhere or are too large.
        trp_buffer_append(out, "null", 4);
    }
}
