// program_line.c: see program_line.h.
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <string.h>
#include <strings.h>
#include <train/program_line.h>

// ---- one line

// Most languages write NaN and the infinities as bare words, which JSON does not have ("NaN" and
// "-Infinity" in Python, "-nan" and "inf" in C): they become the texts that stand for them in the
// library's JSON. *length: of the word.
static const char *bare_word(const char *at, size_t left, size_t *length)
{
    static const struct {
        const char *word, *text, *negative;
    } words[] = {{"nan", "NaN", "NaN"},
                 {"infinity", "Infinity", "-Infinity"},
                 {"inf", "Infinity", "-Infinity"}};
    size_t sign = left > 0 && (*at == '-' || *at == '+');
    if (left == sign || !strchr("nNiI", at[sign]) || at[sign] == '\0')
        return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        *length = sign + strlen(words[i].word);
        if (left >= *length && strncasecmp(at + sign, words[i].word, *length - sign) == 0)
            return *at == '-' ? words[i].negative : words[i].text;
    }
    return NULL;
}

static void quote_words(const char *text, size_t size, trp_buffer *out)
{
    bool quoted = false;
    for (size_t i = 0, length; i < size;) {
        const char *word = quoted ? NULL : bare_word(text + i, size - i, &length);
        if (word) {
            trp_buffer_printf(out, "\"%s\"", word);
            i += length;
            continue;
        }
        size_t step = quoted && text[i] == '\\' && i + 1 < size ? 2 : 1;
        quoted = text[i] == '"' ? !quoted : quoted;
        trp_buffer_append(out, text + i, step);
        i += step;
    }
}

static bool is_word(trp_json value, const char *word)
{
    return value.size == strlen(word) && memcmp(value.at, word, value.size) == 0;
}

static troupe_status read_number(trp_json value, trp_arena *arena, const char *name, double *number)
{
    bool is_true = is_word(value, "true");
    if (is_true || is_word(value, "false")) {
        *number = is_true;
        return TROUPE_OK;
    }
    if (trp_json_is_null(value) ||
        trp_json_read(&troupe_type_double, value, arena, number) != TROUPE_OK)
        return troupe_fail(TROUPE_WRONG_TYPE, "metric '%.63s' is %.*s, expected a number", name,
                           value.size < 40 ? (int)value.size : 40, value.at);
    return TROUPE_OK;
}

static troupe_status read_name(trp_json name, trp_arena *arena, const char **text)
{
    *text = NULL;
    TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, name, arena, text));
    return *text ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a report");
}

static troupe_status read_metrics(trp_json metrics, trp_arena *arena, trp_program_said *said)
{
    trp_json at = {0}, name, value;
    if (!trp_json_is_object(metrics))
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "\"metrics\" is no object, as in {\"metrics\": {\"loss\": 0.5}}");
    while (trp_json_next_member(metrics, &at, &name, &value)) {
        troupe_metric *metric = &said->metrics[said->count];
        if (said->count == TRP_METRICS_MAX)
            return troupe_fail(TROUPE_INVALID, "there are more than %d metrics", TRP_METRICS_MAX);
        TROUPE_TRY(read_name(name, arena, &metric->name));
        if (!*metric->name || strlen(metric->name) > TRP_METRIC_NAME_MAX)
            return troupe_fail(TROUPE_INVALID,
                               "a metric has the name '%.80s', expected 1 to %d bytes",
                               metric->name, TRP_METRIC_NAME_MAX);
        TROUPE_TRY(read_number(value, arena, metric->name, &metric->value));
        said->count++;
    }
    return TROUPE_OK;
}

static troupe_status read_checkpoint(trp_json value, trp_arena *arena, trp_program_said *said)
{
    if (trp_json_is_null(value))
        return TROUPE_OK;
    if (!trp_json_is_text(value))
        return troupe_fail(TROUPE_WRONG_TYPE, "\"checkpoint\" is no text, which names a folder");
    TROUPE_TRY(read_name(value, arena, &said->checkpoint));
    return *said->checkpoint ? TROUPE_OK
                             : troupe_fail(TROUPE_INVALID, "\"checkpoint\" is empty, expected the "
                                                           "path of a folder");
}

static troupe_status read_members(trp_json line, trp_arena *arena, trp_program_said *said)
{
    trp_json at = {0}, name, value;
    if (!trp_json_is_object(line))
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "it is no object, as in {\"metrics\": {\"loss\": 0.5}}");
    while (trp_json_next_member(line, &at, &name, &value)) {
        if (trp_json_equals(name, "metrics"))
            TROUPE_TRY(read_metrics(value, arena, said));
        else if (trp_json_equals(name, "checkpoint"))
            TROUPE_TRY(read_checkpoint(value, arena, said));
        else if (!said->ignored)
            TROUPE_TRY(read_name(name, arena, &said->ignored));
    }
    return TROUPE_OK;
}

static troupe_status read_line(const char *text, size_t size,
                               troupe_status (*read)(trp_json, trp_arena *, trp_program_said *),
                               trp_arena *arena, trp_program_said *said)
{
    trp_buffer quoted = {0};
    trp_json line;
    *said = (trp_program_said){0};
    quote_words(text, size, &quoted);
    troupe_status status =
        quoted.failed
            ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a report")
            : trp_json_parse(quoted.size > 0 ? (const char *)quoted.data : "", quoted.size, &line);
    if (status == TROUPE_OK)
        status = read(line, arena, said);
    trp_buffer_free(&quoted);
    return status;
}

troupe_status trp_program_line_read(const char *text, size_t size, trp_arena *arena,
                                    trp_program_said *said)
{
    return read_line(text, size, read_members, arena, said);
}

// Texts are no numbers here, but for those that stand for NaN and the infinities.
static bool is_number(trp_json value)
{
    bool digits = value.size > 0 && strchr("-0123456789", value.at[0]) != NULL;
    return digits || is_word(value, "true") || is_word(value, "false") ||
           trp_json_equals(value, "NaN") || trp_json_equals(value, "Infinity") ||
           trp_json_equals(value, "-Infinity");
}

static troupe_status read_numbers(trp_json line, trp_arena *arena, trp_program_said *said)
{
    trp_json at = {0}, name, value;
    while (said->count < TRP_METRICS_MAX && trp_json_next_member(line, &at, &name, &value)) {
        troupe_metric *metric = &said->metrics[said->count];
        if (!is_number(value))
            continue;
        TROUPE_TRY(read_name(name, arena, &metric->name));
        if (!*metric->name || strlen(metric->name) > TRP_METRIC_NAME_MAX)
            continue;
        TROUPE_TRY(read_number(value, arena, metric->name, &metric->value));
        said->count++;
    }
    return TROUPE_OK;
}

bool trp_program_line_has_numbers(const char *text, size_t size, trp_arena *arena,
                                  trp_program_said *said)
{
    size_t blank = 0;
    while (blank < size && (text[blank] == ' ' || text[blank] == '\t'))
        blank++;
    if (blank == size || text[blank] != '{')
        return false;
    troupe_error kept;
    trp_error_hold(&kept);
    bool has = read_line(text, size, read_numbers, arena, said) == TROUPE_OK && said->count > 0;
    trp_error_restore(&kept);
    return has;
}

bool trp_program_line_is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr(" \t\r", text[i]) || text[i] == '\0')
            return false;
    return true;
}

// ---- lines of bytes

static void keep(trp_program_lines *lines, const char *data, size_t size)
{
    if (lines->too_long || size == 0)
        return;
    if (lines->size + size > lines->room) {
        size_t room = lines->room ? lines->room : 256;
        while (room < lines->size + size)
            room *= 2;
        char *more = lines->size + size <= TRP_PROGRAM_LINE_MAX
                         ? (char *)trp_realloc(lines->text, room)
                         : NULL;
        if (!more) {
            lines->too_long = true;
            return;
        }
        lines->text = more;
        lines->room = room;
    }
    memcpy(lines->text + lines->size, data, size);
    lines->size += size;
}

static void hand_over(trp_program_lines *lines)
{
    size_t size = lines->size;
    bool too_long = lines->too_long;
    lines->size = 0;
    lines->too_long = false;
    if (too_long)
        lines->take(lines->user, NULL, 0);
    else
        lines->take(lines->user, size > 0 ? lines->text : "", size);
}

void trp_program_lines_add(trp_program_lines *lines, const char *data, size_t size)
{
    while (size > 0) {
        const char *end = (const char *)memchr(data, '\n', size);
        size_t part = end ? (size_t)(end - data) : size;
        keep(lines, data, part);
        if (!end)
            return;
        hand_over(lines);
        data += part + 1;
        size -= part + 1;
    }
}

void trp_program_lines_end(trp_program_lines *lines)
{
    if (lines->size > 0 || lines->too_long)
        hand_over(lines);
    trp_free(lines->text);
    lines->text = NULL;
    lines->room = 0;
}
