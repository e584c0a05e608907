// go_on.c: a sweep that goes on: what an earlier life has put down, and the jobs that it has left.
#include <tune/sweep/control.h>

#include <math.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <string.h>
#include <tune/sweep/journal.h>
#include <tune/sweep/replay.h>

enum { RESULT_MS = 10000 }; // For the result of a job that has ended.

static troupe_status copy_text(char **to, const char *text, size_t size)
{
    char *copy = trp_alloc(size + 1);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what a sweep has put down");
    memcpy(copy, text, size);
    copy[size] = '\0';
    trp_free(*to);
    *to = copy;
    return TROUPE_OK;
}

static troupe_status note_checkpoint(trp_trial *trial, int number, const char *folder)
{
    trial->saved = number;
    if (folder != NULL)
        return copy_text(&trial->checkpoint, folder, strlen(folder));
    trp_free(trial->checkpoint);
    trial->checkpoint = NULL;
    return TROUPE_OK;
}

// A clone has its point's ranks, and all others those that they were given last.
static void note_ranks(trp_trial *trial, const trp_replayed *line)
{
    trial->given = line->clones ? 0 : line->given > 0 ? line->given : trial->given;
    trial->ranks = line->given > 0 ? line->given : line->ranks > 0 ? line->ranks : trial->ranks;
}

// Another run follows: whether it was submitted the next lines say.
static troupe_status note_run(trp_trial *trial, const trp_replayed *line)
{
    trial->run = line->run;
    trial->base = line->report.number;
    trial->base_s = line->elapsed_s;
    trial->failures = line->failures;
    trial->ranks = 0; // Its own.
    trial->submitted_before = trial->put_by = trial->cloned_before = false;
    trial->halts_before = false;
    TROUPE_TRY(note_checkpoint(trial, trial->base, line->report.checkpoint));
    trp_free(trial->from);
    trial->from = NULL;
    if (line->report.checkpoint == NULL)
        return TROUPE_OK;
    return copy_text(&trial->from, line->report.checkpoint, strlen(line->report.checkpoint));
}

// What it clones is the source's newest checkpoint of that moment.
static troupe_status note_clone(trp_control *control, trp_trial *trial, const trp_replayed *line)
{
    if (!line->clones || line->source < 0 || line->source >= control->sweep->count)
        return TROUPE_OK;
    trial->cloned_before = true;
    return trp_control_clone(control, trial, line->source);
}

// A trial counts as one that runs, for the time of this: its job is looked for behind it.
static troupe_status note_report(trp_control *control, trp_trial *trial, const trp_replayed *line)
{
    double values[TRP_OBJECTIVES_MAX];
    bool usable;
    trial->submitted_before = true; // The line that says so may be lost, on a full disk.
    trial->put_by = false;
    trial->taken = line->report.number;
    trial->phase = TRP_TRIAL_RUNNING;
    if (line->decided)
        trial->halts_before = line->halts;
    if (line->report.checkpoint != NULL && line->report.number > trial->saved)
        TROUPE_TRY(note_checkpoint(trial, line->report.number, line->report.checkpoint));
    troupe_status status = trp_control_remember(control, trial, &line->report, values, &usable);
    if (status == TROUPE_OK && !usable && !trial->broken && !trial->halts_before)
        trp_control_give_up(control, trial, &line->report);
    trial->phase = TRP_TRIAL_WAITING;
    trial->view.state = TROUPE_TRIAL_PENDING;
    return status;
}

static void note_end(trp_control *control, trp_trial *trial, const trp_replayed *line)
{
    bool again = trial->ended_before;
    trial->ended_before = true;
    trial->state_before = again ? trial->state_before : line->state;
    if (line->decided)
        trp_control_count_end(control, trial);
    if (again)
        return;
    trial->error_before = line->error[0] != '\0' ? trp_strdup(line->error) : NULL;
    trial->view.reports = line->report.number;
    trial->view.elapsed_s = line->elapsed_s;
}

static troupe_status note_line(trp_control *control, trp_trial *trial, const trp_replayed *line)
{
    switch (line->is) {
    case TRP_REPLAYED_BEGUN:
        break;
    case TRP_REPLAYED_AGAIN: // Where its job was put by, another run follows.
        note_ranks(trial, line);
        trial->put_by = true;
        trial->halts_before = false;
        return note_clone(control, trial, line);
    case TRP_REPLAYED_SUBMITTED:
        trial->submitted_before = line->run == trial->run;
        if (line->config.size > 0)
            return copy_text(&trial->config_before, line->config.at, line->config.size);
        break;
    case TRP_REPLAYED_RUN:
        return note_run(trial, line);
    case TRP_REPLAYED_REPORT:
        note_ranks(trial, line);
        TROUPE_TRY(note_report(control, trial, line));
        return note_clone(control, trial, line);
    case TRP_REPLAYED_CHECKPOINT:
        if (line->report.number > trial->saved)
            return note_checkpoint(trial, line->report.number, line->report.checkpoint);
        break;
    case TRP_REPLAYED_END:
        note_end(control, trial, line);
        break;
    }
    return TROUPE_OK;
}

static troupe_status note(void *user, const char *text, size_t length, int number)
{
    trp_control *control = user;
    trp_arena arena = {0};
    trp_replayed line;
    troupe_status status = TROUPE_OK;
    if (trp_replay_line(text, length, control->sweep, number, &arena, &line)) {
        trp_trial *trial = trp_control_trial(control, line.trial);
        status = trial != NULL ? note_line(control, trial, &line)
                               : troupe_fail(TROUPE_NO_MEMORY, "no memory for trial %d", number);
        if (line.at_s > control->earlier_s)
            control->earlier_s = line.at_s;
    }
    trp_arena_clear(&arena);
    return trp_error_settled(status);
}

troupe_status trp_control_open_study(trp_control *control, const troupe_study_options *how)
{
    const trp_study_past past = {.lines = (const char *)control->past.data,
                                 .size = control->past.size,
                                 .visit = note,
                                 .user = control};
    return trp_study_open(control->sweep->space, how, control->record,
                          control->past.size > 0 ? &past : NULL, &control->study);
}

// That a trial which was submitted would be so now.
static troupe_status check_config(trp_control *control, trp_trial *trial)
{
    const troupe_sweep *sweep = control->sweep;
    const char *before = trial->config_before;
    trp_buffer now = {0};
    if (before == NULL || !trial->submitted_before)
        return TROUPE_OK;
    trp_journal_config(&now, sweep, trial->view.config);
    trp_buffer_append(&now, "", 1);
    troupe_status status = TROUPE_OK;
    if (now.failed)
        status =
            troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of trial %d", trial->number);
    else if (strcmp(before, (const char *)now.data) != 0)
        status = troupe_fail(TROUPE_EXISTS,
                             "the sweep in %s is another one: its trial %d was submitted with the "
                             "config %.400s, and is %.400s now",
                             sweep->folder, trial->number, before, (const char *)now.data);
    trp_buffer_free(&now);
    return status;
}

// What was decided at its last report. A clone that was submitted is none any more.
static troupe_status note_decision(trp_control *control, trp_trial *trial)
{
    troupe_verdict verdict = {.size = sizeof verdict};
    int report;
    trp_study_decided(control->study, trial->number, &report, &verdict);
    troupe_study_state state = trp_study_state(control->study, trial->number);
    bool paused = state == TROUPE_STUDY_PAUSED;
    if (!trial->ended_before && !paused && state != TROUPE_STUDY_RUNNING) {
        trial->decision = TROUPE_ACT_STOP; // It was over as it was paused.
        trial->over = true;
        return TROUPE_OK;
    }
    switch (verdict.act) {
    case TROUPE_ACT_STOP:
    case TROUPE_ACT_END:
        trial->decision = verdict.act;
        break;
    case TROUPE_ACT_PAUSE:
        trial->decision = paused ? TROUPE_ACT_PAUSE : TROUPE_ACT_GO_ON;
        break;
    case TROUPE_ACT_CLONE:
        if (trial->run > 0 && trial->base >= report)
            break;
        trial->decision = TROUPE_ACT_CLONE;
        return trial->cloned_before ? TROUPE_OK : trp_control_clone(control, trial, verdict.source);
    case TROUPE_ACT_RESIZE:
        trial->decision = report == trial->taken ? TROUPE_ACT_RESIZE : TROUPE_ACT_GO_ON;
        break;
    case TROUPE_ACT_GO_ON:
        break;
    }
    return TROUPE_OK;
}

static troupe_status keep_params(troupe_sweep *sweep, trp_trial *trial, void *config)
{
    trp_text_config own = {.trial = trial->number};
    size_t size = strlen(trial->config_before) + 1;
    char *params = trp_arena_alloc(&sweep->arena, size);
    if (params == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of trial %d", trial->number);
    own.params = memcpy(params, trial->config_before, size);
    memcpy(config, &own, sizeof own);
    trial->view.config = config;
    return TROUPE_OK;
}

// One that was to clone has the config of its last run until the next one begins, if it does.
static troupe_status keep_config(trp_control *control, trp_trial *trial)
{
    troupe_sweep *sweep = control->sweep;
    const troupe_type *type = sweep->trainer->config;
    trp_json before;
    if (trial->config_before == NULL)
        return TROUPE_OK;
    void *config = trp_arena_alloc(&sweep->arena, type->size);
    if (config == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of trial %d", trial->number);
    memcpy(config, trial->view.config, type->size); // What JSON does not hold.
    TROUPE_TRY(trp_json_parse(trial->config_before, strlen(trial->config_before), &before));
    if (sweep->of_json)
        return keep_params(sweep, trial, config);
    TROUPE_TRY(trp_json_read(type, before, &sweep->arena, config));
    trial->view.config = config;
    return TROUPE_OK;
}

// ---- jobs of a train server

// It has ended, and is what its lines say; the server may know its result still.
static troupe_status find_result(trp_control *control, trp_trial *trial)
{
    static const troupe_follower nobody = {.size = sizeof nobody};
    const trp_sweep_port *port = control->sweep->port;
    char key[TRP_KEY_SIZE];
    troupe_job *job;
    trp_trial_restore(trial);
    trp_control_key(control, trial, key);
    troupe_status status = port->find(key, &nobody, NULL, &job);
    if (status == TROUPE_NOT_FOUND)
        return trp_error_settled(TROUPE_OK);
    if (status != TROUPE_OK)
        return trp_error_prefix("trial %s cannot be looked for", trial->view.name);
    if (port->wait(job, RESULT_MS, &trial->result) == TROUPE_OK)
        trial->view.result = trial->result;
    port->leave(&job);
    return trp_error_settled(TROUPE_OK);
}

// Nothing is submitted that was: where the server does not know its key, it is gone.
static troupe_status find_job(trp_control *control, trp_trial *trial)
{
    bool paused = trial->decision == TROUPE_ACT_PAUSE;
    bool is_over = trp_study_state(control->study, trial->number) == TROUPE_STUDY_STOPPED;
    troupe_status status = trp_control_find(control, trial);
    trial->put_by = trial->put_by || paused;
    if (status == TROUPE_OK)
        return TROUPE_OK;
    if (status != TROUPE_NOT_FOUND)
        return trp_error_prefix("trial %s cannot be looked for", trial->view.name);
    if (paused) // It was put by, and has all that it needs.
        trial->phase = TRP_TRIAL_PAUSED;
    else if (is_over)
        trp_trial_ended(trial, TROUPE_OK, "", true);
    else
        trp_trial_refused(trial, "the train server does not know its job any more");
    return TROUPE_OK;
}

// No line says that it was submitted. The server knows it if it was.
static troupe_status find_unsaid(trp_control *control, trp_trial *trial)
{
    troupe_status status = trp_control_find(control, trial);
    if (status == TROUPE_NOT_FOUND)
        return trp_error_settled(TROUPE_OK);
    if (status != TROUPE_OK)
        return trp_error_prefix("trial %s cannot be looked for", trial->view.name);
    trial->submitted_before = trial->unsaid = true;
    return TROUPE_OK;
}

static void say_submitted(trp_control *control, trp_trial *trial)
{
    if (trial->unsaid)
        trp_journal_submitted(control->record, control->sweep, trial);
    trial->unsaid = false;
}

// What the earlier life had decided is done, where it has not come to it. It may have answered a
// gate and have died before the server heard of that, so that the job is told here in any case.
static troupe_status settle_job(trp_control *control, trp_trial *trial)
{
    if (trial->phase == TRP_TRIAL_ENDED)
        return trial->ended_before ? TROUPE_OK : trp_control_put_end(control, trial);
    if (trial->phase == TRP_TRIAL_PAUSED) {
        trial->view.state = TROUPE_TRIAL_PAUSED;
        return TROUPE_OK;
    }
    say_submitted(control, trial);
    if (trial->job == NULL) {
        TROUPE_TRY(trp_control_make_way(control, trial)); // Its folder may have been made for it.
        trp_control_make_ready(control, trial);
        return TROUPE_OK;
    }
    troupe_act act = trial->broken ? TROUPE_ACT_STOP : trial->decision;
    // A gate that told it once more could do so when the trial has gone on.
    if (act == TROUPE_ACT_PAUSE || act == TROUPE_ACT_RESIZE)
        act = TROUPE_ACT_GO_ON;
    trp_control_tell(control, trial);
    if (trial->broken)
        trp_control_ask(control, trial, control->sweep->port->stop);
    trp_events_deal(&control->events, &trial->slot->dealt, trial->taken - trial->base, act,
                    trial->ranks);
    return TROUPE_OK;
}

// ---- this program's own runs

// A run that was begun and has no line that says so is found by its folder.
static troupe_status find_run(trp_control *control, trp_trial *trial)
{
    return trial->submitted_before ? TROUPE_OK : trp_control_find_left(control, trial);
}

// The same as settle_job. It may have reported what nobody has looked at.
static troupe_status settle_run(trp_control *control, trp_trial *trial)
{
    bool is_over = trp_study_state(control->study, trial->number) == TROUPE_STUDY_STOPPED;
    if (trial->phase == TRP_TRIAL_ENDED)
        return TROUPE_OK;
    if (trial->ended_before) {
        trp_trial_restore(trial);
        return trp_control_show_left(control, trial);
    }
    if (is_over) { // As it was paused.
        TROUPE_TRY(trp_control_show_left(control, trial));
        trp_trial_ended(trial, TROUPE_OK, "", true);
        return trp_control_put_end(control, trial);
    }
    say_submitted(control, trial);
    if (trial->submitted_before)
        return trp_control_take_left(control, trial, false);
    trp_control_make_ready(control, trial);
    return TROUPE_OK;
}

// ---- all of them

static troupe_status find(trp_control *control, trp_trial *trial)
{
    bool here = control->sweep->how.server == TROUPE_SERVER_NONE;
    // Where the space is larger by now, JSON has more members than the trial was begun with.
    bool grown = control->sweep->of_json && trp_study_is_earlier(control->study, trial->number);
    TROUPE_TRY(trp_control_draw(control, trial));
    if (trial->ended_before && !trial->submitted_before) { // It was refused, or between two runs.
        trp_trial_restore(trial);
        return grown ? keep_config(control, trial) : TROUPE_OK;
    }
    TROUPE_TRY(note_decision(control, trial));
    bool keeps = grown || trial->decision == TROUPE_ACT_CLONE;
    TROUPE_TRY(keeps ? keep_config(control, trial) : check_config(control, trial));
    if (trial->ended_before)
        return here ? TROUPE_OK : find_result(control, trial);
    if (here)
        return find_run(control, trial);
    return trial->submitted_before ? find_job(control, trial) : find_unsaid(control, trial);
}

troupe_status trp_control_go_on(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    bool here = sweep->how.server == TROUPE_SERVER_NONE;
    if ((size_t)sweep->count > troupe_study_count(control->study))
        return troupe_fail(TROUPE_CORRUPT,
                           "%s has lines of trial %d, but none that says that it has begun",
                           trp_tune_record_path(control->record), sweep->count - 1);
    for (int i = 0; i < sweep->count; i++)
        TROUPE_TRY(find(control, sweep->trials[i]));
    trp_study_opened(control->study);
    for (int i = 0; i < sweep->count; i++) {
        trp_trial *trial = sweep->trials[i];
        TROUPE_TRY(here ? settle_run(control, trial) : settle_job(control, trial));
        trp_free(trial->config_before);
        trial->config_before = NULL;
    }
    return TROUPE_OK;
}
