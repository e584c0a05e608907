// derived_text.c: the pure part of derived.h: what a line of the journal becomes.
#include <train/derived.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <train/report_event.h>
#include <train/tensorboard.h>

// Of those lines that count here.
TROUPE_STRUCT(derived_line, (troupe_text, event), (int, report), (double, elapsed_s),
              (troupe_text, checkpoint), (troupe_text, at), (bool, saving));

typedef struct report {
    troupe_report_event event; // Its checkpoint is a name.
    double since_s, wall_s;    // `since_s`: the last one.
} report;

struct trp_derived_row {
    trp_derived_row *next;
    report report; // What it points to lies behind the row.
    char checkpoint[64];
    bool waits; // For its checkpoint; else for one before it.
};

// "2026-11-24T12:00:00.123Z" in seconds since 1970.
static double seconds_of(const char *at)
{
    struct tm date = {0};
    const char *rest = at != NULL ? strptime(at, "%Y-%m-%dT%H:%M:%S", &date) : NULL;
    double fraction = 0;
    if (rest == NULL)
        return 0;
    if (*rest == '.')
        (void)sscanf(rest, "%lf", &fraction);
    return (double)timegm(&date) + fraction;
}

static bool has_metric(const report *it, const char *name)
{
    for (size_t i = 0; i < it->event.count; i++)
        if (strcmp(it->event.metrics[i].name, name) == 0)
            return true;
    return false;
}

// ---- result.json

static void add_name(const char *name, trp_buffer *out)
{
    trp_buffer_append(out, ", ", out->size > 0 && out->data[out->size - 1] != '{' ? 2 : 0);
    trp_json_text(out, name);
    trp_buffer_append(out, ": ", 2);
}

static void add_number(const report *it, const char *name, double value, trp_buffer *out)
{
    if (has_metric(it, name)) // The program's own.
        return;
    add_name(name, out);
    trp_json_number(out, value);
}

static void write_json(const report *it, trp_buffer *out)
{
    char date[32] = "";
    struct tm local;
    time_t second = (time_t)it->wall_s;
    if (localtime_r(&second, &local) != NULL)
        (void)strftime(date, sizeof date, "%Y-%m-%d_%H-%M-%S", &local);
    trp_buffer line = {0};
    trp_buffer_append(&line, "{", 1);
    for (size_t i = 0; i < it->event.count; i++) {
        add_name(it->event.metrics[i].name, &line);
        trp_json_number(&line, it->event.metrics[i].value);
    }
    add_number(it, "training_iteration", it->event.number, &line);
    add_number(it, "time_total_s", it->event.elapsed_s, &line);
    add_number(it, "time_this_iter_s", it->since_s, &line);
    add_number(it, "timestamp", floor(it->wall_s), &line);
    if (!has_metric(it, "date")) {
        add_name("date", &line);
        trp_json_text(&line, date);
    }
    if (!has_metric(it, "checkpoint_dir_name")) {
        add_name("checkpoint_dir_name", &line);
        trp_json_text(&line, it->event.checkpoint);
    }
    if (it->event.source[0] != '\0' && !has_metric(it, "source")) {
        add_name("source", &line);
        trp_json_text(&line, it->event.source);
    }
    trp_buffer_append(&line, "}\n", 2);
    out->failed = out->failed || line.failed;
    trp_buffer_append(out, line.data, line.size);
    trp_buffer_free(&line);
}

// ---- progress.csv

static void write_field(const char *text, trp_buffer *out)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        trp_buffer_append(out, text, strlen(text));
        return;
    }
    trp_buffer_append(out, "\"", 1);
    for (; *text != '\0'; text++)
        trp_buffer_append(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    trp_buffer_append(out, "\"", 1);
}

static void write_number(double value, trp_buffer *out)
{
    if (isnan(value)) // As pandas and NumPy read them.
        trp_buffer_append(out, "nan", 3);
    else if (isinf(value))
        trp_buffer_printf(out, "%s", value > 0 ? "inf" : "-inf");
    else
        trp_json_number(out, value);
}

// The columns are those of the first report for good. False: no memory.
static bool write_head(trp_derived_state *state, const report *it, trp_buffer *out)
{
    state->columns = trp_alloc((it->event.count + 1) * sizeof *state->columns);
    if (state->columns == NULL)
        return false;
    for (size_t i = 0; i < it->event.count; i++) {
        size_t size = strlen(it->event.metrics[i].name) + 1;
        char *name = trp_alloc(size);
        if (name == NULL)
            return false;
        state->columns[state->column_count++] = memcpy(name, it->event.metrics[i].name, size);
    }
    trp_buffer_printf(out, "training_iteration,time_total_s,time_this_iter_s,timestamp,"
                           "checkpoint_dir_name,source");
    for (size_t i = 0; i < state->column_count; i++) {
        trp_buffer_append(out, ",", 1);
        write_field(state->columns[i], out);
    }
    trp_buffer_append(out, "\n", 1);
    state->has_head = true;
    return true;
}

static void write_row(const trp_derived_state *state, const report *it, trp_buffer *out)
{
    trp_buffer_printf(out, "%d,", it->event.number);
    write_number(it->event.elapsed_s, out);
    trp_buffer_append(out, ",", 1);
    write_number(it->since_s, out);
    trp_buffer_printf(out, ",%.0f,%s,", floor(it->wall_s),
                      it->event.checkpoint != NULL ? it->event.checkpoint : "");
    write_field(it->event.source, out);
    for (size_t i = 0; i < state->column_count; i++) {
        trp_buffer_append(out, ",", 1);
        for (size_t k = 0; k < it->event.count; k++)
            if (strcmp(it->event.metrics[k].name, state->columns[i]) == 0)
                write_number(it->event.metrics[k].value, out);
    }
    trp_buffer_append(out, "\n", 1);
}

// ---- rows of both

static void write_report(trp_derived_state *state, const report *it,
                         trp_buffer out[TRP_DERIVED_FILES])
{
    write_json(it, &out[TRP_DERIVED_JSON]);
    trp_buffer *csv = &out[TRP_DERIVED_CSV];
    if (!state->has_head && !write_head(state, it, csv))
        csv->failed = true;
    if (state->has_head)
        write_row(state, it, csv);
}

// ---- rows that wait

static void write_first(trp_derived_state *state, trp_buffer out[TRP_DERIVED_FILES])
{
    trp_derived_row *row = state->first;
    state->first = row->next;
    state->held--;
    if (row->checkpoint[0] != '\0')
        row->report.event.checkpoint = row->checkpoint;
    write_report(state, &row->report, out);
    trp_free(row);
}

static void write_ready(trp_derived_state *state, trp_buffer out[TRP_DERIVED_FILES])
{
    while (state->first != NULL && !state->first->waits)
        write_first(state, out);
}

int trp_derived_waits(const trp_derived_state *state)
{
    return state->first != NULL ? state->first->report.event.number : 0;
}

void trp_derived_give_up(trp_derived_state *state, bool all, trp_buffer out[TRP_DERIVED_FILES])
{
    if (state->first != NULL)
        write_first(state, out);
    write_ready(state, out);
    while (all && state->first != NULL)
        write_first(state, out);
}

// Without memory it is written at once, as those before it are.
static void hold(trp_derived_state *state, const report *it, bool waits,
                 trp_buffer out[TRP_DERIVED_FILES])
{
    trp_derived_row *row = trp_alloc(sizeof *row + trp_report_event_size(&it->event));
    if (row == NULL) {
        trp_derived_give_up(state, true, out);
        write_report(state, it, out);
        return;
    }
    *row = (trp_derived_row){.report = *it, .waits = waits};
    row->report.event = trp_report_event_copy(&it->event, row + 1);
    if (state->first == NULL)
        state->first = row;
    else
        state->last->next = row;
    state->last = row;
    if (++state->held > TRP_DERIVED_HELD)
        trp_derived_give_up(state, false, out);
}

static void take_report(trp_derived_state *state, const report *it, bool saving,
                        trp_buffer out[TRP_DERIVED_FILES])
{
    trp_tensorboard_report(it->wall_s, &it->event, &out[TRP_DERIVED_EVENTS]);
    if (state->first != NULL || saving)
        hold(state, it, saving, out);
    else
        write_report(state, it, out);
}

// What became of the checkpoint of a report; NULL: it has none. They are committed in the order of
// reports, so those before it that wait have none.
static void take_commit(trp_derived_state *state, int number, const char *checkpoint,
                        trp_buffer out[TRP_DERIVED_FILES])
{
    for (trp_derived_row *row = state->first; row != NULL; row = row->next) {
        int its = row->report.event.number;
        if (its == number && checkpoint != NULL)
            (void)snprintf(row->checkpoint, sizeof row->checkpoint, "%s", checkpoint);
        if (its <= number)
            row->waits = false;
    }
    write_ready(state, out);
}

// ---- lines of the journal

static void take_value(trp_derived_state *state, trp_json value, trp_arena *arena,
                       trp_buffer out[TRP_DERIVED_FILES])
{
    derived_line line = {0};
    if (trp_json_read(&troupe_type_derived_line, value, arena, &line) != TROUPE_OK ||
        line.event == NULL)
        return;
    if (strcmp(line.event, "open") == 0) {
        state->opened_s = seconds_of(line.at);
        state->base_s = state->elapsed_s;
        if (state->begun_s == 0) {
            state->begun_s = state->opened_s;
            trp_tensorboard_begin(state->begun_s, &out[TRP_DERIVED_EVENTS]);
        }
    } else if (strcmp(line.event, "report") == 0) {
        report it = {.event = {.number = line.report,
                               .elapsed_s = line.elapsed_s,
                               .checkpoint = line.checkpoint},
                     .since_s = line.elapsed_s - state->elapsed_s,
                     .wall_s = state->opened_s + line.elapsed_s - state->base_s};
        (void)trp_report_event_read(value, arena, &it.event); // What can be read of it.
        it.event.ranks = NULL;
        it.event.rank_count = 0;
        take_report(state, &it, line.saving && line.checkpoint == NULL, out);
        state->elapsed_s = line.elapsed_s;
    } else if (strcmp(line.event, "commit") == 0 || strcmp(line.event, "no_commit") == 0) {
        take_commit(state, line.report, line.checkpoint, out);
    } else if (strcmp(line.event, "attempt") == 0) {
        take_commit(state, line.report, NULL, out); // Later ones are made again.
    } else if (strcmp(line.event, "end") == 0) {
        trp_derived_give_up(state, true, out);
    }
}

void trp_derived_take(trp_derived_state *state, const char *line, size_t size,
                      trp_buffer out[TRP_DERIVED_FILES])
{
    trp_arena arena = {0};
    trp_json value;
    if (trp_json_parse(line, size, &value) == TROUPE_OK)
        take_value(state, value, &arena, out);
    trp_arena_clear(&arena);
}

void trp_derived_state_free(trp_derived_state *state)
{
    for (size_t i = 0; i < state->column_count; i++)
        trp_free(state->columns[i]);
    trp_free(state->columns);
    for (trp_derived_row *row = state->first, *next; row != NULL; row = next) {
        next = row->next;
        trp_free(row);
    }
    *state = (trp_derived_state){0};
}
