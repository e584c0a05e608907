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

static bool has_job(const trp_trial *trial)
{
    return trial->phase == TRP_TRIAL_QUEUED || trial->phase == TRP_TRIAL_RUNNING ||
           trial->phase == TRP_TRIAL_PAUSED;
}

void trp_trial_running(trp_trial *trial)
{
    trp_assert(has_job(trial));
    trial->phase = TRP_TRIAL_RUNNING;
    trial->view.state = TROUPE_TRIAL_RUNNING;
}

void trp_trial_paused(trp_trial *trial)
{
    trp_assert(has_job(trial));
    trial->phase = TRP_TRIAL_PAUSED;
    trial->view.state = TROUPE_TRIAL_PAUSED;
}

void trp_trial_goes_on(trp_trial *trial)
{
    trp_assert(trial->phase == TRP_TRIAL_PAUSED);
    trial->phase = TRP_TRIAL_QUEUED;
    trial->view.state = TROUPE_TRIAL_PENDING;
}

void trp_trial_between(trp_trial *trial, int base, char *from)
{
    trp_assert(has_job(trial));
    trial->phase = TRP_TRIAL_WAITING;
    trial->view.state = TROUPE_TRIAL_PENDING;
    trial->view.result = NULL;
    trial->decision = TROUPE_ACT_GO_ON;
    trial->run++;
    trial->base = base;
    trial->base_s = trial->view.elapsed_s;
    trial->due_ns = trial->left_ns = trial->silent_ns = 0;
    trial->submitted_before = trial->left = trial->reopens = trial->has_own = false;
    trial->acts_first = trial->cloned_before = false;
    trp_free(trial->from);
    trial->from = from;
}

bool trp_trial_report(trp_trial *trial, const troupe_report_event *report, const char *metric,
                      troupe_goal goal, double *value)
{
    if (trial->phase != TRP_TRIAL_PAUSED)
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
    trp_assert(has_job(trial) && decision != TROUPE_ACT_GO_ON);
    if (!trp_trial_is_stopping(trial))
        trial->decision = decision;
}

void trp_trial_broken(trp_trial *trial, const char *error)
{
    trp_assert(has_job(trial));
    trial->broken = true;
    set_error(trial, error);
}

void trp_trial_ended(trp_trial *trial, troupe_status status, const char *error, bool stopped)
{
    trp_assert(trial->phase != TRP_TRIAL_ENDED);
    trial->phase = TRP_TRIAL_ENDED;
    if (status != TROUPE_OK)
        set_error(trial, error[0] == '\0' ? troupe_strerror(status) : error);
    if (trial->broken || status != TROUPE_OK)
        trial->view.state = TROUPE_TRIAL_ERROR;
    else if (stopped && trial->decision != TROUPE_ACT_END)
        trial->view.state = TROUPE_TRIAL_STOPPED;
    else
        trial->view.state = TROUPE_TRIAL_TERMINATED;
}

bool trp_trial_failed(const trp_trial *trial)
{
    return trial->view.state == TROUPE_TRIAL_ERROR ||
           (trial->ended_before && trial->state_before == TROUPE_TRIAL_ERROR);
}

bool trp_trial_is_stopping(const trp_trial *trial)
{
    return trial->broken || trial->halted || trial->decision == TROUPE_ACT_STOP ||
           trial->decision == TROUPE_ACT_END;
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
    trp_free(trial->config_before);
    trp_free(trial->at_best);
    trp_free(trial->checkpoint);
    trp_free(trial->from);
    trp_free(trial->values);
    *trial = (trp_trial){.view.error = ""};
}
