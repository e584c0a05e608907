// console_text.c: see console_text.h.
#include <train/console_text.h>

#include <math.h>
#include <runtime/base/arena.h>
#include <string.h>

enum { COLUMNS_MAX = 64, NUMBER = 32 };

void trp_console_group_text(const trp_console_rank *ranks, int count, trp_buffer *out)
{
    trp_buffer_printf(out, "Started distributed worker processes:\n");
    for (int rank = 0; rank < count; rank++)
        trp_buffer_printf(out, "- (pid=%d) world_rank=%d, local_rank=%d, node_rank=%d\n",
                          ranks[rank].pid, rank, ranks[rank].local_rank, ranks[rank].node_rank);
}

static bool is_under_way(trp_table_state state)
{
    return state == TRP_TABLE_RUNNING || state == TRP_TABLE_RESTARTING;
}

// Until all expected reports are made, or the time limit ends the run; 0: not known.
static double left_of(const trp_console_run *run)
{
    double left_s = run->limit_left_s;
    if (run->expected > run->reports && run->rate > 0) {
        double by_rate_s = (run->expected - run->reports) / run->rate;
        left_s = left_s > 0 && left_s < by_rate_s ? left_s : by_rate_s;
    }
    return left_s;
}

// "120 of 500 reports, 34.1/s, 11 s left"; what is not known is left out.
static void write_reports(const trp_console_run *run, trp_buffer *out)
{
    int all = run->expected > 0 ? run->expected : run->reports;
    trp_buffer_printf(out, "%d ", run->reports);
    if (run->expected > 0)
        trp_buffer_printf(out, "of %d ", run->expected);
    trp_buffer_printf(out, "report%s", all == 1 ? "" : "s");
    if (run->rate > 0)
        trp_buffer_printf(out, run->rate < 100 ? ", %.1f/s" : ", %.0f/s", run->rate);
    double left_s = left_of(run);
    if (left_s > 0 && is_under_way(run->state)) {
        trp_buffer_printf(out, ", ");
        trp_table_left(left_s, out);
        trp_buffer_printf(out, " left");
    }
}

// ---- the block

static size_t column_of(const char *const *titles, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(titles[i], name) != 0)
        i++;
    return i;
}

// The metrics of all runs, in the order in which they are met.
static size_t gather_titles(const trp_console_run *runs, size_t count, const char **titles)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < runs[i].metric_count && found < COLUMNS_MAX; k++) {
            size_t at = column_of(titles, found, runs[i].metrics[k].name);
            if (at == found)
                titles[found++] = runs[i].metrics[k].name;
        }
    return found;
}

static void fill_row(const trp_console_run *run, const trp_table *table, trp_table_cell *cells,
                     trp_table_row *row)
{
    *row = (trp_table_row){.name = run->name,
                           .state = run->state,
                           .pid = run->pid,
                           .iteration = run->reports,
                           .elapsed_s = run->elapsed_s,
                           .best = (double)NAN,
                           .metrics = cells,
                           .error = run->error};
    for (size_t i = 0; i < run->metric_count; i++) {
        size_t at = column_of(table->metrics, table->metric_count, run->metrics[i].name);
        if (at < table->metric_count)
            cells[at] = (trp_table_cell){.value = run->metrics[i].value, .known = true};
    }
}

static void sum_up(const trp_console_run *runs, size_t count, trp_table *table)
{
    for (size_t i = 0; i < count; i++) {
        if (is_under_way(runs[i].state)) {
            table->cpus_used += runs[i].cpus;
            table->gpus_used += runs[i].gpus;
        }
        if (runs[i].open_s > table->running_s)
            table->running_s = runs[i].open_s;
    }
}

// "fit: 120 reports, 24.3/s"
static void write_progress(const trp_console_run *run, size_t cut, trp_buffer *out)
{
    size_t from = out->size;
    trp_buffer_printf(out, "%s: ", run->name);
    write_reports(run, out);
    if (cut > 0 && !out->failed && out->size - from > cut)
        out->size = from + cut;
    trp_buffer_append(out, "\n", 1);
}

void trp_console_block_text(const trp_console_run *runs, size_t count,
                            const trp_console_machine *machine, const trp_table_look *look,
                            trp_buffer *out)
{
    trp_arena arena = {0};
    const char *titles[COLUMNS_MAX];
    size_t columns = gather_titles(runs, count, titles);
    trp_table_row *rows = trp_arena_alloc(&arena, (count + 1) * sizeof *rows);
    trp_table_cell *cells = trp_arena_alloc(&arena, (count * columns + 1) * sizeof *cells);
    if (rows == NULL || cells == NULL) {
        trp_arena_clear(&arena);
        out->failed = true;
        return;
    }
    trp_table table = {.title = "Train",
                       .row = "Run",
                       .one = "run",
                       .now = machine->now,
                       .memory_used = machine->memory_used,
                       .memory_total = machine->memory_total,
                       .cpus_total = machine->cpus_total,
                       .gpus_total = machine->gpus_total,
                       .metrics = titles,
                       .metric_count = columns,
                       .rows = rows,
                       .count = count};
    sum_up(runs, count, &table);
    for (size_t i = 0; i < count; i++)
        fill_row(&runs[i], &table, cells + i * columns, &rows[i]);
    trp_table_format(&table, look, out);
    for (size_t i = 0; i < count; i++)
        if (is_under_way(runs[i].state) && runs[i].reports > 0)
            write_progress(&runs[i], look->cut, out);
    trp_arena_clear(&arena);
}

// ---- lines

void trp_console_line_text(const trp_console_run *run, trp_buffer *out)
{
    char number[NUMBER];
    trp_buffer_printf(out, "[%.1f s] %s: %s, ", run->open_s, run->name,
                      trp_table_state_name(run->state));
    write_reports(run, out);
    for (size_t i = 0; i < run->metric_count; i++) {
        trp_table_number(run->metrics[i].value, number, sizeof number);
        trp_buffer_printf(out, "%s %s %s", i == 0 ? ";" : ",", run->metrics[i].name, number);
    }
    trp_buffer_append(out, "\n", 1);
}

void trp_console_end_text(const char *path, double written_s, double open_s, double loop_s,
                          trp_buffer *out)
{
    trp_table_end("all result files", path, written_s, open_s, loop_s, "the training loop", out);
}
