// pack.c: packing values by their type's table.
//
// A record is an array of its fields in order; numbers in arrays, fixed or counted, are one bin of
// little-endian items; arrays of anything else are arrays; a null text is nil; tensor.h says what a
// tensor is.
#include <runtime/codec/pack.h>

#include <runtime/base/require.h>
#include <runtime/codec/tensor.h>
#include <runtime/codec/type_cursor.h>

typedef struct packing {
    trp_buffer *out;
    trp_walk at;
} packing;

static troupe_status pack_value(packing *w, const troupe_type *type, const void *value);

static int64_t load_int(const void *value, size_t size)
{
    int8_t one;
    int16_t two;
    int32_t four;
    int64_t eight;
    switch (size) {
    case 1:
        memcpy(&one, value, 1);
        return one;
    case 2:
        memcpy(&two, value, 2);
        return two;
    case 4:
        memcpy(&four, value, 4);
        return four;
    default:
        memcpy(&eight, value, 8);
        return eight;
    }
}

static uint64_t load_uint(const void *value, size_t size)
{
    uint64_t number = 0;
    switch (size) { // Constant sizes are single instructions.
    case 1:
        memcpy(&number, value, 1);
        break;
    case 2:
        memcpy(&number, value, 2);
        break;
    case 4:
        memcpy(&number, value, 4);
        break;
    default:
        memcpy(&number, value, 8);
        break;
    }
    return number;
}

static void pack_float(trp_buffer *out, const void *value, size_t size)
{
    float narrow;
    double wide;
    if (size == sizeof(narrow)) {
        memcpy(&narrow, value, sizeof(narrow));
        trp_write_float(out, narrow);
    } else {
        memcpy(&wide, value, sizeof(wide));
        trp_write_double(out, wide);
    }
}

static troupe_status pack_text(packing *w, const char *text)
{
    if (text) {
        size_t size = strlen(text);
        size_t good = trp_text_good(text, size);
        if (good != size)
            return troupe_fail(TROUPE_INVALID,
                               "expected text in UTF-8, found another byte after "
                               "%zu bytes of it",
                               good);
        if (size > UINT32_MAX)
            return troupe_fail(TROUPE_TOO_LARGE, "a text has %zu bytes, more than 2^32 - 1", size);
    }
    trp_write_text(w->out, text);
    return TROUPE_OK;
}

static troupe_status pack_bytes(packing *w, const void *data, size_t size)
{
    if (!data && size > 0)
        return troupe_fail(TROUPE_INVALID, "expected %zu bytes, found a null pointer", size);
    if (size > UINT32_MAX)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "%zu bytes are more than the 2^32 - 1 that can be "
                           "packed",
                           size);
    trp_write_bytes(w->out, data, size);
    return TROUPE_OK;
}

static troupe_status pack_items(packing *w, const troupe_type *item, const void *items,
                                size_t count)
{
    if (!items && count > 0)
        return troupe_fail(TROUPE_INVALID, "expected %zu items, found a null pointer", count);
    if (count > UINT32_MAX)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "%zu items are more than the 2^32 - 1 that can be "
                           "packed",
                           count);
    if (trp_is_number(item))
        return pack_bytes(w, items, count * item->size);
    TROUPE_TRY(trp_walk_enter(&w->at, TROUPE_INVALID));
    trp_write_array(w->out, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        trp_walk_item(&w->at, i);
        TROUPE_TRY(pack_value(w, item, (const unsigned char *)items + i * item->size));
    }
    trp_walk_leave(&w->at);
    return TROUPE_OK;
}

// A text of at most `count` bytes, its NUL among them.
static troupe_status pack_fixed_text(packing *w, const char *text, size_t count)
{
    if (memchr(text, '\0', count) == NULL)
        return troupe_fail(TROUPE_INVALID, "expected a text that ends within its %zu bytes", count);
    return pack_text(w, text);
}

static troupe_status pack_fixed(packing *w, const troupe_field *field, const void *value)
{
    return field->type->kind == TROUPE_KIND_CHAR
               ? pack_fixed_text(w, (const char *)value, field->count)
               : pack_items(w, field->type, value, field->count);
}

static troupe_status pack_record(packing *w, const troupe_type *type, const void *value)
{
    TROUPE_TRY(trp_walk_enter(&w->at, TROUPE_INVALID));
    trp_write_array(w->out, (uint32_t)type->field_count);
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        const unsigned char *at = (const unsigned char *)value + field->offset;
        trp_walk_field(&w->at, field->name);
        TROUPE_TRY(field->count ? pack_fixed(w, field, at) : pack_value(w, field->type, at));
    }
    trp_walk_leave(&w->at);
    return TROUPE_OK;
}

static troupe_status pack_value(packing *w, const troupe_type *type, const void *value)
{
    switch (type->kind) {
    case TROUPE_KIND_NONE:
        trp_write_nil(w->out);
        return TROUPE_OK;
    case TROUPE_KIND_BOOL:
        trp_write_bool(w->out, *(const unsigned char *)value != 0);
        return TROUPE_OK;
    case TROUPE_KIND_CHAR:
    case TROUPE_KIND_INT:
        trp_write_int(w->out, load_int(value, type->size));
        return TROUPE_OK;
    case TROUPE_KIND_UINT:
        trp_write_uint(w->out, load_uint(value, type->size));
        return TROUPE_OK;
    case TROUPE_KIND_FLOAT:
        pack_float(w->out, value, type->size);
        return TROUPE_OK;
    case TROUPE_KIND_TEXT:
        return pack_text(w, *(const troupe_text *)value);
    case TROUPE_KIND_BYTES: {
        const troupe_bytes *bytes = (const troupe_bytes *)value;
        return pack_bytes(w, bytes->data, bytes->size);
    }
    case TROUPE_KIND_REF: {
        const troupe_ref *ref = (const troupe_ref *)value;
        trp_write_array(w->out, 2);
        trp_write_uint(w->out, ref->id);
        trp_write_uint(w->out, ref->schema);
        return TROUPE_OK;
    }
    case TROUPE_KIND_ACTOR: { // Options of calls are the sender's own affair.
        const troupe_actor *actor = (const troupe_actor *)value;
        trp_write_array(w->out, 4);
        trp_write_uint(w->out, actor->id);
        trp_write_uint(w->out, actor->incarnation);
        trp_write_uint(w->out, actor->node);
        trp_write_uint(w->out, actor->process);
        return TROUPE_OK;
    }
    case TROUPE_KIND_ARRAY: {
        trp_counted array = trp_counted_of(value);
        return pack_items(w, type->item, array.items, array.count);
    }
    case TROUPE_KIND_RECORD:
        return pack_record(w, type, value);
    case TROUPE_KIND_TENSOR:
        return trp_tensor_pack((const troupe_tensor *)value, w->out);
    }
    return troupe_fail(TROUPE_INVALID, "its type's table has the unknown kind %d", (int)type->kind);
}

troupe_status trp_pack(const troupe_type *type, const void *value, trp_buffer *out)
{
    packing w;
    w.out = out;
    trp_walk_begin(&w.at, TRP_DEPTH_MAX);
    size_t before = out->size;
    troupe_status status = trp_walk_say(&w.at, type, pack_value(&w, type, value));
    if (status == TROUPE_OK && out->failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory to pack a value of %s", type->name);
    if (status != TROUPE_OK)
        out->size = before; // Half a value is of no use to anyone.
    return status;
}

troupe_status troupe_pack_as(const troupe_type *type, const void *value, void *out, size_t capacity,
                             size_t *size)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(value);
    TRP_REQUIRE(size);
    if (capacity > 0)
        TRP_REQUIRE(out);
    TROUPE_TRY(trp_walk_check(type, value));
    trp_buffer packed = {0};
    troupe_status status = trp_pack(type, value, &packed);
    if (status == TROUPE_OK) {
        *size = packed.size;
        if (packed.size > capacity)
            status = troupe_fail(TROUPE_TOO_LARGE,
                                 "a packed %s takes %zu bytes, more than the %zu given", type->name,
                                 packed.size, capacity);
        else
            memcpy(out, packed.data, packed.size);
    }
    trp_buffer_free(&packed);
    return status;
}
