// trial.c: the transitions of a trial.
#include <tune/sweep/trial.h>

#include <math.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <string.h>

// The first reason is the one that is told.
static void set_error(trp_trial *trial, const char *error)
{
    if (trial->view.error[0] != '\0')
        return;
    char *copy = trp_strdup(error);
    trial->owns_error = copy != NULL;
    trial->view.error = copy == NULL ? "it failed, and there is no memory for the reason" : copy;
}

void trp_trial_submitted(trp_trial *trial, troupe_job *job)
{
    trp_assert(trial->phase == TRP_TRIAL_WAITING);
    trial->phase = TRP_TRIAL_QUEUED;
    trial->job = job;
}

void trp_trial_refused(trp_trial *trial, const char *error)
{
    trp_assert(trial->phase == TRP_TRIAL_WAITING);
    trial->phase = TRP_TRIAL_ENDED;
    trial->view.state = TROUPE_TRIAL_ERROR;
    set_error(trial, error);
}

void trp_trial_running(trp_trial *trial)
{
    trp_assert(trial->phase == TRP_TRIAL_QUEUED || trial->phase == TRP_TRIAL_RUNNING);
    trial->phase = TRP_TRIAL_RUNNING;
    trial->view.state = TROUPE_TRIAL_RUNNING;
}

bool trp_trial_report(trp_trial *trial, const troupe_report_event *report, const char *metric,
                      troupe_goal goal, double *value)
{
    trp_trial_running(trial); // A report is proof that it runs.
    troupe_trial *view = &trial->view;
    view->elapsed_s = report->elapsed_s;
    if (report->number > view->reports)
        view->reports = report->number;
    for (size_t i = 0; i < report->count; i++) {
        if (strcmp(report->metrics[i].name, metric) != 0)
            continue;
        double x = report->metrics[i].value;
        bool first = isnan(view->best_metric);
        bool best = goal == TROUPE_MAXIMIZE ? x > view->best_metric : x < view->best_metric;
        if (!isnan(x) && (first || best))
            view->best_metric = x;
        *value = x;
        return true;
    }
    return false;
}

void trp_trial_decided(trp_trial *trial, troupe_act decision)
{
    trp_assert(trial->phase == TRP_TRIAL_RUNNING && decision != TROUPE_ACT_GO_ON);
    if (trial->decision == TROUPE_ACT_GO_ON)
        trial->decision = decision;
}

void trp_trial_broken(trp_trial *trial, const char *error)
{
    trp_assert(trial->phase == TRP_TRIAL_QUEUED || trial->phase == TRP_TRIAL_RUNNING);
    trial->broken = true;
    set_error(trial, error);
}

void trp_trial_ended(trp_trial *trial, troupe_status status, const char *error, bool stopped)
{
    trp_assert(trial->phase == TRP_TRIAL_QUEUED || trial->phase == TRP_TRIAL_RUNNING);
    trial->phase = TRP_TRIAL_ENDED;
    if (status != TROUPE_OK)
        set_error(trial, error[0] == '\0' ? troupe_strerror(status) : error);
    if (trial->broken || status != TROUPE_OK)
        trial->view.state = TROUPE_TRIAL_ERROR;
    else if (stopped && trial->decision == TROUPE_ACT_STOP)
        trial->view.state = TROUPE_TRIAL_STOPPED;
    else
        trial->view.state = TROUPE_TRIAL_TERMINATED;
}

bool trp_trial_is_stopping(const trp_trial *trial)
{
    return trial->broken || trial->decision != TROUPE_ACT_GO_ON;
}

void trp_trial_restore(trp_trial *trial)
{
    trial->phase = TRP_TRIAL_ENDED;
    trial->view.state = trial->state_before;
    if (trial->owns_error)
        trp_free((void *)trial->view.error);
    trial->owns_error = trial->error_before != NULL;
    trial->view.error = trial->owns_error ? trial->error_before : "";
    trial->error_before = NULL;
}

void trp_trial_free(trp_trial *trial)
{
    trp_assert(trial->job == NULL && trial->result == NULL);
    if (trial->owns_error)
        trp_free((void *)trial->view.error);
    trp_free((void *)trial->error_before);
    trp_free((void *)trial->view.name);
    trp_free((void *)trial->view.config);
    trp_free(trial->values);
    *trial = (trp_trial){.view.error = ""};
}
