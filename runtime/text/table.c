// table.c: lays runs out as text: a block with their progress, a row each in columns that are as
// wide as they need to be, the error texts of those that failed.
#include <runtime/text/table.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELL = 32,      // Of a cell's text; names are not held in cells.
    ERRORS_MAX = 5, // Sentences below a shortened table.
    FIXED_COLUMNS = 5,
    LINE_CELLS = 1024, // Bytes of a line that is coloured.
};

typedef struct column {
    const char *title;
    size_t width;
    bool right; // Numbers are.
    enum { NAME, STATE, LOCATION, ITERATION, TIME, PARAM, METRIC } what;
    size_t index; // Of the parameter or metric.
} column;

const char *trp_table_state_name(trp_table_state state)
{
    static const char *const names[] = {"PENDING", "RUNNING", "RESTARTING", "TERMINATED",
                                        "STOPPED", "ERROR",   "PAUSED"};
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

const char *trp_table_bytes(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double scaled = (double)bytes;
    size_t unit = 0;
    while (scaled >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        scaled /= 1024;
        unit++;
    }
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", scaled, units[unit]);
    return text;
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
    // What runs, then what has ended, then what waits.
    static const int group[] = {
        [TRP_TABLE_RUNNING] = 0, [TRP_TABLE_RESTARTING] = 0, [TRP_TABLE_TERMINATED] = 1,
        [TRP_TABLE_STOPPED] = 1, [TRP_TABLE_ERROR] = 1,      [TRP_TABLE_PENDING] = 2,
        [TRP_TABLE_PAUSED] = 2};
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
    if (cells != NULL && cells[index].known && cells[index].text != NULL)
        (void)snprintf(text, CELL, "%s", cells[index].text);
    else if (cells != NULL && cells[index].known)
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
        return trp_table_state_name(row->state);
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
// be; `title` is that of the names.
static size_t lay_out(const trp_table *table, const trp_table_look *look, const place *places,
                      size_t shown, const char *title, column *columns)
{
    const column fixed[FIXED_COLUMNS] = {
        {.title = title, .what = NAME},
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

static const char *colour_of(trp_table_state state)
{
    static const char *const colours[] = {"",         "\033[32m", "\033[33m",
                                          "\033[36m", "\033[36m", "\033[31m"};
    return (size_t)state < sizeof colours / sizeof *colours ? colours[state] : "";
}

// Colours the state of a row whose line begins at `from` and has been cut already, so that no
// sequence is torn.
static void colour_state(trp_buffer *out, size_t from, const column *columns, trp_table_state state)
{
    char line[LINE_CELLS];
    size_t begin = columns[NAME].width + strlen(" | "),
           length = strlen(trp_table_state_name(state));
    size_t size = out->size - from;
    if (out->failed || size < begin + length || size > sizeof line || !*colour_of(state))
        return;
    memcpy(line, out->data + from, size);
    out->size = from;
    trp_buffer_append(out, line, begin);
    trp_buffer_printf(out, "%s%.*s\033[0m", colour_of(state), (int)length, line + begin);
    trp_buffer_append(out, line + begin + length, size - begin - length);
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
        if (look->colours)
            colour_state(out, from, columns, places[row].row->state);
    }
    if (shown < table->count)
        trp_buffer_printf(out, "... and %zu more\n", table->count - shown);
}

static const trp_table_row *best_row(const trp_table *table)
{
    const trp_table_row *best = NULL;
    for (size_t i = 0; i < table->count; i++) {
        const trp_table_row *row = &table->rows[i];
        bool maximize = table->maximize;
        if (isnan(row->best) || row->state == TRP_TABLE_ERROR)
            continue;
        if (best == NULL || (maximize ? row->best > best->best : row->best < best->best))
            best = row;
    }
    return best;
}

static size_t count_state(const trp_table *table, trp_table_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++)
        count += table->rows[i].state == state;
    return count;
}

// "5 terminated, 2 running": the states that rows are in.
static void write_counts(const trp_table *table, trp_buffer *out)
{
    static const struct {
        trp_table_state state;
        const char *text;
    } states[] = {{TRP_TABLE_TERMINATED, "terminated"}, {TRP_TABLE_STOPPED, "stopped"},
                  {TRP_TABLE_ERROR, "failed"},          {TRP_TABLE_RUNNING, "running"},
                  {TRP_TABLE_RESTARTING, "restarting"}, {TRP_TABLE_PENDING, "pending"},
                  {TRP_TABLE_PAUSED, "paused"}};
    const char *between = "";
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        size_t count = count_state(table, states[i].state);
        if (count == 0)
            continue;
        trp_buffer_printf(out, "%s%zu %s", between, count, states[i].text);
        between = ", ";
    }
}

void trp_table_left(double left_s, trp_buffer *out)
{
    double minutes = ceil(left_s / 60), hours = floor(minutes / 60);
    if (left_s <= 90)
        trp_buffer_printf(out, "%.0f s", ceil(left_s));
    else if (minutes <= 90)
        trp_buffer_printf(out, "%.0f min", minutes);
    else if (hours < 48)
        trp_buffer_printf(out, "%.0f h %.0f min", hours, minutes - hours * 60);
    else
        trp_buffer_printf(out, "%.0f days", ceil(left_s / 86400));
}

void trp_table_end(const char *what, const char *path, double written_s, double open_s,
                   double loop_s, const char *loop, trp_buffer *out)
{
    trp_buffer_printf(out, "Wrote the latest version of %s to '%s' in %.4fs.\n", what, path,
                      written_s);
    trp_buffer_printf(out, "Total run time: %.2f seconds (%.2f seconds for %s).\n", open_s, loop_s,
                      loop);
}

// "Logical resource usage: 2.0/4 CPUs, 1.0/1 GPUs"
static void write_resources(const trp_table *table, size_t cut, trp_buffer *out)
{
    size_t from = out->size;
    if (table->searcher != NULL) {
        trp_buffer_printf(out, "Searched by %s", table->searcher);
        end_line(out, from, cut);
        from = out->size;
    }
    if (table->scheduler != NULL)
        trp_buffer_printf(out, "Using %s scheduling. ", table->scheduler);
    trp_buffer_printf(out, "Logical resource usage: %.1f/%g CPUs", table->cpus_used,
                      table->cpus_total);
    if (table->gpus_total > 0)
        trp_buffer_printf(out, ", %.1f/%g GPUs", table->gpus_used, table->gpus_total);
    end_line(out, from, cut);
}

// What the best row was made with: where the rows have no columns for that.
static void write_params(const trp_table *table, const trp_table_row *row, size_t cut,
                         trp_buffer *out)
{
    char text[CELL];
    size_t from = out->size, known = 0;
    for (size_t i = 0; row->params != NULL && i < table->param_count; i++) {
        if (!row->params[i].known)
            continue;
        trp_buffer_printf(out, "%s%s = %s", known == 0 ? "It has " : ", ", table->params[i],
                          number_cell(row->params, i, text));
        known++;
    }
    if (known > 0)
        end_line(out, from, cut);
}

// `whole`: each parameter has a column.
static void write_status(const trp_table *table, bool whole, size_t cut, trp_buffer *out)
{
    static const double gib = 1073741824.0;
    char number[CELL];
    long long hundredths = (long long)(table->running_s * 100 + 0.5);
    trp_buffer_printf(out, "%s Status\nCurrent time: %s\n", table->title, table->now);
    trp_buffer_printf(out, "Running for: %02lld:%02lld:%02lld.%02lld", hundredths / 360000,
                      hundredths / 6000 % 60, hundredths / 100 % 60, hundredths % 100);
    if (table->left_s > 0) {
        trp_buffer_printf(out, ", about ");
        trp_table_left(table->left_s, out);
        trp_buffer_printf(out, " left");
    }
    trp_buffer_append(out, "\n", 1);
    if (table->memory_total > 0)
        trp_buffer_printf(out, "Memory: %.1f/%.1f GiB\n", table->memory_used / gib,
                          table->memory_total / gib);
    write_resources(table, cut, out);
    const trp_table_row *best = best_row(table);
    size_t from = out->size;
    if (best != NULL) {
        trp_table_number(best->best, number, sizeof number);
        trp_buffer_printf(out, "Best %s of all reports: %s (%s); the table has those of the last",
                          table->metric, number, best->name);
        end_line(out, from, cut);
        if (!whole)
            write_params(table, best, cut, out);
    }
    from = out->size;
    trp_buffer_printf(out, "%s Status: ", table->row);
    write_counts(table, out);
    end_line(out, from, cut);
}

static void write_errors(const trp_table *table, const trp_table_look *look, trp_buffer *out)
{
    size_t failed = count_state(table, TRP_TABLE_ERROR), shown = 0;
    if (failed == 0)
        return;
    trp_buffer_printf(out, "%zu %s%s failed:\n", failed, table->one, failed == 1 ? "" : "s");
    for (size_t i = 0; i < table->count; i++) {
        const trp_table_row *row = &table->rows[i];
        if (row->state != TRP_TABLE_ERROR)
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
            places[i] = (place){&table->rows[i], i, table->maximize};
        if (look->rows_max != 0) {
            qsort(places, table->count, sizeof *places, order);
            shown = shown < look->rows_max ? shown : look->rows_max;
        }
        char title[CELL];
        snprintf(title, sizeof title, "%.20s name", table->row);
        size_t count = lay_out(table, look, places, shown, title, columns);
        write_status(table, count == columns_max, look->cut, out);
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
    if (table->left_s > 0) {
        trp_buffer_printf(out, "; about ");
        trp_table_left(table->left_s, out);
        trp_buffer_printf(out, " left");
    }
    const trp_table_row *best = best_row(table);
    if (best != NULL) {
        trp_table_number(best->best, number, sizeof number);
        trp_buffer_printf(out, "; best %s %s (%s)", table->metric, number, best->name);
    }
    trp_buffer_append(out, "\n", 1);
}
