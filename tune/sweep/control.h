// control.h: what a sweep has while it runs, for the files that are its controller: control.c (what
// happens and what follows from it), launch.c (jobs), go_on.c (what an earlier life has left).
//
// All of it belongs to one thread, the controller's. It holds the sweep's lock but where it waits,
// for events or for Train, so that others may read the trials meanwhile.
#ifndef TRP_SWEEP_CONTROL_H
#define TRP_SWEEP_CONTROL_H

#include <runtime/text/progress.h>
#include <tune/study/study.h>
#include <tune/sweep/events.h>
#include <tune/sweep/sweep.h>

enum { TRP_GATED_MAX = 64 };

// What a follower's callback gets: whose job it is.
typedef struct trp_slot {
    const trp_sweep_port *port;
    trp_events *events;
    int trial, run;
    trp_dealt dealt;
    bool gated; // Its reports wait where the scheduler may decide something,
    bool saves; // and a stop leaves it a report for its last checkpoint.
    int reports[TRP_GATED_MAX];
    size_t report_count;
} trp_slot;

// A report that came while its trial was to be paused: it is decided on when the trial goes on.
typedef struct trp_pent {
    struct trp_pent *next;
    trp_event *event;
} trp_pent;

// The result of a run that was another's last one for a while, and may be read still.
typedef struct trp_kept {
    struct trp_kept *next;
    troupe_result *result;
} trp_kept;

struct trp_control {
    troupe_sweep *sweep;
    troupe_study *study;
    trp_tune_record *record;
    trp_events events;
    trp_progress progress;
    trp_trial *ready, **last_ready; // Those that wait for their next run, or to be submitted again.
    int busy;                       // Jobs that have not ended and are not paused.
    int open;                       // Jobs that have not ended.
    int put_off;                    // How often in a row a submission was,
    int64_t then_ns;                // and until when; 0: it was not.
    int64_t due_ns;                 // The least of those of the trials; 0: none.
    int64_t budget_ns;              // When the sweep has had its time; 0: never.
    int unbettered;                 // Trials that ended since the best was bettered,
    double best;                    // and what it was then.
    bool begun;                     // Some trial was submitted.
    bool lost;                      // The runtime was, and with it all that ran and could run.
    bool halts, halted;             // No new trials, and those that run stop: wished, and done.
    bool closes;                    // Who has the sweep frees it.
    bool pauses, paused;            // The sweep is to be paused, and is.
    bool shelves;                   // What is paused is put by: nothing else is left.
    bool none_left;                 // The study has said so, of late.
    trp_buffer past;                // Lines of an earlier life of the sweep.
};

// ---- launch.c

// The trial of that number, made if there is none yet. NULL: no memory.
trp_trial *trp_control_trial(trp_control *control, int number);
// Its config is that of its point in the study.
troupe_status trp_control_draw(trp_control *control, trp_trial *trial);
// Submits a run of the trial, which waits still where that is to be done again later.
troupe_status trp_control_submit(trp_control *control, trp_trial *trial);
// Finds the job of a run that was submitted, by its key. TROUPE_NOT_FOUND: there is none.
troupe_status trp_control_find(trp_control *control, trp_trial *trial);
// The trial is submitted before any new one.
void trp_control_make_ready(trp_control *control, trp_trial *trial);
// Its run is over, and another one follows from `from` (NULL: from nothing), which is put down.
troupe_status trp_control_next_run(trp_control *control, trp_trial *trial, int base,
                                   const char *from);
// Its job has ended: gives it back. *result: NULL where there is none, and why.
void trp_control_close_job(trp_control *control, trp_trial *trial, bool leave);

// ---- control.c

// Puts down how a trial has ended, and has the study take it in.
troupe_status trp_control_put_end(trp_control *control, const trp_trial *trial);
// Tells the job what was decided of the trial.
void trp_control_tell(trp_control *control, trp_trial *trial);
// The clone that was decided at the trial's last report has its source's newest checkpoint, and
// that is put down.
troupe_status trp_control_clone(trp_control *control, trp_trial *trial, int source);
// Takes a report's metrics in. *usable: it has all that the study needs, in *values.
troupe_status trp_control_remember(trp_control *control, trp_trial *trial,
                                   const troupe_report_event *report, double *values, bool *usable);
void trp_control_give_up(trp_control *control, trp_trial *trial, const troupe_report_event *report);
// One turn: submits what can be, takes in what has come, waits for more. *over: nothing is left.
troupe_status trp_control_turn(trp_control *control, bool *over);
// What paused trials still had to be decided on is given up, at the end of the sweep.
void trp_control_forget(trp_control *control);
// Ends what still runs, after a failure of the sweep itself. Jobs of a train server go on, as after
// the end of this program: the sweep may be opened again.
void trp_control_abandon(trp_control *control);

// Around what waits in Train, and is no business of who reads the sweep.
void trp_control_away(trp_control *control);
void trp_control_back(trp_control *control);

// ---- go_on.c

// Opens the study over the record, with what an earlier life has put down (control->past).
troupe_status trp_control_open_study(trp_control *control, const troupe_study_options *how);
// Finds the trials again, and is where the earlier life was. Nothing is written before all are
// found: a failure changes nothing.
troupe_status trp_control_go_on(trp_control *control);

#endif
