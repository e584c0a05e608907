// sweep_facts.c: gathers the facts of a sweep, and draws them.
#include <tune/sweep/sweep_facts.h>

#include <math.h>
#include <runtime/base/clock.h>
#include <runtime/codec/json.h>
#include <runtime/host/machine.h>
#include <string.h>

trp_table_state trp_trial_table_state(troupe_trial_state state)
{
    static const trp_table_state states[] = {[TROUPE_TRIAL_PENDING] = TRP_TABLE_PENDING,
                                             [TROUPE_TRIAL_RUNNING] = TRP_TABLE_RUNNING,
                                             [TROUPE_TRIAL_TERMINATED] = TRP_TABLE_TERMINATED,
                                             [TROUPE_TRIAL_STOPPED] = TRP_TABLE_STOPPED,
                                             [TROUPE_TRIAL_ERROR] = TRP_TABLE_ERROR,
                                             [TROUPE_TRIAL_PAUSED] = TRP_TABLE_PAUSED};
    return states[state];
}

// A choice is shown as its value is written in JSON, a text without its quotes.
static trp_table_cell cell_of(const troupe_space *space, size_t dim, double x, trp_arena *arena)
{
    const trp_space_row *row = space->drawn[dim];
    trp_table_cell cell = {.value = x, .known = !isnan(x)};
    if (!cell.known || space->dims[dim].kind != TROUPE_DIM_CHOICE)
        return cell;
    const trp_json *value = &row->texts[(size_t)x];
    if (trp_json_read(&troupe_type_double, *value, arena, &cell.value) == TROUPE_OK)
        return cell;
    if (trp_json_read(&troupe_type_troupe_text, *value, arena, &cell.text) == TROUPE_OK)
        return cell;
    char *text = trp_arena_alloc(arena, value->size + 1);
    if (text != NULL)
        memcpy(text, value->at, value->size);
    cell.text = text;
    cell.known = text != NULL;
    return cell;
}

// Fills a row; `cells` has room for its parameters and then its metrics.
static void gather_row(const troupe_sweep *sweep, const trp_trial *trial, const trp_table *table,
                       trp_table_cell *cells, trp_arena *arena, trp_table_row *row)
{
    *row = (trp_table_row){
        .name = trial->view.name,
        .state = trp_trial_table_state(trial->view.state),
        .pid = trial->pid,
        .iteration = trial->view.reports,
        .elapsed_s = trial->view.elapsed_s,
        .best = trial->view.best_metric,
        .params = cells,
        .metrics = cells + table->param_count,
        .error = trial->view.error,
    };
    for (size_t i = 0; i < table->param_count && trial->x != NULL; i++)
        cells[i] = cell_of(sweep->space, i, trial->x[i], arena);
    for (size_t i = 0; i < table->metric_count && trial->values != NULL; i++)
        cells[table->param_count + i] =
            (trp_table_cell){.value = trial->values[i], .known = (trial->known >> i & 1) != 0};
}

// How much of a trial that runs is done, where others made that many reports.
static double part_of(const trp_trial *trial, double reports)
{
    static const double most = 0.95; // It has not ended.
    double part = reports > 0 ? trial->view.reports / reports : 0;
    return part < most ? part : most;
}

double trp_sweep_left_s(const troupe_sweep *sweep, double running_s)
{
    double ended = 0, reports = 0, done = 0, left_s = 0; // Earlier lives count, with their time.
    for (int i = 0; i < sweep->count; i++) {
        const trp_trial *trial = sweep->trials[i];
        bool is_over = trial->phase == TRP_TRIAL_ENDED;
        ended += is_over;
        reports += is_over ? trial->view.reports : 0;
    }
    reports = ended > 0 ? reports / ended : sweep->reports_most;
    for (int i = 0; i < sweep->count; i++)
        if (sweep->trials[i]->phase != TRP_TRIAL_ENDED)
            done += part_of(sweep->trials[i], reports);
    done += ended;
    if (sweep->wanted > 0 && done > 0 && !sweep->over)
        left_s = running_s * (sweep->wanted - done) / done;
    double budget_s = sweep->how.time_budget_s - running_s;
    if (sweep->how.time_budget_s > 0 && !sweep->over && (left_s <= 0 || budget_s < left_s))
        left_s = budget_s;
    return left_s > 0 ? left_s : 0;
}

bool trp_sweep_facts(const troupe_sweep *sweep, double running_s, const char *now, trp_arena *arena,
                     trp_table *table)
{
    size_t count = (size_t)sweep->count, metrics = sweep->column_count, params;
    const troupe_dim *dims = troupe_space_dims(sweep->space, &params);
    size_t width = params + metrics;
    trp_table_row *rows = trp_arena_alloc(arena, (count + 1) * sizeof *rows);
    trp_table_cell *cells = trp_arena_alloc(arena, (count * width + 1) * sizeof *cells);
    const char **titles = trp_arena_alloc(arena, (width + 1) * sizeof *titles);
    if (rows == NULL || cells == NULL || titles == NULL)
        return false;
    for (size_t i = 0; i < width; i++)
        titles[i] = i < params ? dims[i].name : sweep->columns[i - params];

    double cpus_each = sweep->train.cpus_per_rank;
    *table = (trp_table){.title = "Tune",
                         .row = "Trial",
                         .one = "trial",
                         .now = now,
                         .running_s = running_s,
                         .left_s = trp_sweep_left_s(sweep, running_s),
                         .searcher = sweep->searcher[0] != '\0' ? sweep->searcher : NULL,
                         .scheduler = sweep->scheduler,
                         .cpus_total = sweep->cpus,
                         .gpus_total = sweep->gpus,
                         .metric = trp_sweep_metric(sweep),
                         .maximize = sweep->objectives[0].goal == TROUPE_MAXIMIZE,
                         .params = titles,
                         .param_count = params,
                         .metrics = titles + params,
                         .metric_count = metrics,
                         .rows = rows,
                         .count = count};
    for (size_t i = 0; i < count; i++) {
        const trp_trial *trial = sweep->trials[i];
        gather_row(sweep, trial, table, cells + i * width, arena, &rows[i]);
        if (trial->phase != TRP_TRIAL_RUNNING)
            continue;
        int ranks = trial->ranks > 0 ? trial->ranks : sweep->train.ranks;
        table->cpus_used += cpus_each * ranks;
        table->gpus_used += sweep->train.gpus_per_rank * ranks;
    }
    return true;
}

void trp_sweep_add_memory(trp_table *table)
{
    trp_machine_memory(NULL, &table->memory_used, &table->memory_total);
}

void trp_sweep_show(trp_progress *progress, troupe_sweep *sweep, int64_t now_ns)
{
    trp_arena arena = {0};
    trp_table table;
    char now[32];
    trp_time_of_day(now);
    progress->changed = false;
    progress->shown_ns = now_ns;
    if (progress->out != NULL &&
        trp_sweep_facts(sweep, (double)now_ns * 1e-9 - sweep->started_s, now, &arena, &table)) {
        trp_progress shown = *progress;
        trp_sweep_add_memory(&table);
        trp_fair_lock_give(&sweep->lock); // What is borrowed is changed by this thread alone.
        trp_progress_show(&shown, &table, now_ns);
        trp_fair_lock_take(&sweep->lock);
        shown.changed = progress->changed; // Since then.
        *progress = shown;
    }
    trp_arena_clear(&arena);
}

void trp_sweep_say_end(const troupe_sweep *sweep, double written_s)
{
    FILE *out = sweep->how.progress;
    trp_buffer text = {0};
    if (out == NULL)
        return;
    trp_table_end("all result files and the sweep's record", sweep->folder, written_s,
                  trp_sweep_now_s(sweep) - sweep->started_s,
                  sweep->elapsed_s - (sweep->begun_s - sweep->started_s), "the tuning loop", &text);
    if (!text.failed)
        fwrite(text.data, 1, text.size, out);
    fflush(out);
    trp_buffer_free(&text);
}
