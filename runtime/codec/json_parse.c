// json_parse.c: JSON texts that are checked once, and walked without a tree.
#include <runtime/codec/json_internal.h>

#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// What ends a number or a word.
static bool is_end(char c)
{
    return c == ',' || c == ':' || c == ']' || c == '}';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
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
        int digit = trp_json_is_digit(c)   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

long trp_json_code_point(const char **at, const char *end)
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

int trp_json_compare(const char *a, const char *a_end, const char *b, const char *b_end)
{
    for (;;) {
        long x = trp_json_code_point(&a, a_end), y = trp_json_code_point(&b, b_end);
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
    if (c->at >= c->end || !trp_json_is_digit(*c->at))
        return refuse(c, c->at, "a digit");
    while (c->at < c->end && trp_json_is_digit(*c->at))
        c->at++;
    return TROUPE_OK;
}

static troupe_status check_number(checking *c)
{
    const char *start = c->at;
    c->at += *c->at == '-';
    if (c->at < c->end && *c->at == '0') {
        c->at++;
        if (c->at < c->end && trp_json_is_digit(*c->at))
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
    return trp_json_compare(x->at + 1, x->end, y->at + 1, y->end);
}

static troupe_status note_name(checking *c, const char *at)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const char *p = at + 1;
    for (long point; (point = trp_json_code_point(&p, c->at)) >= 0;)
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
        return head == '-' || trp_json_is_digit(head) ? check_number(c)
                                                      : refuse(c, c->at, "a value");
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

bool trp_json_is_object(trp_json value)
{
    return trp_json_begins(value, '{');
}

bool trp_json_is_array(trp_json value)
{
    return trp_json_begins(value, '[');
}

bool trp_json_is_text(trp_json value)
{
    return trp_json_begins(value, '"');
}

bool trp_json_is_null(trp_json value)
{
    return trp_json_begins(value, 'n');
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
            while (at < end && !is_space(*at) && !is_end(*at))
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
    const char *end = container.size > 0 ? trp_json_end(container) - 1 : trp_json_end(container);
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
    *item = next_value(array, item->at == NULL ? array.at + 1 : trp_json_end(*item));
    return item->size > 0;
}

bool trp_json_next_member(trp_json object, trp_json *at, trp_json *name, trp_json *value)
{
    if (!trp_json_is_object(object))
        return false;
    trp_json next = next_value(object, at->at == NULL ? object.at + 1 : trp_json_end(*at));
    *at = next_value(object, trp_json_end(next));
    if (next.size == 0 || at->size == 0)
        return false;
    *name = next;
    *value = *at;
    return true;
}

size_t trp_json_encode(long point, char out[4])
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
    for (long point; (point = trp_json_code_point(&at, trp_json_end(value))) >= 0;) {
        char bytes[4];
        size_t size = trp_json_encode(point, bytes);
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
