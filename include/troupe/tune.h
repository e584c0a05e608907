// tune.h: hyperparameter search. A sweep draws configurations of a trainer from a space, submits
// each as a job, feeds their reports to a scheduler that stops the weak ones, and keeps track of
// the best.
//
//     const troupe_param space[] = {
//         TROUPE_LOG_UNIFORM(settings, rate, 1e-4, 1.0),
//         TROUPE_CHOICE(settings, hidden, 32, 64, 128),
//         TROUPE_FIXED(settings, epochs, 81),
//     };
//     troupe_sweep *sweep;
//     troupe_must(troupe_tune(fit, space, &sweep,
//         .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 27,
//         .scheduler = troupe_asha(.grace = 1, .reduction = 3, .limit = 81),
//         .train = TROUPE_OPTIONS(troupe_train_options, .ranks = 2, .storage = "runs")));
//     printf("best rate %g\n", troupe_best(fit, sweep)->rate);
//     troupe_sweep_free(&sweep);
#ifndef TROUPE_TUNE_H
#define TROUPE_TUNE_H

#include <stdio.h>

#include <troupe/study.h>
#include <troupe/train.h>

TROUPE_BEGIN_C

typedef enum troupe_search {
    TROUPE_SEARCH_AUTO, // troupe_search_auto: by the space and the number of trials.
    // Every combination of choices, integers and, for a range, the midpoints of `grid_points` equal
    // parts; the last row varies fastest.
    TROUPE_SEARCH_GRID,
    TROUPE_SEARCH_RANDOM, // Independent draws.
} troupe_search;

// One of several metrics that a sweep is about.
typedef struct troupe_objective {
    const char *metric;
    troupe_goal goal;
} troupe_objective;

typedef struct troupe_tune_options {
    size_t size;
    const char *metric; // Required, but for .objectives: a metric that every report has.
    troupe_goal goal;   // Required with it.
    // Default: 10, or all of a grid (.search, troupe_search_grid). With rows of TROUPE_GRID: each
    // of their combinations so often; default: once. In all up to 100,000.
    int trials;
    int concurrent; // Jobs submitted at a time; default: as many as fit, plus one that waits.
    uint64_t seed;  // For the draws; default 1.
    troupe_search search;
    int grid_points; // Points for a range in a grid; default 3.
    // Consumed, also on failure; default: all trials run to their end.
    troupe_scheduler *scheduler;
    const char *name; // The sweep's folder in train.storage; default: the trainer's name.
    // Options for each trial; NULL: the defaults. The sweep sets its name; without a keep_metric,
    // the sweep's metric and goal decide which checkpoints are kept.
    const troupe_train_options *train;
    FILE *progress;      // Where the live table is written; default: nowhere.
    const char *columns; // Metrics in the table, separated by commas; default: all.
    int unused_;
    // How long a trial may run, from the start of its first group, restarts included; default: no
    // limit. A trial that takes longer is asked to stop at its next report, and its processes are
    // killed if it has not ended 2 s later. It is then an ERROR, its `.error` says so, and what it
    // reported counts.
    double trial_timeout_s;
    const struct troupe_stored_options *stored; // Of troupe_tune_stored; its .train is .train.
    // Whose the trials are: TROUPE_SERVER_AUTO: the train server's (troupe/server.h), which is
    // started if none runs; default: this program's. A sweep decides the same on the same order of
    // reports, here and there, and whatever is killed meanwhile. What the server cannot take at the
    // moment (it does not answer, its disk is full) is submitted again until it does.
    troupe_server_choice server;
    // TROUPE_OPEN_RESUME: the sweep in the folder `name`, which must be there, goes on, however its
    // program ended: what it had decided holds. Trials of a server, which have gone on meanwhile,
    // are found again; those of the program go on from their newest checkpoints, or from their
    // beginning where they have none: what they report once more is not looked at twice.
    // TROUPE_OPEN_RESUME_OR_NEW: or else a new one begins. TROUPE_EXISTS: it is another sweep, as
    // the text says; TROUPE_BUSY: another program runs it. Default: TROUPE_OPEN_NEW. One that goes
    // on may have another number of trials, if that is not below what it has begun; with the one
    // that it began with, it has those of troupe_sweep_add as well. It may have a larger space, as
    // a study may (study.h): trials that are new are drawn from that.
    troupe_open open;
    troupe_searcher *searcher; // Consumed, also on failure; default: as .search says.
    // Several metrics, instead of .metric and .goal: up to 8. The first is the one that schedulers
    // and what is shown as the best go by.
    const troupe_objective *objectives;
    size_t objective_count;
    // How long the sweep may take, up to the last report of each earlier life of it included;
    // default: any time. Then it is stopped, as by troupe_sweep_stop.
    double time_budget_s;
    // How often a trial that fails is tried again, from its newest checkpoint; default: never. What
    // it reports again is not looked at twice.
    int retries;
    // Configs to try first, in this order: of the trainer's type. What no row draws is taken from
    // the base.
    const void *const *first;
    size_t first_count;
    // Whether a config may be tried; must be a function of its argument. Default: each may.
    bool (*allowed)(void *user, const void *config);
    void *allowed_user;
    // trials.jsonl of earlier sweeps, or files of studies, from which the searcher learns first.
    const char *const *warm;
    size_t warm_count;
    // What a config is before its rows are filled, of the trainer's type; default: the trainer's
    // defaults, or zeros. References in it are the caller's, until the sweep has ended.
    const void *base;
    // The sweep is stopped when a trial's best value is as good as this; NULL: not for that.
    const double *target;
    // Or when so many trials in a row have ended without a better one; 0: not for that.
    int patience;
} troupe_tune_options;

typedef enum troupe_trial_state {
    TROUPE_TRIAL_PENDING,
    TROUPE_TRIAL_RUNNING,
    TROUPE_TRIAL_TERMINATED, // Ran to its end.
    TROUPE_TRIAL_STOPPED,    // Ended early: by the scheduler, with the sweep, or by hand.
    TROUPE_TRIAL_ERROR,
    TROUPE_TRIAL_PAUSED, // By the scheduler or with the sweep. One may be left so at the end.
} troupe_trial_state;

// One trial. Everything lives as long as the sweep; while that runs, what functions return is how
// the trial stands at that moment, and the struct itself belongs to the thread's arena.
typedef struct troupe_trial {
    const char *name; // "fit_3d3d1_00000": trainer, five hex digits of the sweep, number
    troupe_trial_state state;
    const void *config;          // A value of the trainer's config type.
    int reports;                 // Numbered through, where it has had several runs.
    double elapsed_s;            // Pauses left out.
    double best_metric;          // Best value of the sweep's metric over its reports; NaN: none.
    const troupe_result *result; // Of its last run; NULL if it could not be submitted, or runs.
    const char *error;           // Empty if there was none.
} troupe_trial;

typedef struct troupe_sweep troupe_sweep;

// Runs a sweep and waits for its end. TROUPE_OK even if some trials failed (they are ERROR in the
// table); TROUPE_FAILED if all of them did, or some and no other one has a value of the metric,
// with the error text of the first. The text of TROUPE_INVALID names the option or the row of the
// space that is wrong; if the first trial cannot be submitted because of its options, the status
// and error text of troupe_submit are returned. *sweep is set in the first two cases, for the
// caller to free, and NULL otherwise. A trial whose report lacks the metric is an ERROR, and one
// that ends by itself without a report, or where the metric was never a number. The sweep's folder
// gets trials.jsonl, one line for each event, and each trial's folder its params.json.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_tune_as(const troupe_trainer *trainer,
                                                                 const troupe_param *space,
                                                                 size_t count, troupe_sweep **sweep,
                                                                 const troupe_tune_options *how);
#define troupe_tune(...) TROUPE_TUNE_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_TUNE_(loop, space, sweep, ...)                                                      \
    troupe_tune_as(&troupe_trainer_##loop, (space), sizeof(space) / sizeof *(space), (sweep),      \
                   &(troupe_tune_options){.size = sizeof(troupe_tune_options), __VA_ARGS__})

// The space that a trainer or a model brings along, at the top of a file:
//     TROUPE_SPACE(net, TROUPE_LOG_UNIFORM(net_config, rate, 1e-4, 1.0),
//                  TROUPE_FIXED(net_config, fitting.epochs, 10));
// troupe_tune_own is troupe_tune without a space: it takes that one, and does not compile where
// there is none. So does troupe_tune_as without rows. Training and serving have no use for it; rows
// of other structs than the trainer's config and troupe_train_options are passed over, so that
// models may share what they write here. A space that is given goes in place of it.
#define TROUPE_SPACE(loop, ...)                                                                    \
    static const troupe_param troupe_own_rows_##loop[] = {__VA_ARGS__};                            \
    static troupe_own_space troupe_own_space_##loop = {                                            \
        sizeof(troupe_own_space), &troupe_trainer_##loop, troupe_own_rows_##loop,                  \
        sizeof troupe_own_rows_##loop / sizeof *troupe_own_rows_##loop, NULL};                     \
    __attribute__((constructor)) static void troupe_register_space_##loop(void)                    \
    {                                                                                              \
        troupe_space_register(&troupe_own_space_##loop);                                           \
    }                                                                                              \
    TROUPE_STATIC_ASSERT_(sizeof(troupe_own_space) > 0, #loop)
#define troupe_tune_own(...) TROUPE_TUNE_OWN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_TUNE_OWN_(loop, sweep, ...)                                                         \
    troupe_tune_as(troupe_own_space_##loop.trainer, NULL, 0, (sweep),                              \
                   &(troupe_tune_options){.size = sizeof(troupe_tune_options), __VA_ARGS__})
typedef struct troupe_own_space {
    size_t size; // Of this struct.
    const troupe_trainer *trainer;
    const troupe_param *rows;
    size_t count;
    struct troupe_own_space *next_;
} troupe_own_space;
// Makes a trainer's own space known; TROUPE_SPACE does it before main. The struct stays the
// program's, and must last. The last one that is registered for a trainer holds.
TROUPE_EXPERIMENTAL void troupe_space_register(troupe_own_space *own);

// A sweep over a version of the repository of models whose code is another program's: each trial is
// a troupe_submit_stored of the version, with the settings in `json` (NULL: its own) and what the
// space draws over them. Its rows name members of the version's config, as "rate" or
// "fitting.batch": TROUPE_NAMED_UNIFORM and its kin. Without rows it is the space that the model
// brought along (TROUPE_SPACE) when it was pushed, options of the run left out: TROUPE_NOT_FOUND
// where it had none. Repository, data and weights to begin with are in .stored. A trial's config is
// not to be had typed: troupe_sweep_best_json. Errors as those of troupe_tune and
// troupe_submit_stored; what the config lacks is TROUPE_INVALID, of the first trial.
//     const troupe_param space[] = {TROUPE_NAMED_LOG_UNIFORM("rate", 1e-4, 1.0)};
//     troupe_tune_stored("digits@3", NULL, space, &sweep, .metric = "loss", .goal =
//     TROUPE_MINIMIZE)
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_tune_stored_with(const char *ref, const char *json, const troupe_param *space, size_t count,
                        troupe_sweep **sweep, const troupe_tune_options *how);
#define troupe_tune_stored(...) TROUPE_TUNE_STORED_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_TUNE_STORED_(ref, json, space, sweep, ...)                                          \
    troupe_tune_stored_with(                                                                       \
        (ref), (json), (space), sizeof(space) / sizeof *(space), (sweep),                          \
        &(troupe_tune_options){.size = sizeof(troupe_tune_options), __VA_ARGS__})
// The same over the version's own space.
#define troupe_tune_stored_own(...) TROUPE_TUNE_STORED_OWN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_TUNE_STORED_OWN_(ref, json, sweep, ...)                                             \
    troupe_tune_stored_with(                                                                       \
        (ref), (json), NULL, 0, (sweep),                                                           \
        &(troupe_tune_options){.size = sizeof(troupe_tune_options), __VA_ARGS__})

// Begins a sweep and returns; it runs beside the caller until it has ended. What is wrong with the
// options is returned, and with the space; all else by troupe_sweep_wait. What `how` points to must
// stay until the sweep has ended, but for its scheduler and searcher, which are consumed, and for
// the rows of the space. The caller owns *sweep.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_sweep_start_as(const troupe_trainer *trainer, const troupe_param *space, size_t count,
                      troupe_sweep **sweep, const troupe_tune_options *how);
#define troupe_sweep_start(...) TROUPE_SWEEP_START_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SWEEP_START_(loop, space, sweep, ...)                                               \
    troupe_sweep_start_as(                                                                         \
        &troupe_trainer_##loop, (space), sizeof(space) / sizeof *(space), (sweep),                 \
        &(troupe_tune_options){.size = sizeof(troupe_tune_options), __VA_ARGS__})
// The same of a sweep that troupe_tune_stored would wait for.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_sweep_start_stored_with(const char *ref, const char *json, const troupe_param *space,
                               size_t count, troupe_sweep **sweep, const troupe_tune_options *how);
#define troupe_sweep_start_stored(...) TROUPE_SWEEP_START_STORED_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SWEEP_START_STORED_(ref, json, space, sweep, ...)                                   \
    troupe_sweep_start_stored_with(                                                                \
        (ref), (json), (space), sizeof(space) / sizeof *(space), (sweep),                          \
        &(troupe_tune_options){.size = sizeof(troupe_tune_options), __VA_ARGS__})
// Waits up to `timeout_ms` (negative: for ever) for its end. TROUPE_TIMED_OUT: it runs still. Else
// how it ended, as troupe_tune returns it: any failure but TROUPE_FAILED is one of the sweep
// itself, which has what it had until then.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_sweep_wait(troupe_sweep *sweep,
                                                                    int timeout_ms);
// The trials that run are stopped at their next report, and no new ones begin: then it has ended.
// Does not wait. Harmless on one that has ended.
TROUPE_EXPERIMENTAL void troupe_sweep_stop(troupe_sweep *sweep);
// Pauses the jobs of all trials, as troupe_job_pause, and begins none; and has them go on. Do not
// wait; harmless on a sweep that has ended.
TROUPE_EXPERIMENTAL void troupe_sweep_pause(troupe_sweep *sweep);
TROUPE_EXPERIMENTAL void troupe_sweep_go_on(troupe_sweep *sweep);
// So many more trials than it was to have; of rows of TROUPE_GRID, each of their combinations so
// often more. One that is to have all of a grid has none more. TROUPE_STOPPED: it has ended, or is
// being stopped: it can be opened again, with more of them. TROUPE_INVALID: that is less than one,
// or there would be too many.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_sweep_add(troupe_sweep *sweep, int trials);

// Frees a sweep and clears *sweep. One that runs is ended as with its program: its own trials are
// stopped and waited for, those of a train server go on. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_sweep_free(troupe_sweep **sweep);

// Trials that have begun or were to begin, in the order of their numbers.
TROUPE_EXPERIMENTAL size_t troupe_sweep_count(const troupe_sweep *sweep);
TROUPE_EXPERIMENTAL const troupe_trial *troupe_sweep_trial(const troupe_sweep *sweep,
                                                           size_t number);
// Trials that the scheduler stopped early.
TROUPE_EXPERIMENTAL size_t troupe_sweep_stopped(const troupe_sweep *sweep);
// The trial with the best value of the metric over all its reports. One that runs counts with what
// it has reported, one that failed does not count. NULL: there is none that counts.
TROUPE_EXPERIMENTAL const troupe_trial *troupe_sweep_best(const troupe_sweep *sweep);
// Of the trials that have not failed, those that no other is better than in every objective
// (Pareto's front), in their order: an array that belongs to the thread's arena. NULL: there are
// none, or memory is short.
TROUPE_EXPERIMENTAL const troupe_trial *const *troupe_sweep_front(const troupe_sweep *sweep,
                                                                  size_t *count);
// Seconds that the sweep took; that it has taken by now.
TROUPE_EXPERIMENTAL double troupe_sweep_elapsed_s(const troupe_sweep *sweep);
// Writes the table of trials: name, status, location, iteration, total time, metrics.
TROUPE_EXPERIMENTAL void troupe_sweep_print(const troupe_sweep *sweep, FILE *out);

// The best trial's config, typed; NULL if there is none.
#define troupe_best(loop, sweep) ((const troupe_config_##loop *)troupe_sweep_best_config(sweep))
TROUPE_EXPERIMENTAL const void *troupe_sweep_best_config(const troupe_sweep *sweep);

// The same as JSON: what troupe_submit_stored takes as settings, and a config as JSON of any other
// sweep. It belongs to the thread's arena. NULL if there is no best, or memory is short.
TROUPE_EXPERIMENTAL const char *troupe_sweep_best_json(const troupe_sweep *sweep);

TROUPE_END_C

#endif
