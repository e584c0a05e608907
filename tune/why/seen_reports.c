// seen_reports.c: see seen_reports.h.
#include <tune/why/seen_reports.h>

#include <math.h>
#include <string.h>
#include <tune/sweep/journal.h>

// ---- reading

static bool read_value(trp_json value, double *number)
{
    trp_arena arena = {0};
    *number = (double)NAN;
    bool read = trp_json_read(&troupe_type_double, value, &arena, number) == TROUPE_OK;
    trp_arena_clear(&arena);
    return read;
}

static bool add_metric(trp_trials *trials, const char *name, double value,
                       troupe_trial_report *report, troupe_metric *metrics)
{
    size_t known;
    if (!trp_seen_names_add(&trials->metric_names, name, &trials->arena, &known))
        return false;
    metrics[report->count++] = (troupe_metric){trials->metric_names.names[known], value};
    return true;
}

static size_t count_members(trp_json object)
{
    trp_json at = {0}, name, value;
    size_t count = 0;
    while (trp_json_next_member(object, &at, &name, &value))
        count++;
    return count;
}

// Of a sweep's line.
static bool take_metrics(trp_trials *trials, trp_json of, troupe_trial_report *report)
{
    trp_json at = {0}, name, value;
    trp_arena arena = {0};
    troupe_metric *metrics =
        trp_arena_alloc(&trials->arena, (count_members(of) + 1) * sizeof *metrics);
    bool whole = metrics != NULL;
    while (whole && trp_json_next_member(of, &at, &name, &value)) {
        const char *text = NULL;
        double number;
        whole = trp_json_read(&troupe_type_troupe_text, name, &arena, &text) == TROUPE_OK;
        if (whole && read_value(value, &number))
            whole = add_metric(trials, text, number, report, metrics);
    }
    trp_arena_clear(&arena);
    report->metrics = metrics;
    return whole;
}

const char *trp_seen_metric(const trp_trials *trials, size_t objective)
{
    static const char *const names[TRP_TRIALS_OBJECTIVES] = {
        "value", "value_1", "value_2", "value_3", "value_4", "value_5", "value_6", "value_7"};
    return trials->metrics[objective] != NULL ? trials->metrics[objective] : names[objective];
}

// Of a study's line, whose values have no names.
static bool take_values(trp_trials *trials, trp_json line, troupe_trial_report *report)
{
    trp_json value, item = {0};
    double number;
    troupe_metric *metrics =
        trp_arena_alloc(&trials->arena, TRP_TRIALS_OBJECTIVES * sizeof *metrics);
    report->metrics = metrics;
    if (metrics == NULL)
        return false;
    if (!trp_json_member(line, "values", &value))
        return !trp_json_member(line, "value", &value) || !read_value(value, &number) ||
               add_metric(trials, trp_seen_metric(trials, 0), number, report, metrics);
    for (size_t i = 0; i < TRP_TRIALS_OBJECTIVES && trp_json_next_item(value, &item); i++)
        if (read_value(item, &number) &&
            !add_metric(trials, trp_seen_metric(trials, i), number, report, metrics))
            return false;
    return true;
}

static troupe_trial_report *make_room(trp_trials *trials, trp_seen_trial *trial)
{
    if (trial->report_count < trial->report_room)
        return &trial->reports_kept[trial->report_count];
    size_t room = trial->report_room > 0 ? 2 * trial->report_room : 8;
    troupe_trial_report *larger = trp_arena_alloc(&trials->arena, room * sizeof *larger);
    if (larger == NULL)
        return NULL;
    if (trial->report_count > 0)
        memcpy(larger, trial->reports_kept, trial->report_count * sizeof *larger);
    trial->reports_kept = larger;
    trial->report_room = room;
    return &larger[trial->report_count];
}

bool trp_seen_report_take(trp_trials *trials, trp_seen_trial *trial, trp_json line, int number,
                          double elapsed_s)
{
    trp_json value;
    if (trial->report_count > 0 && number <= trial->reports_kept[trial->report_count - 1].number)
        return true;
    troupe_trial_report *report = make_room(trials, trial);
    if (report == NULL)
        return false;
    *report = (troupe_trial_report){.number = number, .elapsed_s = elapsed_s};
    if (trp_json_member(line, "checkpoint", &value) && trp_json_is_text(value) &&
        trp_json_read(&troupe_type_troupe_text, value, &trials->arena, &report->checkpoint) !=
            TROUPE_OK)
        return false;
    if (report->checkpoint != NULL &&
        (report->checkpoint =
             trp_journal_path(trials->folder, report->checkpoint, &trials->arena)) == NULL)
        return false;
    trial->report_count++;
    return trp_json_member(line, "metrics", &value) ? take_metrics(trials, value, report)
                                                    : take_values(trials, line, report);
}

// ---- values

static const double *metric_of(const troupe_trial_report *report, const char *metric)
{
    for (size_t i = 0; i < report->count; i++)
        if (strcmp(report->metrics[i].name, metric) == 0)
            return &report->metrics[i].value;
    return NULL;
}

static bool is_better(troupe_goal goal, double one, double other)
{
    return isnan(other) || (goal == TROUPE_MAXIMIZE ? one > other : one < other);
}

static double best_of(const troupe_trial_report *reports, size_t count, const char *metric,
                      troupe_goal goal)
{
    double best = (double)NAN;
    for (size_t i = 0; i < count; i++) {
        const double *value = metric_of(&reports[i], metric);
        if (value != NULL && isfinite(*value) && is_better(goal, *value, best))
            best = *value;
    }
    return best;
}

// Of the last `most` that have it.
static double mean_of(const troupe_trial_report *reports, size_t count, const char *metric,
                      size_t most)
{
    double sum = 0;
    size_t found = 0;
    for (size_t i = count; i > 0 && found < most; i--) {
        const double *value = metric_of(&reports[i - 1], metric);
        if (value != NULL) {
            sum += *value;
            found++;
        }
    }
    double mean = found > 0 ? sum / (double)found : (double)NAN;
    return isfinite(mean) ? mean : (double)NAN;
}

static bool is_reported(const troupe_trial_report *reports, size_t count, const char *metric)
{
    for (size_t i = 0; i < count; i++)
        if (metric_of(&reports[i], metric) != NULL)
            return true;
    return false;
}

double trp_seen_value(const troupe_trial_report *reports, size_t count, const char *metric,
                      troupe_goal goal, troupe_scope scope, double told)
{
    bool is_told = isfinite(told);
    if (!is_reported(reports, count, metric))
        return is_told ? told : (double)NAN;
    switch (scope) {
    case TROUPE_SCOPE_ALL:
        break;
    case TROUPE_SCOPE_LAST:
        return is_told ? told : mean_of(reports, count, metric, 1);
    case TROUPE_SCOPE_AVG:
        return mean_of(reports, count, metric, SIZE_MAX);
    case TROUPE_SCOPE_LAST_5_AVG:
        return mean_of(reports, count, metric, 5);
    case TROUPE_SCOPE_LAST_10_AVG:
        return mean_of(reports, count, metric, 10);
    }
    double best = best_of(reports, count, metric, goal);
    return is_told && is_better(goal, told, best) ? told : best;
}
