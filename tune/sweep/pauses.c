// pauses.c: trials that are paused, by the scheduler or with the whole sweep, and go on.
#include <tune/sweep/control.h>

// The job goes on where neither the study nor the user wants it paused.
static void go_on_if_free(trp_control *control, trp_trial *trial)
{
    if (trial->phase != TRP_TRIAL_PAUSED || trial->job == NULL || control->paused ||
        trial->decision == TROUPE_ACT_PAUSE)
        return;
    trial->held = false;
    trp_trial_goes_on(trial);
    control->busy++;
    trp_control_ask(control, trial, control->sweep->port->go_on);
}

void trp_control_job_paused(trp_control *control, trp_trial *trial)
{
    if (trial->phase == TRP_TRIAL_PAUSED)
        return;
    int64_t now = trp_sweep_now_ns(control->sweep);
    trial->left_ns = trial->due_ns == 0 ? 0 : trial->due_ns > now ? trial->due_ns - now : 1;
    trial->due_ns = 0;
    trp_trial_paused(trial);
    control->busy--;
    if (trp_trial_is_stopping(trial)) // Who was asked to stop as it was about to pause.
        trp_control_ask(control, trial, control->sweep->port->stop);
    else
        go_on_if_free(control, trial);
}

// A paused job is to end, and takes a place for as long.
static void stop_paused(trp_control *control, trp_trial *trial)
{
    if (trial->phase == TRP_TRIAL_PAUSED) {
        trp_trial_goes_on(trial);
        control->busy++;
    }
    trp_control_ask(control, trial, control->sweep->port->stop);
}

// What it has reported on its way to the pause is decided on.
static troupe_status take_pent(trp_control *control, trp_trial *trial)
{
    while (trial->pent != NULL && trial->decision == TROUPE_ACT_GO_ON &&
           !trp_trial_is_stopping(trial)) {
        troupe_report_event report = trial->pent->event->report;
        troupe_act act = TROUPE_ACT_GO_ON;
        report.number += trial->base;
        report.elapsed_s += trial->base_s;
        troupe_status status = report.number > trial->taken
                                   ? trp_control_take_new(control, trial, &report, &act)
                                   : TROUPE_OK;
        trp_control_drop_first_pent(trial);
        TROUPE_TRY(status);
        if (trial->decision == TROUPE_ACT_RESIZE)
            trp_control_tell(control, trial);
    }
    return TROUPE_OK;
}

// A paused trial is over. It may have no job any more.
troupe_status trp_control_end_paused(trp_control *control, trp_trial *trial)
{
    trp_control_drop_pent(trial);
    trial->over = true;
    if (trial->job != NULL) {
        stop_paused(control, trial);
        return TROUPE_OK;
    }
    trp_trial_ended(trial, TROUPE_OK, "", true);
    return trp_control_put_end(control, trial);
}

static troupe_status clone_paused(trp_control *control, trp_trial *trial)
{
    trp_control_drop_pent(trial);
    if (trial->job == NULL)
        return trp_control_go_on_as_clone(control, trial);
    stop_paused(control, trial);
    return TROUPE_OK;
}

// The study has it go on.
troupe_status trp_control_again(trp_control *control, trp_trial *trial)
{
    int report;
    troupe_verdict how;
    trp_study_decided(control->study, trial->number, &report, &how);
    trial->decision = TROUPE_ACT_GO_ON;
    if (how.act == TROUPE_ACT_CLONE) {
        TROUPE_TRY(trp_control_clone(control, trial, how.source));
        trial->decision = TROUPE_ACT_CLONE;
        return clone_paused(control, trial);
    }
    if (how.act == TROUPE_ACT_RESIZE) {
        trial->ranks = trial->given = how.ranks;
        if (trial->job != NULL)
            trp_control_resize(control, trial);
    }
    if (trial->left)
        return trp_control_take_left(control, trial, true);
    TROUPE_TRY(take_pent(control, trial));
    if (trp_trial_is_stopping(trial))
        return trp_control_end_paused(control, trial);
    if (trial->decision == TROUPE_ACT_CLONE)
        return clone_paused(control, trial);
    if (trial->decision == TROUPE_ACT_PAUSE)
        return TROUPE_OK;
    if (trial->job == NULL) // It was put by.
        return trp_control_go_on_as_it_was(control, trial);
    go_on_if_free(control, trial);
    return TROUPE_OK;
}

void trp_control_pause_all(trp_control *control, bool pause)
{
    const troupe_sweep *sweep = control->sweep;
    control->paused = pause;
    for (int i = 0; i < sweep->count; i++) {
        trp_trial *trial = sweep->trials[i];
        if (trial->job == NULL || trp_trial_is_stopping(trial))
            continue;
        if (pause && trial->phase != TRP_TRIAL_PAUSED) {
            trial->held = true;
            trp_control_ask(control, trial, sweep->port->pause);
        } else if (!pause && trial->held && trial->phase != TRP_TRIAL_PAUSED) {
            trial->held = false; // It has not come to it.
            if (trial->decision != TROUPE_ACT_PAUSE)
                trp_control_ask(control, trial, sweep->port->go_on);
        } else if (!pause) {
            trial->held = false;
            go_on_if_free(control, trial);
        }
    }
    control->progress.changed = true;
}
