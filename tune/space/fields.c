// fields.c: see tune/space/fields.h.
//
// A value travels as a double and is stored in the field's own kind; what is asked here makes sure
// that this loses nothing.
#include <tune/space/fields.h>

#include <float.h>
#include <math.h>
#include <runtime/base/log.h>
#include <stdio.h>
#include <string.h>

// ---- where it lies

// A row's name while it is read, and its form without spaces as far as that.
typedef struct name_walk {
    const char *at;
    char *out;
    size_t used;
    bool full;
} name_walk;

static void put(name_walk *walk, const char *text, size_t size)
{
    if (walk->used + size > TRP_SPACE_NAME_MAX) {
        walk->full = true;
        return;
    }
    memcpy(walk->out + walk->used, text, size);
    walk->used += size;
    walk->out[walk->used] = '\0';
}

static void skip_spaces(name_walk *walk)
{
    while (*walk->at == ' ')
        walk->at++;
}

// The field whose name comes next; NULL: the type has none.
static const troupe_field *next_field(name_walk *walk, const troupe_type *type)
{
    skip_spaces(walk);
    size_t size = strcspn(walk->at, " .[");
    for (size_t i = 0; type->kind == TROUPE_KIND_RECORD && i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        if (strlen(field->name) != size || strncmp(field->name, walk->at, size) != 0)
            continue;
        put(walk, walk->at, size);
        walk->at += size;
        skip_spaces(walk);
        return field;
    }
    return NULL;
}

// Passes over "[2]", which may be any expression in the program: its number is that of the offset.
static bool next_index(name_walk *walk, const troupe_field *field, size_t *offset)
{
    size_t index = *offset / field->type->size;
    const char *end = strchr(walk->at, ']');
    char text[24];
    if (field->count == 0 || end == NULL || index >= field->count)
        return false;
    put(walk, text, (size_t)snprintf(text, sizeof text, "[%zu]", index));
    *offset %= field->type->size;
    walk->at = end + 1;
    skip_spaces(walk);
    return true;
}

static troupe_status elsewhere(const troupe_type *type, const troupe_param *param)
{
    return troupe_fail(TROUPE_INVALID,
                       "%s has no field of that name and %zu bytes at offset %zu: was the row made "
                       "for another struct?",
                       type->name, param->field_size, param->offset);
}

troupe_status trp_field_find(const troupe_type *type, const troupe_param *param,
                             trp_field_found *found)
{
    name_walk walk = {.at = param->name, .out = found->name};
    size_t offset = param->offset;
    const troupe_type *in = type;
    for (;;) {
        const troupe_field *field = next_field(&walk, in);
        if (field == NULL || offset < field->offset)
            return elsewhere(type, param);
        offset -= field->offset;
        found->items = field->count;
        if (*walk.at == '[') {
            if (!next_index(&walk, field, &offset))
                return elsewhere(type, param);
            found->items = 0;
        }
        in = field->type;
        if (*walk.at != '.' || found->items != 0)
            break;
        put(&walk, walk.at++, 1);
    }
    size_t size = in->size * (found->items > 0 ? found->items : 1);
    if (*walk.at != '\0' || offset != 0 || size != param->field_size)
        return elsewhere(type, param);
    if (walk.full)
        return troupe_fail(TROUPE_INVALID, "the name has more than %d bytes",
                           (int)TRP_SPACE_NAME_MAX);
    found->type = in;
    return TROUPE_OK;
}

// ---- what it holds

bool trp_field_is_number(const troupe_type *type)
{
    return type->kind == TROUPE_KIND_BOOL || type->kind == TROUPE_KIND_INT ||
           type->kind == TROUPE_KIND_UINT || type->kind == TROUPE_KIND_FLOAT;
}

bool trp_field_fits(const troupe_type *type, double value)
{
    int bits = (int)type->size * 8;
    bool whole = isfinite(value) && floor(value) == value;
    switch (type->kind) {
    case TROUPE_KIND_BOOL:
        return value == 0 || value == 1;
    case TROUPE_KIND_INT:
        return whole && value >= -ldexp(1, bits - 1) && value < ldexp(1, bits - 1);
    case TROUPE_KIND_UINT:
        return whole && value >= 0 && value < ldexp(1, bits);
    case TROUPE_KIND_FLOAT:
        return !isnan(value) &&
               (type->size == sizeof(double) || isinf(value) || fabs(value) <= (double)FLT_MAX);
    default:
        return false;
    }
}

static void store_integer(size_t size, void *field, double value)
{
    // Of the two 64-bit kinds only one holds numbers of 2^63 and more, only the other negative
    // ones.
    uint64_t bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    trp_assert(size <= sizeof bits);
    memcpy(field, &bits, size); // Little-endian, as every supported machine is.
}

void trp_field_store(const troupe_type *type, void *field, double value)
{
    if (type->kind == TROUPE_KIND_BOOL)
        memcpy(field, &(bool){value != 0}, sizeof(bool));
    else if (type->kind != TROUPE_KIND_FLOAT)
        store_integer(type->size, field, value);
    else if (type->size == sizeof(float))
        memcpy(field, &(float){(float)value}, sizeof(float));
    else
        memcpy(field, &value, sizeof value);
}

double trp_field_load(const troupe_type *type, const void *field)
{
    if (type->kind == TROUPE_KIND_FLOAT) {
        float single;
        double value;
        if (type->size == sizeof single) {
            memcpy(&single, field, sizeof single);
            return (double)single;
        }
        memcpy(&value, field, sizeof value);
        return value;
    }
    uint64_t bits = 0;
    memcpy(&bits, field, type->size);
    if (type->kind != TROUPE_KIND_INT)
        return (double)bits;
    int unused = 64 - (int)type->size * 8;
    return (double)((int64_t)(bits << unused) >> unused);
}

float trp_float_from(double x)
{
    float f = (float)x;
    return (double)f < x ? nextafterf(f, INFINITY) : f;
}

float trp_float_to(double x)
{
    float f = (float)x;
    return (double)f > x ? nextafterf(f, -INFINITY) : f;
}
