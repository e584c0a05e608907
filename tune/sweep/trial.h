// trial.h: one trial: a state machine that is told what happens and does nothing itself.
//
//     WAITING --submitted--> QUEUED --running--> RUNNING --ended--> ENDED
//        |                      |                                     ^
//        +------refused---------+-------------ended-------------------+
//
// Beside its phase a trial remembers what was decided about it while it ran (to stop it, or that it
// is broken); how it ended follows from both.
#ifndef TRP_TRIAL_H
#define TRP_TRIAL_H

#include <troupe/tune.h>
#include <tune/schedule/scheduler.h>

enum { TRP_COLUMNS_MAX = 64 }; // Different metrics that a sweep shows.

typedef enum trp_phase {
    TRP_TRIAL_WAITING,
    TRP_TRIAL_QUEUED,
    TRP_TRIAL_RUNNING,
    TRP_TRIAL_ENDED,
} trp_phase;

typedef struct trp_trial {
    troupe_trial view; // What the user sees; its texts and config belong to the trial.
    trp_phase phase;
    troupe_act decision; // Not TROUPE_ACT_GO_ON: its job has been asked to stop.
    bool broken;         // The sweep gave it up; view.error says why.
    bool overdue;        // It ran for too long, and has been asked to stop for that.
    int64_t due_ns;      // When it is that, or is to be killed; 0: never, or it does not run.
    bool owns_error;     // view.error is the trial's to free.
    troupe_job *job;     // NULL unless queued or running.
    troupe_result *result;
    int pid;        // Of rank 0, now or last; 0: not known.
    double *values; // The last report's, by the sweep's columns; NULL before the first.
    uint64_t known; // A bit for each of them that was ever reported.
    int taken;      // Reports that were taken in,
    int saved;      // and of which checkpoints were told.
    // What an earlier life of the sweep has put down.
    bool submitted_before, ended_before;
    troupe_trial_state state_before;
    const char *error_before; // The trial's.
} trp_trial;

void trp_trial_submitted(trp_trial *trial, troupe_job *job);
void trp_trial_refused(trp_trial *trial, const char *error); // Could not be submitted.
void trp_trial_running(trp_trial *trial);
// Takes a report in. False: it lacks the metric. *value becomes the metric's.
bool trp_trial_report(trp_trial *trial, const troupe_report_event *report, const char *metric,
                      troupe_goal goal, double *value);
// The scheduler ends it.
void trp_trial_decided(trp_trial *trial, troupe_act decision);
// The sweep gives it up, with a sentence.
void trp_trial_broken(trp_trial *trial, const char *error);
// Its job is done: `status` and `error` of its result (or of getting it), `stopped` by request or
// not.
void trp_trial_ended(trp_trial *trial, troupe_status status, const char *error, bool stopped);
// Whether its job has been asked to stop.
bool trp_trial_is_stopping(const trp_trial *trial);

// It had ended before, as that life has put down.
void trp_trial_restore(trp_trial *trial);

void trp_trial_free(trp_trial *trial); // What it owns but its job and result, which must be gone.

#endif
