// state.c: a state as the bytes of a safetensors file.
#include <train/state.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/safetensors.h>
#include <runtime/codec/tensor.h>
#include <runtime/codec/type_cursor.h>
#include <runtime/shm/parallel_copy.h>
#include <stdlib.h>
#include <string.h>
#include <train/state_walk.h>
#include <troupe/version.h>

// ---- what no tensor holds

typedef struct remainder {
    trp_buffer *out;
    trp_walk at;
} remainder;

static troupe_status write_value(remainder *w, const troupe_type *type, const void *value);

static troupe_status write_text(remainder *w, const char *text)
{
    size_t size = text != NULL ? strlen(text) : 0;
    size_t good = text != NULL ? trp_text_good(text, size) : 0;
    if (good != size)
        return troupe_fail(TROUPE_INVALID,
                           "expected text in UTF-8, found another byte after %zu bytes of it",
                           good);
    trp_json_text(w->out, text);
    return TROUPE_OK;
}

static troupe_status write_items(remainder *w, const troupe_type *item, const void *items,
                                 size_t count)
{
    if (items == NULL && count > 0)
        return troupe_fail(TROUPE_INVALID, "expected %zu items, found a null pointer", count);
    if (!trp_state_remains(item)) {
        trp_buffer_printf(w->out, "%zu", count);
        return TROUPE_OK;
    }
    TROUPE_TRY(trp_walk_enter(&w->at, TROUPE_INVALID));
    trp_buffer_append(w->out, "[", 1);
    for (size_t i = 0; i < count; i++) {
        trp_walk_item(&w->at, i);
        trp_buffer_append(w->out, ", ", i > 0 ? 2 : 0);
        TROUPE_TRY(write_value(w, item, (const unsigned char *)items + i * item->size));
    }
    trp_buffer_append(w->out, "]", 1);
    trp_walk_leave(&w->at);
    return TROUPE_OK;
}

static troupe_status write_field(remainder *w, const troupe_field *field, const void *value)
{
    if (field->count == 0)
        return write_value(w, field->type, value);
    if (field->type->kind != TROUPE_KIND_CHAR)
        return write_items(w, field->type, value, field->count);
    if (memchr(value, '\0', field->count) == NULL)
        return troupe_fail(TROUPE_INVALID, "expected a text that ends within its %zu bytes",
                           field->count);
    return write_text(w, (const char *)value);
}

static troupe_status write_record(remainder *w, const troupe_type *type, const void *value)
{
    const char *before = "";
    TROUPE_TRY(trp_walk_enter(&w->at, TROUPE_INVALID));
    trp_buffer_append(w->out, "{", 1);
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        if (!trp_state_field_remains(field))
            continue;
        trp_walk_field(&w->at, field->name);
        trp_buffer_printf(w->out, "%s", before);
        trp_json_text(w->out, field->name);
        trp_buffer_append(w->out, ": ", 2);
        TROUPE_TRY(write_field(w, field, (const unsigned char *)value + field->offset));
        before = ", ";
    }
    trp_buffer_append(w->out, "}", 1);
    trp_walk_leave(&w->at);
    return TROUPE_OK;
}

// Options of calls are the sender's own affair.
static void write_actor(trp_buffer *out, const troupe_actor *actor)
{
    trp_buffer_printf(out, "[%" PRIu64 ", %" PRIu64 ", %" PRIu32 ", %" PRIu32 "]", actor->id,
                      actor->incarnation, actor->node, actor->process);
}

static troupe_status write_value(remainder *w, const troupe_type *type, const void *value)
{
    trp_counted array;
    const troupe_ref *ref;
    switch (type->kind) {
    case TROUPE_KIND_TEXT:
        return write_text(w, *(const troupe_text *)value);
    case TROUPE_KIND_REF:
        ref = (const troupe_ref *)value;
        trp_buffer_printf(w->out, "[%" PRIu64 ", %" PRIu64 "]", ref->id, ref->schema);
        return TROUPE_OK;
    case TROUPE_KIND_ACTOR:
        write_actor(w->out, (const troupe_actor *)value);
        return TROUPE_OK;
    case TROUPE_KIND_ARRAY:
        array = trp_counted_of(value);
        return write_items(w, type->item, array.items, array.count);
    case TROUPE_KIND_RECORD:
        return write_record(w, type, value);
    case TROUPE_KIND_TENSOR:
        trp_buffer_printf(w->out, "%s",
                          ((const troupe_tensor *)value)->dtype != TROUPE_DTYPE_NONE ? "true"
                                                                                     : "false");
        return TROUPE_OK;
    default:
        trp_buffer_append(w->out, "null", 4);
        return TROUPE_OK;
    }
}

static troupe_status describe(const troupe_type *type, const void *value, trp_buffer *out)
{
    remainder w;
    w.out = out;
    trp_walk_begin(&w.at, TRP_DEPTH_MAX);
    trp_buffer_printf(out, "{\"format\": %d, \"library\": \"" TROUPE_VERSION_TEXT "\", \"type\": ",
                      TRP_STATE_FORMAT);
    trp_json_text(out, type->name);
    trp_buffer_printf(out, ", \"schema\": \"%016" PRIx64 "\"", troupe_type_hash(type));
    troupe_status status = TROUPE_OK;
    if (trp_state_remains(type)) {
        trp_buffer_printf(out, ", \"values\": ");
        status = trp_walk_say(&w.at, type, write_value(&w, type, value));
    }
    trp_buffer_append(out, "}", sizeof("}")); // It is a text now.
    return status;
}

// ---- the tensors

typedef struct gathering {
    trp_state_walk walk;
    trp_arena names;
    trp_safetensor_source *items;
    size_t count, capacity;
} gathering;

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for the tensors of a state");
}

static troupe_status take_numbers(const trp_leaf *leaf, trp_safetensor_source *source)
{
    source->dtype = leaf->dtype;
    if (leaf->over_records)
        source->shape[source->ndim++] = leaf->count;
    if (leaf->width > 0)
        source->shape[source->ndim++] = leaf->width;
    source->data = leaf->at;
    source->each = troupe_dtype_size(leaf->dtype) * (leaf->width > 0 ? leaf->width : 1);
    source->count = leaf->count;
    source->stride = leaf->stride;
    return TROUPE_OK;
}

static troupe_status take_array(const trp_leaf *leaf, trp_safetensor_source *source)
{
    trp_counted array = trp_counted_of(leaf->at);
    if (array.items == NULL && array.count > 0)
        return troupe_fail(TROUPE_INVALID, "expected %zu items, found a null pointer", array.count);
    if (array.count > PTRDIFF_MAX / 8)
        return troupe_fail(TROUPE_INVALID, "%zu items are more than memory can hold", array.count);
    source->dtype = leaf->dtype;
    source->shape[source->ndim++] = array.count;
    source->data = array.items;
    source->each = troupe_dtype_size(leaf->dtype) * array.count;
    return TROUPE_OK;
}

static troupe_status take_tensor(const trp_leaf *leaf, trp_safetensor_source *source)
{
    troupe_tensor tensor;
    memcpy(&tensor, leaf->at, sizeof(tensor));
    TROUPE_TRY(trp_tensor_good(&tensor, &source->each));
    source->dtype = tensor.dtype;
    source->ndim = tensor.ndim;
    memcpy(source->shape, tensor.shape, sizeof(source->shape));
    source->data = tensor.data;
    return TROUPE_OK;
}

static troupe_status gather(trp_state_walk *walk, const trp_leaf *leaf)
{
    gathering *g = (gathering *)walk;
    trp_safetensor_source source = {.count = 1};
    TROUPE_TRY(leaf->kind == TRP_LEAF_NUMBERS ? take_numbers(leaf, &source)
               : leaf->kind == TRP_LEAF_ARRAY ? take_array(leaf, &source)
                                              : take_tensor(leaf, &source));
    if (source.dtype == TROUPE_DTYPE_NONE)
        return TROUPE_OK;
    if (g->count == g->capacity) {
        size_t capacity = g->capacity > 0 ? 2 * g->capacity : 32;
        trp_safetensor_source *grown =
            (trp_safetensor_source *)trp_realloc(g->items, capacity * sizeof(*g->items));
        if (grown == NULL)
            return no_memory();
        g->items = grown;
        g->capacity = capacity;
    }
    char *name = (char *)trp_arena_alloc(&g->names, strlen(leaf->name) + 1);
    if (name == NULL)
        return no_memory();
    source.name = strcpy(name, leaf->name);
    g->items[g->count++] = source;
    return TROUPE_OK;
}

// Any other byte than 0 and 1 in a bool is what its reader refuses.
static void copy_bools(unsigned char *to, const unsigned char *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[i] != 0;
}

static void copy(unsigned char *to, const trp_safetensor_source *source)
{
    const unsigned char *from = (const unsigned char *)source->data;
    for (size_t i = 0; i < source->count && source->each > 0; i++) {
        if (source->dtype == TROUPE_BOOL)
            copy_bools(to + i * source->each, from + i * source->stride, source->each);
        else
            trp_copy(to + i * source->each, from + i * source->stride, source->each);
    }
}

static troupe_status write_file(const char *path, const char *about, const gathering *g,
                                trp_buffer *out)
{
    size_t size = 0;
    troupe_named_text text = {TRP_STATE_TEXT, about};
    trp_safetensors_head(g->items, g->count, &text, 1, out, &size);
    if (out->failed || !trp_buffer_reserve(out, size - out->size))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to pack what goes to %s", path);
    for (size_t i = 0; i < g->count; i++)
        copy(out->data + g->items[i].offset, &g->items[i]);
    out->size = size;
    return TROUPE_OK;
}

troupe_status trp_state_pack(const char *path, const troupe_type *type, const void *value,
                             trp_buffer *out)
{
    trp_buffer about = {0};
    gathering g = {.walk = {.visit = gather}};
    troupe_status status = trp_walk_check(type, value);
    if (status == TROUPE_OK)
        status = describe(type, value, &about);
    if (status == TROUPE_OK && about.failed)
        status = no_memory();
    if (status == TROUPE_OK) // It changes nothing.
        status = trp_state_visit(&g.walk, type, (void *)(uintptr_t)value);
    if (status == TROUPE_OK)
        status = write_file(path, (const char *)about.data, &g, out);
    trp_buffer_free(&about);
    trp_arena_clear(&g.names);
    trp_free(g.items);
    return status;
}
