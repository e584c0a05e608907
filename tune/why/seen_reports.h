// seen_reports.h: all reports of a record, with all their metrics, for who wants more than
// tune/why/trials.h keeps of them.
#ifndef TRP_SEEN_REPORTS_H
#define TRP_SEEN_REPORTS_H

#include <troupe/results.h>
#include <tune/why/trials.h>

// The metric that an objective goes by: "value" and the like, where it has no name.
const char *trp_seen_metric(const trp_trials *trials, size_t objective);

// Keeps what a line has of a report, if it is behind those that the trial has. False: no memory.
bool trp_seen_report_take(trp_trials *trials, trp_seen_trial *trial, trp_json line, int number,
                          double elapsed_s);

// A trial's value of a metric; NaN: it has none. What it was told (NaN: nothing) is the last value
// and one of all; a mean it stands for where there is no report of the metric.
double trp_seen_value(const troupe_trial_report *reports, size_t count, const char *metric,
                      troupe_goal goal, troupe_scope scope, double told);

#endif
