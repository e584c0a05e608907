// lines.c: see tune/study/lines.h.
#include <tune/study/lines.h>

#include <inttypes.h>
#include <math.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"study",  "warm", "suggest", "again", "over",
                                    "report", "end",  "extend",  "space", "exhausted"};
static const char *const endings[] = {"complete", "stopped", "failed"};
static const char *const acts[] = {"go on", "stop", "end", "pause", "clone", "resize"};

const char *trp_ending_name(troupe_ending ending)
{
    return endings[ending];
}

// ---- writing

void trp_line_numbers(trp_buffer *out, const double *numbers, size_t count)
{
    trp_buffer_append(out, "[", 1);
    for (size_t i = 0; i < count; i++) {
        trp_buffer_append(out, ", ", i == 0 ? 0 : 2);
        trp_json_number(out, numbers[i]);
    }
    trp_buffer_append(out, "]", 1);
}

static void member(trp_buffer *out, const char *name)
{
    trp_buffer_append(out, ", \"", 3);
    trp_buffer_append(out, name, strlen(name));
    trp_buffer_append(out, "\": ", 3);
}

static void number(trp_buffer *out, const char *name, double value)
{
    member(out, name);
    trp_json_number(out, value);
}

static void begin(trp_buffer *out, trp_line_kind kind)
{
    static const char event[] = "{\"event\": \"";
    trp_buffer_append(out, event, sizeof event - 1);
    trp_buffer_append(out, kinds[kind], strlen(kinds[kind]));
    trp_buffer_append(out, "\"", 1);
}

// What a searcher calls itself once it has begun, where it has chosen others by the space.
static void add_chosen(const troupe_study *study, trp_buffer *out)
{
    if (strcmp(study->searcher->name, study->searcher_name) == 0)
        return;
    member(out, "chosen");
    trp_json_text(out, study->searcher->name);
}

void trp_line_study(const troupe_study *study, int warm, trp_buffer *out)
{
    begin(out, TRP_LINE_STUDY);
    number(out, "version", TRP_STUDY_VERSION);
    member(out, "space");
    trp_space_describe(study->space, out);
    member(out, "goals");
    for (size_t i = 0; i < study->objectives; i++)
        trp_buffer_printf(out, "%s\"%s\"", i == 0 ? "[" : ", ",
                          study->goals[i] == TROUPE_MAXIMIZE ? "maximize" : "minimize");
    trp_buffer_append(out, "]", 1);
    member(out, "searcher");
    trp_json_text(out, study->searcher_name);
    add_chosen(study, out);
    member(out, "scheduler");
    trp_json_text(out, study->scheduler_name);
    member(out, "seed");
    trp_buffer_printf(out, "%" PRIu64, study->problem.seed);
    number(out, "trials", study->trials);
    if (study->first_count > 0) {
        member(out, "first");
        trp_buffer_append(out, "[", 1);
        for (int i = 0; i < study->first_count; i++) {
            trp_buffer_append(out, ", ", i == 0 ? 0 : 2);
            trp_line_numbers(out, study->first + (size_t)i * study->dim_count, study->dim_count);
        }
        trp_buffer_append(out, "]", 1);
    }
    if (warm > 0)
        number(out, "warm", warm);
}

static void begin_end(const troupe_study *study, trp_line_kind kind, const trp_study_ended *end,
                      trp_buffer *out)
{
    begin(out, kind);
    number(out, "trial", end->trial);
    member(out, "ending");
    trp_json_text(out, endings[end->ending]);
    if (end->values != NULL) {
        member(out, "values");
        trp_line_numbers(out, end->values, study->objectives);
    }
    if (end->violation != 0)
        number(out, "violation", end->violation);
    if (end->error != NULL) {
        member(out, "error");
        trp_json_text(out, end->error);
    }
}

void trp_line_warm(const troupe_study *study, const trp_study_ended *end, int reports,
                   const double *x, trp_buffer *out)
{
    begin_end(study, TRP_LINE_WARM, end, out);
    number(out, "reports", reports);
    member(out, "x");
    trp_line_numbers(out, x, study->dim_count);
}

void trp_line_suggest(const troupe_study *study, int trial, const double *x, trp_buffer *out)
{
    begin(out, TRP_LINE_SUGGEST);
    number(out, "trial", trial);
    member(out, "x");
    trp_line_numbers(out, x, study->dim_count);
    member(out, "params");
    trp_space_write_point(study->space, x, out);
}

void trp_line_report(const troupe_study *study, const trp_study_report *report, const char *more,
                     trp_buffer *out)
{
    begin(out, TRP_LINE_REPORT);
    number(out, "trial", report->trial);
    number(out, "number", report->number);
    member(out, "values");
    trp_line_numbers(out, report->values, study->objectives);
    number(out, "elapsed_s", report->elapsed_s);
    number(out, "ranks", report->ranks);
    if (more != NULL)
        trp_buffer_append(out, more, strlen(more));
}

void trp_line_verdict(const troupe_study *study, const troupe_verdict *verdict, trp_buffer *out)
{
    if (verdict->act == TROUPE_ACT_GO_ON)
        return;
    member(out, "act");
    trp_json_text(out, acts[verdict->act]);
    if (verdict->act == TROUPE_ACT_CLONE) {
        number(out, "source", verdict->source);
        member(out, "point");
        trp_line_numbers(out, verdict->x, study->dim_count);
    }
    if (verdict->act == TROUPE_ACT_RESIZE)
        number(out, "to_ranks", verdict->ranks);
}

void trp_line_next(const char *event, int trial, bool fresh, trp_buffer *out)
{
    trp_buffer_printf(out, "{\"event\": \"%s\", \"trial\": %d, \"fresh\": %s", event, trial,
                      fresh ? "true" : "false");
}

void trp_line_end(const troupe_study *study, const trp_study_ended *end, const char *more,
                  trp_buffer *out)
{
    begin_end(study, TRP_LINE_END, end, out);
    if (more != NULL)
        trp_buffer_append(out, more, strlen(more));
}

void trp_line_extend(int trials, trp_buffer *out)
{
    begin(out, TRP_LINE_EXTEND);
    number(out, "trials", trials);
}

void trp_line_space(const troupe_study *study, trp_json before, trp_buffer *out)
{
    begin(out, TRP_LINE_SPACE);
    member(out, "space");
    trp_space_describe(study->space, out);
    member(out, "before");
    trp_buffer_append(out, before.at, before.size);
    add_chosen(study, out);
}

void trp_line_exhausted(trp_buffer *out)
{
    begin(out, TRP_LINE_EXHAUSTED);
}

bool trp_line_reserve(const troupe_study *study, trp_buffer *out)
{
    enum { NEXT_ROOM = 256 };
    return trp_buffer_reserve(out, NEXT_ROOM + study->dim_count * TRP_NUMBER_ROOM);
}

// ---- reading

troupe_status trp_line_open(trp_line *line, size_t dims, size_t objectives)
{
    double *room = trp_alloc((2 * dims + objectives + 1) * sizeof *room);
    if (room == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a line of a study");
    *line = (trp_line){.x = room, .cloned = room + dims, .values = room + 2 * dims};
    return TROUPE_OK;
}

void trp_line_close(trp_line *line)
{
    trp_free(line->x);
    *line = (trp_line){0};
}

// A number, most of which are written as strtod reads them.
static bool read_double(trp_json value, double *number)
{
    char text[TRP_NUMBER_ROOM];
    if (value.size < sizeof text && value.at[0] != '"') {
        memcpy(text, value.at, value.size);
        text[value.size] = '\0';
        char *end;
        *number = strtod(text, &end);
        if (end == text + value.size && isfinite(*number))
            return true;
    }
    bool is = !trp_json_is_null(value) &&
              trp_json_read(&troupe_type_double, value, NULL, number) == TROUPE_OK;
    return is;
}

static troupe_status not_a(const char *name, const char *what)
{
    return troupe_fail(TROUPE_MALFORMED, "\"%s\" is not %s", name, what);
}

troupe_status trp_line_read_numbers(trp_json array, const char *name, double *numbers, size_t count)
{
    trp_json item = {0};
    size_t have = 0;
    while (trp_json_next_item(array, &item)) {
        if (have == count || !read_double(item, &numbers[have]))
            have = count + 1;
        have++;
        if (have > count)
            break;
    }
    if (!trp_json_is_array(array) || have != count)
        return troupe_fail(TROUPE_MALFORMED, "\"%s\" is not an array of %zu numbers", name, count);
    return TROUPE_OK;
}

troupe_status trp_line_read_int(trp_json value, const char *name, int *number)
{
    double read;
    if (!read_double(value, &read) || read != trunc(read) || fabs(read) > INT32_MAX)
        return not_a(name, "a whole number");
    *number = (int)read;
    return TROUPE_OK;
}

static troupe_status read_real(trp_json value, const char *name, double *number)
{
    return read_double(value, number) ? TROUPE_OK : not_a(name, "a number");
}

static bool index_of(trp_json value, const char *const *names, size_t count, int *index)
{
    for (size_t i = 0; i < count; i++) {
        if (trp_json_equals(value, names[i])) {
            *index = (int)i;
            return true;
        }
    }
    return false;
}

#define NAMES(names) names, sizeof(names) / sizeof *(names)

static troupe_status read_act(trp_json value, trp_line *line)
{
    int act;
    if (!index_of(value, NAMES(acts), &act))
        return not_a("act", "what a scheduler says");
    line->verdict.act = (troupe_act)act;
    return TROUPE_OK;
}

static troupe_status read_ending(trp_json value, trp_line *line)
{
    int ending;
    if (!index_of(value, NAMES(endings), &ending))
        return not_a("ending", "how a trial ends");
    line->ending = (troupe_ending)ending;
    line->has |= TRP_HAS_ENDING;
    return TROUPE_OK;
}

static bool is(trp_json name, const char *text, size_t size)
{
    return name.size == size + 2 && memcmp(name.at + 1, text, size) == 0;
}
#define IS(text) is(name, text, sizeof(text) - 1)

static troupe_status read_member(trp_json name, trp_json value, size_t dims, size_t objectives,
                                 trp_line *line)
{
    unsigned *has = &line->has;
    if (IS("trial"))
        return *has |= TRP_HAS_TRIAL, trp_line_read_int(value, "trial", &line->trial);
    if (IS("x"))
        return *has |= TRP_HAS_X, trp_line_read_numbers(value, "x", line->x, dims);
    if (IS("values"))
        return *has |= TRP_HAS_VALUES,
               trp_line_read_numbers(value, "values", line->values, objectives);
    if (IS("number"))
        return *has |= TRP_HAS_NUMBER, trp_line_read_int(value, "number", &line->number);
    if (IS("elapsed_s"))
        return read_real(value, "elapsed_s", &line->elapsed_s);
    if (IS("ranks"))
        return trp_line_read_int(value, "ranks", &line->ranks);
    if (IS("act"))
        return read_act(value, line);
    if (IS("source"))
        return trp_line_read_int(value, "source", &line->verdict.source);
    if (IS("point"))
        return *has |= TRP_HAS_CLONED, trp_line_read_numbers(value, "point", line->cloned, dims);
    if (IS("to_ranks"))
        return trp_line_read_int(value, "to_ranks", &line->verdict.ranks);
    if (IS("ending"))
        return read_ending(value, line);
    if (IS("violation"))
        return read_real(value, "violation", &line->violation);
    if (IS("reports"))
        return trp_line_read_int(value, "reports", &line->reports);
    if (IS("trials"))
        return *has |= TRP_HAS_TRIALS, trp_line_read_int(value, "trials", &line->trials);
    if (IS("error"))
        line->error = value;
    if (IS("params"))
        line->params = value;
    if (IS("fresh")) {
        *has |= TRP_HAS_FRESH;
        line->fresh = value.size == 4;
    }
    return TROUPE_OK;
}

// As another program may have written it: with other spaces, or its members in another order.
static trp_line_kind kind_of_any(const char *text, size_t size)
{
    trp_json whole, event;
    int kind;
    if (trp_json_parse(text, size, &whole) != TROUPE_OK ||
        !trp_json_member(whole, "event", &event) || !index_of(event, NAMES(kinds), &kind))
        return TRP_LINE_OTHER;
    return (trp_line_kind)kind;
}

trp_line_kind trp_line_kind_of(const char *text, size_t size)
{
    static const char event[] = "{\"event\": \"";
    size_t before = sizeof event - 1;
    if (size <= before || memcmp(text, event, before) != 0)
        return kind_of_any(text, size);
    for (size_t i = 0; i < TRP_LINE_OTHER; i++) {
        size_t length = strlen(kinds[i]);
        if (size > before + length && memcmp(text + before, kinds[i], length) == 0 &&
            text[before + length] == '"')
            return (trp_line_kind)i;
    }
    return TRP_LINE_OTHER;
}

// What a line of each kind must have.
static const unsigned needs[] = {
    [TRP_LINE_WARM] = TRP_HAS_TRIAL | TRP_HAS_X | TRP_HAS_ENDING | TRP_HAS_VALUES,
    [TRP_LINE_SUGGEST] = TRP_HAS_TRIAL | TRP_HAS_X,
    [TRP_LINE_AGAIN] = TRP_HAS_TRIAL | TRP_HAS_FRESH,
    [TRP_LINE_OVER] = TRP_HAS_TRIAL | TRP_HAS_FRESH,
    [TRP_LINE_REPORT] = TRP_HAS_TRIAL | TRP_HAS_NUMBER | TRP_HAS_VALUES,
    [TRP_LINE_END] = TRP_HAS_TRIAL | TRP_HAS_ENDING,
    [TRP_LINE_EXTEND] = TRP_HAS_TRIALS,
    [TRP_LINE_SPACE] = 0,
    [TRP_LINE_EXHAUSTED] = 0,
    [TRP_LINE_OTHER] = 0,
};

troupe_status trp_line_read(const char *text, size_t size, size_t dims, size_t objectives,
                            trp_line *line)
{
    trp_json whole, at = {0}, name, value;
    *line = (trp_line){.kind = trp_line_kind_of(text, size),
                       .x = line->x,
                       .values = line->values,
                       .cloned = line->cloned,
                       .verdict = {.size = sizeof line->verdict, .source = -1, .x = line->cloned}};
    TROUPE_TRY(trp_json_parse(text, size, &whole));
    if (line->kind == TRP_LINE_OTHER || line->kind == TRP_LINE_STUDY ||
        line->kind == TRP_LINE_SPACE)
        return TROUPE_OK;
    while (trp_json_next_member(whole, &at, &name, &value))
        TROUPE_TRY(read_member(name, value, dims, objectives, line));
    unsigned lacks = needs[line->kind] & ~line->has;
    if (lacks != 0)
        return troupe_fail(TROUPE_MALFORMED, "it lacks \"%s\"",
                           lacks & TRP_HAS_TRIAL    ? "trial"
                           : lacks & TRP_HAS_X      ? "x"
                           : lacks & TRP_HAS_VALUES ? "values"
                           : lacks & TRP_HAS_NUMBER ? "number"
                           : lacks & TRP_HAS_ENDING ? "ending"
                           : lacks & TRP_HAS_FRESH  ? "fresh"
                                                    : "trials");
    return TROUPE_OK;
}
