// sweep.h: a sweep as the files of this layer see it, and what its controller asks of Train.
#ifndef TRP_SWEEP_H
#define TRP_SWEEP_H

#include <pthread.h>
#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <runtime/base/fair_lock.h>
#include <runtime/codec/json.h>
#include <tune/space/space.h>
#include <tune/sweep/trial.h>

enum {
    TRP_METRIC_NAME = 64, // Bytes of a metric's name, its end included.
    TRP_OBJECTIVES_MAX = 8,
    TRP_TRIALS_MAX = 100000,
    TRP_TRIAL_TIMEOUT_MAX_S = 1000000000, // 31 years.
};

// What a run of this program's own that no job is on has left in its folder: see troupe/run.h.
typedef struct trp_left {
    bool is_there; // The folder is a run's; else all that follows is empty.
    bool ended, paused, saving;
    int reports, saved;
    const char *checkpoint, *from;
    trp_json config;
    troupe_result *result;
    trp_arena arena; // Of the texts.
} trp_left;

// Train's public functions and the facts of this process, as a table, so that tests can put another
// Train behind the controller.
typedef struct trp_sweep_port {
    // The clock of the sweep, in nanoseconds: budget, time limits and what is told of times go by
    // it. It never goes back.
    int64_t (*now_ns)(void);
    troupe_status (*cpus)(
        double *cpus);    // That jobs may reserve. Fails where the runtime does not run.
    double (*gpus)(void); // Likewise, for who looks on; NULL: none.
    troupe_status (*submit)(const troupe_trainer *trainer, const void *config,
                            const troupe_follower *follower, troupe_job **job,
                            const troupe_train_options *how);
    // The train server whose jobs trials would be: a text of the caller's.
    troupe_status (*server)(char **folder);
    troupe_status (*look)(const char *run, const troupe_follower *follower, trp_left *left);
    // A job of it, by its key. TROUPE_NOT_FOUND: it has none.
    troupe_status (*find)(const char *key, const troupe_follower *follower, const troupe_gate *gate,
                          troupe_job **job);
    void (*stop)(troupe_job *job);
    void (*pause)(troupe_job *job);
    void (*go_on)(troupe_job *job);
    troupe_status (*resize)(troupe_job *job, int ranks);
    // Kills its workers; its result has that status and sentence. May be asked again.
    void (*kill)(troupe_job *job, troupe_status status, const char *why);
    troupe_status (*wait)(troupe_job *job, int timeout_ms, troupe_result **result);
    void (*status)(troupe_job *job, troupe_job_status *status);
    int (*pid)(troupe_job *job); // Of rank 0, now or last; 0: there was none yet.
    const char *(*path)(const troupe_job *job);
    void (*close)(troupe_job **job);
    void (*leave)(troupe_job **job); // One of a train server, which goes on.
    troupe_status (*result_status)(const troupe_result *result);
    const char *(*result_cause)(const troupe_result *result);
    bool (*result_stopped)(const troupe_result *result);
    double (*result_elapsed_s)(const troupe_result *result);
    void (*result_free)(troupe_result **result);
    bool has_gates; // Of jobs that are submitted.
    bool prints;    // A trial is a program, whose reports are lines that it prints.
    // Of a sweep over a version of the repository: which, and what its space is laid over, as
    // JSON. NULL: there is none.
    const char *model, *settings;
    // Writes how its program is started again, or in which folder a command's trials are, as a
    // member of the first line of the record with a comma before it. NULL: nothing.
    void (*program)(trp_buffer *line, const troupe_sweep *sweep);
} trp_sweep_port;

// The real one.
extern const trp_sweep_port trp_sweep_train;

typedef struct trp_control trp_control;

typedef struct trp_objective {
    char metric[TRP_METRIC_NAME];
    troupe_goal goal;
} trp_objective;

// What a trial of a sweep over a space from JSON has for its config.
TROUPE_STRUCT(trp_text_config, (troupe_text, params), (int, trial));

struct troupe_sweep {
    const trp_sweep_port *port;
    const troupe_trainer *trainer;
    troupe_tune_options how;    // Defaults filled in. Its texts are the caller's: they are not
    troupe_train_options train; // touched once the sweep has ended.
    char id[33];                // Of one whose trials are a train server's: they have keys with it.
    char *server;               // The server's folder.
    trp_objective objectives[TRP_OBJECTIVES_MAX];
    size_t objective_count;
    char scheduler[96], searcher[160];
    unsigned digits;    // In the names of trials.
    bool of_json;       // The space is from JSON: a trial's config is a trp_text_config.
    bool columns_given; // By the caller; else they are the metrics that reports bring.
    troupe_space *space;
    // Members of the first line of the record, with commas before them; NULL: none.
    const char *noted;
    trp_arena arena;    // Names and configs of trials.
    trp_trial **trials; // Those that have begun.
    int count, room;
    struct trp_kept *kept; // Results of earlier runs that were shown.
    const trp_trial *best; // Of those that have not failed; NULL: none of them has reported.
    int wanted;            // How many there will be; 0: not known.
    int reports_most;      // Of a trial; 0: not known.
    // Of one that runs. `lock` is held by the controller while it works: who reads is let in where
    // it waits.
    trp_fair_lock lock;
    pthread_mutex_t end_lock; // Of the two that follow.
    pthread_cond_t ended;
    bool is_told;                     // That it is over.
    bool held;                        // By who gives its controller turns.
    uint64_t seat;                    // Of its controller.
    bool over;                        // It has ended,
    troupe_error failure;             // and how, where not all was well with the sweep itself.
    trp_control *control;             // NULL: it is over.
    char (*columns)[TRP_METRIC_NAME]; // Of metrics: TRP_COLUMNS_MAX of them, in the order shown.
    size_t column_count;
    char *folder;
    double cpus, gpus; // Of the port.
    double started_s, elapsed_s;
    double begun_s;    // When its first turn was.
    char ended_at[32]; // Time of day.
    // Where the trainer was made for the sweep: what a config is as JSON; what frees it. NULL: it
    // was not.
    const char *(*settings)(const troupe_trainer *trainer, const void *config, trp_arena *arena);
    void (*release)(const troupe_trainer *trainer);
};

// Fills in defaults, and takes the options of each trial and the objectives. TROUPE_INVALID names
// the option that is wrong.
troupe_status trp_sweep_options(const troupe_trainer *trainer, const troupe_tune_options *how,
                                troupe_sweep *sweep);

// Frees the scheduler and the searcher in options of any version: they are consumed in any case.
void trp_sweep_consume(const troupe_tune_options *how);

static inline int64_t trp_sweep_now_ns(const troupe_sweep *sweep)
{
    return sweep->port->now_ns();
}
static inline double trp_sweep_now_s(const troupe_sweep *sweep)
{
    return (double)trp_sweep_now_ns(sweep) * 1e-9;
}

// The metric that what is the best goes by.
static inline const char *trp_sweep_metric(const troupe_sweep *sweep)
{
    return sweep->objectives[0].metric;
}

// "fit_3d3d1_00000"
void trp_sweep_trial_name(const troupe_sweep *sweep, int number, char *name, size_t size);

// troupe_sweep_start_as and troupe_tune_as over a given Train.
troupe_status trp_sweep_begin(const trp_sweep_port *port, const troupe_trainer *trainer,
                              const troupe_param *params, size_t count, troupe_sweep **sweep,
                              const troupe_tune_options *how);
troupe_status trp_sweep_run(const trp_sweep_port *port, const troupe_trainer *trainer,
                            const troupe_param *params, size_t count, troupe_sweep **sweep,
                            const troupe_tune_options *how);
// Waits for the end of one that has begun, as troupe_tune: where the sweep itself has failed it is
// freed.
troupe_status trp_sweep_await(troupe_sweep **sweep);

// Gives all back that only one that runs needs, and tells who waits. Its lock is held.
void trp_sweep_finish(trp_control *control, troupe_status status);
// Who gave its controller turns has done with it: it may be freed.
void trp_sweep_let_go(troupe_sweep *sweep);

// The same over a space from JSON, which is consumed in any case: the trainer's config is a
// trp_text_config. `noted`: see troupe_sweep; it lives as long as the sweep.
troupe_status trp_sweep_begin_json(const trp_sweep_port *port, const troupe_trainer *trainer,
                                   troupe_space *space, const char *noted, troupe_sweep **sweep,
                                   const troupe_tune_options *how);

#endif
