// why.c: the public functions: importance, a page, the best config.
#include <troupe/why.h>

#include <math.h>
#include <runtime/base/arena.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
#include <runtime/base/require.h>
#include <runtime/host/file.h>
#include <stdlib.h>
#include <string.h>
#include <tune/why/command.h>
#include <tune/why/fanova.h>
#include <tune/why/page.h>
#include <tune/why/pedanova.h>
#include <tune/why/results.h>

// ---- importance

static troupe_status check_dim(const troupe_dim *dim, size_t index)
{
    if (dim->kind == TROUPE_DIM_CHOICE
            ? dim->choices < 1 || dim->choices > TROUPE_CHOICES_MAX
            : !(isfinite(dim->low) && isfinite(dim->high) && dim->low <= dim->high))
        return troupe_fail(TROUPE_INVALID,
                           "dimension %zu (%s) has no range: low <= high must hold, and a choice "
                           "has 1 to %d",
                           index, dim->name != NULL ? dim->name : "?", TROUPE_CHOICES_MAX);
    if (dim->log && dim->kind != TROUPE_DIM_CHOICE && !(dim->low > 0))
        return troupe_fail(TROUPE_INVALID, "dimension %zu (%s) has a logarithm and is not positive",
                           index, dim->name != NULL ? dim->name : "?");
    return TROUPE_OK;
}

static const trp_range ranges[] = {
    TRP_RANGE(troupe_importance_options, method, TROUPE_IMPORTANCE_PEDANOVA,
              TROUPE_IMPORTANCE_FANOVA),
    TRP_RANGE(troupe_importance_options, trees, 1, 10000),
    TRP_RANGE(troupe_importance_options, depth, 1, 1000),
    TRP_RANGE(troupe_importance_options, objective, 0, TRP_TRIALS_OBJECTIVES - 1),
};

static troupe_status take_options(const troupe_importance_options *how,
                                  troupe_importance_options *taken)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_importance", *taken, how));
    taken->size = sizeof *taken; // For who is given it.
    taken->quantile = taken->quantile != 0 ? taken->quantile : 0.1;
    taken->region = taken->region != 0 ? taken->region : 1;
    taken->trees = taken->trees != 0 ? taken->trees : 64;
    taken->depth = taken->depth != 0 ? taken->depth : 64;
    taken->seed = taken->seed != 0 ? taken->seed : 1;
    return trp_ranges_check("troupe_importance", ranges, sizeof ranges / sizeof *ranges, taken);
}

static troupe_status measure(const troupe_dim *dims, size_t dim_count, const double *points,
                             const double *scores, size_t count,
                             const troupe_importance_options *how, double *importance)
{
    for (size_t i = 0; i < dim_count; i++)
        TROUPE_TRY(check_dim(&dims[i], i));
    if (how->method == TROUPE_IMPORTANCE_FANOVA) {
        const trp_fanova_how forest = {how->trees, how->depth, how->seed};
        return trp_fanova(dims, dim_count, points, scores, count, &forest, importance);
    }
    const trp_pedanova_how among = {how->quantile, how->region};
    return trp_pedanova(dims, dim_count, points, scores, count, &among, importance);
}

troupe_status troupe_importance_with(const troupe_dim *dims, size_t dim_count, const double *points,
                                     const double *scores, size_t count, double *importance,
                                     const troupe_importance_options *how)
{
    troupe_importance_options taken;
    TRP_REQUIRE(dims);
    TRP_REQUIRE(points);
    TRP_REQUIRE(scores);
    TRP_REQUIRE(importance);
    TRP_REQUIRE_COUNT(dim_count, sizeof(troupe_dim));
    TRP_REQUIRE_COUNT(count, (dim_count + 1) * sizeof(double));
    TROUPE_TRY(take_options(how, &taken));
    return measure(dims, dim_count, points, scores, count, &taken, importance);
}

static int by_value(const void *left, const void *right)
{
    const troupe_param_importance *one = left, *other = right;
    if (one->value != other->value)
        return one->value > other->value ? -1 : 1;
    return strcmp(one->name, other->name);
}

static troupe_status list_params(const trp_trials *trials, const troupe_importance_options *how,
                                 const troupe_param_importance **params)
{
    double importance[TRP_TRIALS_COLUMNS], sum = 0;
    TROUPE_TRY(trp_trials_importance(trials, how, importance));
    troupe_param_importance *made = trp_arena_alloc(
        trp_arena_current(), (trials->column_count + 1) * sizeof(troupe_param_importance));
    for (size_t i = 0; made != NULL && i < trials->column_count; i++) {
        size_t length = strlen(trials->columns[i].name) + 1;
        char *name = trp_arena_alloc(trp_arena_current(), length);
        if (name == NULL)
            made = NULL;
        else
            made[i] = (troupe_param_importance){
                .name = memcpy(name, trials->columns[i].name, length), .value = importance[i]};
        sum += importance[i];
    }
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the importance of %zu parameters",
                           trials->column_count);
    for (size_t i = 0; i < trials->column_count; i++)
        made[i].share = sum > 0 ? made[i].value / sum : 0;
    qsort(made, trials->column_count, sizeof *made, by_value);
    *params = made;
    return TROUPE_OK;
}

troupe_status troupe_importance_of_with(const char *path, const troupe_param_importance **params,
                                        size_t *count, const troupe_importance_options *how)
{
    troupe_importance_options taken;
    trp_trials trials;
    TRP_REQUIRE(path);
    TRP_REQUIRE(params);
    TRP_REQUIRE(count);
    TROUPE_TRY(take_options(how, &taken));
    troupe_status status = trp_trials_read(path, &trials);
    if (status == TROUPE_OK &&
        (taken.objective < 0 || (size_t)taken.objective >= trials.objectives))
        status = troupe_fail(TROUPE_INVALID, ".objective is %d; there are %zu, from 0",
                             taken.objective, trials.objectives);
    if (status == TROUPE_OK)
        status = list_params(&trials, &taken, params);
    if (status == TROUPE_OK)
        *count = trials.column_count;
    trp_trials_free(&trials);
    return status;
}

// ---- the page

typedef struct ranked {
    double value;
    size_t index;
} ranked;

static int by_rank(const void *left, const void *right)
{
    const ranked *one = left, *other = right;
    if (one->value != other->value)
        return one->value < other->value ? -1 : 1;
    return (one->index > other->index) - (one->index < other->index);
}

// Which trials the page has, where it cannot have all: a fifth of it are the best, and those that
// were the best when they came or are on the front; the rest are others evenly.
static bool keep_some(trp_page_facts *facts)
{
    const trp_trials *trials = facts->trials;
    enum { BEST = TRP_PAGE_TRIALS / 5 };
    size_t every = trials->count / (TRP_PAGE_TRIALS - 2 * BEST) + 1, used = 0;
    ranked *ranks = trp_alloc((trials->count + 1) * sizeof *ranks);
    const trp_seen_trial *best = NULL;
    if (ranks == NULL)
        return false;
    for (size_t i = 0; i < trials->count; i++) {
        const trp_seen_trial *it = trials->trials[i];
        double value = it->values[0];
        facts->kept[i] = i % every == 0 || (facts->front != NULL && facts->front[i]);
        if (isnan(value) || !trp_trials_counts(it))
            continue;
        if (best == NULL || trp_trials_better(trials, 0, value, best->values[0])) {
            best = it;
            facts->kept[i] = true;
        }
        ranks[used++] = (ranked){trials->goals[0] == TROUPE_MAXIMIZE ? -value : value, i};
    }
    qsort(ranks, used, sizeof *ranks, by_rank);
    for (size_t i = 0; i < used && i < BEST; i++)
        facts->kept[ranks[i].index] = true;
    trp_free(ranks);
    return true;
}

static troupe_status gather_importance(const trp_trials *trials, double *pedanova, double *fanova)
{
    for (size_t i = 0; i < trials->objectives; i++) {
        troupe_importance_options how;
        TROUPE_TRY(take_options(NULL, &how));
        how.objective = (int)i;
        TROUPE_TRY(trp_trials_importance(trials, &how, pedanova + i * trials->column_count));
        how.method = TROUPE_IMPORTANCE_FANOVA;
        TROUPE_TRY(trp_trials_importance(trials, &how, fanova + i * trials->column_count));
    }
    return TROUPE_OK;
}

static troupe_status gather(trp_trials *trials, trp_page_facts *facts)
{
    size_t figures = trials->objectives * trials->column_count + 1;
    double *room = trp_arena_alloc(&trials->arena, 2 * figures * sizeof *room);
    bool *front = trp_arena_alloc(&trials->arena, trials->count + 1);
    *facts = (trp_page_facts){.trials = trials,
                              .best = trp_trials_best(trials),
                              .kept = trp_arena_alloc(&trials->arena, trials->count + 1)};
    if (room == NULL || front == NULL || facts->kept == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the report of %s", trials->file);
    facts->pedanova = room;
    facts->fanova = room + figures;
    TROUPE_TRY(gather_importance(trials, room, room + figures));
    if (trials->objectives > 1) {
        TROUPE_TRY(trp_trials_front(trials, front));
        facts->front = front;
    }
    if (trials->count <= TRP_PAGE_TRIALS)
        memset(facts->kept, true, trials->count);
    else if (!keep_some(facts))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the report of %s", trials->file);
    for (size_t i = 0; i < trials->count; i++) {
        facts->kept_count += facts->kept[i];
        facts->reporting += facts->kept[i] && trials->trials[i]->used > 1;
    }
    return TROUPE_OK;
}

static troupe_status make_report(const char *path, const char *file, trp_trials *trials)
{
    trp_path to;
    trp_page_facts facts;
    trp_buffer page = {0};
    TROUPE_TRY(trp_trials_read(path, trials));
    if (file != NULL)
        TROUPE_TRY(trp_path_make(&to, "%s", file));
    else if (trials->name == strrchr(trials->folder, '/') + 1)
        TROUPE_TRY(trp_path_make(&to, "%s/report.html", trials->folder));
    else
        TROUPE_TRY(trp_path_make(&to, "%s.html", trials->file));
    trp_trials_times(trials);
    TROUPE_TRY(gather(trials, &facts));
    trp_page(&facts, trp_time_now().text, &page);
    troupe_status status =
        page.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the report of %s", trials->file)
                    : trp_file_replace(to.text, page.data, page.size);
    trp_buffer_free(&page);
    return status;
}

troupe_status troupe_sweep_report(const char *path, const char *file)
{
    trp_trials trials;
    troupe_error kept;
    TRP_REQUIRE(path);
    trp_error_hold(&kept);
    troupe_status status = make_report(path, file, &trials);
    trp_trials_free(&trials);
    if (status == TROUPE_OK) // What could not be read on the way is left out.
        trp_error_restore(&kept);
    return status;
}

// ---- the best

static const char *own_text(const char *text, size_t size)
{
    char *copy = trp_arena_alloc(trp_arena_current(), size + 1);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

static troupe_status fill_best(const trp_trials *trials, const trp_seen_trial *it, double value,
                               troupe_best_trial *best)
{
    *best = (troupe_best_trial){.number = it->number,
                                .value = value,
                                .config = trp_trials_config(trials, it, trp_arena_current())};
    if (it->name != NULL)
        best->name = own_text(it->name, strlen(it->name));
    if (trials->model != NULL)
        best->model = own_text(trials->model, strlen(trials->model));
    if (trials->began_in != NULL)
        best->command_folder = own_text(trials->began_in, strlen(trials->began_in));
    bool lacks = best->config == NULL || (trials->began_in != NULL && !best->command_folder) ||
                 (it->name != NULL && best->name == NULL) ||
                 (trials->model != NULL && best->model == NULL);
    if (!lacks && trials->command.size > 0)
        lacks = (best->command = trp_command_of(trials->command, it->config, it->number)) == NULL;
    return lacks ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the best trial of %s", trials->file)
                 : TROUPE_OK;
}

troupe_status troupe_best_trial_get_by_with(const char *path, troupe_best_trial *best, size_t size,
                                            const troupe_best_options *how)
{
    trp_trials trials;
    troupe_best_trial found;
    const trp_seen_trial *it;
    double value;
    TRP_REQUIRE(path);
    TRP_REQUIRE(best);
    troupe_status status = trp_trials_read_best(path, how, &trials, &it, &value);
    if (status == TROUPE_OK)
        status = fill_best(&trials, it, value, &found);
    trp_trials_free(&trials);
    if (status == TROUPE_OK)
        trp_output_give(best, size, &found, sizeof found);
    return status;
}

troupe_status(troupe_best_trial_get)(const char *path, troupe_best_trial *best, size_t size)
{
    return troupe_best_trial_get_by_with(path, best, size, NULL);
}
