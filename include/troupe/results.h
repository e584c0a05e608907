// results.h: what the trials of a sweep have reported: every report of each, the best by any metric
// and over any scope, and tables of it as CSV and JSON. It is read from the sweep's record, so a
// sweep may be running, in any program, or have been killed. A study's file has results, too.
//
//     troupe_results *results;
//     troupe_must(troupe_results_open("runs/fit", &results));
//     const troupe_trial_results *best;
//     double value;
//     troupe_must(troupe_results_best(results, &best, &value, .metric = "accuracy",
//                                     .goal = TROUPE_MAXIMIZE, .scope = TROUPE_SCOPE_LAST_5_AVG));
//     printf("%s: %g with %s\n", best->name, value, best->config);
//     troupe_must(troupe_results_export(results, stdout, .reports = true));
//     troupe_results_free(&results);
#ifndef TROUPE_RESULTS_H
#define TROUPE_RESULTS_H

#include <stdio.h>

#include <troupe/tune.h>
#include <troupe/why.h>

TROUPE_BEGIN_C

// Which of a trial's reports count for its value of a metric: of those that have it. What a study's
// trial was told at its end (troupe_study_tell) is its last value, and one of all; means are of its
// reports, where it has any.
typedef enum troupe_scope {
    TROUPE_SCOPE_ALL,         // The best of all: what a sweep itself goes by.
    TROUPE_SCOPE_LAST,        // The last one.
    TROUPE_SCOPE_AVG,         // The mean of all,
    TROUPE_SCOPE_LAST_5_AVG,  // of the last 5, or as many as there are,
    TROUPE_SCOPE_LAST_10_AVG, // of the last 10.
} troupe_scope;

// One report. Texts and arrays of results live as long as these.
typedef struct troupe_trial_report {
    int number;       // From 1 on.
    double elapsed_s; // Of the trial, pauses left out.
    const troupe_metric *metrics;
    size_t count;
    const char *checkpoint; // Folder of the one that came with it; NULL: none is known.
} troupe_trial_report;

// One trial, as its record has it.
typedef struct troupe_trial_results {
    int number;
    const char *name; // Of its folder beside the record; NULL: it has none.
    troupe_trial_state state;
    const char *config; // JSON; NULL: not known.
    double elapsed_s;
    const char *error; // Empty if there was none.
    const troupe_trial_report *reports;
    size_t count;
} troupe_trial_results;

typedef struct troupe_results troupe_results;

// Reads what there is by now of a sweep's folder or a study's file. The caller owns *results.
// TROUPE_NOT_FOUND, TROUPE_CORRUPT: it is none, and why; TROUPE_VERSION: it is a later version's;
// TROUPE_IO, TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_results_open(const char *path,
                                                                      troupe_results **results);
// The same of a sweep of this program, which may run. What its record could not take (a full disk)
// is missing.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_sweep_results(const troupe_sweep *sweep,
                                                                       troupe_results **results);
// Frees them and clears *results. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_results_free(troupe_results **results);

// Trials, in the order of their numbers. NULL: there is none at that index.
TROUPE_EXPERIMENTAL size_t troupe_results_count(const troupe_results *results);
TROUPE_EXPERIMENTAL const troupe_trial_results *troupe_results_trial(const troupe_results *results,
                                                                     size_t index);

typedef struct troupe_best_options {
    size_t size;
    const char *metric; // Default: the sweep's (first) one.
    troupe_goal goal;   // Required for a metric that is none of the sweep's; else default: its.
    troupe_scope scope; // Default: TROUPE_SCOPE_ALL.
    int unused_;
} troupe_best_options;

// A trial's value of a metric. TROUPE_NOT_FOUND: it has none: no report has the metric, or what
// counts of it is not finite (for ALL: none of it is). TROUPE_INVALID: an option is out of range,
// or there is no such index.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_results_value_with(
    const troupe_results *results, size_t index, double *value, const troupe_best_options *how);
#define troupe_results_value(...) TROUPE_RESULTS_VALUE_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_RESULTS_VALUE_(results, index, value, ...)                                          \
    troupe_results_value_with(                                                                     \
        (results), (index), (value),                                                               \
        &(troupe_best_options){.size = sizeof(troupe_best_options), __VA_ARGS__})

// The trial with the best value; of two alike the first. Trials that failed do not count, nor do
// those with a violation (troupe_study_tell_values); those that run do. *value may be NULL.
// TROUPE_NOT_FOUND: no trial has a value; the text names the metrics that there are.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_results_best_with(const troupe_results *results, const troupe_trial_results **trial,
                         double *value, const troupe_best_options *how);
#define troupe_results_best(...) TROUPE_RESULTS_BEST_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_RESULTS_BEST_(results, trial, value, ...)                                           \
    troupe_results_best_with(                                                                      \
        (results), (trial), (value),                                                               \
        &(troupe_best_options){.size = sizeof(troupe_best_options), __VA_ARGS__})

// The same of a sweep of this program, as its trial, with its typed config:
//     troupe_sweep_best_by(sweep, &trial, &value, .scope = TROUPE_SCOPE_LAST)
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_sweep_best_by_with(const troupe_sweep *sweep, const troupe_trial **trial, double *value,
                          const troupe_best_options *how);
#define troupe_sweep_best_by(...) TROUPE_SWEEP_BEST_BY_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SWEEP_BEST_BY_(sweep, trial, value, ...)                                            \
    troupe_sweep_best_by_with(                                                                     \
        (sweep), (trial), (value),                                                                 \
        &(troupe_best_options){.size = sizeof(troupe_best_options), __VA_ARGS__})

// The same of a folder or a file, in place of what troupe_best_trial_get (why.h) takes for the
// best:
//     troupe_best_trial_get_by("runs/fit", &best, .metric = "accuracy", .goal = TROUPE_MAXIMIZE)
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_best_trial_get_by_with(
    const char *path, troupe_best_trial *best, size_t size, const troupe_best_options *how);
#define troupe_best_trial_get_by(...) TROUPE_BEST_TRIAL_GET_BY_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_BEST_TRIAL_GET_BY_(path, best, ...)                                                 \
    troupe_best_trial_get_by_with(                                                                 \
        (path), (best), sizeof(troupe_best_trial),                                                 \
        &(troupe_best_options){.size = sizeof(troupe_best_options), __VA_ARGS__})

// Trains that one once more, as troupe_best_trial_exec (why.h) does: returns on failure alone.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_best_trial_exec_by_with(const char *path, const troupe_best_options *how);
#define troupe_best_trial_exec_by(...) TROUPE_BEST_TRIAL_EXEC_BY_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_BEST_TRIAL_EXEC_BY_(path, ...)                                                      \
    troupe_best_trial_exec_by_with(                                                                \
        (path), &(troupe_best_options){.size = sizeof(troupe_best_options), __VA_ARGS__})

typedef enum troupe_export_format {
    TROUPE_EXPORT_CSV, // With a line of names, quoted as RFC 4180 says; what is not known is empty.
    TROUPE_EXPORT_JSON, // An object with `trials`, a list.
} troupe_export_format;

typedef struct troupe_export_options {
    size_t size;
    troupe_export_format format;
    bool reports; // CSV: a row for each report; JSON: each trial has a list of them.
    int unused_;
} troupe_export_options;

// Writes a table to a file that the caller has open. The columns of CSV, a row for each trial:
// number, name, state, reports, elapsed_s, error, then config/NAME for each parameter (of nested
// ones "config/fitting/rate"), last/METRIC for each metric as it was reported last, best/METRIC for
// the sweep's own. A row for each report: number, name, report, elapsed_s, checkpoint, and
// metric/METRIC for each. TROUPE_IO, TROUPE_NO_SPACE, TROUPE_NO_MEMORY; TROUPE_INVALID: an option
// is out of range.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_results_export_with(
    const troupe_results *results, FILE *out, const troupe_export_options *how);
#define troupe_results_export(...) TROUPE_RESULTS_EXPORT_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_RESULTS_EXPORT_(results, out, ...)                                                  \
    troupe_results_export_with(                                                                    \
        (results), (out),                                                                          \
        &(troupe_export_options){.size = sizeof(troupe_export_options), __VA_ARGS__})

TROUPE_END_C

#endif
