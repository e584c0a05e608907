// job.h: a job as the server and the coordinator have it: what was asked for, read from its spec;
// its run's folder; what the node has given it; and how far it is.
//
// It is made of a spec's bytes alone. Of the one who submitted it, it knows the port. Held by the
// server, the coordinator, what waits for its ranks and stages, and the handle, until each lets go.
#ifndef TRP_JOB_H
#define TRP_JOB_H

#include <pthread.h>
#include <runtime/base/arena.h>
#include <runtime/base/log.h>
#include <stdatomic.h>
#include <train/config.h>
#include <train/control.h>
#include <train/derived.h>
#include <train/gang.h>
#include <train/live.h>
#include <train/opening.h>
#include <train/option_table.h>
#include <train/port.h>
#include <train/result.h>
#include <train/spec.h>
#include <train/wire.h>
#include <troupe/train.h>

// What the train server says of a job that it has started in this process (train/job_runner.h).
typedef struct trp_job_terms {
    const char *submission;          // By which the run's `end` is known as this job's.
    const char *run;                 // The run's folder, made if need be.
    const char *rank_gpus;           // GPUs of each rank, as in trp_wire_order; NULL.
    int ranks, resizes;              // 0: as in the spec; and by which wish.
    int restarts;                    // That are left; -1: any number.
    double spent_s;                  // Of its time limit.
    troupe_array_trp_wire_live live; // What is wished of its live values.
} trp_job_terms;

typedef struct trp_job {
    _Atomic int holds;
    trp_port port;
    // What was asked for: set when it is taken on, and never changed.
    trp_arena arena;
    trp_job_spec spec;
    const troupe_trainer *trainer;
    trp_packed config; // With references of its own.
    const char *config_json;
    const troupe_data_table *data_table; // NULL: the run has no data.
    trp_packed data;                     // Their source.
    troupe_train_options options;        // With defaults filled in.
    const char *path;       // Of the run: its folder, or where it is in another storage.
    const char *folder;     // On this machine: what is staged, printed and derived. May be `path`.
    const char *submission; // Of a job of the train server; NULL: it is none.
    const char *rank_gpus;  // Which the server has given to each rank (trp_wire_order); NULL.
    trp_opening opening;    // Of the run's folder.
    uint64_t incarnation;   // Of the process that runs its coordinator.
    trp_gang gang;          // What it needs of the node.
    // The server's.
    uint64_t request;       // For its CPUs; 0: none.
    _Atomic uint64_t claim; // What the node has given for it; 0: nothing yet.
    int up_to;              // How many ranks were asked for.
    uint64_t more;          // And for ranks beyond the fewest, which it waited for; 0: nothing.
    char *gpus;             // The ids of those that it has given, before `claim` is set.
    int64_t due_ms;         // Of one with a time limit that has started: when it is over.
    struct trp_job *next;
    int64_t left_ms;  // Of its time limit, when it began to rest.
    bool late;        // It has been told so.
    bool holds_claim; // What it was given is its group's.
    bool limited;     // A timer will look after the limit.
    bool started;
    int world;            // Ranks of the group that runs, or that what is claimed is for,
    int asked;            // and how many were wished then.
    _Atomic bool rests;   // Its coordinator has no group, and wants none before it has a claim.
    _Atomic bool refused; // The node will give nothing.
    _Atomic bool over;   // Its coordinator is done: what it used is free, also if the word is lost.
    _Atomic bool missed; // Word for the coordinator was lost, for lack of memory: see
                         // trp_job_make_good.

    pthread_mutex_t lock;
    troupe_job_state state;
    bool stop;                // Wished by its user, or its time is over.
    bool pause;               // Wished by its user,
    int ranks, resizes;       // and how many ranks, by which wish of those.
    int most;                 // The next group has so many at most; 0: as many as are wished.
    trp_live live;            // What has been modified.
    trp_control *control;     // Of the group that runs; NULL: none.
    troupe_actor coordinator; // id 0: none.
    troupe_status given_up;   // Why its workers were ended by force; TROUPE_OK: they were not.
    char given_up_why[160];
    int reports, restarts;
    int64_t newest;       // Its newest checkpoint, by number; -1: there is none.
    int only_world;       // How many ranks alone can go on from it; 0: any number.
    double earlier_s;     // Spent by earlier openings of the run.
    double started_s;     // 0: no group has started.
    double ending_s;      // When the last files began to be written; 0: not yet.
    trp_derived *derived; // NULL: they are not made.
} trp_job;

// Takes on the job that the spec describes, with the references of its config, of which it keeps
// its own: opens its run and queues it, or has its end told where it has ended already. The port is
// the job's from now on; on a failure it stays the caller's. The caller has a hold. Errors as those
// of troupe_submit and trp_spec_read.
troupe_status trp_job_accept(troupe_bytes spec, const troupe_ref *refs, const trp_port *port,
                             trp_job **job);
// The same for the train server, on its terms. An `end` that this job has left in the run's folder
// is its end. TROUPE_BUSY: what an earlier attempt has left runs still.
troupe_status trp_job_accept_on(const trp_job_terms *terms, troupe_bytes spec, const trp_port *port,
                                trp_job **job);

// A job with one hold, still without what was asked for. NULL: no memory.
trp_job *trp_job_create(void);
void trp_job_hold(trp_job *job);
void trp_job_release(trp_job *job);

// Reads the wishes at the port, and sees to it that they come true. From any thread, as often as
// one likes.
void trp_job_look(trp_job *job);
// Sees to it that a lost word is made good; who waits for the job asks for that from time to time.
void trp_job_make_good(trp_job *job);

// Whether the runtime that the job was taken on in still runs.
bool trp_job_has_runtime(const trp_job *job);
// Seconds that the run has taken, earlier openings included.
double trp_job_elapsed_s(trp_job *job);
// Whether a stop was wished.
bool trp_job_stopping(trp_job *job);
// Whether the group is to leave at the next report that no rank has passed: for a pause, or since
// another number of ranks is wished.
bool trp_job_leaves(trp_job *job);
bool trp_job_paused(trp_job *job);
// Ranks of the next group.
int trp_job_ranks(trp_job *job);
// The same, which are asked for now, within the limit.
int trp_job_ask_ranks(trp_job *job);
// How many ranks the next group has at most; 0: as many as are wished. Another wish ends the limit.
void trp_job_limit_ranks(trp_job *job, int most);
// Of what is claimed, where that is for fewer ranks than were wished.
void trp_job_set_world(trp_job *job, int ranks);
// That the job may have so many ranks, as far as that is known now. TROUPE_INVALID,
// TROUPE_TOO_LARGE.
troupe_status trp_job_check_ranks(trp_job *job, int ranks);
// The same, of another node that has enough for them.
troupe_status trp_job_check_more(trp_job *job, int ranks);
// Of a number that cannot be: the wish becomes that of before, unless there is a newer one.
bool trp_job_take_back_ranks(trp_job *job, int ranks, int before);
// The coordinator has no group, and waits until what the next one needs is there: until the job
// rests no more.
void trp_job_rest(trp_job *job);
bool trp_job_rests(trp_job *job);
// Has it stop at the next report that no rank has passed, or leave the queue.
void trp_job_stop(trp_job *job);
// Ends its workers, and says how the run ends, which goes before what else ends it. Only the first
// such word counts.
void trp_job_kill(trp_job *job, troupe_status status, const char *why);
// Why it was given up, with the thread's last error set; TROUPE_OK: it was not.
troupe_status trp_job_given_up(trp_job *job);
// Makes the group's control known to trp_job_stop (NULL: it is gone), and asks it for the stop that
// was asked for.
void trp_job_set_control(trp_job *job, trp_control *control);

// Tells of the last commit in memory.
void trp_job_set_commit(trp_job *job, trp_memory_commit *commit);

// Changes the state and tells the port. Not for DONE.
void trp_job_set_state(trp_job *job, troupe_job_state state);
// Says what happens to the run: where it is shown, or else in the log at that level.
void trp_job_say(trp_job *job, trp_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Says which processes the group has, likewise.
void trp_job_say_group(trp_job *job, const trp_console_rank *ranks, int count);
// Counts a report, and tells of it if `event` is not NULL, with its line in the journal.
void trp_job_report(trp_job *job, int number, const troupe_report_event *event, trp_lines lines);
// Tells of a checkpoint, likewise.
void trp_job_checkpoint(trp_job *job, const troupe_checkpoint_event *event, trp_lines lines);
// Which checkpoint is the newest, and how many ranks alone can go on from it (0: any number): known
// here, so that nobody who asks waits for a storage.
void trp_job_set_newest(trp_job *job, int64_t newest, int only_world);
// Says which checkpoints are the newest and the best from now on, by number; -1: there is none.
void trp_job_set_checkpoints(trp_job *job, int64_t newest, int64_t best);
// Asks the gate, if it named that report; what it answers has come true when this returns.
void trp_job_ask(trp_job *job, const troupe_report_event *event);
// Ends the job with the result, which is taken over, and tells the port. False: it had ended.
bool trp_job_finish(trp_job *job, troupe_result *result);
// Ends the job without a run or in the middle of one, because the runtime stops.
void trp_job_cancel(trp_job *job);

// An empty result of the job. NULL: no memory.
troupe_result *trp_job_result(trp_job *job);

// What a job with these options holds. TROUPE_INVALID and TROUPE_TOO_LARGE name the option.
troupe_status trp_train_options_gang(const troupe_train_options *options, trp_gang *gang);
// Fills in the defaults and checks the options. TROUPE_INVALID and TROUPE_TOO_LARGE name the
// option. `gang` NULL: what this node has is not asked.
troupe_status trp_train_options_complete(troupe_train_options *options,
                                         const troupe_trainer *trainer, trp_gang *gang);

#endif
