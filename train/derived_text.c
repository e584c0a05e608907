// derived_text.c: the pure part of derived.h: what a line of the journal becomes.
#include <train/derived.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/codec/csv.h>
#include <runtime/codec/json_leaves.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <train/report_event.h>
#include <train/tensorboard.h>

// Of those lines that count here.
TROUPE_STRUCT(derived_line, (troupe_text, event), (int, report), (double, elapsed_s),
              (troupe_text, checkpoint), (troupe_text, at), (bool, saving), (troupe_text, status));

typedef struct report {
    troupe_report_event event; // Its checkpoint is a name.
    double since_s, wall_s;    // `since_s`: the last one.
    int pid;                   // Of rank 0; 0: not known.
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

// ---- params

static bool add_column(void *user, const char *name, trp_json value)
{
    trp_derived_run *run = user;
    trp_buffer title = {0}, text = {0};
    trp_buffer_printf(&title, "config/%s", name);
    trp_buffer_append(&title, "", 1);
    trp_json_plain(value, &text);
    trp_buffer_append(&text, "", 1);
    bool whole = !title.failed && !text.failed;
    if (whole) {
        trp_buffer_append(&run->heads, ",", 1);
        trp_csv_text(&run->heads, (const char *)title.data);
        trp_buffer_append(&run->cells, ",", 1);
        if (!trp_json_is_null(value))
            trp_csv_text(&run->cells, (const char *)text.data);
    }
    trp_buffer_free(&title);
    trp_buffer_free(&text);
    return whole;
}

void trp_derived_begin(trp_derived_state *state, const char *name, const char *host,
                       const char *params)
{
    trp_derived_run *run = &state->run;
    *run = (trp_derived_run){.name = name, .host = host};
    trp_json given;
    if (params == NULL || trp_json_parse(params, strlen(params), &given) != TROUPE_OK ||
        !trp_json_is_object(given))
        return;
    run->params = given;
    if (given.size > TRP_DERIVED_PARAMS_MAX)
        return;
    if (!trp_json_leaves(given, add_column, run) || run->heads.failed || run->cells.failed) {
        trp_buffer_free(&run->heads);
        trp_buffer_free(&run->cells);
    }
}

// The run is opened for the first time.
static void write_params(trp_derived_state *state, trp_buffer out[TRP_DERIVED_FILES])
{
    trp_derived_run *run = &state->run;
    trp_tensorboard_begin(state->begun_s, &out[TRP_DERIVED_EVENTS]);
    if (run->params.size == 0)
        return;
    trp_buffer_append(&out[TRP_DERIVED_PARAMS], run->params.at, run->params.size);
    trp_buffer_append(&out[TRP_DERIVED_PARAMS], "\n", 1);
    if (run->params.size <= TRP_DERIVED_PARAMS_MAX)
        run->has_session =
            trp_tensorboard_params(state->begun_s, run->params, &out[TRP_DERIVED_EVENTS]);
}

void trp_derived_finish(trp_derived_state *state, trp_buffer out[TRP_DERIVED_FILES])
{
    if (state->end[0] == '\0' || !state->run.has_session)
        return;
    trp_tensorboard_end(state->opened_s + state->elapsed_s - state->base_s,
                        strcmp(state->end, "OK") == 0, &out[TRP_DERIVED_EVENTS]);
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

static void add_text(const report *it, const char *name, const char *value, trp_buffer *out)
{
    if (has_metric(it, name))
        return;
    add_name(name, out);
    trp_json_text(out, value);
}

// Many reports are of one second.
static const char *date_of(trp_derived_state *state, const report *it)
{
    struct tm local;
    time_t second = (time_t)it->wall_s;
    if (state->date[0] != '\0' && state->dated_s == (int64_t)second)
        return state->date;
    state->dated_s = (int64_t)second;
    state->date[0] = '\0';
    if (localtime_r(&second, &local) != NULL)
        (void)strftime(state->date, sizeof state->date, "%Y-%m-%d_%H-%M-%S", &local);
    return state->date;
}

// What is the same in all lines of the run.
static void add_run(const trp_derived_run *run, const report *it, trp_buffer *line)
{
    if (run->name == NULL)
        return;
    add_text(it, "trial_id", run->name, line);
    add_text(it, "hostname", run->host, line);
    if (it->pid > 0)
        add_number(it, "pid", it->pid, line);
    if (!has_metric(it, "done")) {
        add_name("done", line);
        trp_buffer_append(line, "false", 5);
    }
    if (run->params.size > 0 && run->params.size <= TRP_DERIVED_PARAMS_MAX &&
        !has_metric(it, "config")) {
        add_name("config", line);
        trp_buffer_append(line, run->params.at, run->params.size);
    }
}

static void write_json(trp_derived_state *state, const report *it, trp_buffer *out)
{
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
    add_text(it, "date", date_of(state, it), &line);
    add_text(it, "checkpoint_dir_name", it->event.checkpoint, &line);
    if (it->event.source[0] != '\0')
        add_text(it, "source", it->event.source, &line);
    add_run(&state->run, it, &line);
    trp_buffer_append(&line, "}\n", 2);
    out->failed = out->failed || line.failed;
    trp_buffer_append(out, line.data, line.size);
    trp_buffer_free(&line);
}

// ---- progress.csv

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
        trp_csv_text(out, state->columns[i]);
    }
    if (state->run.name != NULL)
        trp_buffer_printf(out, ",date,trial_id,hostname,pid,done");
    trp_buffer_append(out, state->run.heads.data, state->run.heads.size);
    trp_buffer_append(out, "\n", 1);
    state->has_head = true;
    return true;
}

static void write_row(trp_derived_state *state, const report *it, trp_buffer *out)
{
    const trp_derived_run *run = &state->run;
    trp_buffer_printf(out, "%d,", it->event.number);
    trp_csv_number(out, it->event.elapsed_s);
    trp_buffer_append(out, ",", 1);
    trp_csv_number(out, it->since_s);
    trp_buffer_printf(out, ",%.0f,%s,", floor(it->wall_s),
                      it->event.checkpoint != NULL ? it->event.checkpoint : "");
    if (it->event.source[0] != '\0')
        trp_csv_text(out, it->event.source);
    for (size_t i = 0; i < state->column_count; i++) {
        trp_buffer_append(out, ",", 1);
        for (size_t k = 0; k < it->event.count; k++)
            if (strcmp(it->event.metrics[k].name, state->columns[i]) == 0)
                trp_csv_number(out, it->event.metrics[k].value);
    }
    if (run->name != NULL) {
        trp_buffer_printf(out, ",%s,", date_of(state, it));
        trp_csv_text(out, run->name);
        trp_buffer_append(out, ",", 1);
        trp_csv_text(out, run->host);
        trp_buffer_append(out, ",", 1);
        if (it->pid > 0)
            trp_buffer_printf(out, "%d", it->pid);
        trp_buffer_printf(out, ",false");
    }
    trp_buffer_append(out, run->cells.data, run->cells.size);
    trp_buffer_append(out, "\n", 1);
}

// ---- rows of both

static void write_report(trp_derived_state *state, const report *it,
                         trp_buffer out[TRP_DERIVED_FILES])
{
    write_json(state, it, &out[TRP_DERIVED_JSON]);
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

// The process of rank 0; one that the line does not have is not known.
static int first_pid(trp_json attempt, trp_arena *arena)
{
    int pid = 0;
    trp_json pids, first = {0};
    if (trp_json_member(attempt, "pids", &pids) && trp_json_next_item(pids, &first))
        (void)trp_json_read(&troupe_type_int, first, arena, &pid);
    return pid;
}

// Times have six digits behind the point, and so have their differences.
static double to_microseconds(double seconds)
{
    return rint(seconds * 1e6) / 1e6;
}

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
            write_params(state, out);
        }
    } else if (strcmp(line.event, "report") == 0) {
        report it = {.event = {.number = line.report,
                               .elapsed_s = line.elapsed_s,
                               .checkpoint = line.checkpoint},
                     .since_s = to_microseconds(line.elapsed_s - state->elapsed_s),
                     .wall_s = state->opened_s + line.elapsed_s - state->base_s,
                     .pid = state->pid};
        (void)trp_report_event_read(value, arena, &it.event); // What can be read of it.
        it.event.ranks = NULL;
        it.event.rank_count = 0;
        take_report(state, &it, line.saving && line.checkpoint == NULL, out);
        state->elapsed_s = line.elapsed_s;
    } else if (strcmp(line.event, "commit") == 0 || strcmp(line.event, "no_commit") == 0) {
        take_commit(state, line.report, line.checkpoint, out);
    } else if (strcmp(line.event, "attempt") == 0) {
        take_commit(state, line.report, NULL, out); // Later ones are made again.
        state->pid = first_pid(value, arena);
    } else if (strcmp(line.event, "end") == 0) {
        trp_derived_give_up(state, true, out);
        (void)snprintf(state->end, sizeof state->end, "%s", line.status != NULL ? line.status : "");
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
    trp_buffer_free(&state->run.heads);
    trp_buffer_free(&state->run.cells);
    for (trp_derived_row *row = state->first, *next; row != NULL; row = next) {
        next = row->next;
        trp_free(row);
    }
    *state = (trp_derived_state){0};
}
