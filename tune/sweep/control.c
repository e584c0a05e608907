// control.c: the controller of a sweep: it asks the study what is next, submits that as jobs, tells
// the study of every report and carries out what it decides, until nothing is left.
//
// Train's threads only push events (events.h). The controller opens no worker itself.
#include <tune/sweep/control.h>

#include <runtime/base/memory.h>
#include <tune/sweep/sweep_facts.h>

static const int64_t LOOK_NS = 1000000000; // Between looks at jobs that say nothing.

void trp_control_away(trp_control *control)
{
    trp_fair_lock_give(&control->sweep->lock);
}

void trp_control_back(trp_control *control)
{
    trp_fair_lock_take(&control->sweep->lock);
}

void trp_control_ask(trp_control *control, const trp_trial *trial, void (*what)(troupe_job *job))
{
    trp_control_away(control);
    what(trial->job);
    trp_control_back(control);
}

// ---- events

// Of a server's job that was found again all that it has been through is told: what it is now
// counts, once nothing is left to be told of how it came there.
static bool is_past(const trp_control *control, const trp_trial *trial, const trp_event *event)
{
    troupe_job_status now;
    if (control->sweep->how.server == TROUPE_SERVER_NONE)
        return false;
    control->sweep->port->status(trial->job, &now);
    return now.state != event->state ||
           (now.state == TROUPE_JOB_PAUSED && now.reports != trial->slot->told);
}

static troupe_status take_state(trp_control *control, trp_trial *trial, const trp_event *event)
{
    bool past = event->state != TROUPE_JOB_DONE && is_past(control, trial, event);
    switch (event->state) {
    case TROUPE_JOB_RUNNING:
        if (!past)
            trp_control_job_begins(control, trial);
        trial->pid = event->pid;
        break;
    case TROUPE_JOB_DONE:
        return trp_control_collect(control, trial);
    case TROUPE_JOB_PAUSED:
        if (!past)
            trp_control_job_paused(control, trial);
        break;
    case TROUPE_JOB_QUEUED:
    case TROUPE_JOB_RESTARTING:
        break;
    }
    return TROUPE_OK;
}

static troupe_status take(trp_control *control, trp_event **event)
{
    trp_trial *trial = control->sweep->trials[(*event)->trial];
    if (trial->job == NULL || (*event)->run != trial->run)
        return TROUPE_OK;
    control->progress.changed = true;
    if ((*event)->is_report)
        return trp_control_take_report(control, trial, event);
    if ((*event)->is_checkpoint)
        return trp_control_take_checkpoint(control, trial, &(*event)->report);
    return take_state(control, trial, *event);
}

static void show_if_due(trp_control *control)
{
    int64_t due = trp_progress_due_ns(&control->progress), now = trp_sweep_now_ns(control->sweep);
    if (due >= 0 && now >= due)
        trp_sweep_show(&control->progress, control->sweep, now);
}

// A runtime that is stopped by another thread ends jobs, and may do so without a word; and a
// follower may have missed a report, which a pause is behind. What was told may be on its way yet,
// and is given the time between two looks.
static troupe_status look_at(trp_control *control, trp_trial *trial)
{
    troupe_job_status status;
    int64_t now = trp_sweep_now_ns(control->sweep);
    control->sweep->port->status(trial->job, &status);
    bool ended = status.state == TROUPE_JOB_DONE;
    if (!ended && (status.state != TROUPE_JOB_PAUSED || trial->slot->told == status.reports)) {
        trial->silent_ns = 0;
        return TROUPE_OK;
    }
    trial->silent_ns = trial->silent_ns != 0 ? trial->silent_ns : now;
    if (now - trial->silent_ns < LOOK_NS)
        return TROUPE_OK;
    control->progress.changed = true;
    if (ended)
        return trp_control_collect(control, trial);
    trial->slot->told = status.reports;
    trp_control_job_paused(control, trial);
    return TROUPE_OK;
}

static troupe_status look_for_silent(trp_control *control)
{
    const troupe_sweep *sweep = control->sweep;
    if (control->ended_count > 0) // One: each may wait.
        trp_control_close_ended(control, control->ended_count - 1);
    for (int i = 0; i < sweep->count; i++)
        if (sweep->trials[i]->job != NULL)
            TROUPE_TRY(look_at(control, sweep->trials[i]));
    return TROUPE_OK;
}

// ---- what is next

// What the study says of a free place. *done: nothing can be begun now.
static troupe_status take_next(trp_control *control, bool *done)
{
    trp_next next = {0};
    TROUPE_TRY(trp_study_next(control->study, true, &next));
    trp_trial *trial = NULL;
    if (next.kind == TRP_NEXT_NEW || next.kind == TRP_NEXT_AGAIN || next.kind == TRP_NEXT_OVER)
        trial = trp_control_trial(control, next.number);
    control->none_left = next.kind == TRP_NEXT_NONE;
    switch (next.kind) {
    case TRP_NEXT_NEW:
        if (trial == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for trial %d", next.number);
        TROUPE_TRY(trp_control_draw(control, trial));
        trp_control_make_ready(control, trial);
        break;
    case TRP_NEXT_AGAIN:
        TROUPE_TRY(trp_control_again(control, trial));
        break;
    case TRP_NEXT_OVER:
        trial->decision = TROUPE_ACT_STOP;
        return trp_control_end_paused(control, trial);
    case TRP_NEXT_LATER:
    case TRP_NEXT_NONE:
        *done = true;
        break;
    }
    return TROUPE_OK;
}

// Submits the first that is ready. *done: it waits still.
static troupe_status submit_ready(trp_control *control, bool *done)
{
    trp_trial *trial = control->ready;
    if (control->then_ns != 0 && trp_sweep_now_ns(control->sweep) < control->then_ns) {
        *done = true;
        return TROUPE_OK;
    }
    TROUPE_TRY(trp_control_submit(control, trial));
    if (trial->phase == TRP_TRIAL_WAITING) {
        *done = true;
        return TROUPE_OK;
    }
    control->ready = trial->ready;
    if (control->ready == NULL)
        control->last_ready = &control->ready;
    return TROUPE_OK;
}

// ---- ends of the sweep

static bool has_reached_target(const troupe_sweep *sweep)
{
    if (sweep->how.target == NULL || sweep->best == NULL)
        return false;
    double best = sweep->best->view.best_metric, target = *sweep->how.target;
    return sweep->objectives[0].goal == TROUPE_MAXIMIZE ? best >= target : best <= target;
}

static bool is_to_halt(const trp_control *control)
{
    const troupe_sweep *sweep = control->sweep;
    bool timed_out =
        control->budget_ns != 0 && trp_sweep_now_ns(control->sweep) >= control->budget_ns;
    bool plateau = sweep->how.patience > 0 && control->unbettered >= sweep->how.patience;
    return control->halts || timed_out || plateau || has_reached_target(sweep);
}

// A sweep that halts begins nothing: only runs that are opened again to come to their end are left.
// A new one begins something, however short its time.
static bool may_begin(const trp_control *control)
{
    if (control->halted)
        return control->ready != NULL;
    return control->begun || control->went_on ? !is_to_halt(control) : !control->halts;
}

// Whether there is a place for one more.
static bool is_open(const trp_control *control)
{
    bool paused = control->paused && !control->halted;
    return !control->lost && !control->shelves && !paused &&
           control->busy < control->sweep->how.concurrent && may_begin(control);
}

// Begins as many as may run at once, and can be now.
static troupe_status submit_next(trp_control *control)
{
    bool done = false;
    while (!done && is_open(control)) {
        if (control->ready != NULL)
            TROUPE_TRY(submit_ready(control, &done));
        else
            TROUPE_TRY(take_next(control, &done));
    }
    return TROUPE_OK;
}

// Until progress or a trial is due, and never so long that the end of a silent job goes unseen.
int64_t trp_control_due_ns(const trp_control *control)
{
    int64_t due = trp_progress_due_ns(&control->progress),
            until = trp_sweep_now_ns(control->sweep) + LOOK_NS;
    const int64_t others[] = {control->due_ns, is_open(control) ? control->then_ns : 0,
                              control->budget_ns};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        until = others[i] != 0 && others[i] < until ? others[i] : until;
    return due >= 0 && due < until ? due : until;
}

// A run of an earlier life that is to come to its pause, and has no job to do so: it stays in the
// run's journal what it has reported since, as that of any that is paused when its sweep ends.
static troupe_status park(trp_control *control, trp_trial *trial)
{
    trp_control_drop_pent(trial);
    trial->phase = TRP_TRIAL_PAUSED;
    trial->view.state = TROUPE_TRIAL_PAUSED;
    trial->left = true;
    trial->reopens = false;
    return trp_control_show_left(control, trial);
}

// What becomes of a trial that has no job. One whose run is opened again as it is to end anyway
// does so, unless it is the user who has the sweep end.
static troupe_status halt_idle(trp_control *control, trp_trial *trial)
{
    if (trial->reopens && !control->halts && trp_trial_is_stopping(trial)) {
        trp_control_make_ready(control, trial);
        return TROUPE_OK;
    }
    if (trial->reopens && trial->decision == TROUPE_ACT_PAUSE)
        return park(control, trial);
    trial->halted = true;
    if (trial->reopens)
        TROUPE_TRY(trp_control_show_left(control, trial));
    trp_trial_ended(trial, TROUPE_OK, "", true);
    return trp_control_put_end(control, trial);
}

// Those that run are asked to stop, and those that wait for their next run have ended.
static troupe_status halt(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    control->halted = true;
    control->ready = NULL;
    control->last_ready = &control->ready;
    for (int i = 0; i < sweep->count; i++) {
        trp_trial *trial = sweep->trials[i];
        bool parked = trial->phase == TRP_TRIAL_PAUSED && trial->decision == TROUPE_ACT_PAUSE;
        if (trial->phase == TRP_TRIAL_ENDED || parked)
            continue;
        if (trial->job == NULL) {
            TROUPE_TRY(halt_idle(control, trial));
            continue;
        }
        trial->halted = true;
        trp_control_ask(control, trial, sweep->port->stop);
    }
    return TROUPE_OK;
}

// Jobs of trials that stay paused end, with what they have saved.
static void shelve(trp_control *control)
{
    const troupe_sweep *sweep = control->sweep;
    control->shelves = true;
    for (int i = 0; i < sweep->count; i++)
        if (sweep->trials[i]->job != NULL && sweep->trials[i]->phase == TRP_TRIAL_PAUSED)
            trp_control_ask(control, sweep->trials[i], sweep->port->stop);
}

static troupe_status look_whether_to_halt(trp_control *control)
{
    if (!control->halted && is_to_halt(control))
        TROUPE_TRY(halt(control));
    if (control->halted)
        control->budget_ns = 0;
    return TROUPE_OK;
}

static troupe_status look_for_ends(trp_control *control, bool *over)
{
    const troupe_sweep *sweep = control->sweep;
    TROUPE_TRY(look_whether_to_halt(control));
    if (control->lost && control->busy == 0)
        return troupe_fail(TROUPE_RUNTIME_LOST,
                           "the node's keeper or node process has died in the middle of the "
                           "sweep; what its trials reported is in %s",
                           sweep->folder);
    if (control->busy > 0 || control->ready != NULL || (control->paused && !control->halted))
        return TROUPE_OK;
    if (!control->halted && !control->none_left)
        return troupe_fail(TROUPE_DEADLOCK, "the scheduler %s has no trial go on, and none runs",
                           sweep->scheduler);
    if (control->open == 0)
        control->shelves = *over = true; // Nothing is added any more.
    else if (!control->shelves)
        shelve(control);
    return TROUPE_OK;
}

// Takes in an event, and reports that have come since, which a turn each would cost more than the
// reports do. Whatever else has come, or follows, is seen to in the next turn.
static troupe_status take_events(trp_control *control, trp_event *event)
{
    enum { AT_ONCE = 64 };
    troupe_status status = TROUPE_OK;
    trp_tune_record_gather(control->record, true);
    for (int i = 0; status == TROUPE_OK && event != NULL; i++) {
        bool more = event->is_report && i + 1 < AT_ONCE;
        status = take(control, &event);
        trp_free(event);
        event = NULL;
        if (status == TROUPE_OK && more && !has_reached_target(control->sweep))
            event = trp_events_next(&control->events);
    }
    trp_tune_record_gather(control->record, false);
    return status;
}

troupe_status trp_control_act(trp_control *control, bool *over)
{
    *over = false;
    if (control->closes)
        return troupe_fail(TROUPE_CANCELLED, "the sweep was freed");
    if (control->pauses != control->paused && !control->halts && !control->halted)
        trp_control_pause_all(control, control->pauses);
    if (control->begun || control->went_on) // Before anything new begins.
        TROUPE_TRY(look_whether_to_halt(control));
    TROUPE_TRY(submit_next(control));
    show_if_due(control);
    trp_control_look_for_overdue(control);
    return look_for_ends(control, over);
}

troupe_status trp_control_take(trp_control *control, troupe_status popped, trp_event *event)
{
    if (popped == TROUPE_TIMED_OUT || popped == TROUPE_BUSY)
        return popped == TROUPE_BUSY ? TROUPE_OK : look_for_silent(control);
    TROUPE_TRY(popped);
    return take_events(control, event);
}

void trp_control_forget(trp_control *control)
{
    for (int i = 0; i < control->sweep->count; i++)
        trp_control_drop_pent(control->sweep->trials[i]);
}

void trp_control_abandon(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    bool here = sweep->how.server == TROUPE_SERVER_NONE;
    for (int i = 0; here && i < sweep->count; i++) {
        if (sweep->trials[i]->job != NULL)
            trp_control_ask(control, sweep->trials[i], sweep->port->stop);
    }
    for (int i = 0; i < sweep->count; i++)
        trp_control_close_job(control, sweep->trials[i], !here);
}
