// trial.h: one trial: a state machine that is told what happens and does nothing itself.
//
//     WAITING --submitted--> QUEUED --running--> RUNNING --ended--> ENDED
//        |  ^                 |  ^                  |                ^
//        |  |                 |  +----paused----> PAUSED             |
//        |  +----between------+---------------------+----ended-------+
//        +------refused----------------------------------------------+
//
// Beside its phase a trial remembers what was decided about it while it ran (to stop it, or that it
// is broken); how it ended follows from both. A trial may have several runs of its trainer, one
// after the other: another one where it clones, or is tried again after a failure. Its reports are
// numbered through.
#ifndef TRP_TRIAL_H
#define TRP_TRIAL_H

#include <troupe/tune.h>
#include <tune/schedule/scheduler.h>

enum { TRP_COLUMNS_MAX = 64 }; // Different metrics that a sweep shows.

typedef enum trp_phase {
    TRP_TRIAL_WAITING,
    TRP_TRIAL_QUEUED,
    TRP_TRIAL_RUNNING,
    TRP_TRIAL_PAUSED, // Its job is.
    TRP_TRIAL_ENDED,
} trp_phase;

struct trp_slot;
struct trp_pent;

typedef struct trp_trial {
    troupe_trial view; // What the user sees. Its name and config are the sweep's.
    int number;
    trp_phase phase;
    troupe_act decision; // Its job was told so. To be paused and to clone: until that is done.
    bool broken;         // The sweep gave it up; view.error says why.
    bool overdue;        // It ran for too long, and has been asked to stop for that.
    bool halted;         // The sweep was stopped.
    bool held;           // It is paused with the whole sweep.
    bool put_by;         // Its job may have been ended by an earlier life, as it was paused.
    bool left;           // An earlier life of the program has left its run, which has no job.
    bool reopens;        // That run is opened again when it is submitted:
    bool has_own;        // from a checkpoint of its own;
    bool acts_first;     // and does what was decided as soon as it runs.
    bool over;           // It was so as it was paused: what it has reported since is dropped.
    int64_t due_ns;      // When it is overdue, or to be killed; 0: never, or it does not run.
    int64_t left_ns;     // Paused: how long it may still run; 0: for ever.
    int64_t silent_ns;   // Since when its job has ended or is paused without a word; 0: neither.
    bool owns_error;     // view.error is the trial's to free.
    troupe_job *job;     // NULL unless queued, running or paused.
    troupe_result *result;
    const double *x;               // Its point: the sweep's.
    double *at_best;               // The objectives at its best report; NULL: there is one alone.
    struct trp_slot *slot;         // Of its job.
    struct trp_pent *pent, **last; // Reports that came while it was to be paused.
    int pid;                       // Of rank 0, now or last; 0: not known.
    int ranks;                     // That its group has; 0: not known.
    int given;                     // By the scheduler, to this run and those behind it; 0: none.
    double *values;                // The last report's, by the sweep's columns; NULL: none came.
    uint64_t known;                // A bit for each of them that was ever reported.
    int taken;                     // Reports that were taken in,
    int saved;                     // and of which checkpoints were told;
    char *checkpoint;              // the newest of these. NULL: none.
    int run;                       // Which of its runs it is at, from 0;
    int base;                      // reports of the earlier ones, and their time.
    double base_s;
    char *from;              // What the run begins with; NULL: nothing.
    int source;              // Of a clone that is to begin.
    bool cloned_before;      // `from` is what an earlier life gave it.
    int failures;            // After which it was tried again.
    struct trp_trial *ready; // The next one that waits for its next run.
    // What an earlier life of the sweep has put down.
    bool submitted_before, ended_before; // The first: its last run.
    bool unsaid;                         // That was, and has no line.
    bool halts_before;                   // It was to stop or to pause: what came then counts alone.
    troupe_trial_state state_before;
    char *config_before;      // Of its last submission, as JSON; the trial's.
    const char *error_before; // The trial's.
} trp_trial;

void trp_trial_submitted(trp_trial *trial, troupe_job *job);
void trp_trial_refused(trp_trial *trial, const char *error); // Could not be submitted.
void trp_trial_running(trp_trial *trial);
void trp_trial_paused(trp_trial *trial);
void trp_trial_goes_on(trp_trial *trial); // A paused one, in the queue.
// Its run is over and it is not: another one follows, whose first report is the one after `base`.
// `from` is the trial's to free.
void trp_trial_between(trp_trial *trial, int base, char *from);
// Takes a report in, by its number and seconds in the trial. False: it lacks the metric. *value
// becomes the metric's.
bool trp_trial_report(trp_trial *trial, const troupe_report_event *report, const char *metric,
                      troupe_goal goal, double *value);
// What the scheduler has decided, other than to go on. What is final stays.
void trp_trial_decided(trp_trial *trial, troupe_act decision);
// The sweep gives it up, with a sentence.
void trp_trial_broken(trp_trial *trial, const char *error);
// Its job is done: `status` and `error` of its result (or of getting it), `stopped` by request or
// not.
void trp_trial_ended(trp_trial *trial, troupe_status status, const char *error, bool stopped);
// Whether it has ended so, in this life of the sweep or in an earlier one.
bool trp_trial_failed(const trp_trial *trial);
// Whether its job has been asked to stop for good.
bool trp_trial_is_stopping(const trp_trial *trial);

// It had ended before, as that life has put down.
void trp_trial_restore(trp_trial *trial);

void trp_trial_free(trp_trial *trial); // What it owns but its job and result, which must be gone.

#endif
