// job.h: a job: what was submitted, how far it is, and how it ended.
//
// One record in the driver's memory, held by its user, the job server and the run's coordinator
// until each lets go. What was submitted never changes; the rest is under the lock. The follower is
// called without the lock, by the job's coordinator or (before there is one) the server: never by
// two threads at once.
#ifndef TRP_JOB_H
#define TRP_JOB_H

#include <pthread.h>
#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <runtime/base/log.h>
#include <stdatomic.h>
#include <train/config.h>
#include <train/console.h>
#include <train/control.h>
#include <train/derived.h>
#include <train/follow.h>
#include <train/gang.h>
#include <train/gate.h>
#include <train/memory_commit.h>
#include <train/opening.h>
#include <train/option_table.h>
#include <troupe/train.h>

// Never changes once the job is DONE, so all who wait for it share it.
struct troupe_result {
    _Atomic int holds; // Each ended by troupe_result_free.
    trp_arena arena;   // Of all texts and metrics.
    troupe_status status;
    const char *error; // "" if there was none.
    bool stopped;
    int reports, restarts;
    const troupe_metric *metrics;
    size_t metric_count;
    const char *checkpoint, *best, *path;
    double elapsed_s;
    troupe_bytes value; // That rank 0 returned, packed.
    uint64_t value_schema;
    trp_memory_commit *commit; // The last one in memory, held; NULL: none.
};

struct troupe_job {
    _Atomic int holds;
    // What was submitted.
    const troupe_trainer *trainer;
    trp_packed config;
    const troupe_data_table *data_table; // NULL: the run has no data.
    trp_packed data;                     // Their source.
    troupe_train_options options;        // With defaults filled in; texts in `arena`.
    trp_arena arena;
    const char *path;     // Of the run: its folder, or where it is in another storage.
    const char *folder;   // On this machine: what is staged, printed and derived. May be `path`.
    trp_opening opening;  // Of the run's folder.
    trp_follow *follow;   // What tells the follower; NULL: there is none.
    trp_gate *gate;       // NULL: there is none.
    uint64_t incarnation; // Of the process when it was submitted.
    trp_gang gang;        // What it needs of the node.
    // The server's.
    uint64_t request;       // For its CPUs; 0: none.
    _Atomic uint64_t claim; // What the node has given for it; 0: nothing yet.
    char *gpus;             // The ids of those that it has given, before `claim` is set.
    int64_t due_ms;         // Of one with a time limit that has started: when it is over.
    struct troupe_job *next;
    bool late; // It has been told so.
    bool started;
    _Atomic bool refused; // The node will give nothing.
    _Atomic bool over;   // Its coordinator is done: what it used is free, also if the word is lost.
    _Atomic bool missed; // Word for the coordinator was lost, for lack of memory: see await_change.

    pthread_mutex_t lock;
    pthread_cond_t changed; // State.
    troupe_job_state state;
    bool stop;                // Asked for by the user.
    trp_control *control;     // Of the group that runs; NULL: none.
    troupe_actor coordinator; // id 0: none.
    troupe_status given_up;   // Why its workers were ended by force; TROUPE_OK: they were not.
    char given_up_why[160];
    int reports, restarts;
    int64_t newest, best; // Checkpoints that there are, by number; -1: none.
    int pids[16];
    double earlier_s;          // Spent by earlier openings of the run.
    double started_s;          // 0: no group has started.
    double ending_s;           // When the last files began to be written; 0: not yet.
    trp_memory_commit *commit; // The last one in memory, held; NULL: none yet.
    trp_console *console;      // NULL: the run is not shown.
    trp_derived *derived;      // NULL: they are not made.
    troupe_result *result;     // Once it is DONE.
};

// A job with one hold, still without what was submitted. NULL: no memory.
troupe_job *trp_job_create(void);
void trp_job_hold(troupe_job *job);
void trp_job_release(troupe_job *job);

// Whether the runtime that the job was submitted to still runs.
bool trp_job_has_runtime(const troupe_job *job);
// Seconds that the run has taken, earlier openings included.
double trp_job_elapsed_s(troupe_job *job);
// Whether the user has asked for a stop.
bool trp_job_stopping(troupe_job *job);
// Says how the run ends, which goes before what else ends it. Only the first such word counts.
void trp_job_give_up(troupe_job *job, troupe_status status, const char *why);
// Why it was given up, with the thread's last error set; TROUPE_OK: it was not.
troupe_status trp_job_given_up(troupe_job *job);
// Makes the group's control known to troupe_job_stop (NULL: it is gone), and asks it for the stop
// that was asked for.
void trp_job_set_control(troupe_job *job, trp_control *control);
// Makes the last commit in memory known to who asks for it.
void trp_job_set_commit(troupe_job *job, trp_memory_commit *commit);

// Changes the state and tells the follower. Not for DONE.
void trp_job_set_state(troupe_job *job, troupe_job_state state);
// Shows the run on its console from now on, if that is wanted; its state, and its end. The last two
// with the lock.
void trp_job_show(troupe_job *job);
void trp_job_show_state(troupe_job *job);
void trp_job_show_end(troupe_job *job);
// Says what happens to the run: on its console, or else in the log at that level.
void trp_job_say(troupe_job *job, trp_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Says which processes the group has, likewise.
void trp_job_say_group(troupe_job *job, const trp_console_rank *ranks, int count);
// Counts a report, and tells the follower if `event` is not NULL: its line begins at `start` of the
// journal and ends where that does.
void trp_job_report(troupe_job *job, int number, const troupe_report_event *event, off_t start);
// Tells the follower of a checkpoint, likewise.
void trp_job_checkpoint(troupe_job *job, const troupe_checkpoint_event *event, off_t start);
// Says which checkpoints are the newest and the best from now on, by number; -1: there is none.
void trp_job_set_checkpoints(troupe_job *job, int64_t newest, int64_t best);
// Ends the job with the result, which is taken over, and tells the follower. False: it had ended.
bool trp_job_finish(troupe_job *job, troupe_result *result);
// Ends the job without a run or in the middle of one, because the runtime stops.
void trp_job_cancel(troupe_job *job);

// An empty result of the job; its fields are set by the caller, with texts of its arena. NULL: no
// memory.
troupe_result *trp_job_result(troupe_job *job);
const char *trp_job_result_text(troupe_result *result, const char *text);
troupe_status trp_job_result_metrics(troupe_result *result, const troupe_metric *metrics,
                                     size_t count);
troupe_status trp_job_result_value(troupe_result *result, const void *data, size_t size,
                                   uint64_t schema);

// Fills in the defaults and checks the options. TROUPE_INVALID and TROUPE_TOO_LARGE name the
// option.
troupe_status trp_train_options_complete(troupe_train_options *options,
                                         const troupe_trainer *trainer, trp_gang *gang);

#endif
