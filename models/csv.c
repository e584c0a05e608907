// csv.c: see csv.h.
#include <models/csv.h>

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SHOWN = 40,     // Bytes of a field in a text.
    LIST_MAX = 300, // Bytes of names in one.
    NUMBER_MAX = 400,
};

typedef struct field {
    const char *at; // Without its quotes.
    size_t size;
    bool doubled; // It has quotes, as two.
} field;

typedef struct cursor {
    const char *path, *at, *end;
    char separator;
    size_t line;   // Where `at` is,
    size_t number; // and of the next field in its record.
} cursor;

static troupe_status no_memory(const char *path)
{
    return troupe_fail(TROUPE_NO_MEMORY, "%s: no memory for its fields", path);
}

// ---- records and fields

static bool ends_line(const char *at, const char *end)
{
    return *at == '\n' || (*at == '\r' && at + 1 < end && at[1] == '\n');
}

// Goes to the next record. False: there is none.
static bool next_record(cursor *c)
{
    while (c->at < c->end && ends_line(c->at, c->end)) {
        c->at += *c->at == '\r' ? 2 : 1;
        c->line++;
    }
    c->number = 1;
    return c->at < c->end;
}

// At the opening quote. Ends behind the closing one.
static troupe_status read_quoted(cursor *c, field *f)
{
    size_t line = c->line;
    const char *at = c->at + 1;
    *f = (field){.at = at};
    for (; at < c->end; at++) {
        c->line += *at == '\n';
        if (*at != '"')
            continue;
        if (at + 1 == c->end || at[1] != '"')
            break;
        f->doubled = true;
        at++;
    }
    if (at == c->end)
        return troupe_fail(TROUPE_MALFORMED, "%s: line %zu, field %zu: its quote is not closed",
                           c->path, line, c->number);
    f->size = (size_t)(at - f->at);
    c->at = at + 1;
    if (c->at < c->end && *c->at != c->separator && !ends_line(c->at, c->end))
        return troupe_fail(TROUPE_MALFORMED,
                           "%s: line %zu, field %zu: '%.1s' follows its closing quote: expected "
                           "'%c' or the end of the line",
                           c->path, c->line, c->number, c->at, c->separator);
    return TROUPE_OK;
}

// Reads the next field, and goes behind what ends it. *last: that was the end of the record.
static troupe_status next_field(cursor *c, field *f, bool *last)
{
    if (c->at < c->end && *c->at == '"') {
        TROUPE_TRY(read_quoted(c, f));
    } else {
        const char *at = c->at;
        while (at < c->end && *at != c->separator && *at != '\n')
            at++;
        bool returns = at < c->end && *at == '\n' && at > c->at && at[-1] == '\r';
        *f = (field){.at = c->at, .size = (size_t)(at - c->at) - returns};
        c->at = at - returns;
    }
    *last = c->at == c->end || *c->at != c->separator;
    if (!*last) {
        c->at++;
        c->number++;
    } else if (c->at < c->end) {
        c->at += *c->at == '\r' ? 2 : 1;
        c->line++;
    }
    return TROUPE_OK;
}

static field trimmed(field f)
{
    while (f.size > 0 && (*f.at == ' ' || *f.at == '\t')) {
        f.at++;
        f.size--;
    }
    while (f.size > 0 && (f.at[f.size - 1] == ' ' || f.at[f.size - 1] == '\t'))
        f.size--;
    return f;
}

// The text of a field in the arena; NULL: no memory.
static const char *text_of(field f, trp_arena *arena)
{
    f = trimmed(f);
    char *text = (char *)trp_arena_alloc(arena, f.size + 1), *to = text;
    for (size_t i = 0; text && i < f.size; i++) {
        *to++ = f.at[i];
        i += f.doubled && f.at[i] == '"';
    }
    return text;
}

static cursor begin(const trp_csv *csv)
{
    return (cursor){.path = csv->path,
                    .at = csv->records,
                    .end = csv->end,
                    .separator = csv->separator,
                    .line = csv->line,
                    .number = 1};
}

// ---- opening

static troupe_status read_names(cursor *c, trp_arena *arena, trp_csv *csv)
{
    size_t room = 0;
    const char **names = NULL;
    bool last = false;
    while (!last) {
        field f;
        TROUPE_TRY(next_field(c, &f, &last));
        if (csv->fields == room) {
            const char **more =
                (const char **)trp_arena_alloc(arena, (2 * room + 16) * sizeof *more);
            if (!more)
                return no_memory(csv->path);
            if (room > 0)
                memcpy(more, names, room * sizeof *more);
            names = more;
            room = 2 * room + 16;
        }
        names[csv->fields] = text_of(f, arena);
        if (!names[csv->fields++])
            return no_memory(csv->path);
    }
    csv->names = names;
    return TROUPE_OK;
}

// Counts the records, which all have as many fields.
static troupe_status count_rows(trp_csv *csv)
{
    cursor c = begin(csv);
    while (next_record(&c)) {
        size_t line = c.line, fields = 0;
        for (bool last = false; !last; fields++) {
            field f;
            TROUPE_TRY(next_field(&c, &f, &last));
        }
        if (csv->fields == 0)
            csv->fields = fields;
        if (fields != csv->fields)
            return troupe_fail(TROUPE_MALFORMED, "%s: line %zu has %zu field%s: expected %zu",
                               csv->path, line, fields, fields == 1 ? "" : "s", csv->fields);
        csv->rows++;
    }
    return TROUPE_OK;
}

troupe_status trp_csv_open(const char *path, const void *text, size_t size, char separator,
                           bool headless, trp_arena *arena, trp_csv *csv)
{
    const char *at = (const char *)text;
    if (size >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) { // A byte order mark.
        at += 3;
        size -= 3;
    }
    trp_csv made = {
        .path = path, .separator = separator, .records = at, .end = at + size, .line = 1};
    cursor c = begin(&made);
    if (!next_record(&c))
        return troupe_fail(TROUPE_MALFORMED, "%s: it is empty: expected %s", path,
                           headless ? "records" : "a line of names, and records");
    if (!headless)
        TROUPE_TRY(read_names(&c, arena, &made));
    made.records = c.at;
    made.line = c.line;
    TROUPE_TRY(count_rows(&made));
    *csv = made;
    return TROUPE_OK;
}

// ---- choosing fields

static troupe_status no_such_field(const trp_csv *csv, const char *name)
{
    if (!csv->names)
        return troupe_fail(TROUPE_NOT_FOUND,
                           "%s has no field '%.80s': it has no names, and fields 1 to %zu",
                           csv->path, name, csv->fields);
    char list[LIST_MAX] = "";
    size_t used = 0;
    for (size_t i = 0; i < csv->fields; i++) {
        const char *comma = i > 0 ? ", " : "", *next = csv->names[i];
        if (used + strlen(comma) + strlen(next) + sizeof ", ..." > sizeof list) {
            memcpy(list + used, ", ...", sizeof ", ...");
            break;
        }
        used = (size_t)(stpcpy(stpcpy(list + used, comma), next) - list);
    }
    return troupe_fail(TROUPE_NOT_FOUND, "%s has no field '%.80s': it has %s", csv->path, name,
                       list);
}

static bool find_number(const trp_csv *csv, const char *name, size_t *found)
{
    size_t number = 0;
    for (const char *at = name; *at; at++) {
        if (*at < '0' || *at > '9' || number > csv->fields)
            return false;
        number = 10 * number + (size_t)(*at - '0');
    }
    *found = number - 1;
    return number >= 1 && number <= csv->fields;
}

static bool find_name(const trp_csv *csv, const char *name, size_t *found)
{
    if (!csv->names)
        return find_number(csv, name, found);
    for (size_t i = 0; i < csv->fields; i++)
        if (strcmp(csv->names[i], name) == 0) {
            *found = i;
            return true;
        }
    return false;
}

// A field, or those from one to another.
static troupe_status find_fields(const trp_csv *csv, char *name, size_t *first, size_t *last)
{
    *last = 0;
    if (find_name(csv, name, first)) {
        *last = *first;
        return TROUPE_OK;
    }
    char *dots = strstr(name, "..");
    if (!dots)
        return no_such_field(csv, name);
    *dots = '\0';
    if (!find_name(csv, name, first))
        return no_such_field(csv, name);
    if (!find_name(csv, dots + 2, last))
        return no_such_field(csv, dots + 2);
    if (*last < *first)
        return troupe_fail(TROUPE_INVALID, "%s: the field '%.80s' is not before '%.80s'", csv->path,
                           name, dots + 2);
    return TROUPE_OK;
}

typedef struct choice {
    size_t *fields;
    size_t count, room;
} choice;

static troupe_status choose(const trp_csv *csv, trp_arena *arena, size_t first, size_t last,
                            choice *chosen)
{
    size_t more = last - first + 1;
    if (more > chosen->room - chosen->count) {
        size_t room = 2 * chosen->room + more;
        size_t *fields = (size_t *)trp_arena_alloc(arena, room * sizeof *fields);
        if (!fields)
            return no_memory(csv->path);
        if (chosen->count > 0)
            memcpy(fields, chosen->fields, chosen->count * sizeof *fields);
        chosen->fields = fields;
        chosen->room = room;
    }
    while (more-- > 0)
        chosen->fields[chosen->count++] = first++;
    return TROUPE_OK;
}

troupe_status trp_csv_select(const trp_csv *csv, const char *list, trp_arena *arena,
                             const size_t **fields, size_t *count)
{
    choice chosen = {0};
    bool last = list == NULL;
    if (!list)
        TROUPE_TRY(choose(csv, arena, 0, csv->fields - 1, &chosen));
    cursor c = {.path = "the list of fields", .separator = ',', .line = 1, .number = 1};
    c.at = list;
    c.end = list ? list + strlen(list) : NULL;
    while (!last) {
        field f;
        size_t from = 0, to = 0;
        while (c.at < c.end && *c.at == ' ') // Before a quote.
            c.at++;
        TROUPE_TRY(next_field(&c, &f, &last));
        char *name = (char *)(uintptr_t)text_of(f, arena);
        if (!name)
            return no_memory(csv->path);
        TROUPE_TRY(find_fields(csv, name, &from, &to));
        TROUPE_TRY(choose(csv, arena, from, to, &chosen));
    }
    *fields = chosen.fields;
    *count = chosen.count;
    return TROUPE_OK;
}

// ---- numbers

// Digits, as many as a double has exactly; `scale` is how far the point is behind the last one.
typedef struct decimal {
    bool negative, exact;
    uint64_t digits;
    long scale;
} decimal;

static const char *read_digits(const char *at, const char *end, bool behind_point, decimal *number)
{
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (number->digits > (UINT64_C(1) << 53) / 10 - 1) {
            number->exact = false;
            continue;
        }
        number->digits = 10 * number->digits + (uint64_t)(*at - '0');
        number->scale -= behind_point;
    }
    return at;
}

static const char *read_exponent(const char *at, const char *end, decimal *number)
{
    enum { ENOUGH = 100000 };
    long exponent = 0;
    bool negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    const char *first = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        exponent = exponent > ENOUGH ? exponent : 10 * exponent + (*at - '0');
    number->scale += negative ? -exponent : exponent;
    return at > first ? at : NULL;
}

// False: it is no number in decimal notation.
static bool read_decimal(const char *at, const char *end, decimal *number)
{
    *number = (decimal){.exact = true, .negative = at < end && *at == '-'};
    at += at < end && (*at == '-' || *at == '+');
    const char *first = at;
    at = read_digits(at, end, false, number);
    size_t digits = (size_t)(at - first);
    if (at < end && *at == '.') {
        first = at + 1;
        at = read_digits(first, end, true, number);
        digits += (size_t)(at - first);
    }
    if (digits > 0 && at < end && (*at == 'e' || *at == 'E'))
        at = read_exponent(at + 1, end, number);
    return digits > 0 && at == end;
}

// By strtod, as in the C locale, whatever that of the program.
static locale_t plain_locale;
static void make_locale(void)
{
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool read_slowly(field f, double *value)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char copy[NUMBER_MAX + 1];
    pthread_once(&once, make_locale);
    if (f.size > NUMBER_MAX || plain_locale == (locale_t)0)
        return false;
    memcpy(copy, f.at, f.size);
    copy[f.size] = '\0';
    *value = strtod_l(copy, NULL, plain_locale);
    return isfinite(*value);
}

// A power of ten up to 10^22, and digits below 2^53, are doubles: so what comes of them is rounded
// once, as it has to be (Clinger, "How to Read Floating Point Numbers Accurately", PLDI 1990).
static bool read_real(field f, double *value)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    decimal number;
    if (f.size == 3 && strncasecmp(f.at, "nan", 3) == 0) {
        *value = (double)NAN;
        return true;
    }
    if (!read_decimal(f.at, f.at + f.size, &number)) {
        bool negative = f.size == 4 && *f.at == '-';
        *value = negative ? -HUGE_VAL : HUGE_VAL;
        return f.size == 3u + negative && strncasecmp(f.at + negative, "inf", 3) == 0;
    }
    if (!number.exact || number.scale < -22 || number.scale > 22)
        return read_slowly(f, value);
    double digits = (double)number.digits;
    digits = number.scale < 0 ? digits / powers[-number.scale] : digits * powers[number.scale];
    *value = number.negative ? -digits : digits;
    return true;
}

static bool read_integer(field f, int64_t *value)
{
    bool negative = f.size > 0 && *f.at == '-';
    size_t i = f.size > 0 && (negative || *f.at == '+');
    int64_t number = 0;
    bool good = i < f.size;
    for (; i < f.size && good; i++) {
        int digit = f.at[i] - '0';
        good = digit >= 0 && digit <= 9 && !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_sub_overflow(number, digit, &number); // The least has no positive.
    }
    if (good && !negative)
        good = !__builtin_sub_overflow(0, number, &number);
    *value = number;
    return good;
}

static bool write_number(field f, troupe_dtype dtype, size_t at, void *out)
{
    double real = 0;
    f = trimmed(f);
    if (f.size == 0)
        return false;
    if (dtype == TROUPE_INT64)
        return read_integer(f, (int64_t *)out + at);
    if (!read_real(f, &real))
        return false;
    if (dtype == TROUPE_FLOAT64) {
        ((double *)out)[at] = real;
        return true;
    }
    float narrow = (float)real;
    ((float *)out)[at] = narrow;
    return isfinite(narrow) || !isfinite(real);
}

static troupe_status not_a_number(const trp_csv *csv, size_t line, size_t number, field f,
                                  troupe_dtype dtype)
{
    int shown = f.size < SHOWN ? (int)f.size : SHOWN;
    const char *name = csv->names ? csv->names[number] : "";
    return troupe_fail(TROUPE_MALFORMED,
                       "%s: line %zu, field %zu%s%.60s%s: '%.*s' where a number (%s) was expected",
                       csv->path, line, number + 1, *name ? " (" : "", name, *name ? ")" : "",
                       shown, f.at, troupe_dtype_text(dtype));
}

troupe_status trp_csv_read(const trp_csv *csv, const size_t *fields, size_t count,
                           troupe_dtype dtype, void *out)
{
    trp_arena arena = {0};
    troupe_status status = TROUPE_OK;
    cursor c = begin(csv);
    field *record = (field *)trp_arena_alloc(&arena, csv->fields * sizeof *record);
    if (!record)
        return no_memory(csv->path);
    for (size_t at = 0; status == TROUPE_OK && next_record(&c);) {
        size_t line = c.line;
        bool last = false;
        for (size_t i = 0; status == TROUPE_OK && i < csv->fields; i++)
            status = next_field(&c, &record[i], &last);
        for (size_t i = 0; status == TROUPE_OK && i < count; i++, at++)
            if (!write_number(record[fields[i]], dtype, at, out))
                status = not_a_number(csv, line, fields[i], record[fields[i]], dtype);
    }
    trp_arena_clear(&arena);
    return status;
}
