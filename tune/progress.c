// progress.c: gathers the facts of a sweep and draws them.
#include <tune/progress.h>

#include <math.h>
#include <runtime/base/clock.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    ROWS_MAX = 20,     // Of the live table.
    LINES_BESIDE = 14, // What a live table has beside its rows, at most.
    ROWS_MIN = 3,      // Shown on the smallest of terminals.
};
static const int64_t INTERVAL_NS = 1000000000;

void trp_time_of_day(char text[32])
{
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    if (localtime_r(&now.tv_sec, &local) == NULL || strftime(text, 32, "%F %T", &local) == 0)
        text[0] = '\0';
}

static size_t varying_rows(const trp_space *space, const trp_space_row **rows)
{
    size_t count = 0;
    for (size_t i = 0; i < space->count; i++) {
        if (!trp_space_row_varies(&space->rows[i]))
            continue;
        if (rows != NULL)
            rows[count] = &space->rows[i];
        count++;
    }
    return count;
}

// Fills a row; `cells` has room for its parameters and then its metrics.
static void gather_row(const trp_trial *trial, const trp_table *table,
                       const trp_space_row *const *params, trp_table_cell *cells,
                       trp_table_row *row)
{
    *row = (trp_table_row){
        .name = trial->view.name,
        .state = trial->view.state,
        .pid = trial->pid,
        .iteration = trial->view.reports,
        .elapsed_s = trial->view.elapsed_s,
        .best = trial->view.best_metric,
        .params = cells,
        .metrics = cells + table->param_count,
        .error = trial->view.error,
    };
    for (size_t i = 0; i < table->param_count && trial->view.config != NULL; i++)
        cells[i] = (trp_table_cell){trp_space_value(params[i], trial->view.config), true};
    for (size_t i = 0; i < table->metric_count && trial->values != NULL; i++)
        cells[table->param_count + i] =
            (trp_table_cell){trial->values[i], (trial->known >> i & 1) != 0};
}

bool trp_sweep_facts(const troupe_sweep *sweep, double running_s, const char *now, trp_arena *arena,
                     trp_table *table)
{
    size_t count = (size_t)sweep->count, metrics = sweep->column_count;
    size_t params = varying_rows(&sweep->space, NULL), width = params + metrics;
    trp_table_row *rows = trp_arena_alloc(arena, (count + 1) * sizeof *rows);
    trp_table_cell *cells = trp_arena_alloc(arena, (count * width + 1) * sizeof *cells);
    const char **titles = trp_arena_alloc(arena, (width + 1) * sizeof *titles);
    const trp_space_row **varying = trp_arena_alloc(arena, (params + 1) * sizeof *varying);
    if (rows == NULL || cells == NULL || titles == NULL || varying == NULL)
        return false;
    varying_rows(&sweep->space, varying);
    for (size_t i = 0; i < width; i++)
        titles[i] = i < params ? varying[i]->param.name : sweep->columns[i - params];

    double cpus_each = sweep->train.cpus_per_rank, workers = sweep->train.ranks;
    *table = (trp_table){.now = now,
                         .running_s = running_s,
                         .scheduler = sweep->scheduler,
                         .cpus_total = sweep->cpus,
                         .metric = sweep->metric,
                         .goal = sweep->how.goal,
                         .params = titles,
                         .param_count = params,
                         .metrics = titles + params,
                         .metric_count = metrics,
                         .rows = rows,
                         .count = count};
    for (size_t i = 0; i < count; i++) {
        gather_row(&sweep->trials[i], table, varying, cells + i * width, &rows[i]);
        if (sweep->trials[i].phase == TRP_TRIAL_RUNNING)
            table->cpus_used += workers * cpus_each;
    }
    return true;
}

void trp_progress_open(trp_progress *progress, FILE *out)
{
    *progress = (trp_progress){.out = out, .terminal = out != NULL && isatty(fileno(out))};
}

int64_t trp_progress_due_ns(const trp_progress *progress)
{
    if (progress->out == NULL || !progress->changed)
        return -1;
    return progress->shown_ns == 0 ? 0 : progress->shown_ns + INTERVAL_NS;
}

static void draw_table(trp_progress *progress, const trp_table *table, trp_buffer *out)
{
    struct winsize size = {0};
    trp_table_look look = {.rows_max = ROWS_MAX};
    if (ioctl(fileno(progress->out), TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
        size_t rows = size.ws_row > LINES_BESIDE + ROWS_MIN ? size.ws_row - LINES_BESIDE : ROWS_MIN;
        look.rows_max = rows < ROWS_MAX ? rows : ROWS_MAX;
        look.cut = size.ws_col;
    }
    if (progress->lines > 0) // Back to the first line of the last drawing, which is wiped out.
        trp_buffer_printf(out, "\033[%dA\r\033[J", progress->lines);
    size_t from = out->size;
    trp_table_format(table, &look, out);
    if (out->failed)
        return;
    progress->lines = 0;
    for (size_t i = from; i < out->size; i++)
        progress->lines += out->data[i] == '\n';
}

void trp_progress_show(trp_progress *progress, const troupe_sweep *sweep, int64_t now_ns)
{
    if (progress->out == NULL)
        return;
    trp_arena arena = {0};
    trp_buffer text = {0};
    trp_table table;
    char now[32];
    trp_time_of_day(now);
    if (trp_sweep_facts(sweep, (double)now_ns * 1e-9 - sweep->started_s, now, &arena, &table)) {
        if (progress->terminal)
            draw_table(progress, &table, &text);
        else
            trp_table_line(&table, &text);
        if (!text.failed) {
            fwrite(text.data, 1, text.size, progress->out);
            fflush(progress->out);
        }
    }
    trp_buffer_free(&text);
    trp_arena_clear(&arena);
    progress->changed = false;
    progress->shown_ns = now_ns;
}
