// json_read.c: JSON texts as values, by their type's table.
#include <runtime/codec/json_internal.h>

#include <langinfo.h>
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/codec/decimal.h>
#include <runtime/codec/type_cursor.h>
#include <stdarg.h>
#include <stdlib.h>

enum { DRAFT_NEAR = 1024, GROWTH_FREE = 1 << 16, GROWTH = 1024 };

typedef struct reading {
    trp_arena *arena;
    size_t budget; // How much it may still take from the arena.
    trp_walk at;
} reading;

static troupe_status read_value(reading *r, const troupe_type *type, trp_json text, void *value);

// "member 'layers[2].rate' is "abc": expected a number"
__attribute__((format(printf, 3, 4))) static troupe_status
expected(const reading *r, trp_json found, const char *format, ...)
{
    enum { SHOWN = 48 };
    char path[256] = "", what[160];
    size_t used = 0;
    for (int i = 0; i < r->at.depth && used < sizeof(path); i++) {
        const trp_step *step = &r->at.steps[i];
        size_t room = sizeof(path) - used;
        used +=
            (size_t)(step->name ? snprintf(path + used, room, "%s%s", i > 0 ? "." : "", step->name)
                                : snprintf(path + used, room, "[%zu]", step->index));
    }
    va_list list;
    va_start(list, format);
    (void)vsnprintf(what, sizeof(what), format, list);
    va_end(list);
    bool whole = found.size <= SHOWN;
    size_t shown = whole ? found.size : trp_text_good(found.at, SHOWN);
    return troupe_fail(TROUPE_WRONG_TYPE, "%s%s%s is %.*s%s: expected %s",
                       used > 0 ? "member '" : "the value", path, used > 0 ? "'" : "", (int)shown,
                       found.at, whole ? "" : "...", what);
}

static troupe_status take(reading *r, size_t count, size_t each, void **block)
{
    size_t size = 0;
    if (__builtin_mul_overflow(count, each, &size) || size > r->budget)
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "JSON: the value would take more than %d bytes of memory for each of "
                           "its own",
                           GROWTH);
    *block = trp_arena_alloc(r->arena, size > 0 ? size : 1);
    if (*block == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu bytes of a value", size);
    r->budget -= size;
    return TROUPE_OK;
}

bool trp_json_real(trp_json text, double *value)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"NaN", (double)NAN}, {"Infinity", HUGE_VAL}, {"-Infinity", -HUGE_VAL}};
    for (size_t i = 0; i < 3 && trp_json_is_text(text); i++) {
        if (trp_json_equals(text, words[i].text)) {
            *value = words[i].value;
            return true;
        }
    }
    if (text.size == 0 || text.size > TRP_JSON_NUMBER_MAX ||
        (text.at[0] != '-' && !trp_json_is_digit(text.at[0])))
        return false;
    if (trp_decimal_read(text.at, text.size, value))
        return true;
    char copy[TRP_JSON_NUMBER_MAX + 16];
    memcpy(copy, text.at, text.size);
    copy[text.size] = '\0';
    const char *radix = nl_langinfo(RADIXCHAR); // strtod reads the locale's.
    char *point = strchr(copy, '.');
    if (point != NULL && strcmp(radix, ".") != 0 && strlen(radix) < 8) {
        memmove(point + strlen(radix), point + 1, strlen(point));
        memcpy(point, radix, strlen(radix));
    }
    *value = strtod(copy, NULL);
    return isfinite(*value);
}

static troupe_status read_real(reading *r, const troupe_type *type, trp_json text, void *value)
{
    double wide = 0;
    if (!trp_json_real(text, &wide))
        return expected(r, text, "a number");
    float narrow = (float)wide;
    if (type->size == sizeof(narrow)) {
        if (isinf(narrow) && !isinf(wide))
            return expected(r, text, "a number of a float's range");
        memcpy(value, &narrow, sizeof(narrow));
    } else {
        memcpy(value, &wide, sizeof(wide));
    }
    return TROUPE_OK;
}

bool trp_json_integer(trp_json text, bool *negative, uint64_t *amount)
{
    if (text.size == 0 || (text.at[0] != '-' && !trp_json_is_digit(text.at[0])))
        return false;
    *negative = text.at[0] == '-';
    *amount = 0;
    for (size_t i = *negative; i < text.size; i++) {
        if (!trp_json_is_digit(text.at[i])) { // 5.0 or 5e0
            double real = 0;
            if (!trp_json_real(text, &real) || real != floor(real) || fabs(real) > 0x1p53)
                return false;
            *amount = (uint64_t)fabs(real);
            return true;
        }
        if (__builtin_mul_overflow(*amount, 10, amount) ||
            __builtin_add_overflow(*amount, (uint64_t)(text.at[i] - '0'), amount))
            return false;
    }
    return true;
}

static troupe_status read_integer(reading *r, const troupe_type *type, trp_json text, void *value)
{
    bool negative = false;
    uint64_t amount = 0;
    uint64_t all = UINT64_MAX >> (64 - 8 * type->size);
    bool is_unsigned = type->kind == TROUPE_KIND_UINT;
    bool known = trp_json_integer(text, &negative, &amount);
    uint64_t most = is_unsigned ? (negative ? 0 : all) : all / 2 + negative;
    if (!known || amount > most) {
        if (is_unsigned)
            return expected(r, text, "an integer from 0 to %llu", (unsigned long long)all);
        return expected(r, text, "an integer from %lld to %lld", -(long long)(all / 2) - 1,
                        (long long)(all / 2));
    }
    uint64_t bits = negative ? -amount : amount;
    memcpy(value, &bits, type->size);
    return TROUPE_OK;
}

static size_t text_size(trp_json text)
{
    const char *at = text.at + 1;
    char bytes[4];
    size_t size = 0;
    for (long point; (point = trp_json_code_point(&at, trp_json_end(text))) >= 0;)
        size += trp_json_encode(point, bytes);
    return size;
}

// Into text_size bytes and a NUL.
static void decode_text(trp_json text, char *to)
{
    const char *at = text.at + 1;
    char bytes[4];
    for (long point; (point = trp_json_code_point(&at, trp_json_end(text))) >= 0;) {
        size_t size = trp_json_encode(point, bytes);
        memcpy(to, bytes, size);
        to += size;
    }
    *to = '\0';
}

static troupe_status read_text(reading *r, trp_json text, void *value)
{
    void *copy = NULL;
    if (!trp_json_is_null(text)) {
        if (!trp_json_is_text(text))
            return expected(r, text, "a text");
        TROUPE_TRY(take(r, text_size(text) + 1, 1, &copy));
        decode_text(text, (char *)copy);
    }
    memcpy(value, &copy, sizeof(copy));
    return TROUPE_OK;
}

static int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : trp_json_is_digit(c) ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static troupe_status read_bytes(reading *r, trp_json text, void *value)
{
    size_t size = trp_json_is_text(text) && text.size >= 2 ? text.size - 2 : 1;
    const char *from = text.at + 1;
    size_t pads = size == 0 || size % 4 != 0 || from[size - 1] != '=' ? 0
                  : from[size - 2] == '='                             ? 2
                                                                      : 1;
    troupe_bytes bytes = {NULL, size / 4 * 3 - pads};
    if (size % 4 != 0)
        return expected(r, text, "bytes as base64 text");
    if (bytes.size > 0) {
        void *block = NULL;
        TROUPE_TRY(take(r, bytes.size, 1, &block));
        unsigned char *to = (unsigned char *)block;
        unsigned bits = 0;
        for (size_t i = 0, done = 0; i < size - pads; i++) {
            int digit = base64_digit(from[i]);
            if (digit < 0)
                return expected(r, text, "bytes as base64 text");
            bits = bits << 6 | (unsigned)digit;
            if (i % 4 > 0)
                to[done++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
        }
        bytes.data = block;
    }
    memcpy(value, &bytes, sizeof(bytes));
    return TROUPE_OK;
}

static size_t count_items(trp_json array)
{
    size_t count = 0;
    for (trp_json item = {0}; trp_json_next_item(array, &item);)
        count++;
    return count;
}

static troupe_status read_items(reading *r, const troupe_type *type, trp_json array, char *items)
{
    TROUPE_TRY(trp_walk_enter(&r->at, TROUPE_WRONG_TYPE));
    size_t i = 0;
    for (trp_json item = {0}; trp_json_next_item(array, &item); i++) {
        trp_walk_item(&r->at, i);
        TROUPE_TRY(read_value(r, type, item, items + i * type->size));
    }
    trp_walk_leave(&r->at);
    return TROUPE_OK;
}

static troupe_status read_counted(reading *r, const troupe_type *type, trp_json text, void *value)
{
    if (!trp_json_is_array(text))
        return expected(r, text, "an array");
    void *items = NULL;
    size_t count = count_items(text);
    if (count > 0) {
        TROUPE_TRY(take(r, count, type->item->size, &items));
        TROUPE_TRY(read_items(r, type->item, text, (char *)items));
    }
    trp_counted array = {items, count};
    memcpy(value, &array, sizeof(array));
    return TROUPE_OK;
}

static troupe_status read_fixed(reading *r, const troupe_field *field, trp_json text, char *value)
{
    if (trp_json_is_null(text))
        return TROUPE_OK;
    if (field->type->kind != TROUPE_KIND_CHAR) {
        if (!trp_json_is_array(text) || count_items(text) != field->count)
            return expected(r, text, "an array of %zu items", field->count);
        return read_items(r, field->type, text, value);
    }
    if (!trp_json_is_text(text) || text_size(text) >= field->count)
        return expected(r, text, "a text of at most %zu bytes", field->count - 1);
    memset(value, 0, field->count);
    decode_text(text, value);
    return TROUPE_OK;
}

static troupe_status read_record(reading *r, const troupe_type *type, trp_json text, char *value)
{
    if (!trp_json_is_object(text))
        return expected(r, text, "an object (%s)", type->name);
    TROUPE_TRY(trp_walk_enter(&r->at, TROUPE_WRONG_TYPE));
    trp_json at = {0}, name, its;
    size_t next = 0; // The writer's order is the table's.
    while (trp_json_next_member(text, &at, &name, &its)) {
        size_t tried = 0;
        while (tried < type->field_count &&
               !trp_json_equals(name, type->fields[(next + tried) % type->field_count].name))
            tried++;
        if (tried == type->field_count)
            continue;
        const troupe_field *field = &type->fields[(next + tried) % type->field_count];
        next += tried + 1;
        trp_walk_field(&r->at, field->name);
        TROUPE_TRY(field->count > 0 ? read_fixed(r, field, its, value + field->offset)
                                    : read_value(r, field->type, its, value + field->offset));
    }
    trp_walk_leave(&r->at);
    return TROUPE_OK;
}

static troupe_status read_value(reading *r, const troupe_type *type, trp_json text, void *value)
{
    bool is_true = trp_json_begins(text, 't');
    if (type->kind == TROUPE_KIND_TEXT)
        return read_text(r, text, value);
    if (trp_json_is_null(text))
        return TROUPE_OK;
    switch (type->kind) {
    case TROUPE_KIND_BOOL:
        if (!is_true && !trp_json_begins(text, 'f'))
            return expected(r, text, "true or false");
        memcpy(value, &is_true, sizeof(is_true));
        return TROUPE_OK;
    case TROUPE_KIND_CHAR:
    case TROUPE_KIND_INT:
    case TROUPE_KIND_UINT:
        return read_integer(r, type, text, value);
    case TROUPE_KIND_FLOAT:
        return read_real(r, type, text, value);
    case TROUPE_KIND_BYTES:
        return read_bytes(r, text, value);
    case TROUPE_KIND_RECORD:
        return read_record(r, type, text, (char *)value);
    case TROUPE_KIND_ARRAY:
        return read_counted(r, type, text, value);
    default:
        return expected(r, text, "null (files hold no %s)", type->name);
    }
}

// Reads into memory of its own first, so that a failure leaves *value alone.
troupe_status trp_json_read(const troupe_type *type, trp_json text, trp_arena *arena, void *value)
{
    _Alignas(16) char near[DRAFT_NEAR];
    char *draft = type->size <= sizeof(near) ? near : (char *)trp_alloc(type->size);
    if (draft == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to read a value of %s", type->name);
    memcpy(draft, value, type->size);
    reading r;
    r.arena = arena;
    if (__builtin_mul_overflow(text.size, GROWTH, &r.budget) ||
        __builtin_add_overflow(r.budget, GROWTH_FREE, &r.budget))
        r.budget = SIZE_MAX;
    trp_walk_begin(&r.at, TRP_DEPTH_MAX);
    troupe_status status = read_value(&r, type, text, draft);
    if (status == TROUPE_OK)
        memcpy(value, draft, type->size);
    if (draft != near)
        trp_free(draft);
    return status;
}
