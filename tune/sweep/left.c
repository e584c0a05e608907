// left.c: runs of this program's own trials that an earlier life of it has left: each goes on where
// it was, or is over, as its folder says. What it has reported and nobody has looked at is looked
// at first, as if it came now.
#include <tune/sweep/control.h>

#include <dirent.h>
#include <limits.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe/run.h>
#include <tune/sweep/journal.h>
#include <unistd.h>

void trp_control_run_folder(const trp_control *control, const trp_trial *trial, char *path,
                            size_t size)
{
    snprintf(path, size, trial->run == 0 ? "%s/%s" : "%s/%s_%d", control->sweep->folder,
             trial->view.name, trial->run);
}

// ---- folders

// What no line says of, as those are lost with the power, or what is damaged.
static troupe_status move_aside(trp_control *control, const trp_trial *trial)
{
    enum { MOST = 1000 };
    char path[PATH_MAX], aside[PATH_MAX];
    struct stat is;
    trp_control_run_folder(control, trial, path, sizeof path);
    for (int i = 0; i < MOST; i++) {
        if (snprintf(aside, sizeof aside, "%s.lost_%d", path, i) >= (int)sizeof aside)
            break;
        if (lstat(aside, &is) == 0)
            continue;
        if (rename(path, aside) != 0)
            return trp_fail_errno(TROUPE_IO, "%s cannot be moved", path);
        trp_log(
            TRP_WARN,
            "%s is damaged, or of a run that the record of its sweep does not know: it is %s now",
            path, aside);
        return TROUPE_OK;
    }
    return troupe_fail(TROUPE_EXISTS,
                       "%s is damaged, or of a run that the record of its sweep does not know",
                       path);
}

// *left is given back with give_back, but for a result that is kept.
static troupe_status look(trp_control *control, const trp_trial *trial,
                          const troupe_follower *follower, trp_left *left)
{
    char path[PATH_MAX];
    trp_control_run_folder(control, trial, path, sizeof path);
    troupe_status status = control->sweep->port->look(path, follower, left);
    if (status == TROUPE_OK)
        return status;
    if (status != TROUPE_CORRUPT)
        return trp_error_prefix("trial %s cannot go on", trial->view.name);
    trp_log(TRP_WARN, "trial %s begins anew: %s", trial->view.name, troupe_last_error()->text);
    return trp_error_settled(move_aside(control, trial));
}

static void give_back(const trp_control *control, trp_left *left)
{
    if (left->result != NULL)
        control->sweep->port->result_free(&left->result);
    trp_arena_clear(&left->arena);
    *left = (trp_left){0};
}

// Whether that checkpoint is the one that the run was begun with (NULL: none).
static bool is_from(const trp_left *left, const char *from)
{
    if (left->from == NULL || from == NULL)
        return left->from == NULL && from == NULL;
    size_t whole = strlen(from), length = strlen(left->from);
    return whole >= length && strcmp(from + whole - length, left->from) == 0;
}

static troupe_result *take_result(trp_left *left)
{
    troupe_result *result = left->result;
    left->result = NULL;
    return result;
}

// One that it has already is of a later run.
static void keep_result(trp_trial *trial, trp_left *left)
{
    if (trial->result != NULL)
        return;
    trial->result = take_result(left);
    trial->view.result = trial->result;
}

troupe_status trp_control_show_left(trp_control *control, trp_trial *trial)
{
    trp_left left;
    char path[PATH_MAX];
    trp_control_run_folder(control, trial, path, sizeof path);
    troupe_status status = control->sweep->port->look(path, NULL, &left);
    if (status == TROUPE_NO_MEMORY)
        return status;
    if (status != TROUPE_OK) { // It is what its lines say.
        trp_log(TRP_WARN, "trial %s has no result: %s", trial->view.name,
                troupe_last_error()->text);
        return trp_error_settled(TROUPE_OK);
    }
    keep_result(trial, &left);
    give_back(control, &left);
    return TROUPE_OK;
}

// ---- runs that no line says of

// Whether the folder is that of the run that the trial would begin now.
static bool is_its_own(const trp_control *control, const trp_trial *trial, const trp_left *left)
{
    const troupe_sweep *sweep = control->sweep;
    const char *from = trial->from != NULL ? trial->from : sweep->train.from;
    trp_buffer now = {0};
    trp_json config = left->config;
    trp_journal_config(&now, sweep, trial->view.config);
    // Of a program, its own config has what was drawn as a text.
    bool same =
        sweep->of_json
            ? trp_json_member(left->config, "json", &config) &&
                  trp_json_equals(config, ((const trp_text_config *)trial->view.config)->params)
            : trp_json_is_same((trp_json){(const char *)now.data, now.size}, config);
    same = same && !now.failed && is_from(left, from);
    trp_buffer_free(&now);
    return same;
}

// A folder that a train server's job was to have, and nothing more, is removed. True: it was.
static bool remove_claim(const char *path)
{
    char claim[PATH_MAX];
    if (rmdir(path) == 0)
        return true;
    DIR *folder = opendir(path);
    bool only = folder != NULL;
    for (struct dirent *it; only && (it = readdir(folder)) != NULL;)
        only = strcmp(it->d_name, ".") == 0 || strcmp(it->d_name, "..") == 0 ||
               strcmp(it->d_name, "job") == 0;
    if (folder != NULL)
        closedir(folder);
    if (!only || snprintf(claim, sizeof claim, "%s/job", path) >= (int)sizeof claim)
        return false;
    return unlink(claim) == 0 && rmdir(path) == 0;
}

troupe_status trp_control_make_way(trp_control *control, const trp_trial *trial)
{
    char path[PATH_MAX];
    struct stat is;
    trp_control_run_folder(control, trial, path, sizeof path);
    if (lstat(path, &is) != 0 || remove_claim(path))
        return TROUPE_OK;
    return move_aside(control, trial);
}

troupe_status trp_control_find_left(trp_control *control, trp_trial *trial)
{
    char path[PATH_MAX];
    struct stat is;
    trp_left left;
    trp_control_run_folder(control, trial, path, sizeof path);
    if (lstat(path, &is) != 0)
        return TROUPE_OK;
    troupe_status status = control->sweep->port->look(path, NULL, &left);
    if (status == TROUPE_CORRUPT) // It is in the way, as is another run's.
        return trp_error_settled(TROUPE_OK);
    if (status != TROUPE_OK)
        return trp_error_prefix("trial %s cannot go on", trial->view.name);
    // Whose driver died as it made it has nothing yet, and is the same to any run.
    bool own = !left.is_there || is_its_own(control, trial, &left);
    trial->submitted_before = trial->unsaid = own && left.is_there;
    trial->reopens = own;
    give_back(control, &left);
    return TROUPE_OK;
}

// ---- reports that nobody has looked at

typedef struct catching_up {
    trp_control *control;
    trp_trial *trial;
    bool keeps; // They came on the way to a pause that the run has not come to.
    troupe_status status;
} catching_up;

static troupe_status keep_pent(trp_trial *trial, const troupe_report_event *event)
{
    trp_pent *made = trp_alloc(sizeof *made);
    trp_event *copy = trp_events_make_report(trial->number, trial->run, event);
    if (made == NULL || copy == NULL) {
        trp_free(made);
        trp_free(copy);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a report of a trial");
    }
    *made = (trp_pent){.event = copy};
    *trial->last = made;
    trial->last = &made->next;
    return TROUPE_OK;
}

static troupe_status take_left_report(const catching_up *it, const troupe_report_event *event)
{
    trp_trial *trial = it->trial;
    troupe_report_event report = *event;
    troupe_act act;
    report.number += trial->base;
    report.elapsed_s += trial->base_s;
    if (report.number <= trial->taken || trial->decision == TROUPE_ACT_CLONE)
        return TROUPE_OK;
    bool pauses = trial->decision == TROUPE_ACT_PAUSE && !trp_trial_is_stopping(trial);
    if (event->checkpoint != NULL)
        TROUPE_TRY(trp_control_take_checkpoint(it->control, trial, event));
    if (pauses && it->keeps)
        return keep_pent(trial, event);
    if (pauses) // It is looked at when the trial goes on.
        return TROUPE_OK;
    return trp_control_take_new(it->control, trial, &report, &act);
}

static void catch_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    catching_up *it = user;
    (void)job;
    if (it->status == TROUPE_OK)
        it->status = take_left_report(it, event);
}

static void catch_checkpoint(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    catching_up *it = user;
    const troupe_report_event of = {.number = event->report, .checkpoint = event->folder};
    (void)job;
    if (it->status == TROUPE_OK)
        it->status = trp_control_take_checkpoint(it->control, it->trial, &of);
}

// A trial counts as one that runs, for the time of this, unless it is paused.
static troupe_status catch_up(trp_control *control, trp_trial *trial, bool keeps, trp_left *left)
{
    catching_up it = {.control = control, .trial = trial, .keeps = keeps};
    const troupe_follower follower = {.size = sizeof follower,
                                      .report = catch_report,
                                      .user = &it,
                                      .checkpoint = catch_checkpoint};
    trial->ranks = trial->ranks > 0 ? trial->ranks : trp_control_ranks(control, trial);
    trp_phase phase = trial->phase;
    troupe_trial_state state = trial->view.state;
    if (phase == TRP_TRIAL_WAITING)
        trial->phase = TRP_TRIAL_RUNNING;
    troupe_status status = look(control, trial, &follower, left);
    trial->phase = phase;
    trial->view.state = state;
    // One that was committed, and has no line that says so.
    const troupe_report_event newest = {.number = left->saved, .checkpoint = left->checkpoint};
    if (status == TROUPE_OK && it.status == TROUPE_OK && newest.checkpoint != NULL)
        it.status = trp_control_take_checkpoint(control, trial, &newest);
    if (status == TROUPE_OK && it.status != TROUPE_OK)
        give_back(control, left);
    return status == TROUPE_OK ? it.status : status;
}

// ---- what follows

// Whether the run has come to its end: it was to stop, and has made the reports that it makes then,
// or a checkpoint behind its stop, which the last of these is for; or it is another one's from here
// on.
static bool has_come_to_its_end(const trp_control *control, const trp_trial *trial,
                                const trp_left *left)
{
    const troupe_stages *stages = control->sweep->trainer->stages;
    int report, behind = stages != NULL && stages->saves_when_due ? 2 : 1;
    troupe_verdict verdict = {.size = sizeof verdict};
    if (trial->decision == TROUPE_ACT_CLONE || trial->broken)
        return true;
    if (!left->is_there)
        return false;
    trp_study_decided(control->study, trial->number, &report, &verdict);
    bool made = left->reports + trial->base >= report + behind && !left->saving;
    return (trial->decision == TROUPE_ACT_STOP || trial->decision == TROUPE_ACT_END) &&
           (made || left->saved + trial->base > report);
}

// Whether what the run has told of its end is that of the trial's run: not where the program itself
// has ended it, as it ended.
static bool has_ended(const trp_control *control, const trp_trial *trial, const trp_left *left)
{
    const trp_sweep_port *port = control->sweep->port;
    if (!left->ended)
        return false;
    if (port->result_status(left->result) == TROUPE_RUNTIME_LOST)
        return false;
    return !port->result_stopped(left->result) || trp_trial_is_stopping(trial) ||
           trial->decision == TROUPE_ACT_CLONE;
}

// As if its job had ended now.
static troupe_status end_left(trp_control *control, trp_trial *trial, trp_left *left)
{
    const trp_sweep_port *port = control->sweep->port;
    char path[PATH_MAX];
    bool told = has_ended(control, trial, left);
    troupe_status status = told ? port->result_status(left->result) : TROUPE_OK;
    bool stopped = !told || port->result_stopped(left->result);
    if (!told) { // What its ranks have left half done stays nowhere.
        trp_control_run_folder(control, trial, path, sizeof path);
        if (troupe_run_clean(path) != TROUPE_OK)
            trp_log(TRP_INFO, "not everything that a killed trial left could be removed: %s",
                    troupe_last_error()->text);
    }
    if (trial->phase == TRP_TRIAL_WAITING)
        trial->phase = TRP_TRIAL_RUNNING;
    trial->left = trial->reopens = false;
    troupe_result *result = take_result(left);
    const char *error = result != NULL ? port->result_cause(result) : "";
    return trp_control_take_result(control, trial, status, error, stopped, result);
}

// The run is opened again when it is submitted. It stops as it would have: at the gate of the
// report where that was decided, if that is made again, and else with its first report.
static void reopen(trp_control *control, trp_trial *trial, const trp_left *left)
{
    int report = 0;
    troupe_verdict verdict = {.size = sizeof verdict};
    trp_study_decided(control->study, trial->number, &report, &verdict);
    if (trial->decision == TROUPE_ACT_RESIZE) // It is opened again with them.
        trial->decision = TROUPE_ACT_GO_ON;
    trial->left = false;
    trial->reopens = true;
    trial->has_own = left->saved > 0;
    trial->acts_first = left->saved >= report - trial->base;
    trial->phase = TRP_TRIAL_WAITING;
    trial->view.state = TROUPE_TRIAL_PENDING;
    trp_control_make_ready(control, trial);
}

// It stays paused, with what it has by now.
static void stay_paused(trp_trial *trial, trp_left *left)
{
    trial->phase = TRP_TRIAL_PAUSED;
    trial->view.state = TROUPE_TRIAL_PAUSED;
    trial->left = true;
    keep_result(trial, left);
}

troupe_status trp_control_take_left(trp_control *control, trp_trial *trial, bool now)
{
    trp_left left;
    TROUPE_TRY(look(control, trial, NULL, &left));
    bool ended = has_ended(control, trial, &left);
    bool waits = trial->decision == TROUPE_ACT_PAUSE && !ended && !now;
    // One that had not come to its pause yet does so now, or to its end.
    bool made = left.reports + trial->base > trial->taken && !left.saving;
    bool comes = waits && left.is_there && !left.paused && !made;
    give_back(control, &left);
    bool paused = trial->decision == TROUPE_ACT_PAUSE;
    TROUPE_TRY(catch_up(control, trial, ended || comes, &left));
    if (trial->decision == TROUPE_ACT_PAUSE && !paused) { // It was decided now.
        give_back(control, &left);
        return trp_control_take_left(control, trial, false);
    }
    troupe_status status = TROUPE_OK;
    if (!waits && (has_ended(control, trial, &left) || has_come_to_its_end(control, trial, &left)))
        status = end_left(control, trial, &left);
    else if (trial->decision == TROUPE_ACT_PAUSE && !comes)
        stay_paused(trial, &left);
    else
        reopen(control, trial, &left);
    give_back(control, &left);
    return status;
}
