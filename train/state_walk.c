// state_walk.c: see state_walk.h.
#include <train/state_walk.h>

#include <runtime/base/error.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/safetensors.h>
#include <stdio.h>
#include <string.h>

bool trp_state_is_number(const troupe_type *type)
{
    return (type->kind >= TROUPE_KIND_BOOL && type->kind <= TROUPE_KIND_FLOAT) ||
           type->kind == TROUPE_KIND_CHAR;
}

static bool is_fixed_text(const troupe_field *field)
{
    return field->count > 0 && field->type->kind == TROUPE_KIND_CHAR;
}

static troupe_dtype dtype_of(const troupe_type *type)
{
    int log = __builtin_ctz((unsigned)type->size); // 1, 2, 4 or 8 bytes.
    switch (type->kind) {
    case TROUPE_KIND_BOOL:
        return TROUPE_BOOL;
    case TROUPE_KIND_UINT:
        return (troupe_dtype)(TROUPE_UINT8 + log);
    case TROUPE_KIND_FLOAT:
        return log == 2 ? TROUPE_FLOAT32 : TROUPE_FLOAT64;
    default:
        return (troupe_dtype)(TROUPE_INT8 + log);
    }
}

// ---- what remains

static bool remains(const troupe_type *type, int depth);

static bool field_remains(const troupe_field *field, int depth)
{
    return is_fixed_text(field) || remains(field->type, depth);
}

static bool remains(const troupe_type *type, int depth)
{
    if (depth > TRP_DEPTH_MAX)
        return true; // No value nests as deep.
    switch (type->kind) {
    case TROUPE_KIND_BYTES:
        return false;
    case TROUPE_KIND_ARRAY: // Of others, how many there are.
        return !trp_state_is_number(type->item);
    case TROUPE_KIND_RECORD:
        for (size_t i = 0; i < type->field_count; i++)
            if (field_remains(&type->fields[i], depth + 1))
                return true;
        return false;
    default:
        return !trp_state_is_number(type);
    }
}

bool trp_state_remains(const troupe_type *type)
{
    return remains(type, 0);
}

bool trp_state_field_remains(const troupe_field *field)
{
    return field_remains(field, 0);
}

// ---- tensors

// Whether a record has something that is not one tensor over all records of an array.
static bool varies(const troupe_type *type, int depth)
{
    switch (type->kind) {
    case TROUPE_KIND_BYTES:
    case TROUPE_KIND_ARRAY:
    case TROUPE_KIND_TENSOR:
        return true;
    case TROUPE_KIND_RECORD:
        for (size_t i = 0; i < type->field_count; i++) {
            const troupe_field *field = &type->fields[i];
            bool inner = field->count > 0 && field->type->kind == TROUPE_KIND_RECORD;
            if (depth > TRP_DEPTH_MAX || inner || varies(field->type, depth + 1))
                return true;
        }
        return false;
    default:
        return false;
    }
}

// Adds to the name; returns where it ended, for leave_name.
static size_t enter_name(trp_state_walk *walk, const char *part)
{
    size_t before = walk->name.size;
    // The one name that no tensor can have.
    bool reserved = before == 0 && strcmp(part, TRP_SAFETENSORS_METADATA) == 0;
    trp_buffer_printf(&walk->name, "%s%s", before > 0 || reserved ? "." : "", part);
    return before;
}

static size_t enter_item(trp_state_walk *walk, size_t index)
{
    char part[24];
    (void)snprintf(part, sizeof part, "%zu", index);
    return enter_name(walk, part);
}

static void leave_name(trp_state_walk *walk, size_t before)
{
    walk->name.size = before;
}

static troupe_status enter(trp_state_walk *walk)
{
    if (walk->depth >= TRP_DEPTH_MAX)
        return troupe_fail(TROUPE_INVALID, "nested deeper than %d levels", TRP_DEPTH_MAX);
    walk->depth++;
    return TROUPE_OK;
}

static troupe_status visit(trp_state_walk *walk, trp_leaf leaf)
{
    if (walk->name.size == 0)
        trp_buffer_printf(&walk->name, "value"); // Of a state that is no record.
    trp_buffer_append(&walk->name, "", 1);
    if (walk->name.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the names of a state's tensors");
    walk->name.size--;
    leaf.name = (const char *)walk->name.data;
    return walk->visit(walk, &leaf);
}

// The numbers in place, of one value or of those of an array.
static troupe_status visit_numbers(trp_state_walk *walk, const troupe_type *type, trp_leaf leaf)
{
    unsigned char *first = leaf.at;
    if (trp_state_is_number(type)) {
        leaf.dtype = dtype_of(type);
        return visit(walk, leaf);
    }
    if (type->kind != TROUPE_KIND_RECORD)
        return TROUPE_OK;
    TROUPE_TRY(enter(walk));
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        if (is_fixed_text(field) || (field->count > 0 && !trp_state_is_number(field->type)))
            continue;
        size_t before = enter_name(walk, field->name);
        leaf.at = first != NULL ? first + field->offset : NULL; // NULL: an array without records.
        leaf.width = field->count;
        TROUPE_TRY(visit_numbers(walk, field->type, leaf));
        leave_name(walk, before);
    }
    walk->depth--;
    return TROUPE_OK;
}

static troupe_status visit_others(trp_state_walk *walk, const troupe_type *type, unsigned char *at);

static troupe_status visit_items(trp_state_walk *walk, const troupe_type *type, unsigned char *at,
                                 size_t count)
{
    trp_leaf leaf = {.at = at, .over_records = true, .count = count, .stride = type->size};
    if (count > 0 && at == NULL)
        return troupe_fail(TROUPE_INVALID, "expected %zu items, found a null pointer", count);
    TROUPE_TRY(enter(walk));
    TROUPE_TRY(visit_numbers(walk, type, leaf));
    bool differ = varies(type, 0);
    for (size_t i = 0; differ && i < count; i++) {
        size_t before = enter_item(walk, i);
        TROUPE_TRY(visit_others(walk, type, at + i * type->size));
        leave_name(walk, before);
    }
    walk->depth--;
    return TROUPE_OK;
}

static troupe_status visit_array(trp_state_walk *walk, const troupe_type *item, unsigned char *at)
{
    trp_counted array = trp_counted_of(at);
    if (!trp_state_is_number(item))
        return visit_items(walk, item, (unsigned char *)(uintptr_t)array.items, array.count);
    return visit(walk, (trp_leaf){.kind = TRP_LEAF_ARRAY, .dtype = dtype_of(item), .at = at});
}

// What has a size of its own in each value.
static troupe_status visit_others(trp_state_walk *walk, const troupe_type *type, unsigned char *at)
{
    if (type->kind == TROUPE_KIND_BYTES)
        return visit(walk, (trp_leaf){.kind = TRP_LEAF_ARRAY, .dtype = TROUPE_UINT8, .at = at});
    if (type->kind == TROUPE_KIND_TENSOR)
        return visit(walk, (trp_leaf){.kind = TRP_LEAF_TENSOR, .at = at});
    if (type->kind == TROUPE_KIND_ARRAY)
        return visit_array(walk, type->item, at);
    if (type->kind != TROUPE_KIND_RECORD)
        return TROUPE_OK;
    TROUPE_TRY(enter(walk));
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        unsigned char *its = at + field->offset;
        if (is_fixed_text(field) || trp_state_is_number(field->type))
            continue;
        size_t before = enter_name(walk, field->name);
        TROUPE_TRY(field->count > 0 ? visit_items(walk, field->type, its, field->count)
                                    : visit_others(walk, field->type, its));
        leave_name(walk, before);
    }
    walk->depth--;
    return TROUPE_OK;
}

troupe_status trp_state_visit(trp_state_walk *walk, const troupe_type *type, void *value)
{
    walk->depth = 0;
    walk->name.size = 0;
    troupe_status status =
        visit_numbers(walk, type, (trp_leaf){.at = (unsigned char *)value, .count = 1});
    walk->name.size = 0;
    walk->depth = 0;
    if (status == TROUPE_OK)
        status = visit_others(walk, type, (unsigned char *)value);
    if (status == TROUPE_INVALID && walk->name.size > 0) {
        trp_buffer_append(&walk->name, "", 1);
        if (!walk->name.failed)
            status = trp_error_prefix("%s.%.200s", type->name, (const char *)walk->name.data);
    }
    trp_buffer_free(&walk->name);
    return status;
}
