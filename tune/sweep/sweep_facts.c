// sweep_facts.c: gathers the facts of a sweep, and draws them.
#include <tune/sweep/sweep_facts.h>

#include <string.h>

trp_table_state trp_trial_table_state(troupe_trial_state state)
{
    static const trp_table_state states[] = {[TROUPE_TRIAL_PENDING] = TRP_TABLE_PENDING,
                                             [TROUPE_TRIAL_RUNNING] = TRP_TABLE_RUNNING,
                                             [TROUPE_TRIAL_TERMINATED] = TRP_TABLE_TERMINATED,
                                             [TROUPE_TRIAL_STOPPED] = TRP_TABLE_STOPPED,
                                             [TROUPE_TRIAL_ERROR] = TRP_TABLE_ERROR};
    return states[state];
}

// Fills a row; `cells` has room for its parameters and then its metrics.
static void gather_row(const trp_trial *trial, const trp_table *table,
                       const trp_space_row *const *params, trp_table_cell *cells,
                       trp_table_row *row)
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
    const troupe_space *space = sweep->space.of;
    size_t params = space->dim_count, width = params + metrics;
    trp_table_row *rows = trp_arena_alloc(arena, (count + 1) * sizeof *rows);
    trp_table_cell *cells = trp_arena_alloc(arena, (count * width + 1) * sizeof *cells);
    const char **titles = trp_arena_alloc(arena, (width + 1) * sizeof *titles);
    if (rows == NULL || cells == NULL || titles == NULL)
        return false;
    for (size_t i = 0; i < width; i++)
        titles[i] = i < params ? space->dims[i].name : sweep->columns[i - params];

    double cpus_each = sweep->train.cpus_per_rank, workers = sweep->train.ranks;
    *table = (trp_table){.title = "Tune",
                         .row = "Trial",
                         .one = "trial",
                         .now = now,
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
        gather_row(&sweep->trials[i], table, space->drawn, cells + i * width, &rows[i]);
        if (sweep->trials[i].phase == TRP_TRIAL_RUNNING)
            table->cpus_used += workers * cpus_each;
    }
    return true;
}

void trp_sweep_show(trp_progress *progress, const troupe_sweep *sweep, int64_t now_ns)
{
    trp_arena arena = {0};
    trp_table table;
    char now[32];
    trp_time_of_day(now);
    if (progress->out != NULL &&
        trp_sweep_facts(sweep, (double)now_ns * 1e-9 - sweep->started_s, now, &arena, &table))
        trp_progress_show(progress, &table, now_ns);
    trp_arena_clear(&arena);
    progress->changed = false;
    progress->shown_ns = now_ns;
}
