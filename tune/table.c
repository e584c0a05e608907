// table.c: lays a sweep out as text: a block with its progress, the trials in columns that are as
// wide as they need to be, the error texts of those that failed.
#include <tune/table.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELL = 32,      // Of a cell's text; names are not held in cells.
    ERRORS_MAX = 5, // Sentences below a shortened table.
    FIXED_COLUMNS = 5,
};

typedef struct column {
    const char *title;
    size_t width;
    bool right; // Numbers are.
    enum { NAME, STATE, LOCATION, ITERATION, TIME, PARAM, METRIC } what;
    size_t index; // Of the parameter or metric.
} column;

const char *trp_table_state(troupe_trial_state state)
{
    static const char *const names[] = {"PENDING", "RUNNING", "TERMINATED", "STOPPED", "ERROR"};
    return (size_t)state < sizeof names / sizeof *names ? names[state] : "?";
}

void trp_table_number(double value, char *text, size_t size)
{
    if (isnan(value))
        snprintf(text, size, "nan"); // Without the sign that printf shows.
    else if (floor(value) == value && fabs(value) < 1e15)
        snprintf(text, size, "%.0f", value + 0.0); // + 0.0: minus zero is 0.
    else
        snprintf(text, size, "%.6g", value);
}

static int compare(double a, double b)
{
    return (a > b) - (a < b);
}

typedef struct place {
    const trp_table_row *row;
    size_t number;
    bool maximize;
} place;

static int order(const void *a, const void *b)
{
    const place *x = a, *y = b;
    // Running trials, then ended ones, then those that wait.
    static const int group[] = {[TROUPE_TRIAL_RUNNING] = 0,
                                [TROUPE_TRIAL_TERMINATED] = 1,
                                [TROUPE_TRIAL_STOPPED] = 1,
                                [TROUPE_TRIAL_ERROR] = 1,
                                [TROUPE_TRIAL_PENDING] = 2};
    int by = group[x->row->state] - group[y->row->state];
    if (by == 0)
        by = isnan(x->row->best) - isnan(y->row->best);
    if (by == 0 && !isnan(x->row->best))
        by =
            x->maximize ? compare(y->row->best, x->row->best) : compare(x->row->best, y->row->best);
    return by != 0 ? by : (x->number > y->number) - (x->number < y->number);
}

// ---- cells

static const char *number_cell(const trp_table_cell *cells, size_t index, char text[CELL])
{
    if (cells != NULL && cells[index].known)
        trp_table_number(cells[index].value, text, CELL);
    return text;
}

// The text of one cell; what is not known is empty.
static const char *cell_text(const column *in, const trp_table_row *row, char text[CELL])
{
    text[0] = '\0';
    switch (in->what) {
    case NAME:
        return row->name;
    case STATE:
        return trp_table_state(row->state);
    case LOCATION:
        if (row->pid != 0)
            snprintf(text, CELL, "127.0.0.1:%d", row->pid);
        return text;
    case ITERATION:
        if (row->iteration != 0)
            snprintf(text, CELL, "%d", row->iteration);
        return text;
    case TIME:
        if (row->iteration != 0 || row->elapsed_s > 0)
            trp_table_number(row->elapsed_s, text, CELL);
        return text;
    case PARAM:
        return number_cell(row->params, in->index, text);
    case METRIC:
        return number_cell(row->metrics, in->index, text);
    }
    return text;
}

static void measure(column *in, const place *places, size_t count)
{
    char text[CELL];
    in->width = strlen(in->title);
    for (size_t i = 0; i < count; i++) {
        size_t width = strlen(cell_text(in, places[i].row, text));
        if (width > in->width)
            in->width = width;
    }
}

static size_t total_width(const column *columns, size_t count)
{
    size_t width = 0;
    for (size_t i = 0; i < count; i++)
        width += columns[i].width + (i == 0 ? 0 : strlen(" | "));
    return width;
}

// Chooses the columns and their widths; returns their number. `columns` has room for all there can
// be.
static size_t lay_out(const trp_table *table, const trp_table_look *look, const place *places,
                      size_t shown, column *columns)
{
    const column fixed[FIXED_COLUMNS] = {
        {.title = "Trial name", .what = NAME},
        {.title = "status", .what = STATE},
        {.title = "loc", .what = LOCATION},
        {.title = "iter", .what = ITERATION, .right = true},
        {.title = "total time (s)", .what = TIME, .right = true},
    };
    size_t count = 0;
    for (size_t i = 0; i < FIXED_COLUMNS; i++)
        columns[count++] = fixed[i];
    for (size_t i = 0; i < table->metric_count; i++)
        columns[count++] =
            (column){.title = table->metrics[i], .what = METRIC, .right = true, .index = i};
    for (size_t i = 0; i < count; i++)
        measure(&columns[i], places, shown);

    // Parameters stand behind the location, as many as there is room for beside all others.
    size_t at = LOCATION + 1;
    for (size_t i = 0; i < table->param_count; i++) {
        column param = {.title = table->params[i], .what = PARAM, .right = true, .index = i};
        measure(&param, places, shown);
        if (total_width(columns, count) + strlen(" | ") + param.width > look->width_max)
            continue;
        memmove(&columns[at + 1], &columns[at], (count - at) * sizeof *columns);
        columns[at++] = param;
        count++;
    }
    return count;
}

// ---- lines

// Ends a line that began at `from`: without spaces at its end, cut where that was asked for.
static void end_line(trp_buffer *out, size_t from, size_t cut)
{
    if (out->failed)
        return;
    if (cut != 0 && out->size - from > cut)
        out->size = from + cut;
    while (out->size > from && out->data[out->size - 1] == ' ')
        out->size--;
    trp_buffer_append(out, "\n", 1);
}

static void write_cell(trp_buffer *out, const column *in, const char *text, size_t index)
{
    trp_buffer_printf(out, in->right ? "%s%*s" : "%s%-*s", index == 0 ? "" : " | ", (int)in->width,
                      text);
}

static void write_rows(const trp_table *table, const trp_table_look *look, const place *places,
                       size_t shown, const column *columns, size_t count, trp_buffer *out)
{
    size_t from = out->size;
    for (size_t i = 0; i < count; i++)
        write_cell(out, &columns[i], columns[i].title, i);
    end_line(out, from, look->cut);

    from = out->size;
    for (size_t i = 0; i < count; i++) {
        trp_buffer_append(out, "-|-", i == 0 ? 0 : 3);
        for (size_t dash = 0; dash < columns[i].width; dash++)
            trp_buffer_append(out, "-", 1);
    }
    end_line(out, from, look->cut);

    for (size_t row = 0; row < shown; row++) {
        char text[CELL];
        from = out->size;
        for (size_t i = 0; i < count; i++)
            write_cell(out, &columns[i], cell_text(&columns[i], places[row].row, text), i);
        end_line(out, from, look->cut);
    }
    if (shown < table->count)
        trp_buffer_printf(out, "... and %zu more\n", table->count - shown);
}

static const trp_table_row *best_row(const trp_table *table)
{
    const trp_table_row *best = NULL;
    for (size_t i = 0; i < table->count; i++) {
        const trp_table_row *row = &table->rows[i];
        bool maximize = table->goal == TROUPE_MAXIMIZE;
        if (isnan(row->best))
            continue;
        if (best == NULL || (maximize ? row->best > best->best : row->best < best->best))
            best = row;
    }
    return best;
}

static size_t count_state(const trp_table *table, troupe_trial_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++)
        count += table->rows[i].state == state;
    return count;
}

// "5 terminated, 2 running": the states that trials are in.
static void write_counts(const trp_table *table, trp_buffer *out)
{
    static const struct {
        troupe_trial_state state;
        const char *text;
    } states[] = {{TROUPE_TRIAL_TERMINATED, "terminated"},
                  {TROUPE_TRIAL_STOPPED, "stopped"},
                  {TROUPE_TRIAL_ERROR, "failed"},
                  {TROUPE_TRIAL_RUNNING, "running"},
                  {TROUPE_TRIAL_PENDING, "pending"}};
    const char *between = "";
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        size_t count = count_state(table, states[i].state);
        if (count == 0)
            continue;
        trp_buffer_printf(out, "%s%zu %s", between, count, states[i].text);
        between = ", ";
    }
}

static void write_status(const trp_table *table, size_t cut, trp_buffer *out)
{
    char number[CELL];
    long long hundredths = (long long)(table->running_s * 100 + 0.5);
    trp_buffer_printf(out, "Tune Status\nCurrent time: %s\n", table->now);
    trp_buffer_printf(out, "Running for: %02lld:%02lld:%02lld.%02lld\n", hundredths / 360000,
                      hundredths / 6000 % 60, hundredths / 100 % 60, hundredths % 100);
    size_t from = out->size;
    trp_buffer_printf(out, "Using %s scheduling. Logical resource usage: %.1f/%g CPUs",
                      table->scheduler, table->cpus_used, table->cpus_total);
    end_line(out, from, cut);
    const trp_table_row *best = best_row(table);
    if (best != NULL) {
        from = out->size;
        trp_table_number(best->best, number, sizeof number);
        trp_buffer_printf(out, "Best %s of all reports: %s (%s); the table has those of the last",
                          table->metric, number, best->name);
        end_line(out, from, cut);
    }
    from = out->size;
    trp_buffer_printf(out, "Trial Status: ");
    write_counts(table, out);
    end_line(out, from, cut);
}

static void write_errors(const trp_table *table, const trp_table_look *look, trp_buffer *out)
{
    size_t failed = count_state(table, TROUPE_TRIAL_ERROR), shown = 0;
    if (failed == 0)
        return;
    trp_buffer_printf(out, "%zu %s failed:\n", failed, failed == 1 ? "trial" : "trials");
    for (size_t i = 0; i < table->count; i++) {
        const trp_table_row *row = &table->rows[i];
        if (row->state != TROUPE_TRIAL_ERROR)
            continue;
        if (look->rows_max != 0 && shown == ERRORS_MAX) {
            trp_buffer_printf(out, "  ... and %zu more\n", failed - shown);
            return;
        }
        size_t from = out->size;
        trp_buffer_printf(out, "  %s: %s", row->name, row->error == NULL ? "" : row->error);
        end_line(out, from, look->cut);
        shown++;
    }
}

void trp_table_format(const trp_table *table, const trp_table_look *look, trp_buffer *out)
{
    size_t columns_max = FIXED_COLUMNS + table->metric_count + table->param_count;
    column *columns = trp_alloc(columns_max * sizeof *columns);
    place *places = trp_alloc((table->count + 1) * sizeof *places);
    if (columns == NULL || places == NULL) {
        out->failed = true;
    } else {
        size_t shown = table->count;
        for (size_t i = 0; i < table->count; i++)
            places[i] = (place){&table->rows[i], i, table->goal == TROUPE_MAXIMIZE};
        if (look->rows_max != 0) {
            qsort(places, table->count, sizeof *places, order);
            shown = shown < look->rows_max ? shown : look->rows_max;
        }
        size_t count = lay_out(table, look, places, shown, columns);
        write_status(table, look->cut, out);
        write_rows(table, look, places, shown, columns, count, out);
        write_errors(table, look, out);
    }
    trp_free(places);
    trp_free(columns);
}

void trp_table_line(const trp_table *table, trp_buffer *out)
{
    char number[CELL];
    trp_buffer_printf(out, "[%.1f s] ", table->running_s);
    write_counts(table, out);
    const trp_table_row *best = best_row(table);
    if (best != NULL) {
        trp_table_number(best->best, number, sizeof number);
        trp_buffer_printf(out, "; best %s %s (%s)", table->metric, number, best->name);
    }
    trp_buffer_append(out, "\n", 1);
}
