// http_body.c: see http_body.h.
#include <serve/http_body.h>

#include <errno.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/codec/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What an element is to the house's reader and writer; NULL: JSON has no such numbers.
static const troupe_type *element_type(troupe_dtype dtype)
{
    switch (dtype) {
    case TROUPE_BOOL:
        return &troupe_type_bool;
    case TROUPE_INT8:
        return &troupe_type_int8_t;
    case TROUPE_INT16:
        return &troupe_type_int16_t;
    case TROUPE_INT32:
        return &troupe_type_int32_t;
    case TROUPE_INT64:
        return &troupe_type_int64_t;
    case TROUPE_UINT8:
        return &troupe_type_uint8_t;
    case TROUPE_UINT16:
        return &troupe_type_uint16_t;
    case TROUPE_UINT32:
        return &troupe_type_uint32_t;
    case TROUPE_UINT64:
        return &troupe_type_uint64_t;
    case TROUPE_FLOAT32:
        return &troupe_type_float;
    case TROUPE_FLOAT64:
        return &troupe_type_double;
    default:
        return NULL;
    }
}

static troupe_status no_json(troupe_dtype dtype)
{
    return troupe_fail(TROUPE_UNSUPPORTED, "elements of type %s cannot be JSON: expected them raw",
                       troupe_dtype_text(dtype));
}

// ---- reading

static troupe_status check_depth(const char *text, size_t size)
{
    size_t depth = 0;
    bool within = false; // A text.
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (within && c == '\\')
            i++;
        else if (c == '"')
            within = !within;
        else if (!within && (c == '[' || c == '{') && ++depth > TRP_BODY_JSON_DEPTH_MAX)
            return troupe_fail(TROUPE_MALFORMED, "the JSON is nested deeper than %d at byte %zu",
                               TRP_BODY_JSON_DEPTH_MAX, i);
        else if (!within && (c == ']' || c == '}') && depth > 0)
            depth--;
    }
    return TROUPE_OK;
}

// The shape that the first item of each level has.
static troupe_status find_shape(trp_json level, troupe_tensor *x)
{
    for (x->ndim = 0; trp_json_is_array(level); x->ndim++) {
        if (x->ndim == TROUPE_DIMS_MAX)
            return troupe_fail(TROUPE_MALFORMED,
                               "\"instances\" has more than %d dimensions: expected as many as a "
                               "tensor may have",
                               TROUPE_DIMS_MAX);
        trp_json item = {0}, first = {0};
        size_t count = 0;
        while (trp_json_next_item(level, &item))
            if (count++ == 0)
                first = item;
        x->shape[x->ndim] = count;
        level = first;
    }
    return TROUPE_OK;
}

typedef struct filling {
    const troupe_tensor *x;
    const troupe_type *type;
    trp_arena arena;
    char *at;
    size_t row; // Of the first dimension, for sentences.
} filling;

static troupe_status fill(filling *it, trp_json value, uint32_t depth)
{
    if (depth == it->x->ndim) {
        if (trp_json_is_array(value) || trp_json_is_null(value))
            return troupe_fail(TROUPE_MALFORMED,
                               "\"instances\" has no number where one was expected, in row %zu",
                               it->row);
        troupe_status status = trp_json_read(it->type, value, &it->arena, it->at);
        it->at += it->type->size;
        return status == TROUPE_OK ? status : trp_error_prefix("\"instances\", row %zu", it->row);
    }
    trp_json item = {0};
    size_t count = 0, wanted = it->x->shape[depth];
    while (trp_json_is_array(value) && count <= wanted && trp_json_next_item(value, &item)) {
        if (depth == 0)
            it->row = count;
        if (count++ < wanted)
            TROUPE_TRY(fill(it, item, depth + 1));
    }
    if (count == wanted && trp_json_is_array(value))
        return TROUPE_OK;
    return troupe_fail(TROUPE_MALFORMED,
                       "\"instances\" is ragged in row %zu: expected %zu items at dimension %u, as "
                       "the first has",
                       it->row, wanted, depth);
}

// Each element takes two characters at least, its comma or bracket being one.
static bool has_so_many(const troupe_tensor *x, size_t characters)
{
    size_t count = 1;
    for (uint32_t i = 0; i < x->ndim; i++) {
        if (x->shape[i] > 0 && count > characters / x->shape[i])
            return false;
        count *= x->shape[i];
    }
    return true;
}

troupe_status trp_body_read_json(const char *text, size_t size, troupe_dtype dtype,
                                 troupe_tensor *x, void **memory)
{
    trp_json whole, instances;
    troupe_tensor found = {.dtype = dtype == TROUPE_DTYPE_NONE ? TROUPE_FLOAT64 : dtype};
    filling it = {.x = &found, .type = element_type(found.dtype)};
    if (!it.type)
        return no_json(found.dtype);
    TROUPE_TRY(check_depth(text, size));
    TROUPE_TRY(trp_json_parse(text, size, &whole));
    if (!trp_json_is_object(whole) || !trp_json_member(whole, "instances", &instances) ||
        !trp_json_is_array(instances))
        return troupe_fail(TROUPE_MALFORMED,
                           "the JSON has no array \"instances\": expected {\"instances\": [...]}");
    TROUPE_TRY(find_shape(instances, &found));
    if (!has_so_many(&found, size / 2))
        return troupe_fail(TROUPE_MALFORMED,
                           "\"instances\" is ragged: expected all rows as long as the first");
    size_t count = 1;
    for (uint32_t i = 0; i < found.ndim; i++)
        count *= found.shape[i];
    void *elements = trp_alloc(count * it.type->size + 1);
    if (!elements)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu elements", count);
    it.at = (char *)elements;
    troupe_status status = fill(&it, instances, 0);
    trp_arena_clear(&it.arena);
    if (status != TROUPE_OK) {
        trp_free(elements);
        return status;
    }
    found.data = elements;
    *x = found;
    *memory = elements;
    return TROUPE_OK;
}

troupe_status trp_body_read_shape(const char *dtype, const char *shape, troupe_tensor *x)
{
    troupe_tensor found = {0};
    const char *at = shape;
    for (troupe_dtype known = TROUPE_BOOL; known <= TROUPE_FLOAT64; known++)
        if (strcmp(dtype, troupe_dtype_text(known)) == 0)
            found.dtype = known;
    if (found.dtype == TROUPE_DTYPE_NONE)
        return troupe_fail(TROUPE_MALFORMED,
                           "X-Troupe-Dtype is \"%.40s\": expected a type of elements, as float32",
                           dtype);
    while (found.ndim < TROUPE_DIMS_MAX && *at >= '0' && *at <= '9') {
        char *end;
        errno = 0;
        found.shape[found.ndim++] = strtoul(at, &end, 10);
        if (errno != 0)
            break;
        at = end;
        if (*at == '\0') {
            size_t size;
            TROUPE_TRY(trp_tensor_size(&found, &size));
            *x = found;
            return TROUPE_OK;
        }
        if (*at++ != ',')
            break;
    }
    return troupe_fail(TROUPE_MALFORMED,
                       "X-Troupe-Shape is \"%.80s\": expected 1 to %d numbers, as 8,64", shape,
                       TROUPE_DIMS_MAX);
}

// ---- writing

static void write_level(const troupe_tensor *y, const troupe_type *type, uint32_t depth,
                        const char **at, trp_buffer *out)
{
    if (depth == y->ndim) {
        trp_json_value(out, type, *at);
        *at += type->size;
        return;
    }
    trp_buffer_append(out, "[", 1);
    for (size_t i = 0; i < y->shape[depth] && !out->failed; i++) {
        if (i > 0)
            trp_buffer_append(out, ", ", 2);
        write_level(y, type, depth + 1, at, out);
    }
    trp_buffer_append(out, "]", 1);
}

troupe_status trp_body_write_json(const troupe_tensor *y, trp_buffer *out)
{
    const troupe_type *type = element_type(y->dtype);
    const char *at = (const char *)y->data;
    if (!type)
        return no_json(y->dtype);
    trp_buffer_printf(out, "{\"predictions\": ");
    write_level(y, type, 0, &at, out);
    trp_buffer_append(out, "}\n", 2);
    return out->failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the predictions as JSON")
                       : TROUPE_OK;
}

void trp_body_write_shape(const troupe_tensor *y, char *out, size_t capacity)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < y->ndim && used < capacity; i++)
        used += (size_t)snprintf(out + used, capacity - used, i > 0 ? ",%zu" : "%zu", y->shape[i]);
}
