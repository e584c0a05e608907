// launch.c: trials as jobs of Train: what a run is given, how it is submitted and found again, and
// what follows where one run of a trial is over and the trial is not.
#include <tune/sweep/control.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <tune/sweep/journal.h>
#include <unistd.h>

enum { GATE_MS = 10000, AGAIN_MS = 100, AGAIN_MOST_MS = 30000 };

// ---- in Train's threads

static void follow_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    trp_slot *of = user;
    (void)job;
    trp_events_push_report(of->events, of->trial, of->run, event);
}

static void follow_checkpoint(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    trp_slot *of = user;
    (void)job;
    trp_events_push_checkpoint(of->events, of->trial, of->run, event);
}

static void follow_state(void *user, troupe_job *job, troupe_job_state state)
{
    trp_slot *of = user;
    int pid = state == TROUPE_JOB_RUNNING ? of->port->pid(job) : 0;
    if (state == TROUPE_JOB_RUNNING && of->stops_first) // Before it has made another report.
        of->port->stop(job);
    else if (state == TROUPE_JOB_RUNNING && of->pauses_first)
        of->port->pause(job);
    of->pauses_first = of->pauses_first && state != TROUPE_JOB_RUNNING;
    trp_events_push_state(of->events, of->trial, of->run, state, pid);
}

// Waits until the controller has dealt with the report. A stop of a trainer that saves when it is
// due has been asked for by then.
static troupe_gate_answer follow_gate(void *user, troupe_job *job, const troupe_report_event *event,
                                      int *ranks)
{
    trp_slot *of = user;
    switch (trp_events_await_dealt(of->events, &of->dealt, event->number, ranks)) {
    case TROUPE_ACT_STOP:
    case TROUPE_ACT_END:
    case TROUPE_ACT_CLONE:
        if (of->saves && of->reopened) // Nobody has asked this job for it yet.
            of->port->stop(job);
        return of->saves ? TROUPE_GATE_GO_ON : TROUPE_GATE_STOP;
    case TROUPE_ACT_PAUSE:
        return TROUPE_GATE_PAUSE;
    case TROUPE_ACT_RESIZE:
        return TROUPE_GATE_RESIZE;
    case TROUPE_ACT_GO_ON:
        break;
    }
    return TROUPE_GATE_GO_ON;
}

// ---- trials and their configs

void trp_sweep_trial_name(const troupe_sweep *sweep, int number, char *name, size_t size)
{
    snprintf(name, size, "%s_%05x_%05d", sweep->trainer->name, sweep->digits, number);
}

static trp_trial *make_trial(troupe_sweep *sweep, int number)
{
    size_t size = strlen(sweep->trainer->name) + sizeof "_fffff_0000000000";
    trp_trial *made = trp_alloc(sizeof *made);
    char *name = trp_arena_alloc(&sweep->arena, size);
    if (made == NULL || name == NULL) {
        trp_free(made);
        return NULL;
    }
    trp_sweep_trial_name(sweep, number, name, size);
    made->view = (troupe_trial){.name = name, .best_metric = (double)NAN, .error = ""};
    made->number = number;
    made->last = &made->pent;
    return made;
}

trp_trial *trp_control_trial(trp_control *control, int number)
{
    troupe_sweep *sweep = control->sweep;
    if (number >= sweep->room) {
        int room = sweep->room > 0 ? 2 * sweep->room : 64;
        room = room > number ? room : number + 1;
        trp_trial **larger = trp_realloc(sweep->trials, (size_t)room * sizeof *larger);
        if (larger == NULL)
            return NULL;
        sweep->trials = larger;
        sweep->room = room;
    }
    for (; sweep->count <= number; sweep->count++) {
        sweep->trials[sweep->count] = make_trial(sweep, sweep->count);
        if (sweep->trials[sweep->count] == NULL)
            return NULL;
    }
    return sweep->trials[number];
}

// Of a space from JSON.
static troupe_status draw_text(troupe_sweep *sweep, const trp_trial *trial, void *config)
{
    trp_text_config own = {.trial = trial->number};
    const char *json = troupe_space_json(sweep->space, trial->x);
    size_t size = json != NULL ? strlen(json) + 1 : 0;
    char *params = json != NULL ? trp_arena_alloc(&sweep->arena, size) : NULL;
    if (params == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of trial %d", trial->number);
    own.params = memcpy(params, json, size);
    memcpy(config, &own, sizeof own);
    return TROUPE_OK;
}

troupe_status trp_control_draw(trp_control *control, trp_trial *trial)
{
    troupe_sweep *sweep = control->sweep;
    size_t dims, config_size = sweep->trainer->config->size;
    (void)troupe_space_dims(sweep->space, &dims);
    const double *point = trp_study_point(control->study, trial->number);
    double *x = trp_arena_alloc(&sweep->arena, (dims + 1) * sizeof *x);
    void *config = trp_arena_alloc(&sweep->arena, config_size);
    if (x == NULL || config == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of trial %d", trial->number);
    memcpy(x, point, dims * sizeof *x);
    trial->x = x;
    trial->view.config = config;
    if (sweep->of_json)
        return draw_text(sweep, trial, config);
    troupe_space_config(sweep->space, x, config);
    return TROUPE_OK;
}

// ---- what a job is given

// What a job is given besides its config and options.
typedef struct handed {
    char key[TRP_KEY_SIZE]; // Of a train server's job.
    troupe_follower follower;
    troupe_gate of_sweep;
    const troupe_gate *gate; // That one or the user's; NULL: none.
} handed;

// The reports at which the scheduler may decide something: those that can be listed, and all behind
// these where there are more.
static void gate_reports(const trp_control *control, const trp_trial *trial, trp_slot *of)
{
    int at = trial->base, limit = control->sweep->reports_most;
    of->report_count = 0;
    of->all_from = 0;
    while (of->report_count < TRP_GATED_MAX) {
        bool ends = of->report_count > 0 && limit > 0 && at >= limit; // There.
        int next = ends ? 0 : trp_study_decides_at(control->study, trial->number, at);
        if (next <= at)
            return;
        of->reports[of->report_count++] = next - trial->base;
        at = next;
    }
    of->all_from = at + 1 - trial->base;
}

bool trp_slot_waits(const trp_slot *of, int report)
{
    bool waits = of->all_from > 0 && report >= of->all_from;
    for (size_t i = 0; i < of->report_count; i++)
        waits = waits || of->reports[i] == report;
    return of->gated && waits;
}

// Whether the run's gate is asked at the report where the trial's last decision was.
static bool asks_at_decision(trp_control *control, const trp_trial *trial, const trp_slot *of)
{
    int report = 0;
    troupe_verdict verdict = {.size = sizeof verdict};
    trp_study_decided(control->study, trial->number, &report, &verdict);
    return trp_slot_waits(of, report - trial->base);
}

void trp_control_key(const trp_control *control, const trp_trial *trial, char *key)
{
    snprintf(key, TRP_KEY_SIZE, trial->run == 0 ? "sweep-%s-%d" : "sweep-%s-%d-%d",
             control->sweep->id, trial->number, trial->run);
}

static troupe_status hand(trp_control *control, trp_trial *trial, handed *to)
{
    const troupe_sweep *sweep = control->sweep;
    const troupe_gate *users = sweep->train.gate;
    trp_slot *of = trp_alloc(sizeof *of);
    if (of == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the job of %s", trial->view.name);
    *of = (trp_slot){.port = sweep->port,
                     .events = &control->events,
                     .trial = trial->number,
                     .run = trial->run,
                     .reopened = trial->reopens,
                     .saves =
                         sweep->trainer->stages != NULL && sweep->trainer->stages->saves_when_due};
    gate_reports(control, trial, of);
    of->gated = sweep->port->has_gates && users == NULL && of->report_count > 0;
    bool first = trial->reopens && (trial->acts_first || !asks_at_decision(control, trial, of));
    of->stops_first = first && trp_trial_is_stopping(trial);
    of->pauses_first = first && !of->stops_first && trial->decision == TROUPE_ACT_PAUSE;
    trial->slot = of;
    trp_control_key(control, trial, to->key);
    to->follower = (troupe_follower){.size = sizeof to->follower,
                                     .report = follow_report,
                                     .state = follow_state,
                                     .user = of,
                                     .checkpoint = follow_checkpoint};
    to->of_sweep = (troupe_gate){.size = sizeof to->of_sweep,
                                 .timeout_ms = GATE_MS,
                                 .decide = follow_gate,
                                 .user = of,
                                 .reports = of->reports,
                                 .report_count = of->report_count,
                                 .first = of->all_from,
                                 .every = of->all_from > 0};
    to->gate = of->gated ? &to->of_sweep : users;
    return TROUPE_OK;
}

static void unhand(trp_trial *trial)
{
    trp_free(trial->slot);
    trial->slot = NULL;
}

// ---- submitting

// Whether a refusal comes from the options, so that every other trial would be refused as well.
static bool depends_on_options(troupe_status status)
{
    return status == TROUPE_INVALID || status == TROUPE_NOT_STARTED ||
           status == TROUPE_UNSUPPORTED || status == TROUPE_TOO_LARGE || status == TROUPE_VERSION;
}

// Whether the same may be taken at another moment. A train server may have taken it: the key shows.
static bool is_of_the_moment(const troupe_sweep *sweep, const trp_trial *trial,
                             troupe_status status)
{
    if (trial->reopens && status == TROUPE_BUSY) // Ranks of the earlier life have not ended yet.
        return true;
    return sweep->how.server == TROUPE_SERVER_AUTO &&
           (status == TROUPE_TIMED_OUT || status == TROUPE_NO_SPACE || status == TROUPE_STOPPED ||
            status == TROUPE_PEER_LOST);
}

// The trial waits, and with it all behind it.
static void put_off(trp_control *control, const trp_trial *trial)
{
    int64_t pause_ms = AGAIN_MS;
    for (int i = 0; i < control->put_off && pause_ms < AGAIN_MOST_MS; i++)
        pause_ms *= 2;
    if (control->put_off++ == 0)
        trp_log(TRP_WARN, "trial %s is submitted again until it is taken: %s", trial->view.name,
                troupe_last_error()->text);
    control->then_ns = trp_sweep_now_ns(control->sweep) +
                       (pause_ms < AGAIN_MOST_MS ? pause_ms : AGAIN_MOST_MS) * 1000000;
}

static void take_job(trp_control *control, trp_trial *trial, troupe_job *job)
{
    trp_trial_submitted(trial, job);
    control->busy++;
    control->open++;
    control->begun = true;
    control->progress.changed = true;
}

int trp_control_ranks(const trp_control *control, const trp_trial *trial)
{
    const troupe_sweep *sweep = control->sweep;
    troupe_train_options how = sweep->train;
    trp_space_options(sweep->space, trial->x, &how);
    return trial->given > 0 ? trial->given : how.ranks;
}

// The options of a run of a trial.
static void options_of(const trp_control *control, const trp_trial *trial, const handed *to,
                       char *name, size_t size, troupe_train_options *how)
{
    const troupe_sweep *sweep = control->sweep;
    *how = sweep->train;
    trp_space_options(sweep->space, trial->x, how);
    how->ranks = trp_control_ranks(control, trial);
    snprintf(name, size, trial->run == 0 ? "%s" : "%s_%d", trial->view.name, trial->run);
    how->storage = sweep->folder;
    how->name = name;
    how->from = trial->from != NULL ? trial->from : how->from;
    if (trial->has_own && how->from != NULL && access(how->from, F_OK) != 0)
        how->from = NULL; // It was not kept any longer, and is not needed.
    how->open = trial->reopens ? TROUPE_OPEN_RESUME_OR_NEW : TROUPE_OPEN_NEW;
    if (how->keep_metric == NULL) { // The best trial's best checkpoint is best by what made it win.
        how->keep_metric = trp_sweep_metric(sweep);
        how->keep_goal = sweep->objectives[0].goal;
    }
    how->gate = to->gate;
    if (how->server == TROUPE_SERVER_AUTO)
        how->key = to->key;
    else if (how->sync == TROUPE_SYNC_AUTO) // The sweep's record says what the trial did.
        how->sync = TROUPE_SYNC_CHECKPOINTS;
    if (how->console == TROUPE_CONSOLE_AUTO) // The sweep is shown.
        how->console = TROUPE_CONSOLE_OFF;
}

static troupe_status refuse(trp_control *control, trp_trial *trial, troupe_status status)
{
    troupe_sweep *sweep = control->sweep;
    if (trial->number == 0 && trial->run == 0 && depends_on_options(status))
        return status;
    // An earlier life has submitted it, with other options, and has not come to say so.
    if (status == TROUPE_EXISTS && sweep->how.server == TROUPE_SERVER_AUTO)
        return status;
    control->lost = control->lost || status == TROUPE_RUNTIME_LOST;
    control->progress.changed = true;
    trp_trial_refused(trial, troupe_last_error()->text);
    return trp_control_put_end(control, trial);
}

// What was decided holds for a run that is opened again, and its gate is told so: at the report
// where that was, if it is made again. What it has reported on its way to a pause, nobody hears of
// once more, and the gate is asked all the same.
static void deal_again(trp_control *control, trp_trial *trial)
{
    int report = 0;
    troupe_verdict verdict = {.size = sizeof verdict};
    bool stops = trp_trial_is_stopping(trial);
    troupe_act act = stops ? TROUPE_ACT_STOP : trial->decision;
    trp_events *events = &control->events;
    trp_dealt *dealt = &trial->slot->dealt;
    trp_study_decided(control->study, trial->number, &report, &verdict);
    if (stops && !trial->acts_first && !trial->broken && !trial->halted)
        trp_events_end_from(events, dealt, report - trial->base);
    trp_events_deal(events, dealt, trial->taken - trial->base, act, trial->ranks);
    act = stops ? TROUPE_ACT_STOP : TROUPE_ACT_GO_ON;
    for (const trp_pent *at = trial->pent; at != NULL; at = at->next)
        trp_events_deal(events, dealt, at->event->report.number, act, trial->ranks);
}

troupe_status trp_control_submit(trp_control *control, trp_trial *trial)
{
    troupe_sweep *sweep = control->sweep;
    troupe_train_options how;
    troupe_job *job = NULL;
    handed to;
    char name[256];
    if (trial->x == NULL)
        TROUPE_TRY(trp_control_draw(control, trial));
    bool here = sweep->how.server == TROUPE_SERVER_NONE;
    if (here && control->went_on && !trial->reopens)
        TROUPE_TRY(trp_control_make_way(control, trial));
    TROUPE_TRY(hand(control, trial, &to));
    options_of(control, trial, &to, name, sizeof name, &how);
    trial->ranks = how.ranks;
    trp_control_away(control);
    // The server's jobs last a power failure: so does what is known of them. Where that cannot be,
    // the record says so itself.
    if (!here)
        (void)trp_tune_record_sync(control->record, true);
    troupe_status status =
        sweep->port->submit(sweep->trainer, trial->view.config, &to.follower, &job, &how);
    trp_control_back(control);
    if (status != TROUPE_OK)
        unhand(trial);
    if (is_of_the_moment(sweep, trial, status)) {
        put_off(control, trial);
        return TROUPE_OK;
    }
    control->put_off = 0;
    control->then_ns = 0;
    if (status != TROUPE_OK)
        return refuse(control, trial, status);
    take_job(control, trial, job);
    if (trial->reopens)
        deal_again(control, trial);
    if (!trial->submitted_before)
        trp_journal_submitted(control->record, sweep, trial);
    return TROUPE_OK;
}

troupe_status trp_control_find(trp_control *control, trp_trial *trial)
{
    troupe_job *job;
    handed to;
    TROUPE_TRY(hand(control, trial, &to));
    troupe_status status = control->sweep->port->find(to.key, &to.follower, to.gate, &job);
    if (status == TROUPE_OK) {
        take_job(control, trial, job);
        trial->ranks = trial->ranks > 0 ? trial->ranks : trp_control_ranks(control, trial);
    } else {
        unhand(trial);
    }
    return status;
}

// ---- from one run to the next

void trp_control_make_ready(trp_control *control, trp_trial *trial)
{
    trial->ready = NULL;
    *control->last_ready = trial;
    control->last_ready = &trial->ready;
}

troupe_status trp_control_next_run(trp_control *control, trp_trial *trial, int base,
                                   const char *from)
{
    char *copy = from != NULL ? trp_strdup(from) : NULL;
    if (from != NULL && copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the next run of %s", trial->view.name);
    trp_trial_between(trial, base, copy);
    trp_journal_run(control->record, control->sweep, trial);
    trp_control_make_ready(control, trial);
    return TROUPE_OK;
}

void trp_control_close_ended(trp_control *control, int left)
{
    while (control->ended_count > left) {
        trp_slot *first = control->ended;
        control->ended = first->next;
        if (control->ended == NULL)
            control->last_ended = &control->ended;
        control->ended_count--;
        trp_control_away(control);
        control->sweep->port->close(&first->job);
        trp_control_back(control);
        trp_free(first);
    }
}

void trp_control_close_job(trp_control *control, trp_trial *trial, bool leave)
{
    enum { ENDED_MAX = 16 };
    trp_slot *of = trial->slot;
    if (trial->job == NULL)
        return;
    trp_events_let_go(&control->events, &of->dealt);
    control->open--;
    control->busy -= trial->phase != TRP_TRIAL_PAUSED;
    if (leave) {
        trp_control_away(control);
        control->sweep->port->leave(&trial->job);
        trp_control_back(control);
        trial->job = NULL;
        unhand(trial);
        return;
    }
    of->job = trial->job;
    *control->last_ended = of;
    control->last_ended = &of->next;
    control->ended_count++;
    trial->job = NULL;
    trial->slot = NULL;
    trp_control_close_ended(control, ENDED_MAX);
}
