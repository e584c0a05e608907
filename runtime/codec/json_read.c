// json_read.c: JSON texts that are checked once, walked without a tree, and read by a type's table.
#include <runtime/codec/json.h>

#include <langinfo.h>
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/codec/type_cursor.h>
#include <stdarg.h>
#include <stdlib.h>

// ---- checking

enum { NAMES_NEAR = 32, NAMES_LINEAR = 16 };

typedef struct seen_name {
    uint64_t hash;
    const char *at, *end; // From quote to quote.
} seen_name;

typedef struct checking {
    const char *start, *at, *end;
    int depth;
    // The names of all objects that it is inside of, the innermost last.
    seen_name *names, near[NAMES_NEAR];
    size_t name_count, name_capacity;
} checking;

static troupe_status refuse(const checking *c, const char *at, const char *expected)
{
    size_t line = 1, column = 1;
    for (const char *p = c->start; p < at; p++) {
        bool ends = *p == '\n';
        line += ends;
        column = ends ? 1 : column + ((*p & 0xc0) != 0x80);
    }
    char found[16] = "the end";
    unsigned char byte = at < c->end ? (unsigned char)*at : 0;
    if (at < c->end)
        (void)snprintf(found, sizeof(found), byte > 0x20 && byte < 0x7f ? "'%c'" : "byte 0x%02x",
                       byte);
    return troupe_fail(TROUPE_MALFORMED, "JSON: expected %s, found %s at line %zu, column %zu",
                       expected, found, line, column);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && is_space(*at))
        at++;
    return at;
}

// The code unit of \uXXXX, or -1. `at` is the backslash.
static int code_unit(const char *at, const char *end)
{
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    int unit = 0;
    for (int i = 2; i < 6; i++) {
        char c = at[i];
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

// The next code point of a text that was checked; -1 at its closing quote. *at is behind it then.
static long next_code_point(const char **at, const char *end)
{
    const char *p = *at;
    if (p >= end || *p == '"')
        return -1;
    unsigned char head = (unsigned char)*p;
    if (head == '\\') {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        long unit = code_unit(p, end);
        if (unit >= 0) {
            long low = unit >= 0xd800 && unit < 0xdc00 ? code_unit(p + 6, end) : -1;
            *at = p + (low >= 0 ? 12 : 6);
            return low >= 0 ? 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00) : unit;
        }
        const char *which = end - p < 2 || p[1] == '\0' ? NULL : strchr(from, p[1]);
        *at = end - p < 2 ? end : p + 2;
        return which == NULL ? '?' : to[which - from];
    }
    int more = head < 0xc0 ? 0 : head < 0xe0 ? 1 : head < 0xf0 ? 2 : 3;
    long point = more == 0 ? head : head & (0x3f >> more);
    for (p++; more > 0 && p < end; more--, p++)
        point = point << 6 | (*p & 0x3f);
    *at = p;
    return point;
}

// Both begin behind their opening quotes. In the order of UTF-16's code units, as RFC 8785 sorts.
static int compare_texts(const char *a, const char *a_end, const char *b, const char *b_end)
{
    for (;;) {
        long x = next_code_point(&a, a_end), y = next_code_point(&b, b_end);
        if (x != y) {
            // Surrogates stand between 0xd7ff and 0xe000.
            x += x >= 0xe000 && x < 0x10000 ? 0x200000 : 0;
            y += y >= 0xe000 && y < 0x10000 ? 0x200000 : 0;
            return x < y ? -1 : 1;
        }
        if (x < 0)
            return 0;
    }
}

static troupe_status check_escape(checking *c)
{
    if (c->end - c->at >= 2 && c->at[1] != '\0' && strchr("\"\\/bfnrt", c->at[1]) != NULL) {
        c->at += 2;
        return TROUPE_OK;
    }
    int unit = code_unit(c->at, c->end);
    if (unit < 0)
        return refuse(c, c->at, "an escape of a text (\\n, \\u0041)");
    if (unit == 0)
        return refuse(c, c->at, "a text without a NUL");
    if (unit < 0xd800 || unit > 0xdfff) {
        c->at += 6;
        return TROUPE_OK;
    }
    int low = unit < 0xdc00 ? code_unit(c->at + 6, c->end) : -1;
    if (low < 0xdc00 || low > 0xdfff)
        return refuse(c, c->at, "a whole surrogate pair (\\ud83d\\ude00)");
    c->at += 12;
    return TROUPE_OK;
}

// That it is UTF-8 was checked before.
static troupe_status check_text(checking *c)
{
    for (c->at++; c->at < c->end && *c->at != '"';) {
        if (*c->at == '\\')
            TROUPE_TRY(check_escape(c));
        else if ((unsigned char)*c->at < 0x20)
            return refuse(c, c->at, "a text's control characters as escapes");
        else
            c->at++;
    }
    if (c->at >= c->end)
        return refuse(c, c->at, "the closing quote of a text");
    c->at++;
    return TROUPE_OK;
}

static troupe_status check_digits(checking *c)
{
    if (c->at >= c->end || !is_digit(*c->at))
        return refuse(c, c->at, "a digit");
    while (c->at < c->end && is_digit(*c->at))
        c->at++;
    return TROUPE_OK;
}

static troupe_status check_number(checking *c)
{
    const char *start = c->at;
    c->at += *c->at == '-';
    if (c->at < c->end && *c->at == '0') {
        c->at++;
        if (c->at < c->end && is_digit(*c->at))
            return refuse(c, c->at, "no digit after a leading 0");
    } else {
        TROUPE_TRY(check_digits(c));
    }
    if (c->at < c->end && *c->at == '.') {
        c->at++;
        TROUPE_TRY(check_digits(c));
    }
    if (c->at < c->end && (*c->at == 'e' || *c->at == 'E')) {
        c->at++;
        c->at += c->at < c->end && (*c->at == '+' || *c->at == '-');
        TROUPE_TRY(check_digits(c));
    }
    if (c->at - start > TRP_JSON_NUMBER_MAX)
        return refuse(c, start, "a number of at most 1000 characters");
    return TROUPE_OK;
}

static int compare_names(const void *a, const void *b)
{
    const seen_name *x = (const seen_name *)a, *y = (const seen_name *)b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return compare_texts(x->at + 1, x->end, y->at + 1, y->end);
}

static troupe_status note_name(checking *c, const char *at)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const char *p = at + 1;
    for (long point; (point = next_code_point(&p, c->at)) >= 0;)
        hash = (hash ^ (uint64_t)point) * 0x100000001b3u;
    if (c->name_count == c->name_capacity) {
        size_t size = 2 * c->name_capacity * sizeof(seen_name);
        seen_name *more = (seen_name *)trp_alloc(size);
        if (more == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu names of JSON members",
                               2 * c->name_capacity);
        memcpy(more, c->names, c->name_count * sizeof(seen_name));
        if (c->names != c->near)
            trp_free(c->names);
        c->names = more;
        c->name_capacity *= 2;
    }
    c->names[c->name_count++] = (seen_name){hash, at, c->at};
    return TROUPE_OK;
}

// That no name of the innermost object is there twice; they are forgotten.
static troupe_status check_names(checking *c, size_t first)
{
    seen_name *names = c->names + first;
    size_t count = c->name_count - first;
    const char *twice = NULL;
    if (count > NAMES_LINEAR) {
        qsort(names, count, sizeof(*names), compare_names);
        for (size_t i = 1; i < count && twice == NULL; i++)
            twice = compare_names(&names[i - 1], &names[i]) == 0 ? names[i].at : NULL;
    } else {
        for (size_t i = 1; i < count; i++) {
            for (size_t j = 0; j < i && twice == NULL; j++)
                twice = compare_names(&names[i], &names[j]) == 0 ? names[i].at : NULL;
        }
    }
    c->name_count = first;
    return twice == NULL ? TROUPE_OK : refuse(c, twice, "each member of an object once");
}

static troupe_status check_value(checking *c);

// Past the comma or the end of an object or array; *more says which.
static troupe_status check_more(checking *c, char end, bool *more)
{
    c->at = skip_space(c->at, c->end);
    *more = c->at < c->end && *c->at == ',';
    if (!*more && (c->at >= c->end || *c->at != end))
        return refuse(c, c->at, end == '}' ? "',' or '}'" : "',' or ']'");
    c->at++;
    return TROUPE_OK;
}

static troupe_status check_object(checking *c)
{
    size_t first = c->name_count;
    c->at = skip_space(c->at + 1, c->end);
    bool more = c->at >= c->end || *c->at != '}';
    if (!more)
        c->at++;
    while (more) {
        c->at = skip_space(c->at, c->end);
        const char *name = c->at;
        if (name >= c->end || *name != '"')
            return refuse(c, c->at, "a member's name in quotes");
        TROUPE_TRY(check_text(c));
        TROUPE_TRY(note_name(c, name));
        c->at = skip_space(c->at, c->end);
        if (c->at >= c->end || *c->at != ':')
            return refuse(c, c->at, "':'");
        c->at++;
        TROUPE_TRY(check_value(c));
        TROUPE_TRY(check_more(c, '}', &more));
    }
    return check_names(c, first);
}

static troupe_status check_array(checking *c)
{
    c->at = skip_space(c->at + 1, c->end);
    bool more = c->at >= c->end || *c->at != ']';
    if (!more)
        c->at++;
    while (more) {
        TROUPE_TRY(check_value(c));
        TROUPE_TRY(check_more(c, ']', &more));
    }
    return TROUPE_OK;
}

static troupe_status check_word(checking *c, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size) != 0)
        return refuse(c, c->at, "a value");
    c->at += size;
    return TROUPE_OK;
}

static troupe_status check_value(checking *c)
{
    troupe_status status = TROUPE_OK;
    c->at = skip_space(c->at, c->end);
    char head = c->at < c->end ? *c->at : '\0';
    switch (head) {
    case '{':
    case '[':
        if (c->depth == TRP_JSON_DEPTH_MAX)
            return refuse(c, c->at, "at most 64 objects and arrays within each other");
        c->depth++;
        status = head == '{' ? check_object(c) : check_array(c);
        c->depth--;
        return status;
    case '"':
        return check_text(c);
    case 't':
        return check_word(c, "true");
    case 'f':
        return check_word(c, "false");
    case 'n':
        return check_word(c, "null");
    default:
        return head == '-' || is_digit(head) ? check_number(c) : refuse(c, c->at, "a value");
    }
}

troupe_status trp_json_parse(const char *text, size_t size, trp_json *value)
{
    checking c;
    c.start = c.at = text;
    c.end = text + size;
    c.depth = 0;
    c.names = c.near;
    c.name_count = 0;
    c.name_capacity = NAMES_NEAR;
    size_t good = trp_text_good(text, size);
    if (good < size)
        return refuse(&c, text + good, "text in UTF-8 without a NUL");
    const char *first = skip_space(text, c.end);
    troupe_status status = check_value(&c);
    const char *last = c.at;
    if (status == TROUPE_OK && skip_space(last, c.end) != c.end)
        status = refuse(&c, skip_space(last, c.end), "nothing after the value");
    if (c.names != c.near)
        trp_free(c.names);
    if (status == TROUPE_OK)
        *value = (trp_json){first, (size_t)(last - first)};
    return status;
}

// ---- walking

static const char *end_of(trp_json value)
{
    return value.at + value.size;
}

static bool begins_with(trp_json value, char c)
{
    return value.size > 0 && value.at[0] == c;
}

bool trp_json_is_object(trp_json value)
{
    return begins_with(value, '{');
}

bool trp_json_is_array(trp_json value)
{
    return begins_with(value, '[');
}

bool trp_json_is_text(trp_json value)
{
    return begins_with(value, '"');
}

bool trp_json_is_null(trp_json value)
{
    return begins_with(value, 'n');
}

// Behind the closing quote of the text that begins at `at`.
static const char *skip_text(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\' && end - at > 1;
    return at < end ? at + 1 : end;
}

// Behind the value that begins at `at`.
static const char *skip_value(const char *at, const char *end)
{
    size_t depth = 0;
    while (at < end) {
        char c = *at;
        if (c == '"') {
            at = skip_text(at, end);
        } else if (c == '{' || c == '[') {
            depth++;
            at++;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
            at++;
        } else if (depth > 0) {
            at++;
            continue;
        } else {
            while (at < end && !is_space(*at) && strchr(",:]}", *at) == NULL)
                at++;
        }
        if (depth == 0)
            break;
    }
    return at;
}

// The value that begins behind white space and, past the first, one separator; its size is 0 where
// the container ends.
static trp_json next_value(trp_json container, const char *from)
{
    const char *end = container.size > 0 ? end_of(container) - 1 : end_of(container);
    from = skip_space(from, end);
    if (from < end && (*from == ',' || *from == ':'))
        from = skip_space(from + 1, end);
    if (from >= end)
        return (trp_json){end, 0};
    return (trp_json){from, (size_t)(skip_value(from, end) - from)};
}

bool trp_json_next_item(trp_json array, trp_json *item)
{
    if (!trp_json_is_array(array))
        return false;
    *item = next_value(array, item->at == NULL ? array.at + 1 : end_of(*item));
    return item->size > 0;
}

bool trp_json_next_member(trp_json object, trp_json *at, trp_json *name, trp_json *value)
{
    if (!trp_json_is_object(object))
        return false;
    trp_json next = next_value(object, at->at == NULL ? object.at + 1 : end_of(*at));
    *at = next_value(object, end_of(next));
    if (next.size == 0 || at->size == 0)
        return false;
    *name = next;
    *value = *at;
    return true;
}

// As UTF-8; returns its length.
static size_t encode(long point, char out[4])
{
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = size; --i > 0; point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)(heads[size] | point);
    return size;
}

bool trp_json_equals(trp_json value, const char *text)
{
    size_t left = strlen(text);
    if (!trp_json_is_text(value) || value.size < 2)
        return false;
    if (memchr(value.at, '\\', value.size) == NULL)
        return value.size == left + 2 && memcmp(value.at + 1, text, left) == 0;
    const char *at = value.at + 1;
    for (long point; (point = next_code_point(&at, end_of(value))) >= 0;) {
        char bytes[4];
        size_t size = encode(point, bytes);
        if (size > left || memcmp(bytes, text, size) != 0)
            return false;
        text += size;
        left -= size;
    }
    return left == 0;
}

bool trp_json_member(trp_json object, const char *name, trp_json *value)
{
    trp_json at = {0}, found, its;
    while (trp_json_next_member(object, &at, &found, &its)) {
        if (trp_json_equals(found, name)) {
            *value = its;
            return true;
        }
    }
    return false;
}

// ---- reading by a type's table

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

// The number that the text is; false: it is none, or none that a double can be.
static bool real_of(trp_json text, double *value)
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
        (text.at[0] != '-' && !is_digit(text.at[0])))
        return false;
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
    if (!real_of(text, &wide))
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

// Sign and amount; false: no integer of 64 bits and a sign.
static bool integer_of(trp_json text, bool *negative, uint64_t *amount)
{
    if (text.size == 0 || (text.at[0] != '-' && !is_digit(text.at[0])))
        return false;
    *negative = text.at[0] == '-';
    *amount = 0;
    for (size_t i = *negative; i < text.size; i++) {
        if (!is_digit(text.at[i])) { // 5.0 or 5e0
            double real = 0;
            if (!real_of(text, &real) || real != floor(real) || fabs(real) > 0x1p53)
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
    bool known = integer_of(text, &negative, &amount);
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
    for (long point; (point = next_code_point(&at, end_of(text))) >= 0;)
        size += encode(point, bytes);
    return size;
}

// Into text_size bytes and a NUL.
static void decode_text(trp_json text, char *to)
{
    const char *at = text.at + 1;
    char bytes[4];
    for (long point; (point = next_code_point(&at, end_of(text))) >= 0;) {
        size_t size = encode(point, bytes);
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
           : is_digit(c)          ? c - '0' + 52
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
    bool is_true = begins_with(text, 't');
    if (type->kind == TROUPE_KIND_TEXT)
        return read_text(r, text, value);
    if (trp_json_is_null(text))
        return TROUPE_OK;
    switch (type->kind) {
    case TROUPE_KIND_BOOL:
        if (!is_true && !begins_with(text, 'f'))
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

// ---- the canonical form

// As ECMAScript writes numbers: the fewest digits that read back, an exponent from 1e21 and below
// 1e-6.
static troupe_status write_canonical_number(trp_json number, trp_buffer *out)
{
    bool negative = false;
    uint64_t amount = 0;
    double real = 0;
    if (integer_of(number, &negative, &amount)) {
        trp_buffer_printf(out, "%s%llu", negative && amount > 0 ? "-" : "",
                          (unsigned long long)amount);
        return TROUPE_OK;
    }
    if (!real_of(number, &real))
        return troupe_fail(TROUPE_MALFORMED, "JSON: %.*s is no number that a double can be",
                           (int)(number.size < 48 ? number.size : 48), number.at);
    char text[40], digits[24];
    for (int more = 0; more < 17; more++) {
        (void)snprintf(text, sizeof(text), "%.*e", more, fabs(real));
        if (strtod(text, NULL) == fabs(real))
            break;
    }
    int count = 0, exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1;
    for (const char *at = text; *at != 'e'; at++) {
        if (is_digit(*at))
            digits[count++] = *at;
    }
    trp_buffer_append(out, "-", real < 0);
    if (exponent > 21 || exponent <= -6) {
        trp_buffer_append(out, digits, 1);
        trp_buffer_append(out, ".", count > 1);
        trp_buffer_append(out, digits + 1, (size_t)count - 1);
        trp_buffer_printf(out, "e%+d", exponent - 1);
    } else if (exponent <= 0) {
        trp_buffer_printf(out, "0.%.*s%.*s", -exponent, "00000000", count, digits);
    } else if (count <= exponent) {
        trp_buffer_printf(out, "%.*s%.*s", count, digits, exponent - count,
                          "000000000000000000000");
    } else {
        trp_buffer_printf(out, "%.*s.%.*s", exponent, digits, count - exponent, digits + exponent);
    }
    return TROUPE_OK;
}

static void write_canonical_text(trp_json text, trp_buffer *out)
{
    const char *at = text.at + 1;
    trp_buffer_append(out, "\"", 1);
    for (long point; (point = next_code_point(&at, end_of(text))) >= 0;) {
        static const char named[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
        const char *which = point > 0 && point < 0x80 ? strchr(named, (int)point) : NULL;
        char bytes[4];
        if (which != NULL)
            trp_buffer_printf(out, "\\%c", letters[which - named]);
        else if (point < 0x20)
            trp_buffer_printf(out, "\\u%04lx", point);
        else
            trp_buffer_append(out, bytes, encode(point, bytes));
    }
    trp_buffer_append(out, "\"", 1);
}

typedef struct member {
    trp_json name, value;
} member;

static int compare_members(const void *a, const void *b)
{
    trp_json x = ((const member *)a)->name, y = ((const member *)b)->name;
    return compare_texts(x.at + 1, end_of(x), y.at + 1, end_of(y));
}

static troupe_status write_canonical(trp_json value, trp_buffer *out, int depth);

static troupe_status write_canonical_object(trp_json object, trp_buffer *out, int depth)
{
    size_t count = 0, i = 0;
    member next;
    for (trp_json at = {0}; trp_json_next_member(object, &at, &next.name, &next.value);)
        count++;
    member *members = (member *)trp_alloc((count + 1) * sizeof(member));
    if (members == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu members of JSON", count);
    for (trp_json at = {0}; trp_json_next_member(object, &at, &next.name, &next.value);)
        members[i++] = next;
    qsort(members, count, sizeof(*members), compare_members);
    troupe_status status = TROUPE_OK;
    trp_buffer_append(out, "{", 1);
    for (i = 0; i < count && status == TROUPE_OK; i++) {
        trp_buffer_append(out, ",", i > 0);
        write_canonical_text(members[i].name, out);
        trp_buffer_append(out, ":", 1);
        status = write_canonical(members[i].value, out, depth + 1);
    }
    trp_buffer_append(out, "}", 1);
    trp_free(members);
    return status;
}

static troupe_status write_canonical(trp_json value, trp_buffer *out, int depth)
{
    if (depth > TRP_JSON_DEPTH_MAX)
        return troupe_fail(TROUPE_MALFORMED, "JSON: nested deeper than %d levels",
                           TRP_JSON_DEPTH_MAX);
    if (trp_json_is_object(value))
        return write_canonical_object(value, out, depth);
    if (trp_json_is_text(value)) {
        write_canonical_text(value, out);
    } else if (trp_json_is_array(value)) {
        trp_buffer_append(out, "[", 1);
        bool first = true;
        for (trp_json item = {0}; trp_json_next_item(value, &item); first = false) {
            trp_buffer_append(out, ",", !first);
            TROUPE_TRY(write_canonical(item, out, depth + 1));
        }
        trp_buffer_append(out, "]", 1);
    } else if (begins_with(value, '-') || (value.size > 0 && is_digit(value.at[0]))) {
        return write_canonical_number(value, out);
    } else {
        trp_buffer_append(out, value.at, value.size);
    }
    return TROUPE_OK;
}

troupe_status trp_json_canonical(trp_json value, trp_buffer *out)
{
    TROUPE_TRY(write_canonical(value, out, 0));
    return out->failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a JSON text") : TROUPE_OK;
}
