// state_read.c: a state from the bytes of a safetensors file. What the metadata say comes first:
// it makes room for the items of arrays, which the tensors then fill.
#include <train/state.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/safetensors.h>
#include <runtime/codec/tensor.h>
#include <runtime/codec/type_cursor.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/state_walk.h>
#include <train/storage.h>

enum {
    LENT_MIN = 1 << 20, // Bytes of an array that is not copied,
    LENT_ALIGN = 16,    // and lies as what comes from an arena.
};

typedef struct reading {
    trp_state_walk walk;
    const char *path;
    const unsigned char *data;
    trp_arena *arena; // Of what the value points to.
    void *own;        // `data`, where the arena may take it over; else NULL.
    bool lends, lent; // Then the value may point into it, and does.
    trp_safetensors file;
    size_t used;   // Tensors of the file that the value has.
    size_t budget; // Items that the file can still have something of.
} reading;

static troupe_status take(const reading *r, size_t size, void **block)
{
    *block = trp_arena_alloc(r->arena, size);
    if (*block == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu bytes of %s", size, r->path);
    return TROUPE_OK;
}

// ---- what no tensor holds

static troupe_status read_value(reading *r, const troupe_type *type, trp_json text, void *value);

static troupe_status expected(const reading *r, trp_json found, const char *what)
{
    enum { SHOWN = 48 };
    size_t shown = found.size <= SHOWN ? found.size : trp_text_good(found.at, SHOWN);
    return troupe_fail(TROUPE_CORRUPT,
                       "%s is damaged: among its values it has %.*s, expected was %s", r->path,
                       (int)shown, found.at, what);
}

// Reads a value by its type's table.
static troupe_status read_json(const reading *r, const troupe_type *type, trp_json text,
                               const char *what, void *value)
{
    troupe_status status = trp_json_read(type, text, r->arena, value);
    return status == TROUPE_OK || status == TROUPE_NO_MEMORY ? status : expected(r, text, what);
}

static troupe_status read_text(reading *r, trp_json text, void *value)
{
    if (trp_json_is_null(text))
        return TROUPE_OK; // It is zeroed.
    return read_json(r, &troupe_type_troupe_text, text, "a text", value);
}

static troupe_status read_fixed_text(reading *r, trp_json text, size_t count, void *value)
{
    troupe_text copy = NULL;
    TROUPE_TRY(read_json(r, &troupe_type_troupe_text, text, "a text", &copy));
    if (copy == NULL || strlen(copy) >= count)
        return expected(r, text, "a text that its member has room for");
    memcpy(value, copy, strlen(copy));
    return TROUPE_OK;
}

// An array of exactly `count` numbers.
static troupe_status read_numbers(reading *r, trp_json text, uint64_t *numbers, size_t count)
{
    static const char what[] = "the numbers of a reference or an address";
    size_t found = 0;
    for (trp_json item = {0}; trp_json_next_item(text, &item); found++) {
        if (found == count)
            return expected(r, text, what);
        TROUPE_TRY(read_json(r, &troupe_type_uint64_t, item, what, &numbers[found]));
    }
    return found == count ? TROUPE_OK : expected(r, text, what);
}

static troupe_status read_ref(reading *r, trp_json text, void *value)
{
    uint64_t numbers[2];
    TROUPE_TRY(read_numbers(r, text, numbers, 2));
    troupe_ref ref = {numbers[0], numbers[1]};
    memcpy(value, &ref, sizeof(ref));
    return TROUPE_OK;
}

static troupe_status read_actor(reading *r, trp_json text, void *value)
{
    uint64_t numbers[4];
    TROUPE_TRY(read_numbers(r, text, numbers, 4));
    if (numbers[2] > UINT32_MAX || numbers[3] > UINT32_MAX)
        return expected(r, text, "an actor's address");
    troupe_actor actor = {.id = numbers[0],
                          .incarnation = numbers[1],
                          .node = (uint32_t)numbers[2],
                          .process = (uint32_t)numbers[3]};
    memcpy(value, &actor, sizeof(actor));
    return TROUPE_OK;
}

// Elements come with the tensor; until then it only counts that it is one.
static troupe_status read_tensor(reading *r, trp_json text, void *value)
{
    bool is_one = text.at[0] == 't';
    troupe_tensor tensor = {.dtype = is_one ? TROUPE_UINT8 : TROUPE_DTYPE_NONE};
    if (!is_one && text.at[0] != 'f')
        return expected(r, text, "whether there is a tensor");
    memcpy(value, &tensor, sizeof(tensor));
    return TROUPE_OK;
}

static troupe_status count_items(reading *r, const troupe_type *item, trp_json text, size_t *count)
{
    uint64_t number = 0;
    if (trp_state_remains(item)) {
        if (!trp_json_is_array(text))
            return expected(r, text, "an array");
        for (trp_json at = {0}; trp_json_next_item(text, &at);)
            number++;
    } else {
        TROUPE_TRY(
            read_json(r, &troupe_type_uint64_t, text, "the number of an array's items", &number));
    }
    // Each item has at least a byte of the file.
    if (number > r->budget)
        return expected(r, text, "an array that the file can hold");
    r->budget -= number;
    *count = number;
    return TROUPE_OK;
}

static troupe_status read_items(reading *r, const troupe_type *item, trp_json text,
                                unsigned char *items)
{
    if (!trp_state_remains(item))
        return TROUPE_OK;
    for (trp_json at = {0}; trp_json_next_item(text, &at); items += item->size)
        TROUPE_TRY(read_value(r, item, at, items));
    return TROUPE_OK;
}

static troupe_status read_array(reading *r, const troupe_type *item, trp_json text, void *value)
{
    trp_counted array = {0};
    void *items = NULL;
    size_t size = 0;
    TROUPE_TRY(count_items(r, item, text, &array.count));
    if (__builtin_mul_overflow(array.count, item->size, &size))
        return expected(r, text, "an array that memory can hold");
    if (array.count > 0)
        TROUPE_TRY(take(r, size, &items));
    TROUPE_TRY(read_items(r, item, text, (unsigned char *)items));
    array.items = items;
    memcpy(value, &array, sizeof(array));
    return TROUPE_OK;
}

static troupe_status read_field(reading *r, const troupe_field *field, trp_json text, void *value)
{
    size_t count = 0;
    if (field->count == 0)
        return read_value(r, field->type, text, value);
    if (field->type->kind == TROUPE_KIND_CHAR)
        return read_fixed_text(r, text, field->count, value);
    TROUPE_TRY(count_items(r, field->type, text, &count));
    if (count != field->count)
        return expected(r, text, "as many items as its member has");
    return read_items(r, field->type, text, (unsigned char *)value);
}

static troupe_status read_record(reading *r, const troupe_type *type, trp_json text, void *value)
{
    trp_json at = {0}, name, its;
    if (!trp_json_is_object(text))
        return expected(r, text, "an object");
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        if (!trp_state_field_remains(field))
            continue;
        if (!trp_json_next_member(text, &at, &name, &its) || !trp_json_equals(name, field->name))
            return expected(r, text, "an object with the members of its type");
        TROUPE_TRY(read_field(r, field, its, (unsigned char *)value + field->offset));
    }
    return trp_json_next_member(text, &at, &name, &its)
               ? expected(r, text, "an object with no other members than those of its type")
               : TROUPE_OK;
}

// `value` is zeroed.
static troupe_status read_value(reading *r, const troupe_type *type, trp_json text, void *value)
{
    troupe_status status = TROUPE_OK;
    switch (type->kind) {
    case TROUPE_KIND_TEXT:
        return read_text(r, text, value);
    case TROUPE_KIND_REF:
        return read_ref(r, text, value);
    case TROUPE_KIND_ACTOR:
        return read_actor(r, text, value);
    case TROUPE_KIND_TENSOR:
        return read_tensor(r, text, value);
    case TROUPE_KIND_ARRAY:
        return read_array(r, type->item, text, value);
    case TROUPE_KIND_RECORD:
        if (r->walk.depth >= TRP_DEPTH_MAX)
            return expected(r, text, "a value that nests less");
        r->walk.depth++;
        status = read_record(r, type, text, value);
        r->walk.depth--;
        return status;
    default:
        return trp_json_is_null(text) ? TROUPE_OK : expected(r, text, "null");
    }
}

// ---- the tensors

static troupe_status differs(const reading *r, const trp_leaf *leaf)
{
    return troupe_fail(TROUPE_CORRUPT,
                       "%s is damaged: its tensor '%.200s' has not the type and the shape of the "
                       "member",
                       r->path, leaf->name);
}

static troupe_status find(reading *r, const trp_leaf *leaf, const trp_safetensor **tensor)
{
    *tensor = trp_safetensors_find(&r->file, leaf->name);
    if (*tensor == NULL)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: it has no tensor '%.200s'", r->path,
                           leaf->name);
    r->used++;
    if (leaf->kind != TRP_LEAF_TENSOR && (*tensor)->dtype != leaf->dtype)
        return differs(r, leaf);
    return TROUPE_OK;
}

static troupe_status fill_numbers(const reading *r, const trp_leaf *leaf,
                                  const trp_safetensor *tensor)
{
    size_t ndim = 0, each = troupe_dtype_size(leaf->dtype) * (leaf->width > 0 ? leaf->width : 1);
    bool same = tensor->ndim == (size_t)leaf->over_records + (leaf->width > 0);
    if (same && leaf->over_records)
        same = tensor->shape[ndim++] == leaf->count;
    if (same && leaf->width > 0)
        same = tensor->shape[ndim] == leaf->width;
    if (!same)
        return differs(r, leaf);
    const unsigned char *from = r->data + tensor->offset;
    for (size_t i = 0; i < leaf->count; i++)
        memcpy(leaf->at + i * leaf->stride, from + i * each, each);
    return TROUPE_OK;
}

// The items where they lie in the file, which is then kept: to copy many of them takes longer than
// to read and to verify them.
static bool lend(reading *r, const trp_safetensor *tensor, void **items)
{
    if (!r->lends || tensor->size < LENT_MIN)
        return false;
    void *from = (unsigned char *)r->own + tensor->offset;
    if ((uintptr_t)from % LENT_ALIGN != 0)
        return false;
    *items = from;
    r->lent = true;
    return true;
}

static troupe_status fill_array(reading *r, const trp_leaf *leaf, const trp_safetensor *tensor)
{
    trp_counted array = {0};
    void *items = NULL;
    if (tensor->ndim != 1)
        return differs(r, leaf);
    array.count = tensor->shape[0];
    if (array.count > 0 && !lend(r, tensor, &items)) {
        TROUPE_TRY(take(r, tensor->size, &items));
        memcpy(items, r->data + tensor->offset, tensor->size);
    }
    array.items = items;
    memcpy(leaf->at, &array, sizeof(array));
    return TROUPE_OK;
}

static troupe_status fill_tensor(const reading *r, const trp_leaf *leaf,
                                 const trp_safetensor *tensor)
{
    troupe_tensor value;
    if (trp_safetensor_value(r->path, tensor, r->data + tensor->offset, &value) != TROUPE_OK)
        return differs(r, leaf);
    TROUPE_TRY(trp_tensor_own(&value, r->arena));
    memcpy(leaf->at, &value, sizeof(value));
    return TROUPE_OK;
}

static troupe_status fill(trp_state_walk *walk, const trp_leaf *leaf)
{
    reading *r = (reading *)walk;
    const trp_safetensor *tensor = NULL;
    troupe_tensor is;
    if (leaf->kind == TRP_LEAF_TENSOR) {
        memcpy(&is, leaf->at, sizeof(is));
        if (is.dtype == TROUPE_DTYPE_NONE)
            return TROUPE_OK;
    }
    TROUPE_TRY(find(r, leaf, &tensor));
    return leaf->kind == TRP_LEAF_NUMBERS ? fill_numbers(r, leaf, tensor)
           : leaf->kind == TRP_LEAF_ARRAY ? fill_array(r, leaf, tensor)
                                          : fill_tensor(r, leaf, tensor);
}

// ---- the whole

TROUPE_STRUCT(state_about, (int, format), (troupe_text, library), (troupe_text, type),
              (troupe_text, schema));

// Finds what the file says of its state; *values lacks where nothing remains of it.
static troupe_status read_about(const reading *r, trp_arena *scratch, state_about *is,
                                trp_json *values)
{
    trp_json quoted, object, at = {0}, name;
    troupe_text text = NULL;
    bool found = false;
    while (!found && trp_json_next_member(r->file.metadata, &at, &name, &quoted))
        found = trp_json_equals(name, TRP_STATE_TEXT);
    if (!found)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is not a state: its metadata have no text \"" TRP_STATE_TEXT "\"",
                           r->path);
    TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, quoted, scratch, &text));
    troupe_status status = trp_json_parse(text, strlen(text), &object);
    if (status == TROUPE_OK)
        status = trp_json_read(&troupe_type_state_about, object, scratch, is);
    if (status == TROUPE_NO_MEMORY)
        return status;
    if (status != TROUPE_OK || is->type == NULL || is->schema == NULL)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s is damaged: the text \"" TRP_STATE_TEXT
                           "\" of its metadata does not say what it holds",
                           r->path);
    if (is->format > TRP_STATE_FORMAT)
        return troupe_fail(TROUPE_VERSION, "%s has format version %d, this library reads %d",
                           r->path, is->format, TRP_STATE_FORMAT);
    if (!trp_json_member(object, "values", values))
        *values = (trp_json){"null", 4};
    return TROUPE_OK;
}

static troupe_status check_schema(const reading *r, const state_about *is, const troupe_type *type)
{
    char asked[20];
    (void)snprintf(asked, sizeof asked, "%016" PRIx64, troupe_type_hash(type));
    if (strcmp(asked, is->schema) == 0)
        return TROUPE_OK;
    return troupe_fail(TROUPE_WRONG_TYPE,
                       "%s holds a '%.72s' with schema %.16s, asked for was a '%s' with schema %s",
                       r->path, is->type, is->schema, type->name, asked);
}

static troupe_status read_draft(reading *r, const troupe_type *type, trp_arena *scratch,
                                void *draft)
{
    state_about is = {0};
    trp_json values = {0};
    TROUPE_TRY(read_about(r, scratch, &is, &values));
    TROUPE_TRY(check_schema(r, &is, type));
    if (trp_state_remains(type))
        TROUPE_TRY(read_value(r, type, values, draft));
    troupe_status status = trp_state_visit(&r->walk, type, draft);
    if (status == TROUPE_INVALID)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: %s", r->path, troupe_last_error()->text);
    if (status == TROUPE_OK && r->used != r->file.count)
        return troupe_fail(TROUPE_CORRUPT, "%s is damaged: it has %zu tensors, its state has %zu",
                           r->path, r->file.count, r->used);
    return status;
}

// Whether most of the file are arrays that would be lent: the rest of it is kept in vain.
static bool is_of_arrays(const trp_safetensors *file, size_t size)
{
    size_t arrays = 0;
    for (size_t i = 0; i < file->count; i++)
        if (file->items[i].ndim == 1 && file->items[i].size >= LENT_MIN)
            arrays += file->items[i].size;
    return arrays >= size / 4 * 3 && arrays > 0;
}

// What is lent is the arena's from then on.
static troupe_status unpack(reading *r, size_t size, const troupe_type *type, void *value)
{
    trp_arena scratch = {0};
    void *draft = trp_alloc(type->size);
    troupe_status status = TROUPE_OK;
    r->walk = (trp_state_walk){.visit = fill};
    r->budget = size;
    if (draft == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory to read a value of %s", type->name);
    if (status == TROUPE_OK)
        status = trp_safetensors_parse(r->path, r->data, size, &scratch, &r->file);
    r->lends = r->own != NULL && status == TROUPE_OK && is_of_arrays(&r->file, size);
    if (status == TROUPE_OK)
        status = read_draft(r, type, &scratch, draft);
    if (status == TROUPE_OK && r->lent && !trp_arena_adopt(r->arena, r->own, size))
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the %zu bytes of %s", size, r->path);
    if (status == TROUPE_OK)
        memcpy(value, draft, type->size);
    trp_free(draft);
    trp_arena_clear(&scratch);
    return status;
}

troupe_status trp_state_unpack(const char *path, const void *data, size_t size,
                               const troupe_type *type, trp_arena *arena, void *value)
{
    reading r = {.path = path, .data = (const unsigned char *)data, .arena = arena};
    return unpack(&r, size, type, value);
}

// *data is cleared where the arena has it now.
static troupe_status unpack_own(const char *path, unsigned char **data, size_t size,
                                const troupe_type *type, trp_arena *arena, void *value)
{
    reading r = {.path = path, .data = *data, .arena = arena, .own = *data};
    TROUPE_TRY(unpack(&r, size, type, value));
    if (r.lent)
        *data = NULL;
    return TROUPE_OK;
}

troupe_status trp_state_read(const char *path, const troupe_type *type,
                             const trp_expected *expected_file, trp_arena *arena, void *value)
{
    unsigned char *data = NULL;
    size_t size = 0;
    TROUPE_TRY(trp_storage_read(path, &data, &size));
    troupe_status status = TROUPE_OK;
    if (trp_sealed_is(data, size))
        status = trp_sealed_unpack(path, type, data, size, expected_file, arena, value);
    else if (expected_file->payload || size != expected_file->size ||
             trp_digest(data, size) != expected_file->digest)
        status = troupe_fail(TROUPE_CORRUPT,
                             "%s is damaged: it is not the file that its checkpoint was made with",
                             path);
    else
        status = unpack_own(path, &data, size, type, arena, value);
    trp_free(data);
    return status;
}
