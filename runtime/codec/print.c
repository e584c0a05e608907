// print.c: values as a line of JSON-like text for people to read.
#include <math.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/tensor.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Counts what the whole text takes and keeps what fits.
typedef struct sink {
    char *out;
    size_t capacity, length;
} sink;

static void put(sink *to, const char *text, size_t size)
{
    if (to->length + 1 < to->capacity) {
        size_t room = to->capacity - 1 - to->length;
        memcpy(to->out + to->length, text, size < room ? size : room);
    }
    to->length += size;
}

__attribute__((format(printf, 2, 3))) static void put_format(sink *to, const char *format, ...)
{
    char text[128];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (size > 0)
        put(to, text, (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1);
}

// Of at most `most` bytes.
static void put_text(sink *to, const char *text, size_t most)
{
    if (!text) {
        put(to, "null", 4);
        return;
    }
    put(to, "\"", 1);
    for (const char *at = text; (size_t)(at - text) < most && *at; at++) {
        if (*at == '"' || *at == '\\')
            put_format(to, "\\%c", *at);
        else if (*at == '\n')
            put(to, "\\n", 2);
        else if ((unsigned char)*at < 0x20 || *at == 0x7f)
            put_format(to, "\\u%04x", (unsigned)(unsigned char)*at);
        else
            put(to, at, 1);
    }
    put(to, "\"", 1);
}

// The shortest of the usual precisions that reads back as the same number.
static void put_float(sink *to, const void *value, size_t size)
{
    float narrow = 0;
    double wide = 0;
    bool is_narrow = size == sizeof(narrow);
    if (is_narrow) {
        memcpy(&narrow, value, sizeof(narrow));
        wide = (double)narrow;
    } else {
        memcpy(&wide, value, sizeof(wide));
    }
    if (!isfinite(wide)) {
        put_format(to, "%s", isnan(wide) ? "nan" : wide > 0 ? "inf" : "-inf");
        return;
    }
    char text[40];
    int few = is_narrow ? 6 : 15, all = is_narrow ? 9 : 17;
    for (int digits = few; digits <= all; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, wide);
        if (is_narrow ? strtof(text, NULL) == narrow : strtod(text, NULL) == wide)
            break;
    }
    put(to, text, strlen(text));
}

static long long int_of(const void *value, size_t size)
{
    unsigned long long number = 0;
    memcpy(&number, value, size);
    unsigned shift = 64 - 8 * (unsigned)size;
    return (long long)(number << shift) >> shift; // Extends the sign.
}

static unsigned long long uint_of(const void *value, size_t size)
{
    unsigned long long number = 0;
    memcpy(&number, value, size);
    return number;
}

static void put_tensor(sink *to, const troupe_tensor *tensor)
{
    char text[TRP_TENSOR_TEXT];
    if (tensor->dtype == TROUPE_DTYPE_NONE) {
        put(to, "null", 4);
        return;
    }
    (void)trp_tensor_text(tensor, text);
    put(to, "<", 1);
    put(to, text, strlen(text));
    put(to, ">", 1);
}

static void print_value(sink *to, const troupe_type *type, const void *value, int depth);

static void print_items(sink *to, const troupe_type *item, const void *items, size_t count,
                        int depth)
{
    put(to, "[", 1);
    for (size_t i = 0; items && i < count; i++) {
        if (i > 0)
            put(to, ", ", 2);
        print_value(to, item, (const unsigned char *)items + i * item->size, depth);
    }
    put(to, "]", 1);
}

static void print_record(sink *to, const troupe_type *type, const void *value, int depth)
{
    put(to, "{", 1);
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        const void *at = (const unsigned char *)value + field->offset;
        if (i > 0)
            put(to, ", ", 2);
        put_text(to, field->name, SIZE_MAX);
        put(to, ": ", 2);
        if (field->count && field->type->kind == TROUPE_KIND_CHAR)
            put_text(to, at, field->count);
        else if (field->count)
            print_items(to, field->type, at, field->count, depth);
        else
            print_value(to, field->type, at, depth);
    }
    put(to, "}", 1);
}

static void print_value(sink *to, const troupe_type *type, const void *value, int depth)
{
    if (depth > TRP_DEPTH_MAX) {
        put(to, "...", 3);
        return;
    }
    trp_counted array;
    switch (type->kind) {
    case TROUPE_KIND_NONE:
        put(to, "null", 4);
        break;
    case TROUPE_KIND_BOOL:
        put_format(to, "%s", *(const unsigned char *)value ? "true" : "false");
        break;
    case TROUPE_KIND_CHAR:
    case TROUPE_KIND_INT:
        put_format(to, "%lld", int_of(value, type->size));
        break;
    case TROUPE_KIND_UINT:
        put_format(to, "%llu", uint_of(value, type->size));
        break;
    case TROUPE_KIND_FLOAT:
        put_float(to, value, type->size);
        break;
    case TROUPE_KIND_TEXT:
        put_text(to, *(const troupe_text *)value, SIZE_MAX);
        break;
    case TROUPE_KIND_BYTES:
        put_format(to, "<%zu bytes>", ((const troupe_bytes *)value)->size);
        break;
    case TROUPE_KIND_REF:
        put_format(to, "<ref %llx>", (unsigned long long)((const troupe_ref *)value)->id);
        break;
    case TROUPE_KIND_ACTOR: {
        const troupe_actor *actor = (const troupe_actor *)value;
        put_format(to, "<actor %llx in process %u of node %u>", (unsigned long long)actor->id,
                   actor->process, actor->node);
        break;
    }
    case TROUPE_KIND_TENSOR:
        put_tensor(to, (const troupe_tensor *)value);
        break;
    case TROUPE_KIND_ARRAY:
        array = trp_counted_of(value);
        print_items(to, type->item, array.items, array.count, depth + 1);
        break;
    case TROUPE_KIND_RECORD:
        print_record(to, type, value, depth + 1);
        break;
    default:
        put(to, "?", 1);
    }
}

size_t troupe_print_as(const troupe_type *type, const void *value, char *out, size_t capacity)
{
    sink to = {out, out ? capacity : 0, 0};
    if (type && type->abi == TROUPE_ABI && value)
        print_value(&to, type, value, 0);
    if (out && capacity > 0)
        out[to.length < capacity ? to.length : capacity - 1] = 0;
    return to.length;
}
