// reports.c: what trials report: it is remembered, put down, and decided on, and their jobs are
// told.
#include <tune/sweep/control.h>

#include <math.h>
#include <runtime/base/buffer.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <tune/sweep/journal.h>

enum { METRICS_MAX = 32 }; // Of a report: see troupe_report_metrics.

// ---- what a report says

// The column of a metric; TRP_COLUMNS_MAX: it is not shown.
static size_t column_of(troupe_sweep *sweep, const char *metric)
{
    for (size_t i = 0; i < sweep->column_count; i++) {
        if (strcmp(sweep->columns[i], metric) == 0)
            return i;
    }
    if (sweep->columns_given || sweep->column_count == TRP_COLUMNS_MAX)
        return TRP_COLUMNS_MAX;
    snprintf(sweep->columns[sweep->column_count], TRP_METRIC_NAME, "%s", metric);
    return sweep->column_count++;
}

static troupe_status remember_columns(troupe_sweep *sweep, trp_trial *trial,
                                      const troupe_report_event *report)
{
    if (trial->values == NULL)
        trial->values = trp_alloc(TRP_COLUMNS_MAX * sizeof *trial->values);
    if (trial->values == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the metrics of a trial");
    for (size_t i = 0; i < report->count; i++) {
        size_t column = column_of(sweep, report->metrics[i].name);
        if (column == TRP_COLUMNS_MAX)
            continue;
        trial->values[column] = report->metrics[i].value;
        trial->known |= (uint64_t)1 << column;
    }
    return TROUPE_OK;
}

// Whether the report has the metric of each objective, which go to `values`.
static bool read_objectives(const troupe_sweep *sweep, const troupe_report_event *report,
                            double *values)
{
    size_t found = 0;
    for (size_t i = 0; i < sweep->objective_count; i++) {
        for (size_t j = 0; j < report->count; j++) {
            if (strcmp(report->metrics[j].name, sweep->objectives[i].metric) != 0)
                continue;
            values[i] = report->metrics[j].value;
            found++;
            break;
        }
    }
    return found == sweep->objective_count;
}

// Of two with the same value the first one is the best.
bool trp_control_is_better(const troupe_sweep *sweep, const trp_trial *trial, const trp_trial *best)
{
    double x = trial->view.best_metric, y = best != NULL ? best->view.best_metric : NAN;
    if (best == NULL || x == y)
        return best == NULL || trial->number < best->number;
    return sweep->objectives[0].goal == TROUPE_MAXIMIZE ? x > y : x < y;
}

troupe_status trp_control_remember(trp_control *control, trp_trial *trial,
                                   const troupe_report_event *report, double *values, bool *usable)
{
    troupe_sweep *sweep = control->sweep;
    double value = NAN, before = trial->view.best_metric;
    size_t count = sweep->objective_count;
    *usable = read_objectives(sweep, report, values);
    (void)trp_trial_report(trial, report, trp_sweep_metric(sweep), sweep->objectives[0].goal,
                           &value);
    double best = trial->view.best_metric;
    if (!isnan(best) && !trp_trial_failed(trial) &&
        trp_control_is_better(sweep, trial, sweep->best))
        sweep->best = trial;
    if (*usable && count > 1 && !isnan(best) && (isnan(before) || best != before)) {
        if (trial->at_best == NULL)
            trial->at_best = trp_alloc(count * sizeof *trial->at_best);
        if (trial->at_best == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for the metrics of a trial");
        memcpy(trial->at_best, values, count * sizeof *values);
    }
    return remember_columns(sweep, trial, report);
}

void trp_control_give_up(trp_control *control, trp_trial *trial, const troupe_report_event *report)
{
    const troupe_sweep *sweep = control->sweep;
    char names[256] = "", sentence[512];
    const char *missing = trp_sweep_metric(sweep);
    size_t length = 0;
    for (size_t i = 0; i < report->count && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                   i == 0 ? "" : ", ", report->metrics[i].name);
    for (size_t i = 0; i < sweep->objective_count; i++) {
        bool has = false;
        for (size_t j = 0; j < report->count && !has; j++)
            has = strcmp(report->metrics[j].name, sweep->objectives[i].metric) == 0;
        if (!has) {
            missing = sweep->objectives[i].metric;
            break;
        }
    }
    bool full = sweep->port->prints && report->count == METRICS_MAX;
    snprintf(sentence, sizeof sentence, "report %d lacks the sweep's metric %s; it has %s%s",
             report->number, missing, names[0] == '\0' ? "none" : names,
             full ? ", and no more numbers of a line are taken" : "");
    trp_trial_broken(trial, sentence);
    if (trial->job != NULL)
        trp_control_ask(control, trial, sweep->port->stop);
}

// ---- deciding

troupe_status trp_control_clone(trp_control *control, trp_trial *trial, int source)
{
    const trp_trial *of = control->sweep->trials[source];
    trp_free(trial->from);
    trial->from = of->checkpoint != NULL ? trp_strdup(of->checkpoint) : NULL;
    trial->source = source;
    if (of->checkpoint != NULL && trial->from == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the clone of %s", of->view.name);
    return TROUPE_OK;
}

void trp_control_resize(trp_control *control, const trp_trial *trial)
{
    trp_control_away(control);
    troupe_status status = control->sweep->port->resize(trial->job, trial->ranks);
    trp_control_back(control);
    if (status != TROUPE_OK)
        trp_log(TRP_WARN, "trial %s goes on with the ranks that it has: %s", trial->view.name,
                troupe_last_error()->text);
}

void trp_control_tell(trp_control *control, trp_trial *trial)
{
    const trp_sweep_port *port = control->sweep->port;
    troupe_act act = trial->decision;
    if (act == TROUPE_ACT_RESIZE)
        trial->decision = TROUPE_ACT_GO_ON;
    if (trial->job == NULL)
        return;
    switch (act) {
    case TROUPE_ACT_STOP:
    case TROUPE_ACT_END:
    case TROUPE_ACT_CLONE:
        trp_control_ask(control, trial, port->stop);
        break;
    case TROUPE_ACT_PAUSE:
        trp_control_ask(control, trial, port->pause);
        break;
    case TROUPE_ACT_RESIZE:
        trp_control_resize(control, trial);
        break;
    case TROUPE_ACT_GO_ON:
        break;
    }
}

// Where the gate waits for the decision it is the gate that tells the job, which needs no server
// that runs. But it stops trainers that save when they are due before they have saved, and asked by
// both to pause, the job could be paused again once it has gone on.
static void carry_out(trp_control *control, trp_trial *trial)
{
    trp_slot *of = trial->slot;
    bool pauses = trial->decision == TROUPE_ACT_PAUSE || trial->decision == TROUPE_ACT_RESIZE;
    bool here = control->sweep->how.server == TROUPE_SERVER_NONE;
    if (!trp_slot_waits(of, of->told) || (!pauses && (here || of->saves))) {
        trp_control_tell(control, trial);
    } else if (trial->decision == TROUPE_ACT_RESIZE) {
        trial->decision = TROUPE_ACT_GO_ON;
        of->resizes = here ? of->told : 0;
    }
}

// A gate that still waits with an earlier report is not asked, and tells the job nothing: a
// server's alone is asked later.
static void resize_unasked(trp_control *control, const trp_trial *trial)
{
    trp_slot *of = trial->slot;
    int report = of->resizes;
    of->resizes = 0;
    if (report > 0 && trp_events_take_over(&control->events, &of->dealt, report))
        trp_control_resize(control, trial);
}

// Asks the study about a report. *act: what the trial's job is to be told.
static troupe_status judge(trp_control *control, trp_trial *trial,
                           const troupe_report_event *report, const double *values, troupe_act *act)
{
    trp_buffer text = {0};
    troupe_verdict verdict = {.size = sizeof verdict};
    const char *more = trp_journal_of_report(&text, control->sweep, trial, report);
    troupe_status status =
        more == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a report of a trial")
                     : trp_study_decide(control->study, trial->number, report->number, values,
                                        report->elapsed_s, trial->ranks, more, &verdict);
    trp_buffer_free(&text);
    *act = status == TROUPE_OK ? verdict.act : TROUPE_ACT_GO_ON;
    if (status != TROUPE_OK || verdict.act == TROUPE_ACT_GO_ON)
        return status;
    if (verdict.act == TROUPE_ACT_CLONE)
        TROUPE_TRY(trp_control_clone(control, trial, verdict.source));
    if (verdict.act == TROUPE_ACT_RESIZE)
        trial->ranks = trial->given = verdict.ranks;
    trp_trial_decided(trial, verdict.act);
    return TROUPE_OK;
}

// Keeps a report that came on the way to a pause. Behind a gate that has told the job there is one
// of these at most: another one says that the gate's time had passed.
static troupe_status keep_pent(trp_control *control, trp_trial *trial, trp_event **event)
{
    trp_pent *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a report of a trial");
    if (trial->slot->gated && trial->pent != NULL && trial->pent->next == NULL)
        trp_control_ask(control, trial, control->sweep->port->pause);
    *made = (trp_pent){.event = *event};
    *event = NULL;
    *trial->last = made;
    trial->last = &made->next;
    return TROUPE_OK;
}

// A report that has not been looked at. *act: what its job is told.
troupe_status trp_control_take_new(trp_control *control, trp_trial *trial,
                                   const troupe_report_event *report, troupe_act *act)
{
    double values[TRP_OBJECTIVES_MAX];
    bool usable;
    trial->taken = report->number;
    trial->put_by = false;
    TROUPE_TRY(trp_control_remember(control, trial, report, values, &usable));
    // What comes until the job has stopped counts, and no more.
    if (!trp_trial_is_stopping(trial) && usable)
        return judge(control, trial, report, values, act);
    trp_journal_reported(control->record, control->sweep, trial, report);
    if (!trp_trial_is_stopping(trial))
        trp_control_give_up(control, trial, report);
    *act = TROUPE_ACT_STOP;
    return TROUPE_OK;
}

// One whose job has just made it.
static troupe_status take_now(trp_control *control, trp_trial *trial,
                              const troupe_report_event *report, troupe_act *act)
{
    troupe_act before = trial->decision;
    TROUPE_TRY(trp_control_take_new(control, trial, report, act));
    if (trial->decision != before)
        carry_out(control, trial);
    return TROUPE_OK;
}

// The trial's newest checkpoint. *is_new: it is.
static troupe_status keep_checkpoint(trp_trial *trial, const troupe_report_event *of, bool *is_new)
{
    int number = trial->base + of->number;
    *is_new =
        of->checkpoint != NULL && number > trial->saved && trial->decision != TROUPE_ACT_CLONE;
    if (!*is_new)
        return TROUPE_OK;
    char *copy = trp_strdup(of->checkpoint);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the name of a checkpoint");
    trp_free(trial->checkpoint);
    trial->checkpoint = copy;
    trial->saved = number;
    return TROUPE_OK;
}

troupe_status trp_control_take_report(trp_control *control, trp_trial *trial, trp_event **event)
{
    bool is_new, is_put_down = false;
    troupe_report_event report = (*event)->report;
    int number = report.number;
    troupe_act act = TROUPE_ACT_GO_ON;
    resize_unasked(control, trial);
    trial->slot->told = number;
    TROUPE_TRY(keep_checkpoint(trial, &report, &is_new));
    report.number += trial->base;
    report.elapsed_s += trial->base_s;
    if (trial->decision == TROUPE_ACT_CLONE) // It is another one's from then on.
        act = TROUPE_ACT_CLONE;
    else if (trial->over)
        act = TROUPE_ACT_STOP;
    else if (report.number <= trial->taken) // By an earlier life of the sweep, or run of the trial.
        act = trp_trial_is_stopping(trial) ? TROUPE_ACT_STOP : TROUPE_ACT_GO_ON;
    else if (trial->decision == TROUPE_ACT_PAUSE && !trp_trial_is_stopping(trial))
        TROUPE_TRY(keep_pent(control, trial, event));
    else {
        TROUPE_TRY(take_now(control, trial, &report, &act));
        is_put_down = true; // With its checkpoint.
    }
    if (is_new && !is_put_down)
        trp_journal_checkpoint(control->record, control->sweep, trial, trial->saved,
                               trial->checkpoint);
    if (trial->slot->gated) // What a gate answers follows from the report's line.
        trp_tune_record_write(control->record);
    trp_events_deal(&control->events, &trial->slot->dealt, number, act, trial->ranks);
    return TROUPE_OK;
}

troupe_status trp_control_take_checkpoint(trp_control *control, trp_trial *trial,
                                          const troupe_report_event *of)
{
    bool is_new;
    TROUPE_TRY(keep_checkpoint(trial, of, &is_new));
    if (is_new)
        trp_journal_checkpoint(control->record, control->sweep, trial, trial->saved,
                               trial->checkpoint);
    return TROUPE_OK;
}
