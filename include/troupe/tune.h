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
    TROUPE_SEARCH_RANDOM, // Independent draws.
    // Every combination of choices, integers and, for a range, the midpoints of `grid_points` equal
    // parts; the last row varies fastest.
    TROUPE_SEARCH_GRID,
} troupe_search;

typedef struct troupe_tune_options {
    size_t size;
    const char *metric; // Required: a metric that every report has.
    troupe_goal goal;   // Required.
    int trials;         // Default: 10, or all of a grid.
    int concurrent;     // Jobs submitted at a time; default: as many as fit, plus one that waits.
    uint64_t seed;      // For the draws; default 1.
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
    // Of a sweep whose trials are a server's, which go on when this program ends or is killed:
    // TROUPE_OPEN_RESUME: the sweep in the folder `name`, which must be there, goes on: what it had
    // decided holds, and trials that run are found again. TROUPE_OPEN_RESUME_OR_NEW: or else a new
    // one begins. TROUPE_EXISTS: it is another sweep, as the text says; TROUPE_BUSY: another
    // program runs it. Default: TROUPE_OPEN_NEW.
    troupe_open open;
} troupe_tune_options;

typedef enum troupe_trial_state {
    TROUPE_TRIAL_PENDING,
    TROUPE_TRIAL_RUNNING,
    TROUPE_TRIAL_TERMINATED, // Ran to its end.
    TROUPE_TRIAL_STOPPED,    // Ended early by the scheduler.
    TROUPE_TRIAL_ERROR,
} troupe_trial_state;

// The outcome of one trial. Everything lives as long as the sweep.
typedef struct troupe_trial {
    const char *name; // "fit_3d3d1_00000": trainer, five hex digits of the sweep, number
    troupe_trial_state state;
    const void *config; // A value of the trainer's config type.
    int reports;
    double elapsed_s;
    double best_metric;          // Best value of the sweep's metric over its reports; NaN: none.
    const troupe_result *result; // NULL if it could not be submitted.
    const char *error;           // Empty if there was none.
} troupe_trial;

typedef struct troupe_sweep troupe_sweep;

// Runs a sweep and waits for its end. TROUPE_OK even if some trials failed (they are ERROR in the
// table); TROUPE_FAILED if all of them did, with the error text of the first. The text of
// TROUPE_INVALID names the option or the row of the space that is wrong; if the first trial cannot
// be submitted because of its options, the status and error text of troupe_submit are returned.
// *sweep is set in the first two cases, for the caller to free, and NULL otherwise. A trial whose
// report lacks the metric is an ERROR. The sweep's folder gets trials.jsonl, one line for each
// event, and each trial's folder its params.json.
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
// space draws over them. Its rows name numbers of the version's config, as "rate" or
// "fitting.batch": TROUPE_NAMED_UNIFORM and its kin. Repository, data and weights to begin with are
// in .stored. A trial's config is not to be had typed: troupe_sweep_best_json. Errors as those of
// troupe_tune and troupe_submit_stored; what the config lacks is TROUPE_INVALID, of the first
// trial.
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

// Frees a sweep and clears *sweep. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_sweep_free(troupe_sweep **sweep);

// Trials, in the order of their numbers.
TROUPE_EXPERIMENTAL size_t troupe_sweep_count(const troupe_sweep *sweep);
TROUPE_EXPERIMENTAL const troupe_trial *troupe_sweep_trial(const troupe_sweep *sweep,
                                                           size_t number);
// Trials that the scheduler stopped early.
TROUPE_EXPERIMENTAL size_t troupe_sweep_stopped(const troupe_sweep *sweep);
// The trial with the best value of the metric over all its reports; NULL if no trial reported.
TROUPE_EXPERIMENTAL const troupe_trial *troupe_sweep_best(const troupe_sweep *sweep);
// Seconds that the sweep took.
TROUPE_EXPERIMENTAL double troupe_sweep_elapsed_s(const troupe_sweep *sweep);
// Writes the table of trials: name, status, location, iteration, total time, metrics.
TROUPE_EXPERIMENTAL void troupe_sweep_print(const troupe_sweep *sweep, FILE *out);

// The best trial's config, typed; NULL if no trial reported.
#define troupe_best(loop, sweep) ((const troupe_config_##loop *)troupe_sweep_best_config(sweep))
TROUPE_EXPERIMENTAL const void *troupe_sweep_best_config(const troupe_sweep *sweep);

// The same as JSON: what troupe_submit_stored takes as settings, and a config as JSON of any other
// sweep. It belongs to the thread's arena. NULL if no trial reported, or memory is short.
TROUPE_EXPERIMENTAL const char *troupe_sweep_best_json(const troupe_sweep *sweep);

TROUPE_END_C

#endif
