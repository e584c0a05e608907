// sweep.c: the controller of a sweep. It runs in the thread that called troupe_tune: it draws
// configs, submits them as jobs, lets the scheduler decide at every report and collects what came
// of them.
//
// Train's threads only push events (events.h); all state of the sweep belongs to this one thread,
// so that nothing here is locked. The controller opens no worker itself.
#include <tune/sweep/sweep.h>

#include <dirent.h>
#include <math.h>
#include <runtime/base/buffer.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/folder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <train/file.h>
#include <train/opening.h>
#include <train/storage.h>
#include <tune/search/search.h>
#include <tune/sweep/events.h>
#include <tune/sweep/journal.h>
#include <tune/sweep/replay.h>
#include <tune/sweep/sweep_facts.h>
#include <unistd.h>

enum { TRIALS_DEFAULT = 10, GATE_MS = 10000, AGAIN_MS = 100, AGAIN_MOST_MS = 30000 };
enum { GATED_MAX = 64 };
static const int64_t LOOK_NS = 1000000000;  // Between looks at jobs that say nothing.
static const int64_t GRACE_NS = 2000000000; // For a trial that was asked to stop.

// What a follower's callback gets: whose job it is.
typedef struct slot {
    const trp_sweep_port *port;
    trp_events *events;
    int trial;
    trp_dealt dealt;
    bool gated; // Its reports wait where the scheduler may end it,
    bool saves; // and a stop leaves it a report for its last checkpoint.
    int reports[GATED_MAX];
    size_t report_count;
} slot;

// What a sweep has only while it runs.
typedef struct running {
    troupe_sweep *sweep;
    troupe_scheduler *scheduler;
    trp_search *search;
    trp_events events;
    trp_journal journal;
    trp_progress progress;
    slot *slots;
    int next;        // None that waits is before it.
    int open;        // Jobs that have not ended.
    int put_off;     // How often in a row a submission was,
    int64_t then_ns; // and until when; 0: it was not.
    int64_t due_ns;  // The least of those of the trials; 0: none.
    bool begun;      // Some trial was submitted.
    bool lost;       // The runtime was, and with it all that ran and could run.
    trp_buffer past; // Lines of an earlier life of the sweep; empty: there was none.
} running;

// ---- in Train's threads

static void follow_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    slot *of = user;
    (void)job;
    trp_events_push_report(of->events, of->trial, event);
}

static void follow_checkpoint(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    slot *of = user;
    (void)job;
    trp_events_push_checkpoint(of->events, of->trial, event);
}

static void follow_state(void *user, troupe_job *job, troupe_job_state state)
{
    slot *of = user;
    int pid = state == TROUPE_JOB_RUNNING ? of->port->pid(job) : 0;
    trp_events_push_state(of->events, of->trial, state, pid);
}

// Waits until the controller has dealt with the report. A stop of a trainer that saves when it is
// due has been asked for by then.
static troupe_gate_answer follow_gate(void *user, troupe_job *job, const troupe_report_event *event,
                                      int *ranks)
{
    slot *of = user;
    (void)job;
    (void)ranks;
    bool stop = trp_events_await_dealt(of->events, &of->dealt, event->number);
    return stop && !of->saves ? TROUPE_GATE_STOP : TROUPE_GATE_GO_ON;
}

// ---- submitting

// Whether a refusal comes from the options, so that every other trial would be refused as well.
static bool depends_on_options(troupe_status status)
{
    return status == TROUPE_INVALID || status == TROUPE_NOT_STARTED ||
           status == TROUPE_UNSUPPORTED || status == TROUPE_TOO_LARGE || status == TROUPE_VERSION;
}

// Whether a train server may take the same at another moment. It may have taken it: the key shows.
static bool is_of_the_moment(const troupe_sweep *sweep, troupe_status status)
{
    return sweep->how.server == TROUPE_SERVER_AUTO &&
           (status == TROUPE_TIMED_OUT || status == TROUPE_NO_SPACE || status == TROUPE_STOPPED ||
            status == TROUPE_PEER_LOST);
}

// The trial waits, and with it all behind it.
static void put_off(running *run, const trp_trial *trial)
{
    int64_t pause_ms = AGAIN_MS;
    for (int i = 0; i < run->put_off && pause_ms < AGAIN_MOST_MS; i++)
        pause_ms *= 2;
    if (run->put_off++ == 0)
        trp_log(TRP_WARN, "trial %s is submitted again until a train server takes it: %s",
                trial->view.name, troupe_last_error()->text);
    run->then_ns = trp_clock_ns() + (pause_ms < AGAIN_MOST_MS ? pause_ms : AGAIN_MOST_MS) * 1000000;
}

static troupe_status draw(running *run, int number)
{
    const troupe_sweep *sweep = run->sweep;
    trp_trial *trial = &sweep->trials[number];
    if (trial->view.config != NULL)
        return TROUPE_OK;
    void *config = trp_alloc(sweep->trainer->config->size);
    if (config == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of trial %d", number);
    trial->view.config = config;
    trp_assert(run->search->suggest(run->search, number, config));
    return TROUPE_OK;
}

// What a job is given besides its config and options.
typedef struct handed {
    char key[80]; // Of a train server's job.
    troupe_follower follower;
    troupe_gate of_sweep;
    const troupe_gate *gate; // That one or the user's; NULL: none.
} handed;

// The reports at which the scheduler may end the trial. False: any.
static bool gated_reports(troupe_scheduler *scheduler, slot *of)
{
    if (scheduler->decides_at == NULL)
        return false;
    for (int at = 0; of->report_count < GATED_MAX; of->reports[of->report_count++] = at) {
        at = scheduler->decides_at(scheduler, of->trial, at);
        if (at == 0 || (scheduler->limit > 0 && at > scheduler->limit))
            break;
    }
    return true;
}

static void hand(running *run, int number, handed *to)
{
    const troupe_sweep *sweep = run->sweep;
    troupe_scheduler *scheduler = run->scheduler;
    slot *of = &run->slots[number];
    const troupe_gate *users = sweep->train.gate;
    *of = (slot){.port = sweep->port,
                 .events = &run->events,
                 .trial = number,
                 .saves = sweep->trainer->stages != NULL && sweep->trainer->stages->saves_when_due};
    bool listed = gated_reports(scheduler, of);
    bool gated = sweep->port->has_gates && users == NULL && (!listed || of->report_count > 0);
    of->gated = gated;
    snprintf(to->key, sizeof to->key, "sweep-%s-%d", sweep->id, number);
    to->follower = (troupe_follower){.size = sizeof to->follower,
                                     .report = follow_report,
                                     .state = follow_state,
                                     .user = of,
                                     .checkpoint = follow_checkpoint};
    to->of_sweep = (troupe_gate){.size = sizeof to->of_sweep,
                                 .timeout_ms = GATE_MS,
                                 .decide = follow_gate,
                                 .user = of,
                                 .reports = listed ? of->reports : NULL,
                                 .report_count = of->report_count};
    to->gate = gated ? &to->of_sweep : users;
}

static void take_job(running *run, trp_trial *trial, troupe_job *job)
{
    trp_trial_submitted(trial, job);
    run->open++;
    run->begun = true;
    run->progress.changed = true;
}

// The trial waits still where it is to be submitted again later.
static troupe_status submit(running *run, int number)
{
    troupe_sweep *sweep = run->sweep;
    trp_trial *trial = &sweep->trials[number];
    TROUPE_TRY(draw(run, number));

    troupe_train_options how = sweep->train;
    how.storage = sweep->folder;
    how.name = trial->view.name;
    if (how.keep_metric == NULL) { // The best trial's best checkpoint is best by what made it win.
        how.keep_metric = sweep->metric;
        how.keep_goal = sweep->how.goal;
    }
    handed to;
    hand(run, number, &to);
    how.gate = to.gate;
    if (how.server == TROUPE_SERVER_AUTO)
        how.key = to.key;
    if (how.console == TROUPE_CONSOLE_AUTO) // The sweep is shown.
        how.console = TROUPE_CONSOLE_OFF;
    troupe_job *job;
    troupe_status status =
        sweep->port->submit(sweep->trainer, trial->view.config, &to.follower, &job, &how);
    if (is_of_the_moment(sweep, status)) {
        put_off(run, trial);
        return TROUPE_OK;
    }
    run->put_off = 0;
    run->then_ns = 0;
    if (status != TROUPE_OK && number == 0 && depends_on_options(status))
        return status;
    // An earlier life has submitted it, with other options, and has not come to say so.
    if (status == TROUPE_EXISTS && how.key != NULL)
        return status;
    run->lost = run->lost || status == TROUPE_RUNTIME_LOST;
    if (status != TROUPE_OK) {
        run->progress.changed = true;
        trp_trial_refused(trial, troupe_last_error()->text);
        trp_journal_end(&run->journal, trial);
        return TROUPE_OK;
    }
    take_job(run, trial, job);
    trp_journal_submitted(&run->journal, sweep, trial);
    if (how.server == TROUPE_SERVER_NONE) // Else the folder is none of a run yet.
        trp_journal_params(&run->journal, sweep, trial, sweep->port->path(job));
    return TROUPE_OK;
}

// ---- events

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

static troupe_status remember_values(troupe_sweep *sweep, trp_trial *trial,
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

static void give_up(running *run, trp_trial *trial, const troupe_report_event *report)
{
    char names[256] = "", sentence[512];
    size_t length = 0;
    for (size_t i = 0; i < report->count && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                   i == 0 ? "" : ", ", report->metrics[i].name);
    snprintf(sentence, sizeof sentence, "report %d lacks the sweep's metric %s; it has %s",
             report->number, run->sweep->metric, names[0] == '\0' ? "none" : names);
    trp_trial_broken(trial, sentence);
    if (trial->job != NULL)
        run->sweep->port->stop(trial->job);
}

// A stop at the server is the gate's, which needs no server that runs.
static void stop_decided(running *run, int number)
{
    const slot *of = &run->slots[number];
    if (!of->gated || of->saves || run->sweep->how.server == TROUPE_SERVER_NONE)
        run->sweep->port->stop(run->sweep->trials[number].job);
}

static troupe_status decide(running *run, int number, const troupe_report_event *report,
                            double value, troupe_act *decision)
{
    bool maximize = run->sweep->how.goal == TROUPE_MAXIMIZE;
    troupe_progress progress = {.size = sizeof progress,
                                .trial = number,
                                .report = report->number,
                                .score = maximize ? -value : value,
                                .elapsed_s = report->elapsed_s,
                                .ranks = run->sweep->train.ranks};
    troupe_verdict verdict = {.size = sizeof verdict, .act = TROUPE_ACT_GO_ON};
    troupe_status status = run->scheduler->decide(run->scheduler, &progress, &verdict);
    *decision = verdict.act;
    return status;
}

// `usable`: it has the metric.
static troupe_status judge(running *run, int number, const troupe_report_event *report, bool usable,
                           double value)
{
    troupe_sweep *sweep = run->sweep;
    trp_trial *trial = &sweep->trials[number];
    if (trp_trial_is_stopping(trial)) // What comes until the job has stopped counts, and no more.
        return TROUPE_OK;
    if (!usable) {
        give_up(run, trial, report);
        return TROUPE_OK;
    }
    troupe_act decision;
    TROUPE_TRY(decide(run, number, report, value, &decision));
    if (decision != TROUPE_ACT_GO_ON) {
        trp_trial_decided(trial, decision);
        stop_decided(run, number);
    }
    return TROUPE_OK;
}

static troupe_status take_report(running *run, int number, const troupe_report_event *report)
{
    troupe_sweep *sweep = run->sweep;
    trp_trial *trial = &sweep->trials[number];
    double value = 0;
    if (report->number <= trial->taken) // By an earlier life of the sweep.
        return TROUPE_OK;
    trial->taken = report->number;
    bool usable = trp_trial_report(trial, report, sweep->metric, sweep->how.goal, &value);
    TROUPE_TRY(remember_values(sweep, trial, report));
    // What is put down holds: the trial is told behind it.
    trp_journal_report(&run->journal, trial, report);
    TROUPE_TRY(judge(run, number, report, usable, value));
    trp_events_deal(&run->events, &run->slots[number].dealt, report->number,
                    trp_trial_is_stopping(trial));
    return TROUPE_OK;
}

static void collect(running *run, int number)
{
    troupe_sweep *sweep = run->sweep;
    const trp_sweep_port *port = sweep->port;
    trp_trial *trial = &sweep->trials[number];
    troupe_result *result = NULL;
    troupe_status status = port->wait(trial->job, -1, &result);
    if (status == TROUPE_OK) {
        trp_trial_ended(trial, port->result_status(result), port->result_error(result),
                        port->result_stopped(result));
        run->lost = run->lost || port->result_status(result) == TROUPE_RUNTIME_LOST;
        trial->view.elapsed_s = port->result_elapsed_s(result);
    } else {
        trp_trial_ended(trial, status, troupe_last_error()->text, false);
    }
    trial->result = result;
    trial->view.result = result;
    trp_events_let_go(&run->events, &run->slots[number].dealt);
    port->close(&trial->job);
    trial->job = NULL;
    run->open--;
    double best = trial->view.best_metric;
    run->search->observe(run->search, number, sweep->how.goal == TROUPE_MAXIMIZE ? -best : best);
    if (trial->ended_before)
        trp_trial_restore(trial);
    else
        trp_journal_end(&run->journal, trial);
}

// ---- trials that take too long

static void set_due(running *run, trp_trial *trial, int64_t due_ns)
{
    trial->due_ns = due_ns;
    if (run->due_ns == 0 || due_ns < run->due_ns)
        run->due_ns = due_ns;
}

// A group of the trial runs.
static void begun(running *run, trp_trial *trial)
{
    const troupe_sweep *sweep = run->sweep;
    double limit_s = sweep->how.trial_timeout_s;
    if (trial->phase == TRP_TRIAL_QUEUED && sweep->how.server == TROUPE_SERVER_AUTO)
        trp_journal_params(&run->journal, sweep, trial, sweep->port->path(trial->job));
    trp_trial_running(trial);
    if (limit_s > 0 && trial->due_ns == 0)
        set_due(run, trial, trp_clock_ns() + (int64_t)(limit_s * 1e9));
}

// First it is asked, so that what it has reported is whole; then it is made to, as often as it
// takes: a request may be lost for lack of memory.
static void end_overdue(running *run, trp_trial *trial)
{
    const trp_sweep_port *port = run->sweep->port;
    char sentence[128];
    snprintf(sentence, sizeof sentence, "it ran for longer than %g s, which trial_timeout_s allows",
             run->sweep->how.trial_timeout_s);
    if (trial->overdue) {
        port->kill(trial->job, TROUPE_DEADLINE_EXCEEDED, sentence);
        return;
    }
    trial->overdue = true;
    trp_trial_broken(trial, sentence);
    port->stop(trial->job);
}

static void look_for_overdue(running *run)
{
    int64_t now = trp_clock_ns();
    if (run->due_ns == 0 || now < run->due_ns)
        return;
    run->due_ns = 0;
    for (int i = 0; i < run->sweep->count; i++) {
        trp_trial *trial = &run->sweep->trials[i];
        if (trial->job == NULL || trial->due_ns == 0)
            continue;
        bool due = trial->due_ns <= now;
        if (due)
            end_overdue(run, trial);
        set_due(run, trial, due ? now + GRACE_NS : trial->due_ns);
    }
}

static troupe_status take(running *run, const trp_event *event)
{
    trp_trial *trial = &run->sweep->trials[event->trial];
    if (trial->phase == TRP_TRIAL_ENDED)
        return TROUPE_OK;
    run->progress.changed = true;
    if (event->is_report)
        return take_report(run, event->trial, &event->report);
    if (event->is_checkpoint) {
        if (event->report.number > trial->saved)
            trp_journal_checkpoint(&run->journal, trial, event->report.number,
                                   event->report.checkpoint);
        return TROUPE_OK;
    }
    switch (event->state) {
    case TROUPE_JOB_RUNNING:
        begun(run, trial);
        trial->pid = event->pid;
        break;
    case TROUPE_JOB_DONE:
        collect(run, event->trial);
        break;
    case TROUPE_JOB_QUEUED:
    case TROUPE_JOB_PAUSED:
    case TROUPE_JOB_RESTARTING:
        break;
    }
    return TROUPE_OK;
}

static void show_if_due(running *run)
{
    int64_t due = trp_progress_due_ns(&run->progress), now = trp_clock_ns();
    if (due >= 0 && now >= due)
        trp_sweep_show(&run->progress, run->sweep, now);
}

// A runtime that is stopped by another thread ends jobs, and may do so without a word.
static void collect_silent(running *run)
{
    troupe_sweep *sweep = run->sweep;
    for (int i = 0; i < sweep->count; i++) {
        troupe_job_status status;
        if (sweep->trials[i].job == NULL)
            continue;
        sweep->port->status(sweep->trials[i].job, &status);
        if (status.state != TROUPE_JOB_DONE)
            continue;
        collect(run, i);
        run->progress.changed = true;
    }
}

// Until when to wait for events: until progress or a trial is due, and never so long that the end
// of a silent job goes unseen.
static int64_t wait_until_ns(const running *run)
{
    int64_t due = trp_progress_due_ns(&run->progress), look = trp_clock_ns() + LOOK_NS;
    if (run->due_ns != 0 && run->due_ns < look)
        look = run->due_ns;
    if (run->then_ns != 0 && run->then_ns < look)
        look = run->then_ns;
    return due >= 0 && due < look ? due : look;
}

// Submits as many as may run at once, and can be now.
static troupe_status submit_next(running *run)
{
    troupe_sweep *sweep = run->sweep;
    for (; run->next < sweep->count; run->next++) {
        if (sweep->trials[run->next].phase != TRP_TRIAL_WAITING) // An earlier life's.
            continue;
        if (run->lost || run->open >= sweep->how.concurrent ||
            (run->then_ns != 0 && trp_clock_ns() < run->then_ns))
            break;
        TROUPE_TRY(submit(run, run->next));
        if (sweep->trials[run->next].phase == TRP_TRIAL_WAITING)
            break;
    }
    return TROUPE_OK;
}

static troupe_status control(running *run)
{
    troupe_sweep *sweep = run->sweep;
    for (;;) {
        TROUPE_TRY(submit_next(run));
        show_if_due(run);
        look_for_overdue(run);
        if (run->lost && run->open == 0)
            return troupe_fail(TROUPE_RUNTIME_LOST,
                               "the node's keeper or node process has died in the middle of the "
                               "sweep; what its trials reported is in %s",
                               sweep->folder);
        if (run->open == 0 && run->next == sweep->count)
            return TROUPE_OK; // Nothing runs and nothing is left: what was refused leaves no job.
        trp_event *event;
        troupe_status status = trp_events_pop(&run->events, wait_until_ns(run), &event);
        if (status == TROUPE_TIMED_OUT) {
            collect_silent(run);
            continue;
        }
        TROUPE_TRY(status);
        status = take(run, event);
        trp_free(event);
        TROUPE_TRY(status);
    }
}

// ---- what an earlier life has put down

// That a trial which was submitted would be so now.
static troupe_status check_config(running *run, int number, trp_json before)
{
    const troupe_sweep *sweep = run->sweep;
    const trp_trial *trial = &sweep->trials[number];
    trp_buffer now = {0};
    TROUPE_TRY(draw(run, number));
    trp_json_value(&now, sweep->trainer->config, trial->view.config);
    troupe_status status = TROUPE_OK;
    if (now.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of trial %d", number);
    else if (before.size != now.size || memcmp(before.at, now.data, now.size) != 0)
        status =
            troupe_fail(TROUPE_EXISTS,
                        "the sweep in %s is another one: its trial %d was submitted with the "
                        "config %.*s, and is %.*s now",
                        sweep->folder, number, (int)(before.size < 400 ? before.size : 400),
                        before.at, (int)(now.size < 400 ? now.size : 400), (const char *)now.data);
    trp_buffer_free(&now);
    return status;
}

static troupe_status note_past(void *user, const trp_replayed *line)
{
    running *run = user;
    trp_trial *trial = &run->sweep->trials[line->trial];
    bool ends = line->is == TRP_REPLAYED_END;
    trial->submitted_before |= !ends; // The line that says so may be lost, on a full disk.
    if (line->is == TRP_REPLAYED_SUBMITTED && line->config.size > 0)
        TROUPE_TRY(check_config(run, line->trial, line->config));
    if (line->is == TRP_REPLAYED_REPORT)
        trial->taken = line->report.number;
    if (line->is == TRP_REPLAYED_CHECKPOINT && line->report.number > trial->saved)
        trial->saved = line->report.number;
    if (ends && !trial->ended_before) {
        trial->ended_before = true;
        trial->state_before = line->state;
        trial->error_before = line->error[0] != '\0' ? trp_strdup(line->error) : NULL;
    }
    if (line->trial >= run->next)
        run->next = line->trial + 1;
    return TROUPE_OK;
}

// Decides again what was decided, in the same order. Trials whose jobs are gone count too.
static troupe_status decide_again(void *user, const trp_replayed *line)
{
    running *run = user;
    troupe_sweep *sweep = run->sweep;
    trp_trial *trial = &sweep->trials[line->trial];
    double value = 0;
    if (line->is != TRP_REPLAYED_REPORT)
        return TROUPE_OK;
    bool gone = trial->job == NULL;
    if (gone) // As if it ran, for the time of this.
        trial->phase = TRP_TRIAL_RUNNING;
    troupe_trial_state state = trial->view.state;
    bool usable = trp_trial_report(trial, &line->report, sweep->metric, sweep->how.goal, &value);
    troupe_status status = remember_values(sweep, trial, &line->report);
    troupe_act decision = TROUPE_ACT_GO_ON;
    if (status == TROUPE_OK && usable && !trp_trial_is_stopping(trial))
        status = decide(run, line->trial, &line->report, value, &decision);
    if (decision != TROUPE_ACT_GO_ON)
        trp_trial_decided(trial, decision);
    else if (!usable && !trp_trial_is_stopping(trial))
        give_up(run, trial, &line->report);
    if (gone) {
        trial->phase = TRP_TRIAL_ENDED;
        trial->view.state = state;
        trial->view.elapsed_s = line->report.elapsed_s;
    }
    return status;
}

// Nothing is submitted that was: where the server does not know its key, it is gone.
static troupe_status find_again(running *run, int number)
{
    trp_trial *trial = &run->sweep->trials[number];
    handed to;
    troupe_job *job;
    hand(run, number, &to);
    troupe_status status = run->sweep->port->find(to.key, &to.follower, to.gate, &job);
    if (status == TROUPE_OK) {
        take_job(run, trial, job);
        return TROUPE_OK;
    }
    if (status != TROUPE_NOT_FOUND)
        return trp_error_prefix("trial %s cannot be looked for", trial->view.name);
    if (trial->ended_before)
        trp_trial_restore(trial);
    else
        trp_trial_refused(trial, "the train server does not know its job any more");
    return TROUPE_OK;
}

// Finds the trials again, and is where the earlier life was. Nothing is written before all are
// found: a failure changes nothing.
static troupe_status go_on(running *run)
{
    troupe_sweep *sweep = run->sweep;
    const char *text = (const char *)run->past.data;
    run->begun = true; // There is something in the folder.
    TROUPE_TRY(trp_replay(text, run->past.size, sweep, note_past, run));
    int known = run->next;
    for (int i = 0; i < known; i++) {
        TROUPE_TRY(draw(run, i));
        if (sweep->trials[i].submitted_before)
            TROUPE_TRY(find_again(run, i));
        else if (sweep->trials[i].ended_before)
            trp_trial_restore(&sweep->trials[i]); // It was refused.
    }
    TROUPE_TRY(trp_replay(text, run->past.size, sweep, decide_again, run));
    run->next = 0; // Of one in between all lines may be lost.
    for (int i = 0; i < known; i++) {
        trp_trial *trial = &sweep->trials[i];
        bool stops = trp_trial_is_stopping(trial);
        trp_events_deal(&run->events, &run->slots[i].dealt, trial->taken, stops);
        if (stops && trial->job != NULL)
            stop_decided(run, i);
        if (trial->phase == TRP_TRIAL_ENDED && !trial->ended_before)
            trp_journal_end(&run->journal, trial);
    }
    return TROUPE_OK;
}

// ---- beginning and ending

// Five hex digits of a sweep: FNV-1a over its folder's name and its seed, so that nothing in a
// trial's name is left to chance.
static unsigned sweep_digits(const char *folder, uint64_t seed)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const char *slash = strrchr(folder, '/');
    for (const char *at = slash == NULL ? folder : slash + 1; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (seed >> (8 * i) & 0xff)) * 0x100000001b3u;
    return (unsigned)((hash ^ hash >> 20 ^ hash >> 40) & 0xfffff);
}

static troupe_status make_trials(troupe_sweep *sweep)
{
    size_t name_size = strlen(sweep->trainer->name) + sizeof "_fffff_0000000000";
    unsigned digits = sweep_digits(sweep->folder, sweep->how.seed);
    int count = sweep->how.trials;
    sweep->trials = trp_alloc((size_t)count * sizeof *sweep->trials);
    for (int i = 0; sweep->trials != NULL && i < count; i++) {
        char *name = trp_alloc(name_size);
        if (name == NULL)
            break;
        snprintf(name, name_size, "%s_%05x_%05d", sweep->trainer->name, digits, i);
        sweep->trials[i].view =
            (troupe_trial){.name = name, .best_metric = (double)NAN, .error = ""};
        sweep->count++;
    }
    if (sweep->count != count)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %d trials", count);
    return TROUPE_OK;
}

// Reads the option columns: names between commas, spaces around them left out.
static troupe_status parse_columns(troupe_sweep *sweep)
{
    const char *at = sweep->how.columns;
    sweep->columns = trp_alloc(TRP_COLUMNS_MAX * sizeof *sweep->columns);
    if (sweep->columns == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a table");
    sweep->columns_given = at != NULL;
    while (at != NULL) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ",");
        const char *next = at[length] == ',' ? at + length + 1 : NULL;
        while (length > 0 && at[length - 1] == ' ')
            length--;
        if (length < 1 || length >= TRP_METRIC_NAME || sweep->column_count == TRP_COLUMNS_MAX)
            return troupe_fail(TROUPE_INVALID,
                               "columns is \"%.200s\", must be 1 to %d names of 1 to %d bytes"
                               " separated by commas",
                               sweep->how.columns, TRP_COLUMNS_MAX, TRP_METRIC_NAME - 1);
        memcpy(sweep->columns[sweep->column_count++], at, length); // The rest is zero.
        at = next;
    }
    return TROUPE_OK;
}

// Settles how many trials there are and how many run at once.
static troupe_status settle_counts(troupe_sweep *sweep)
{
    troupe_tune_options *how = &sweep->how;
    if (how->search == TROUPE_SEARCH_GRID) {
        uint64_t size = trp_space_grid_size(&sweep->space, how->grid_points);
        if (how->trials == 0 && size > TRP_TRIALS_MAX)
            return troupe_fail(TROUPE_INVALID,
                               "trials is not set and the grid has %llu combinations, more than %d",
                               (unsigned long long)size, TRP_TRIALS_MAX);
        if (how->trials == 0 || (uint64_t)how->trials > size)
            how->trials = (int)size;
    }
    if (how->trials == 0)
        how->trials = TRIALS_DEFAULT;
    // Train fills in the same defaults; here they tell how many jobs fit and what the table shows.
    troupe_train_options *train = &sweep->train;
    train->ranks = train->ranks == 0 ? 1 : train->ranks;
    train->cpus_per_rank = train->cpus_per_rank == 0 ? 1 : train->cpus_per_rank;
    if (how->concurrent == 0) {
        double fit = floor(sweep->cpus / (train->ranks * train->cpus_per_rank) + 1e-9);
        how->concurrent = fit >= 1 ? (int)fmin(fit, TRP_TRIALS_MAX) + 1 : 1;
    }
    return TROUPE_OK;
}

// Removes what a killed driver left half done in the trials of the sweep that had the name before.
static void clean_earlier(const char *folder, const char *name)
{
    trp_path earlier, trial;
    char suffix[24] = "";
    const char *last = strrchr(folder, '/'), *number = last + 1 + strlen(name);
    if (number[0] != '_') // It is the first.
        return;
    long before = strtol(number + 1, NULL, 10) - 1;
    if (before > 0)
        snprintf(suffix, sizeof suffix, "_%ld", before);
    if (trp_path_make(&earlier, "%.*s/%s%s", (int)(last - folder), folder, name, suffix) !=
        TROUPE_OK)
        return;
    DIR *trials = opendir(earlier.text);
    for (struct dirent *it; trials != NULL && (it = readdir(trials)) != NULL;) {
        if (it->d_name[0] != '.' &&
            trp_path_make(&trial, "%s/%s", earlier.text, it->d_name) == TROUPE_OK)
            trp_run_clean_left(trial.text);
    }
    if (trials != NULL)
        closedir(trials);
}

static troupe_status make_id(troupe_sweep *sweep)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return trp_fail_errno(TROUPE_IO, "no random bytes for a sweep");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(sweep->id + 2 * i, 3, "%02x", bytes[i]);
    return TROUPE_OK;
}

// The sweep of that name goes on, if there is one.
static troupe_status open_again(running *run, const char *storage)
{
    troupe_sweep *sweep = run->sweep;
    bool make = sweep->how.open == TROUPE_OPEN_RESUME_OR_NEW;
    TROUPE_TRY(trp_folder_named(storage, sweep->how.name, make, &sweep->folder));
    run->begun = true; // There may be an earlier life's files in it.
    TROUPE_TRY(make_trials(sweep));
    troupe_status status = trp_journal_open_again(&run->journal, sweep, &run->past);
    run->begun = status != TROUPE_OK || run->past.size > 0; // The folder is not this one's.
    TROUPE_TRY(status);
    return run->past.size > 0
               ? trp_replay_check((const char *)run->past.data, run->past.size, sweep)
               : TROUPE_OK;
}

static troupe_status prepare(running *run, const troupe_param *params, size_t count)
{
    troupe_sweep *sweep = run->sweep;
    troupe_tune_options *how = &sweep->how;
    TROUPE_TRY(trp_space_open(&sweep->space, sweep->trainer->config, params, count,
                              sweep->trainer->defaults));
    TROUPE_TRY(sweep->port->cpus(&sweep->cpus));
    TROUPE_TRY(parse_columns(sweep));
    TROUPE_TRY(settle_counts(sweep));
    run->search = how->search == TROUPE_SEARCH_GRID
                      ? trp_search_grid(&sweep->space, how->grid_points)
                      : trp_search_random(&sweep->space, how->seed);
    run->slots = trp_alloc((size_t)how->trials * sizeof *run->slots);
    if (run->search == NULL || run->slots == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep of %d trials", how->trials);
    snprintf(sweep->metric, sizeof sweep->metric, "%s", how->metric);
    const char *describe = run->scheduler->describe;
    snprintf(sweep->scheduler, sizeof sweep->scheduler, "%s", describe == NULL ? "" : describe);
    const char *storage = sweep->train.storage;
    if (storage != NULL && !trp_storage_is_local(storage))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "option .storage of a sweep is '%.200s': expected local files", storage);
    storage = storage != NULL ? trp_storage_local(storage) : NULL;
    if (how->server == TROUPE_SERVER_AUTO) {
        TROUPE_TRY(make_id(sweep));
        TROUPE_TRY(sweep->port->server(&sweep->server));
    }
    if (how->open != TROUPE_OPEN_NEW)
        return open_again(run, storage);
    TROUPE_TRY(trp_folder_claim(storage, how->name, &sweep->folder));
    clean_earlier(sweep->folder, how->name);
    TROUPE_TRY(make_trials(sweep));
    return trp_journal_open(&run->journal, sweep);
}

// Ends what still runs, after a failure of the sweep itself. Jobs of a train server go on, as after
// the end of this program: the sweep may be opened again.
static void abandon(running *run)
{
    troupe_sweep *sweep = run->sweep;
    const trp_sweep_port *port = sweep->port;
    bool here = sweep->how.server == TROUPE_SERVER_NONE;
    for (int i = 0; here && i < sweep->count; i++) {
        if (sweep->trials[i].job != NULL)
            port->stop(sweep->trials[i].job);
    }
    for (int i = 0; i < sweep->count; i++) {
        trp_trial *trial = &sweep->trials[i];
        if (trial->job == NULL)
            continue;
        trp_events_let_go(&run->events, &run->slots[i].dealt);
        if (here)
            port->close(&trial->job);
        else
            port->leave(&trial->job);
        trial->job = NULL;
    }
    if (!run->begun && sweep->folder != NULL) // No trial has left anything in the folder.
        trp_journal_remove(sweep->folder);
    if (sweep->folder != NULL)
        rmdir(sweep->folder); // One with something in it stays.
}

static troupe_status verdict(const troupe_sweep *sweep)
{
    for (int i = 0; i < sweep->count; i++) {
        if (sweep->trials[i].view.state != TROUPE_TRIAL_ERROR)
            return TROUPE_OK;
    }
    return troupe_fail(TROUPE_FAILED, "all trials failed (%d); the first, %s: %s", sweep->count,
                       sweep->trials[0].view.name, sweep->trials[0].view.error);
}

static troupe_status run_sweep(troupe_sweep *sweep, troupe_scheduler *scheduler,
                               const troupe_param *params, size_t count)
{
    running run = {.sweep = sweep, .scheduler = scheduler, .journal.fd = -1};
    trp_events_open(&run.events);
    trp_progress_open(&run.progress, sweep->how.progress);
    sweep->started_s = trp_clock_s();
    troupe_status status = prepare(&run, params, count);
    if (status == TROUPE_OK && run.past.size > 0)
        status = go_on(&run);
    if (status == TROUPE_OK)
        status = control(&run);
    if (status == TROUPE_OK) {
        sweep->elapsed_s = trp_clock_s() - sweep->started_s;
        trp_time_of_day(sweep->ended_at);
        if (run.progress.changed)
            trp_sweep_show(&run.progress, sweep, trp_clock_ns());
    } else {
        troupe_error failure = *troupe_last_error(); // What follows may have failures of its own.
        abandon(&run);
        trp_error_set(&failure);
    }
    trp_progress_close(&run.progress);
    trp_journal_close(&run.journal);
    trp_search_destroy(&run.search);
    trp_events_close(&run.events);
    trp_free(run.slots);
    trp_buffer_free(&run.past);
    return status;
}

static troupe_status run_checked(const trp_sweep_port *port, const troupe_trainer *trainer,
                                 const troupe_param *params, size_t count, troupe_sweep **sweep,
                                 const troupe_tune_options *how)
{
    troupe_tune_options options = {0};
    troupe_train_options train = {0};
    if (sweep == NULL)
        return troupe_fail(TROUPE_INVALID, "`sweep` must not be NULL");
    *sweep = NULL;
    TROUPE_TRY(trp_sweep_options(trainer, how, &options, &train));
    troupe_sweep *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep");
    made->port = port;
    made->trainer = trainer;
    made->how = options;
    made->train = train;
    troupe_scheduler *scheduler = options.scheduler == NULL ? trp_fifo() : options.scheduler;
    troupe_status status = run_sweep(made, scheduler, params, count);
    if (status != TROUPE_OK) {
        troupe_sweep_free(&made);
        return status;
    }
    *sweep = made;
    return verdict(made);
}

troupe_scheduler *trp_sweep_scheduler(const troupe_tune_options *how)
{
    return how != NULL && how->size > offsetof(troupe_tune_options, scheduler) ? how->scheduler
                                                                               : NULL;
}

troupe_status trp_sweep_run(const trp_sweep_port *port, const troupe_trainer *trainer,
                            const troupe_param *params, size_t count, troupe_sweep **sweep,
                            const troupe_tune_options *how)
{
    troupe_scheduler *scheduler = trp_sweep_scheduler(how); // It is freed whatever happens.
    troupe_status status = run_checked(port, trainer, params, count, sweep, how);
    troupe_scheduler_free(&scheduler);
    return status;
}
