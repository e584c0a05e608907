// fake_train.h: a Train without processes for the tests of a sweep's controller: one thread plays
// the job server and all workers, so that every order of events can be arranged.
//
// A job makes one report after the other, one job after the other gets its turn. With `lockstep`, a
// job's next report waits until the controller has dealt with the last one, so that what a
// scheduler decides does not depend on timing. With `gates`, it asks its gate at each report
// instead, and does what that answers.
#ifndef FAKE_TRAIN_H
#define FAKE_TRAIN_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <support.h>
#include <troupe/wire.h>
#include <tune/sweep/sweep.h>

TROUPE_STRUCT(fake_settings, (double, rate), (int, hidden),
              (int, epochs),   // Reports until the loop ends by itself.
              (int, fail_at)); // Report after which it fails; 0: it does not.

struct troupe_result {
    troupe_status status;
    char error[128];
    bool stopped;
    double elapsed_s;
};

struct troupe_job {
    fake_settings config;
    troupe_follower follower;
    troupe_job_state state;
    bool stop, pause, calling, waited;
    int trial, number, answered, restarted, overran;
    int made; // The last report that the run had made before it was opened again.
    troupe_gate gate;
    pthread_t decider; // Asks the gate,
    bool asking;       // and has no answer yet,
    bool unheard;      // for which nobody waits any more.
    troupe_gate_answer answer;
    int ranks;
    char path[512];
    struct troupe_result result;
};

enum { FAKE_JOBS_MAX = 64, FAKE_LEFT_MAX = 8, FAKE_GATE_S = 5 };

// What a run has left in its folder.
typedef struct fake_left {
    bool there, ended, stopped;
    bool damaged; // It cannot be looked at.
    bool saving;  // The last report's checkpoint was not whole.
    int reports;
    fake_settings config;
    troupe_status status; // Where it has ended,
    const char *error;    // and why so; NULL: it has not failed.
    double elapsed_s;     // 0: half a second for each report.
} fake_left;

static struct fake_train {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t server;
    bool quit, lockstep;
    bool gates;  // Runs that are opened again go on from their newest checkpoint, then.
    int slots;   // Jobs that run at once.
    double cpus; // As the port says.
    _Atomic int64_t ahead_ns;
    double (*curve)(const fake_settings *config, int report);
    const char *metric;
    bool silent;      // Followers are not told of the end.
    int overrun;      // Reports that a job makes after it was asked to stop.
    int heeds_job;    // The job with that number does not stop or pause
    int heeds_from;   // before it has come to that report; 0: it does.
    int restart_at;   // Report after which each group is started again; 0: never.
    int refuse_from;  // Submission from which all are refused with `refusal`; negative: none.
    int refuse_until; // One past the last that is refused.
    troupe_status refusal;
    troupe_status finding; // Of a job by its key; TROUPE_OK: TROUPE_NOT_FOUND.
    troupe_status failure; // Of a job that fails; TROUPE_OK: TROUPE_FAILED.
    fake_left runs[FAKE_LEFT_MAX][FAKE_LEFT_MAX]; // By trial and run: such a run goes on there.
    int known[FAKE_LEFT_MAX]; // Reports of a trial's last run that nobody answers once more.
    int unasked;              // A report that gates are not asked about; 0: none.
    // What was seen.
    int unanswered; // Questions to gates.
    struct troupe_job *jobs[FAKE_JOBS_MAX];
    int submitted, running, open, running_max, results, left;
    int ended, jobs_max, handles_max; // Ended: of those that are open.
    struct {
        fake_settings config;
        char name[64], from[512]; // Of its folder; what it begins with, "": nothing.
        int ranks, pauses, goings_on, resized;
        troupe_sync sync;
    } seen[FAKE_JOBS_MAX];
} fake;

static double fake_quadratic(const fake_settings *config, int report)
{
    return (config->rate - 0.3) * (config->rate - 0.3) + 1.0 / report;
}

// Calls the follower without the lock; close waits until it has returned.
static void fake_begin_call(struct troupe_job *job)
{
    job->calling = true;
    pthread_mutex_unlock(&fake.lock);
}

static void fake_end_call(struct troupe_job *job)
{
    pthread_mutex_lock(&fake.lock);
    job->calling = false;
    pthread_cond_broadcast(&fake.changed);
}

static void fake_set_state(struct troupe_job *job, troupe_job_state state)
{
    job->state = state;
    if (state == TROUPE_JOB_DONE && fake.silent)
        return;
    troupe_follower follower = job->follower;
    fake_begin_call(job);
    follower.state(follower.user, job, state);
    fake_end_call(job);
}

static void fake_finish(struct troupe_job *job, troupe_status status, const char *error)
{
    if (job->state != TROUPE_JOB_QUEUED && job->state != TROUPE_JOB_PAUSED)
        fake.running--;
    job->result.status = status;
    job->result.stopped = status == TROUPE_OK && job->stop;
    job->result.elapsed_s = job->number * 0.5;
    snprintf(job->result.error, sizeof job->result.error, "%s", error);
    fake_set_state(job, TROUPE_JOB_DONE);
}

// ---- gates

static int fake_place(const troupe_job *job)
{
    int place = 0;
    while (fake.jobs[place] != job)
        place++;
    return place;
}

static void *fake_decide(void *user)
{
    struct troupe_job *job = user;
    const troupe_report_event event = {.number = job->number};
    int ranks = 1;
    troupe_gate_answer answer = job->gate.decide(job->gate.user, job, &event, &ranks);
    pthread_mutex_lock(&fake.lock);
    job->answer = answer;
    job->ranks = ranks;
    job->asking = false;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

static void fake_take_answer(struct troupe_job *job)
{
    if (job->answer == TROUPE_GATE_STOP)
        job->stop = true;
    else if (job->answer == TROUPE_GATE_PAUSE)
        job->pause = true;
    else if (job->answer == TROUPE_GATE_RESIZE)
        fake.seen[fake_place(job)].resized = job->ranks;
}

static bool fake_is_gated(const struct troupe_job *job)
{
    size_t at = 0;
    while (at < job->gate.report_count && job->gate.reports[at] != job->number)
        at++;
    return job->gate.decide != NULL && (at < job->gate.report_count || job->gate.report_count == 0);
}

// A gate that still decides on an earlier report is not asked.
static void fake_ask(struct troupe_job *job)
{
    struct timespec until;
    if (!fake_is_gated(job) || job->unheard || job->number == fake.unasked)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FAKE_GATE_S;
    job->asking = true;
    assert_int_equal(pthread_create(&job->decider, NULL, fake_decide, job), 0);
    while (job->asking && !job->unheard)
        job->unheard = pthread_cond_timedwait(&fake.changed, &fake.lock, &until) == ETIMEDOUT;
    fake.unanswered += job->unheard;
    if (job->unheard)
        return;
    pthread_mutex_unlock(&fake.lock);
    pthread_join(job->decider, NULL);
    pthread_mutex_lock(&fake.lock);
    fake_take_answer(job);
}

// ---- reports

static void fake_report(struct troupe_job *job)
{
    bool stopping = job->stop || job->pause;
    job->number++;
    if (job->number <= job->made) { // Nobody is told once more.
        fake_ask(job);
        return;
    }
    troupe_follower follower = job->follower;
    fake_begin_call(job);
    troupe_metric metrics[] = {{"epoch", job->number},
                               {fake.metric, fake.curve(&job->config, job->number)}};
    char checkpoint[640];
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint_%06d", job->path, job->number);
    troupe_report_event event = {.number = job->number,
                                 .metrics = metrics,
                                 .count = 2,
                                 .elapsed_s = job->number * 0.5,
                                 .checkpoint = job->number % 2 == 0 ? checkpoint : NULL};
    follower.report(follower.user, job, &event);
    memset(metrics, 0xee, sizeof metrics); // Borrowed during the call only.
    memset(checkpoint, 0xee, sizeof checkpoint);
    fake_end_call(job);
    fake_ask(job);
    // A job that was asked to stop before is not decided on any more.
    while (fake.lockstep && !stopping && job->answered < job->number && !fake.quit)
        pthread_cond_wait(&fake.changed, &fake.lock);
}

// One turn of a job. Returns whether it did anything.
static bool fake_step(struct troupe_job *job)
{
    if (job->state == TROUPE_JOB_DONE)
        return false;
    if (job->state == TROUPE_JOB_PAUSED) {
        if (job->stop)
            fake_finish(job, TROUPE_OK, "");
        else if (!job->pause)
            fake_set_state(job, TROUPE_JOB_QUEUED);
        return job->stop || !job->pause;
    }
    if (job->state == TROUPE_JOB_QUEUED && job->pause && !job->stop) {
        fake_set_state(job, TROUPE_JOB_PAUSED);
        return true;
    }
    if (job->state == TROUPE_JOB_QUEUED) {
        if (job->stop) {
            fake_finish(job, TROUPE_OK, "");
            return true;
        }
        if (fake.running == fake.slots)
            return false;
        fake.running++;
        fake.running_max = fake.running > fake.running_max ? fake.running : fake.running_max;
        fake_set_state(job, TROUPE_JOB_RUNNING);
    }
    bool heeds = job != fake.jobs[fake.heeds_job] || job->number >= fake.heeds_from;
    if (heeds && job->pause && !job->stop && job->number < job->config.epochs &&
        job->overran++ == fake.overrun) {
        job->overran = 0;
        fake.running--;
        fake_set_state(job, TROUPE_JOB_PAUSED);
        return true;
    }
    if ((heeds && job->stop && job->overran++ == fake.overrun) ||
        job->number >= job->config.epochs) {
        fake_finish(job, TROUPE_OK, "");
        return true;
    }
    fake_report(job);
    if (fake.restart_at == job->number) {
        fake_set_state(job, TROUPE_JOB_RESTARTING);
        job->restarted++;
        fake_set_state(job, TROUPE_JOB_RUNNING);
    }
    if (job->config.fail_at == job->number)
        fake_finish(job, fake.failure != TROUPE_OK ? fake.failure : TROUPE_FAILED,
                    "the loss is not finite");
    return true;
}

static void *fake_serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&fake.lock);
    while (!fake.quit) {
        bool worked = false;
        for (int i = 0; i < fake.submitted; i++) {
            if (fake.jobs[i] != NULL)
                worked = fake_step(fake.jobs[i]) || worked;
        }
        if (!worked && !fake.quit)
            pthread_cond_wait(&fake.changed, &fake.lock);
    }
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

// ---- the port

// The machine's clock, and as much further as a test has said.
static int64_t fake_now(void)
{
    return trp_clock_ns() + atomic_load(&fake.ahead_ns);
}

static troupe_status fake_cpus(double *cpus)
{
    if (fake.cpus <= 0)
        return troupe_fail(TROUPE_NOT_STARTED, "the runtime is not running");
    *cpus = fake.cpus;
    return TROUPE_OK;
}

static fake_left *fake_left_at(const char *run)
{
    int trial = 0, number = 0;
    const char *name = strrchr(run, '/'), *digits = name != NULL ? strchr(name, '_') : NULL;
    digits = digits != NULL ? strchr(digits + 1, '_') : NULL;
    if (digits == NULL || sscanf(digits, "_%d_%d", &trial, &number) < 1 || trial >= FAKE_LEFT_MAX ||
        number >= FAKE_LEFT_MAX)
        return NULL;
    return &fake.runs[trial][number];
}

// The report of the newest checkpoint of such a run.
static int fake_saved(const fake_left *left)
{
    return (left->saving ? left->reports - 1 : left->reports) / 2 * 2;
}

static troupe_status fake_submit(const troupe_trainer *trainer, const void *config,
                                 const troupe_follower *follower, troupe_job **job,
                                 const troupe_train_options *how)
{
    (void)trainer;
    pthread_mutex_lock(&fake.lock);
    int number = fake.submitted;
    assert_true(number < FAKE_JOBS_MAX);
    if (number >= fake.refuse_from && number < fake.refuse_until) {
        fake.submitted++; // Its place stays empty.
        pthread_mutex_unlock(&fake.lock);
        return troupe_fail(fake.refusal, "refused submission %d", number);
    }
    struct troupe_job *made = calloc(1, sizeof *made);
    made->config = *(const fake_settings *)config;
    made->follower = *follower;
    if (how->gate != NULL)
        made->gate = *how->gate;
    snprintf(made->path, sizeof made->path, "%s/%s", how->storage, how->name);
    made->trial = (int)strtol(how->name + strlen("fit_3d3d1_"), NULL, 10);
    fake.seen[number].config = made->config;
    fake.seen[number].ranks = how->ranks;
    fake.seen[number].sync = how->sync;
    snprintf(fake.seen[number].name, sizeof fake.seen[number].name, "%s", how->name);
    snprintf(fake.seen[number].from, sizeof fake.seen[number].from, "%s",
             how->from != NULL ? how->from : "");
    bool goes_on = how->open == TROUPE_OPEN_RESUME_OR_NEW;
    fake_left *left = goes_on ? fake_left_at(made->path) : NULL;
    assert_true(mkdir(made->path, 0777) == 0 || how->key != NULL || goes_on);
    if (left != NULL && made->trial < FAKE_LEFT_MAX) {
        made->made = left->there ? left->reports : 0;
        made->number = fake.gates && left->there ? fake_saved(left) : made->made;
        made->answered = fake.known[made->trial];
    }
    fake.jobs[fake.submitted++] = made;
    fake.open++;
    fake.handles_max = fake.open > fake.handles_max ? fake.open : fake.handles_max;
    int jobs = fake.open - fake.ended;
    fake.jobs_max = jobs > fake.jobs_max ? jobs : fake.jobs_max;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    *job = made;
    return TROUPE_OK;
}

static troupe_status fake_server(char **folder)
{
    *folder = trp_strdup("/state/of/fake");
    return TROUPE_OK;
}

static troupe_status fake_find(const char *key, const troupe_follower *follower,
                               const troupe_gate *gate, troupe_job **job)
{
    assert_int_equal(follower->size, sizeof *follower);
    (void)gate;
    (void)job;
    return troupe_fail(fake.finding != TROUPE_OK ? fake.finding : TROUPE_NOT_FOUND,
                       "no job '%s' is found", key);
}

static void fake_stop(troupe_job *job)
{
    pthread_mutex_lock(&fake.lock);
    job->stop = true;
    job->answered = job->number;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static void fake_pause(troupe_job *job)
{
    pthread_mutex_lock(&fake.lock);
    job->pause = true;
    job->answered = job->number;
    fake.seen[fake_place(job)].pauses++;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static void fake_go_on(troupe_job *job)
{
    pthread_mutex_lock(&fake.lock);
    job->pause = false;
    fake.seen[fake_place(job)].goings_on++;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static troupe_status fake_resize(troupe_job *job, int ranks)
{
    pthread_mutex_lock(&fake.lock);
    fake.seen[fake_place(job)].resized = ranks;
    job->answered = job->number;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    return TROUPE_OK;
}

static void fake_kill(troupe_job *job, troupe_status status, const char *why)
{
    (void)job;
    fail_msg("%s: %s", troupe_status_name(status), why); // No job of this Train hangs.
}

static troupe_status fake_wait(troupe_job *job, int timeout_ms, troupe_result **result)
{
    (void)timeout_ms;
    pthread_mutex_lock(&fake.lock);
    assert_int_equal(job->state, TROUPE_JOB_DONE); // The controller never waits for a running job.
    assert_false(job->waited);
    job->waited = true;
    fake.ended++;
    fake.results++;
    pthread_mutex_unlock(&fake.lock);
    *result = malloc(sizeof **result);
    **result = job->result;
    return TROUPE_OK;
}

static void fake_status(troupe_job *job, troupe_job_status *status)
{
    pthread_mutex_lock(&fake.lock);
    *status = (troupe_job_status){.state = job->state, .reports = job->number};
    pthread_mutex_unlock(&fake.lock);
}

static int fake_pid(troupe_job *job)
{
    pthread_mutex_lock(&fake.lock);
    int pid = 4000 + job->restarted;
    pthread_mutex_unlock(&fake.lock);
    return pid;
}

static const char *fake_path(const troupe_job *job)
{
    return job->path;
}

static void fake_close(troupe_job **job)
{
    pthread_mutex_lock(&fake.lock);
    (*job)->stop = true;
    fake.lockstep = fake.lockstep && (*job)->state == TROUPE_JOB_DONE;
    pthread_cond_broadcast(&fake.changed);
    while ((*job)->state != TROUPE_JOB_DONE || (*job)->calling)
        pthread_cond_wait(&fake.changed, &fake.lock);
    for (int i = 0; i < fake.submitted; i++) {
        if (fake.jobs[i] == *job)
            fake.jobs[i] = NULL;
    }
    fake.open--;
    fake.ended -= (*job)->waited;
    pthread_mutex_unlock(&fake.lock);
    if ((*job)->unheard)
        pthread_join((*job)->decider, NULL);
    free(*job);
    *job = NULL;
}

// The real one lets it go on, which has no part in this.
static void fake_leave(troupe_job **job)
{
    fake.left++;
    fake_close(job);
}

static troupe_status fake_result_status(const troupe_result *result)
{
    return result->status;
}

static const char *fake_result_cause(const troupe_result *result)
{
    return result->error;
}

static bool fake_result_stopped(const troupe_result *result)
{
    return result->stopped;
}

static double fake_result_elapsed_s(const troupe_result *result)
{
    return result->elapsed_s;
}

static void fake_result_free(troupe_result **result)
{
    pthread_mutex_lock(&fake.lock);
    fake.results--;
    pthread_mutex_unlock(&fake.lock);
    free(*result);
    *result = NULL;
}

static void fake_tell_left(const char *run, const fake_left *of, const troupe_follower *follower)
{
    for (int number = 1; follower != NULL && number <= of->reports; number++) {
        char checkpoint[640];
        bool saved = number % 2 == 0 && !(of->saving && number == of->reports);
        troupe_metric metrics[] = {{"epoch", number},
                                   {fake.metric, fake.curve(&of->config, number)}};
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint_%06d", run, number);
        const troupe_report_event event = {.number = number,
                                           .metrics = metrics,
                                           .count = 2,
                                           .elapsed_s = number * 0.5,
                                           .checkpoint = saved ? checkpoint : NULL};
        follower->report(follower->user, NULL, &event);
    }
}

static troupe_status fake_look(const char *run, const troupe_follower *follower, trp_left *left)
{
    const fake_left *of = fake_left_at(run);
    *left = (trp_left){0};
    if (of != NULL && of->damaged)
        return troupe_fail(TROUPE_CORRUPT, "%s/run.json is damaged", run);
    if (of == NULL || !of->there)
        return TROUPE_OK;
    trp_buffer config = {0};
    trp_json_value(&config, &troupe_type_fake_settings, &of->config);
    char *text = trp_arena_alloc(&left->arena, config.size + 1);
    memcpy(text, config.data, config.size);
    *left = (trp_left){.is_there = true,
                       .ended = of->ended,
                       .reports = of->reports,
                       .saving = of->saving,
                       .saved = fake_saved(of),
                       .config = {text, config.size},
                       .arena = left->arena};
    trp_buffer_free(&config);
    left->result = calloc(1, sizeof *left->result);
    left->result->stopped = of->stopped;
    left->result->elapsed_s = of->elapsed_s > 0 ? of->elapsed_s : of->reports * 0.5;
    left->result->status = of->status;
    snprintf(left->result->error, sizeof left->result->error, "%s",
             of->error != NULL ? of->error : "");
    pthread_mutex_lock(&fake.lock);
    fake.results++;
    pthread_mutex_unlock(&fake.lock);
    fake_tell_left(run, of, follower);
    return TROUPE_OK;
}

// All but whether there are gates.
#define FAKE_PORT                                                                                  \
    .now_ns = fake_now, .cpus = fake_cpus, .submit = fake_submit, .server = fake_server,           \
    .look = fake_look, .find = fake_find, .stop = fake_stop, .pause = fake_pause,                  \
    .go_on = fake_go_on, .resize = fake_resize, .kill = fake_kill, .wait = fake_wait,              \
    .status = fake_status, .pid = fake_pid, .path = fake_path, .close = fake_close,                \
    .leave = fake_leave, .result_status = fake_result_status, .result_cause = fake_result_cause,   \
    .result_stopped = fake_result_stopped, .result_elapsed_s = fake_result_elapsed_s,              \
    .result_free = fake_result_free

static const trp_sweep_port fake_port = {FAKE_PORT};
static const trp_sweep_port fake_gated_port = {FAKE_PORT, .has_gates = true};

static void fake_open(double cpus)
{
    memset(&fake, 0, sizeof fake);
    pthread_mutex_init(&fake.lock, NULL);
    pthread_cond_init(&fake.changed, NULL);
    fake.cpus = cpus;
    fake.slots = cpus < 1 ? 1 : (int)cpus;
    fake.curve = fake_quadratic;
    fake.metric = "loss";
    fake.refuse_from = fake.refuse_until = -1;
    assert_int_equal(pthread_create(&fake.server, NULL, fake_serve, NULL), 0);
}

// Checks that the controller gave everything back.
static void fake_shut(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.quit = true;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    pthread_join(fake.server, NULL);
    assert_int_equal(fake.open, 0);
    assert_int_equal(fake.results, 0);
    pthread_mutex_destroy(&fake.lock);
    pthread_cond_destroy(&fake.changed);
}

// ---- sweeps over it

static troupe_status never_run(troupe_rank *me, const void *config)
{
    (void)me;
    (void)config;
    return TROUPE_FAILED;
}
static const troupe_trainer fit = {TROUPE_ABI, "fit", &troupe_type_fake_settings, never_run, NULL,
                                   NULL,       {NULL}};

static const troupe_param space[] = {
    TROUPE_UNIFORM(fake_settings, rate, 0, 1),
    TROUPE_CHOICE(fake_settings, hidden, 32, 64, 128),
    TROUPE_FIXED(fake_settings, epochs, 9),
};
enum { ROWS = sizeof space / sizeof *space };

static char *storage;

// With the runtime that the controller's actor lives in.
static inline int make_storage(void **state)
{
    (void)state;
    storage = support_directory_make();
    return troupe_start(0, NULL, .workers = TROUPE_NONE, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static inline int remove_storage(void **state)
{
    (void)state;
    troupe_stop();
    support_directory_remove(storage);
    return 0;
}

// A scheduler around another, which tells the server once a report has been dealt with: where the
// trial goes on, that is now; else when its job is stopped.
typedef struct fake_pacer {
    troupe_scheduler base;
    troupe_scheduler *inner;
} fake_pacer;

static inline troupe_status fake_pacer_decide(troupe_scheduler *scheduler,
                                              const troupe_progress *progress,
                                              troupe_verdict *verdict)
{
    fake_pacer *self = (fake_pacer *)scheduler;
    TROUPE_TRY(self->inner->decide(self->inner, progress, verdict));
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; verdict->act == TROUPE_ACT_GO_ON && i < fake.submitted; i++)
        if (fake.jobs[i] != NULL && fake.jobs[i]->trial == progress->trial)
            fake.jobs[i]->answered = fake.jobs[i]->number;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    return TROUPE_OK;
}

static inline troupe_status fake_pacer_begin(troupe_scheduler *scheduler,
                                             const troupe_problem *problem)
{
    troupe_scheduler *inner = ((fake_pacer *)scheduler)->inner;
    return inner->begin != NULL ? inner->begin(inner, problem) : TROUPE_OK;
}

static inline troupe_status fake_pacer_added(troupe_scheduler *scheduler, int trial,
                                             const double *x)
{
    troupe_scheduler *inner = ((fake_pacer *)scheduler)->inner;
    return inner->added != NULL ? inner->added(inner, trial, x) : TROUPE_OK;
}

static inline troupe_status fake_pacer_ended(troupe_scheduler *scheduler, int trial,
                                             troupe_ending ending)
{
    troupe_scheduler *inner = ((fake_pacer *)scheduler)->inner;
    return inner->ended != NULL ? inner->ended(inner, trial, ending) : TROUPE_OK;
}

static inline troupe_status fake_pacer_next(troupe_scheduler *scheduler, bool fresh, int *trial,
                                            troupe_verdict *verdict)
{
    troupe_scheduler *inner = ((fake_pacer *)scheduler)->inner;
    return inner->next(inner, fresh, trial, verdict);
}

static inline void fake_pacer_destroy(troupe_scheduler *scheduler)
{
    troupe_scheduler_free(&((fake_pacer *)scheduler)->inner);
    free(scheduler);
}

static inline troupe_scheduler *fake_paced(troupe_scheduler *inner)
{
    fake_pacer *self = calloc(1, sizeof *self);
    self->inner = inner == NULL ? trp_fifo() : inner;
    self->base.abi = TROUPE_ABI;
    self->base.describe = "FIFO";
    self->base.begin = fake_pacer_begin;
    self->base.added = fake_pacer_added;
    self->base.ended = fake_pacer_ended;
    self->base.next = self->inner->next != NULL ? fake_pacer_next : NULL;
    self->base.decide = fake_pacer_decide;
    self->base.destroy = fake_pacer_destroy;
    return &self->base;
}

// Runs a sweep of `fit`; what is not said is the metric loss and the test's storage.
static inline troupe_status run_fit(troupe_sweep **sweep, troupe_tune_options how)
{
    how.size = sizeof how;
    how.scheduler = fake.lockstep ? fake_paced(how.scheduler) : how.scheduler;
    how.metric = how.metric == NULL ? "loss" : how.metric;
    how.goal = how.goal == TROUPE_GOAL_NONE ? TROUPE_MINIMIZE : how.goal;
    if (how.search == TROUPE_SEARCH_AUTO && how.searcher == NULL)
        how.search = TROUPE_SEARCH_RANDOM;
    troupe_train_options train = {.size = sizeof train};
    if (how.train != NULL)
        train = *how.train;
    train.storage = train.storage == NULL ? storage : train.storage;
    how.train = &train;
    return trp_sweep_run(fake.gates ? &fake_gated_port : &fake_port, &fit, space, ROWS, sweep,
                         &how);
}
#define SWEEP(sweep, ...) run_fit((sweep), (troupe_tune_options){__VA_ARGS__})

static inline void ok(troupe_status status)
{
    if (status != TROUPE_OK)
        fail_msg("%s: %s", troupe_status_name(status), troupe_last_error()->text);
}

// A scheduler that says what it is told to, and tells when it is freed.
typedef struct scripted {
    troupe_scheduler base;
    int trial, at;       // The trial that it ends, and at which report,
    troupe_act decision; // and how.
    bool *freed;
} scripted;

static troupe_status scripted_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                     troupe_verdict *verdict)
{
    const scripted *self = (const scripted *)scheduler;
    bool its = self->trial == progress->trial;
    assert_true(!its || progress->report <= self->at); // It is not asked again.
    if (its && progress->report == self->at)
        verdict->act = self->decision;
    return TROUPE_OK;
}

static void scripted_destroy(troupe_scheduler *scheduler)
{
    *((scripted *)scheduler)->freed = true;
    free(scheduler);
}

static inline troupe_scheduler *script(int trial, int at, troupe_act decision, bool *freed)
{
    scripted *self = calloc(1, sizeof *self);
    *freed = false;
    *self = (scripted){.trial = trial, .at = at, .decision = decision, .freed = freed};
    self->base.abi = TROUPE_ABI;
    self->base.describe = "a script";
    self->base.decide = scripted_decide;
    self->base.destroy = scripted_destroy;
    return &self->base;
}

#endif
