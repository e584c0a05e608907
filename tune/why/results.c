// results.c: the public functions of troupe/results.h, but for the tables.
#include <tune/why/results.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
#include <runtime/base/require.h>
#include <stdio.h>
#include <string.h>
#include <tune/sweep/sweep.h>
#include <tune/why/seen_reports.h>

// ---- reading

static troupe_trial_state state_of(trp_trials_state state)
{
    static const troupe_trial_state states[TRP_TRIALS_STATES] = {
        [TRP_TRIALS_PENDING] = TROUPE_TRIAL_PENDING,
        [TRP_TRIALS_RUNNING] = TROUPE_TRIAL_RUNNING,
        [TRP_TRIALS_PAUSED] = TROUPE_TRIAL_PAUSED,
        [TRP_TRIALS_TERMINATED] = TROUPE_TRIAL_TERMINATED,
        [TRP_TRIALS_STOPPED] = TROUPE_TRIAL_STOPPED,
        [TRP_TRIALS_ERROR] = TROUPE_TRIAL_ERROR,
    };
    return states[state];
}

// In the arena. NULL with *lacks: no memory.
static const char *config_of(trp_trials *seen, const trp_seen_trial *it, bool *lacks)
{
    if (it->config.size == 0)
        return NULL;
    const char *config = trp_trials_config(seen, it, &seen->arena);
    *lacks = *lacks || config == NULL;
    return config;
}

static troupe_status make_views(troupe_results *results)
{
    trp_trials *seen = &results->seen;
    bool lacks = false;
    results->views = trp_arena_alloc(&seen->arena, (seen->count + 1) * sizeof *results->views);
    for (size_t i = 0; results->views != NULL && i < seen->count; i++) {
        const trp_seen_trial *it = seen->trials[i];
        results->views[i] = (troupe_trial_results){.number = it->number,
                                                   .name = it->name,
                                                   .state = state_of(it->state),
                                                   .config = config_of(seen, it, &lacks),
                                                   .elapsed_s = it->elapsed_s,
                                                   .error = it->error != NULL ? it->error : "",
                                                   .reports = it->reports_kept,
                                                   .count = it->report_count};
    }
    if (results->views == NULL || lacks)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the results of %s", seen->file);
    return TROUPE_OK;
}

troupe_status troupe_results_open(const char *path, troupe_results **results)
{
    if (results != NULL)
        *results = NULL;
    TRP_REQUIRE(path);
    TRP_REQUIRE(results);
    troupe_results *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the results of %s", path);
    troupe_status status = trp_trials_read_whole(path, &made->seen);
    if (status == TROUPE_OK)
        status = make_views(made);
    if (status == TROUPE_OK)
        *results = made;
    else
        troupe_results_free(&made);
    return status;
}

troupe_status troupe_sweep_results(const troupe_sweep *sweep, troupe_results **results)
{
    if (results != NULL)
        *results = NULL;
    TRP_REQUIRE(sweep);
    return troupe_results_open(sweep->folder, results);
}

void troupe_results_free(troupe_results **results)
{
    if (results == NULL || *results == NULL)
        return;
    trp_trials_free(&(*results)->seen);
    trp_free(*results);
    *results = NULL;
}

size_t troupe_results_count(const troupe_results *results)
{
    return TRP_IS_NULL(results) ? 0 : results->seen.count;
}

const troupe_trial_results *troupe_results_trial(const troupe_results *results, size_t index)
{
    if (TRP_IS_NULL(results) || index >= results->seen.count)
        return NULL;
    return &results->views[index];
}

// ---- values

static const trp_range ranges[] = {
    TRP_RANGE(troupe_best_options, goal, TROUPE_GOAL_NONE, TROUPE_MAXIMIZE),
    TRP_RANGE(troupe_best_options, scope, TROUPE_SCOPE_ALL, TROUPE_SCOPE_LAST_10_AVG),
};

// What is asked for, with defaults filled in. *objective: which of the sweep's the metric is, or
// how many it has.
static troupe_status take_options(const trp_trials *seen, const troupe_best_options *how,
                                  troupe_best_options *taken, size_t *objective)
{
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_results_best", *taken, how));
    TROUPE_TRY(
        trp_ranges_check("troupe_results_best", ranges, sizeof ranges / sizeof *ranges, taken));
    if (taken->metric == NULL)
        taken->metric = trp_seen_metric(seen, 0);
    for (*objective = 0; *objective < seen->objectives; ++*objective)
        if (strcmp(trp_seen_metric(seen, *objective), taken->metric) == 0)
            break;
    if (taken->goal == TROUPE_GOAL_NONE && *objective == seen->objectives)
        return troupe_fail(TROUPE_INVALID,
                           ".goal is missing, or --goal: the sweep %s was not about %s; expected "
                           "TROUPE_MINIMIZE or TROUPE_MAXIMIZE, or min or max",
                           seen->name, taken->metric);
    if (taken->goal == TROUPE_GOAL_NONE)
        taken->goal = seen->goals[*objective];
    return TROUPE_OK;
}

static double value_of(const trp_trials *seen, const trp_seen_trial *it,
                       const troupe_best_options *how, size_t objective)
{
    double told = objective < seen->objectives ? it->told[objective] : (double)NAN;
    return trp_seen_value(it->reports_kept, it->report_count, how->metric, how->goal, how->scope,
                          told);
}

// Refuses, with the metrics that there are.
static troupe_status none_has(const trp_trials *seen, const char *who, const char *metric)
{
    const trp_seen_names *names = &seen->metric_names;
    char known[256] = "";
    size_t length = 0;
    for (size_t i = 0; i < names->count && length < sizeof known - 1; i++)
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s",
                                   i == 0 ? "" : ", ", names->names[i]);
    return troupe_fail(TROUPE_NOT_FOUND, "%s of %s has a value of %s; reports have %s", who,
                       seen->name, metric, names->count == 0 ? "no metrics" : known);
}

troupe_status troupe_results_value_with(const troupe_results *results, size_t index, double *value,
                                        const troupe_best_options *how)
{
    troupe_best_options taken;
    size_t objective;
    TRP_REQUIRE(results);
    TRP_REQUIRE(value);
    const trp_trials *seen = &results->seen;
    TROUPE_TRY(take_options(seen, how, &taken, &objective));
    if (index >= seen->count)
        return troupe_fail(TROUPE_INVALID, "there is no trial at %zu: there are %zu", index,
                           seen->count);
    double found = value_of(seen, seen->trials[index], &taken, objective);
    if (isnan(found))
        return none_has(seen, "that trial", taken.metric);
    *value = found;
    return TROUPE_OK;
}

// Where in seen->trials the best is.
static troupe_status find_best(const trp_trials *seen, const troupe_best_options *how,
                               size_t *index, double *value)
{
    troupe_best_options taken;
    size_t objective, best = seen->count;
    double best_value = (double)NAN;
    TROUPE_TRY(take_options(seen, how, &taken, &objective));
    for (size_t i = 0; i < seen->count; i++) {
        const trp_seen_trial *it = seen->trials[i];
        double found = trp_trials_counts(it) ? value_of(seen, it, &taken, objective) : (double)NAN;
        bool better = isnan(best_value) ||
                      (taken.goal == TROUPE_MAXIMIZE ? found > best_value : found < best_value);
        if (isnan(found) || !better)
            continue;
        best = i;
        best_value = found;
    }
    if (best == seen->count)
        return none_has(seen, "no trial", taken.metric);
    *index = best;
    *value = best_value;
    return TROUPE_OK;
}

troupe_status troupe_results_best_with(const troupe_results *results,
                                       const troupe_trial_results **trial, double *value,
                                       const troupe_best_options *how)
{
    size_t best = 0;
    double best_value;
    TRP_REQUIRE(results);
    TRP_REQUIRE(trial);
    TROUPE_TRY(find_best(&results->seen, how, &best, &best_value));
    *trial = &results->views[best];
    if (value != NULL)
        *value = best_value;
    return TROUPE_OK;
}

troupe_status trp_trials_read_best(const char *path, const troupe_best_options *how,
                                   trp_trials *trials, const trp_seen_trial **best, double *value)
{
    if (how != NULL) {
        size_t index = 0;
        TROUPE_TRY(trp_trials_read_whole(path, trials));
        TROUPE_TRY(find_best(trials, how, &index, value));
        *best = trials->trials[index];
    } else {
        TROUPE_TRY(trp_trials_read(path, trials));
        *best = trp_trials_best(trials);
        *value = *best != NULL ? (*best)->values[0] : (double)NAN;
    }
    if (*best == NULL || (*best)->config.size == 0)
        return troupe_fail(TROUPE_NOT_FOUND, "no trial of %s has a value", trials->file);
    return TROUPE_OK;
}

troupe_status troupe_sweep_best_by_with(const troupe_sweep *sweep, const troupe_trial **trial,
                                        double *value, const troupe_best_options *how)
{
    troupe_results *results;
    const troupe_trial_results *best = NULL;
    double found;
    TRP_REQUIRE(sweep);
    TRP_REQUIRE(trial);
    TROUPE_TRY(troupe_sweep_results(sweep, &results));
    troupe_status status = troupe_results_best_with(results, &best, &found, how);
    const troupe_trial *own = best != NULL ? troupe_sweep_trial(sweep, (size_t)best->number) : NULL;
    if (status == TROUPE_OK && own == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a trial");
    troupe_results_free(&results);
    if (status != TROUPE_OK)
        return status;
    *trial = own;
    if (value != NULL)
        *value = found;
    return TROUPE_OK;
}
