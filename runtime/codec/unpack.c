// unpack.c: reading packed values by their type's table.
//
// Whatever memory a value takes is reserved only once the bytes left could hold what the message
// claims, so that a short message cannot ask for much. Exactly what pack.c writes is accepted, in
// any of MessagePack's widths.
#include <runtime/codec/unpack.h>

#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/tensor.h>
#include <runtime/codec/type_cursor.h>

enum {
    SMALL_VALUE = 1024, // A value up to this size is read on the stack first.
    GROWTH_FREE = 4096, // What a message of any size may take.
};

typedef struct unpacking {
    trp_reader *in;
    trp_arena *arena;
    size_t budget; // How much it may still take from the arena.
    bool lent;     // The bytes outlive the value.
    trp_walk at;
} unpacking;

static troupe_status unpack_value(unpacking *w, const troupe_type *type, void *value);

static size_t place(const unpacking *w)
{
    return (size_t)(w->in->at - w->in->start);
}

// The least bytes that a value of the type takes when it is packed.
static size_t least(const troupe_type *type, int depth)
{
    size_t sum = 3;
    switch (type->kind) {
    case TROUPE_KIND_FLOAT:
        return 1 + type->size;
    case TROUPE_KIND_BYTES:
        return 2;
    case TROUPE_KIND_REF:
        return 3;
    case TROUPE_KIND_ACTOR:
        return 5;
    case TROUPE_KIND_TENSOR:
        return 7;
    case TROUPE_KIND_ARRAY:
        return trp_is_number(type->item) ? 2 : 1;
    case TROUPE_KIND_RECORD:
        if (depth > TRP_DEPTH_MAX)
            return 1;
        if (type->field_count < 16)
            sum = 1;
        for (size_t i = 0; i < type->field_count; i++) {
            const troupe_field *field = &type->fields[i];
            if (field->count == 0)
                sum += least(field->type, depth + 1);
            else if (trp_is_number(field->type))
                sum += 2 + field->count * field->type->size;
            else if (field->type->kind == TROUPE_KIND_CHAR)
                sum += 1; // It may be empty.
            else
                sum += 1 + field->count * least(field->type, depth + 1);
        }
        return sum;
    default:
        return 1;
    }
}

// Memory of the arena, within what the message may take.
static troupe_status take(unpacking *w, size_t size, void **block)
{
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded > w->budget)
        return troupe_fail(TROUPE_MALFORMED,
                           "the value would take more than %d bytes of memory for each of its own",
                           TRP_GROWTH_MAX);
    *block = trp_arena_alloc(w->arena, size);
    if (!*block)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu bytes of a value", size);
    w->budget -= rounded;
    return TROUPE_OK;
}

static troupe_status unpack_int(unpacking *w, const troupe_type *type, void *value)
{
    size_t at = place(w);
    int64_t number = 0;
    TROUPE_TRY(trp_read_int(w->in, &number));
    int64_t max = INT64_MAX >> (64 - 8 * type->size);
    if (number > max || number < -max - 1)
        return troupe_fail(TROUPE_MALFORMED, "expected %s (%lld to %lld), found %lld at byte %zu",
                           type->name, (long long)(-max - 1), (long long)max, (long long)number,
                           at);
    memcpy(value, &number, type->size);
    return TROUPE_OK;
}

static troupe_status unpack_uint(unpacking *w, const troupe_type *type, void *value)
{
    size_t at = place(w);
    uint64_t number = 0;
    TROUPE_TRY(trp_read_uint(w->in, &number));
    uint64_t max = UINT64_MAX >> (64 - 8 * type->size);
    if (number > max)
        return troupe_fail(TROUPE_MALFORMED, "expected %s (0 to %llu), found %llu at byte %zu",
                           type->name, (unsigned long long)max, (unsigned long long)number, at);
    memcpy(value, &number, type->size);
    return TROUPE_OK;
}

static troupe_status unpack_float(unpacking *w, const troupe_type *type, void *value)
{
    float narrow = 0;
    double wide = 0;
    if (type->size == sizeof(narrow)) {
        TROUPE_TRY(trp_read_float(w->in, &narrow));
        memcpy(value, &narrow, sizeof(narrow));
    } else {
        TROUPE_TRY(trp_read_double(w->in, &wide));
        memcpy(value, &wide, sizeof(wide));
    }
    return TROUPE_OK;
}

static troupe_status unpack_text(unpacking *w, void *value)
{
    const char *text = NULL;
    size_t size = 0;
    TROUPE_TRY(trp_read_text(w->in, &text, &size));
    if (!text)
        return TROUPE_OK; // The value is zeroed before it is read.
    void *copy = NULL;
    TROUPE_TRY(take(w, size + 1, &copy));
    memcpy(copy, text, size); // The arena's memory is zeroed, so the NUL is there.
    memcpy(value, &copy, sizeof(copy));
    return TROUPE_OK;
}

static troupe_status unpack_bytes(unpacking *w, void *value)
{
    troupe_bytes bytes = {NULL, 0};
    const void *data = NULL;
    void *copy = NULL;
    TROUPE_TRY(trp_read_bytes(w->in, &data, &bytes.size));
    if (bytes.size > 0) {
        TROUPE_TRY(take(w, bytes.size, &copy));
        memcpy(copy, data, bytes.size);
        bytes.data = copy;
    }
    memcpy(value, &bytes, sizeof(bytes));
    return TROUPE_OK;
}

// An array of exactly `count` items, since references and addresses are always complete.
static troupe_status expect_array(unpacking *w, const char *what, size_t count)
{
    size_t at = place(w);
    uint32_t found = 0;
    TROUPE_TRY(trp_read_array(w->in, &found));
    if (found != count)
        return troupe_fail(TROUPE_MALFORMED, "expected %s of %zu, found %u at byte %zu", what,
                           count, found, at);
    return TROUPE_OK;
}

static troupe_status unpack_ref(unpacking *w, void *value)
{
    troupe_ref ref = {0};
    TROUPE_TRY(expect_array(w, "a reference as an array", 2));
    TROUPE_TRY(trp_read_uint(w->in, &ref.id));
    TROUPE_TRY(trp_read_uint(w->in, &ref.schema));
    memcpy(value, &ref, sizeof(ref));
    return TROUPE_OK;
}

static troupe_status unpack_actor(unpacking *w, void *value)
{
    troupe_actor actor = {0};
    TROUPE_TRY(expect_array(w, "an actor's address as an array", 4));
    TROUPE_TRY(trp_read_uint(w->in, &actor.id));
    TROUPE_TRY(trp_read_uint(w->in, &actor.incarnation));
    TROUPE_TRY(unpack_uint(w, &troupe_type_uint32_t, &actor.node));
    TROUPE_TRY(unpack_uint(w, &troupe_type_uint32_t, &actor.process));
    memcpy(value, &actor, sizeof(actor));
    return TROUPE_OK;
}

static troupe_status unpack_tensor(unpacking *w, void *value)
{
    troupe_tensor tensor = {0};
    size_t size = 0;
    void *block = NULL;
    TROUPE_TRY(trp_tensor_unpack(w->in, &tensor, &size));
    if (size == 0) {
        tensor.data = NULL;
    } else if (!w->lent || (uintptr_t)tensor.data % TRP_TENSOR_ALIGN != 0) {
        TROUPE_TRY(take(w, size + TRP_TENSOR_SLACK, &block));
        tensor.data = memcpy(trp_tensor_aligned(block), tensor.data, size);
    }
    memcpy(value, &tensor, sizeof(tensor));
    return TROUPE_OK;
}

// The bin of an array of numbers.
static troupe_status read_numbers(unpacking *w, const troupe_type *item, const void **data,
                                  size_t *size)
{
    size_t at = place(w);
    TROUPE_TRY(trp_read_bytes(w->in, data, size));
    if (*size % item->size != 0)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected bytes in items of %zu (%s), found %zu bytes at byte %zu",
                           item->size, item->name, *size, at);
    const unsigned char *bytes = (const unsigned char *)*data;
    for (size_t i = 0; item->kind == TROUPE_KIND_BOOL && i < *size; i++) {
        if (bytes[i] > 1) // Any other byte in a bool is undefined behaviour for its reader.
            return troupe_fail(TROUPE_MALFORMED,
                               "expected a bool (0 or 1), found %u as item %zu "
                               "at byte %zu",
                               bytes[i], i, at);
    }
    return TROUPE_OK;
}

static troupe_status unpack_items(unpacking *w, const troupe_type *item, unsigned char *items,
                                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        trp_walk_item(&w->at, i);
        TROUPE_TRY(unpack_value(w, item, items + i * item->size));
    }
    trp_walk_leave(&w->at);
    return TROUPE_OK;
}

// `value` is zeroed, so that the text ends.
static troupe_status unpack_fixed_text(unpacking *w, size_t count, void *value)
{
    size_t at = place(w), size = 0;
    const char *text = NULL;
    TROUPE_TRY(trp_read_text(w->in, &text, &size));
    if (text == NULL || size >= count)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected a text of at most %zu bytes, found %s%zu at byte %zu",
                           count - 1, text == NULL ? "none: " : "", size, at);
    memcpy(value, text, size);
    return TROUPE_OK;
}

static troupe_status unpack_fixed(unpacking *w, const troupe_field *field, void *value)
{
    const troupe_type *item = field->type;
    if (item->kind == TROUPE_KIND_CHAR)
        return unpack_fixed_text(w, field->count, value);
    if (!trp_is_number(item)) {
        TROUPE_TRY(expect_array(w, "an array", field->count));
        TROUPE_TRY(trp_walk_enter(&w->at, TROUPE_MALFORMED));
        return unpack_items(w, item, (unsigned char *)value, field->count);
    }
    size_t at = place(w), size = 0;
    const void *data = NULL;
    TROUPE_TRY(read_numbers(w, item, &data, &size));
    if (size != field->count * item->size)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected %zu bytes (%zu of %s), found %zu at byte %zu",
                           field->count * item->size, field->count, item->name, size, at);
    memcpy(value, data, size);
    return TROUPE_OK;
}

static troupe_status unpack_counted(unpacking *w, const troupe_type *type, void *value)
{
    const troupe_type *item = type->item;
    void *items = NULL;
    size_t count = 0;
    if (trp_is_number(item)) {
        const void *data = NULL;
        size_t size = 0;
        TROUPE_TRY(read_numbers(w, item, &data, &size));
        count = size / item->size;
        if (count > 0) {
            TROUPE_TRY(take(w, size, &items));
            memcpy(items, data, size);
        }
    } else {
        size_t at = place(w);
        uint32_t found = 0;
        TROUPE_TRY(trp_read_array(w->in, &found));
        size_t left = (size_t)(w->in->end - w->in->at);
        if (found > left / least(item, 0))
            return troupe_fail(TROUPE_MALFORMED,
                               "found an array of %u %s at byte %zu, more than the %zu bytes left "
                               "can hold",
                               found, item->name, at, left);
        count = found;
        if (count > 0)
            TROUPE_TRY(take(w, count * item->size, &items));
        TROUPE_TRY(trp_walk_enter(&w->at, TROUPE_MALFORMED));
        TROUPE_TRY(unpack_items(w, item, (unsigned char *)items, count));
    }
    trp_counted array = {items, count};
    memcpy(value, &array, sizeof(array));
    return TROUPE_OK;
}

static troupe_status unpack_record(unpacking *w, const troupe_type *type, void *value)
{
    size_t at = place(w);
    uint32_t found = 0;
    TROUPE_TRY(trp_read_array(w->in, &found));
    if (found != type->field_count)
        return troupe_fail(TROUPE_MALFORMED,
                           "expected an array of %zu fields (%s), found one of %u at byte %zu",
                           type->field_count, type->name, found, at);
    TROUPE_TRY(trp_walk_enter(&w->at, TROUPE_MALFORMED));
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        unsigned char *to = (unsigned char *)value + field->offset;
        trp_walk_field(&w->at, field->name);
        TROUPE_TRY(field->count ? unpack_fixed(w, field, to) : unpack_value(w, field->type, to));
    }
    trp_walk_leave(&w->at);
    return TROUPE_OK;
}

// `value` is zeroed.
static troupe_status unpack_value(unpacking *w, const troupe_type *type, void *value)
{
    bool truth = false;
    switch (type->kind) {
    case TROUPE_KIND_NONE:
        return trp_read_nil(w->in);
    case TROUPE_KIND_BOOL:
        TROUPE_TRY(trp_read_bool(w->in, &truth));
        memcpy(value, &truth, sizeof(truth));
        return TROUPE_OK;
    case TROUPE_KIND_CHAR:
    case TROUPE_KIND_INT:
        return unpack_int(w, type, value);
    case TROUPE_KIND_UINT:
        return unpack_uint(w, type, value);
    case TROUPE_KIND_FLOAT:
        return unpack_float(w, type, value);
    case TROUPE_KIND_TEXT:
        return unpack_text(w, value);
    case TROUPE_KIND_BYTES:
        return unpack_bytes(w, value);
    case TROUPE_KIND_REF:
        return unpack_ref(w, value);
    case TROUPE_KIND_ACTOR:
        return unpack_actor(w, value);
    case TROUPE_KIND_ARRAY:
        return unpack_counted(w, type, value);
    case TROUPE_KIND_RECORD:
        return unpack_record(w, type, value);
    case TROUPE_KIND_TENSOR:
        return unpack_tensor(w, value);
    }
    return troupe_fail(TROUPE_INVALID, "its type's table has the unknown kind %d", (int)type->kind);
}

enum { MANNER_WHOLE = 1, MANNER_LENT = 2 };

// Reads into memory of its own first, so that a failure leaves *value alone.
static troupe_status unpack(const troupe_type *type, trp_reader *in, trp_arena *arena, void *value,
                            unsigned manner)
{
    _Alignas(16) unsigned char small[SMALL_VALUE];
    unsigned char *draft = small;
    if (type->size > sizeof(small)) {
        draft = (unsigned char *)trp_alloc(type->size);
        if (!draft)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory to unpack a value of %s", type->name);
    } else {
        memset(small, 0, type->size);
    }
    unpacking w;
    w.in = in;
    w.arena = arena;
    w.lent = (manner & MANNER_LENT) != 0;
    trp_walk_begin(&w.at, TRP_DEPTH_MAX - in->depth);
    if (__builtin_mul_overflow((size_t)(in->end - in->at), TRP_GROWTH_MAX, &w.budget) ||
        __builtin_add_overflow(w.budget, GROWTH_FREE, &w.budget))
        w.budget = SIZE_MAX;
    troupe_status status = unpack_value(&w, type, draft);
    if (status == TROUPE_OK && (manner & MANNER_WHOLE) != 0)
        status = trp_read_end(in);
    status = trp_walk_say(&w.at, type, status);
    if (status == TROUPE_OK)
        memcpy(value, draft, type->size);
    if (draft != small)
        trp_free(draft);
    return status;
}

troupe_status trp_unpack(const troupe_type *type, trp_reader *in, trp_arena *arena, void *value)
{
    return unpack(type, in, arena, value, 0);
}

troupe_status trp_unpack_lent(const troupe_type *type, trp_reader *in, trp_arena *arena,
                              void *value)
{
    return unpack(type, in, arena, value, MANNER_LENT);
}

troupe_status trp_unpack_whole(const troupe_type *type, const void *data, size_t size,
                               trp_arena *arena, void *value)
{
    trp_reader in = trp_reader_of(data, size);
    return unpack(type, &in, arena, value, MANNER_WHOLE);
}

troupe_status troupe_unpack_as(const troupe_type *type, const void *data, size_t size, void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(value);
    if (size > 0)
        TRP_REQUIRE(data);
    TROUPE_TRY(trp_walk_check(type, value));
    return trp_unpack_whole(type, data, size, trp_arena_current(), value);
}
