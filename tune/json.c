// json.c: see json.h. troupe_print writes for people and cuts; here every digit counts.
#include <tune/json.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Of at most `most` bytes.
static void write_text(trp_buffer *out, const char *text, size_t most)
{
    trp_buffer_append(out, "\"", 1);
    for (; most > 0 && *text != '\0'; text++, most--) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            trp_buffer_printf(out, "\\%c", c);
        else if (c < 0x20)
            trp_buffer_printf(out, "\\u%04x", c);
        else
            trp_buffer_append(out, text, 1);
    }
    trp_buffer_append(out, "\"", 1);
}

void trp_json_text(trp_buffer *out, const char *text)
{
    if (text == NULL)
        trp_buffer_append(out, "null", 4);
    else
        write_text(out, text, SIZE_MAX);
}

// The shortest of the precisions that reads back as the same number.
static void write_real(trp_buffer *out, double value, int precision_min, int precision_max)
{
    char text[40] = "null";
    for (int precision = precision_min; isfinite(value) && precision <= precision_max;
         precision++) {
        snprintf(text, sizeof text, "%.*g", precision, value);
        double back = strtod(text, NULL);
        if (precision_max < 10 ? (float)back == (float)value : back == value)
            break;
    }
    trp_buffer_append(out, text, strlen(text));
}

void trp_json_number(trp_buffer *out, double value)
{
    write_real(out, value, 6, 17);
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
            write_text(out, value + field->offset, field->count);
        else if (field->count == 0)
            trp_json_value(out, field->type, value + field->offset);
        else
            write_items(out, field->type, value + field->offset, field->count);
    }
    trp_buffer_append(out, "}", 1);
}

void trp_json_value(trp_buffer *out, const troupe_type *type, const void *value)
{
    // Copied out rather than read in place: the first two members of every counted array.
    struct {
        const char *items;
        size_t count;
    } array;
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
            write_real(out, (double)single, 6, 9);
        } else {
            memcpy(&real, value, sizeof real);
            trp_json_number(out, real);
        }
        break;
    case TROUPE_KIND_TEXT:
        memcpy(&text, value, sizeof text);
        trp_json_text(out, text);
        break;
    case TROUPE_KIND_RECORD:
        write_record(out, type, value);
        break;
    case TROUPE_KIND_ARRAY:
        memcpy(&array, value, sizeof array);
        write_items(out, type->item, array.items, array.count);
        break;
    default:
        trp_buffer_append(out, "null", 4);
    }
}
