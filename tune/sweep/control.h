// control.h: what a sweep has while it runs, for the files that are its controller: control.c (its
// turns), reports.c (what trials report, and what is decided there), ends.c (ends of runs),
// pauses.c, launch.c (jobs), go_on.c and left.c (what an earlier life has put down, and its runs).
//
// All of it is the controller's alone, which is an actor (controller.h). It holds the sweep's lock
// but where it rests, or waits for Train, so that others may read the trials meanwhile.
#ifndef TRP_SWEEP_CONTROL_H
#define TRP_SWEEP_CONTROL_H

#include <runtime/text/progress.h>
#include <tune/study/study.h>
#include <tune/sweep/controller.h>
#include <tune/sweep/events.h>
#include <tune/sweep/sweep.h>

enum { TRP_GATED_MAX = 64, TRP_KEY_SIZE = 80 };

// What a follower's callback gets: whose job it is.
typedef struct trp_slot {
    const trp_sweep_port *port;
    trp_events *events;
    int trial, run;
    int told;    // The controller's: the last report that it has heard of,
    int resizes; // and the one at which the gate is to resize the run; 0: none.
    trp_dealt dealt;
    bool reopened;     // An earlier life of the program has left the run,
    bool stops_first;  // which is to stop,
    bool pauses_first; // or to pause, as soon as it runs.
    bool gated;        // Its reports wait where the scheduler may decide something,
    bool saves;        // and a stop leaves it a report for its last checkpoint.
    // Those that wait: these, and all from that one on; 0: no others.
    int reports[TRP_GATED_MAX];
    size_t report_count;
    int all_from;
    // Of a job that has ended, or was given up: its handle, which is to be closed, and the next
    // such.
    troupe_job *job;
    struct trp_slot *next;
} trp_slot;

// Whether that report waits. A scheduler of the user's may decide at others than it named as the
// run began.
bool trp_slot_waits(const trp_slot *of, int report);

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
    trp_seat seat; // Of the actor that it is.
    trp_progress progress;
    trp_trial *ready, **last_ready; // Those that wait for their next run, or to be submitted again.
    trp_slot *ended, **last_ended;  // Jobs that are no trial's any more, the oldest first,
    int ended_count;                // and how many: their handles are to be closed.
    int busy;                       // Jobs that have not ended and are not paused.
    int open;                       // Jobs that have not ended.
    int put_off;                    // How often in a row a submission was,
    int64_t then_ns;                // and until when; 0: it was not.
    int64_t due_ns;                 // The least of those of the trials; 0: none.
    int64_t budget_ns;              // When the sweep has had its time; 0: never.
    int unbettered;                 // Trials that ended since the best was bettered,
    double best;                    // and what it was then.
    double earlier_s;               // That earlier lives of the sweep have taken.
    bool went_on;                   // There were such.
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
// The ranks of a run of it: its point's, or the sweep's, unless the scheduler gave others.
int trp_control_ranks(const trp_control *control, const trp_trial *trial);
// Its config is that of its point in the study.
troupe_status trp_control_draw(trp_control *control, trp_trial *trial);
// Submits a run of the trial, which waits still where that is to be done again later.
troupe_status trp_control_submit(trp_control *control, trp_trial *trial);
// The key of the run that the trial is at, TRP_KEY_SIZE bytes.
void trp_control_key(const trp_control *control, const trp_trial *trial, char *key);
// Finds the job of a run that was submitted, by its key. TROUPE_NOT_FOUND: there is none.
troupe_status trp_control_find(trp_control *control, trp_trial *trial);
// The trial is submitted before any new one.
void trp_control_make_ready(trp_control *control, trp_trial *trial);
// Its run is over, and another one follows from `from` (NULL: from nothing), which is put down.
troupe_status trp_control_next_run(trp_control *control, trp_trial *trial, int base,
                                   const char *from);
// Its job has ended, or is to: it is no more the trial's. Its handle is closed later. `leave`: it
// is one of a train server, and goes on.
void trp_control_close_job(trp_control *control, trp_trial *trial, bool leave);
// Closes the oldest handles of jobs that have ended, but for so many. A close waits for the files
// that are made of a run, which is seldom necessary for one that ended a while ago.
void trp_control_close_ended(trp_control *control, int left);

// ---- reports.c

// Takes a report's metrics in. *usable: it has all that the study needs, in *values.
troupe_status trp_control_remember(trp_control *control, trp_trial *trial,
                                   const troupe_report_event *report, double *values, bool *usable);
// Whether a trial that has a value is the best beside that one, which may be NULL.
bool trp_control_is_better(const troupe_sweep *sweep, const trp_trial *trial,
                           const trp_trial *best);
void trp_control_give_up(trp_control *control, trp_trial *trial, const troupe_report_event *report);
// The clone that was decided at the trial's last report has its source's newest checkpoint, and
// that is put down.
troupe_status trp_control_clone(trp_control *control, trp_trial *trial, int source);
// Tells the job what was decided of the trial.
void trp_control_tell(trp_control *control, trp_trial *trial);
void trp_control_resize(trp_control *control, const trp_trial *trial);
// Takes in a report, by its number and seconds in the trial, that has not been looked at. *act:
// what its job is to be told.
troupe_status trp_control_take_new(trp_control *control, trp_trial *trial,
                                   const troupe_report_event *report, troupe_act *act);
// Takes in what a follower was told. An event that is kept is NULL then.
troupe_status trp_control_take_report(trp_control *control, trp_trial *trial, trp_event **event);
troupe_status trp_control_take_checkpoint(trp_control *control, trp_trial *trial,
                                          const troupe_report_event *of);

// ---- ends.c

// A trial has ended: whether the best was bettered since the last one had. One that has failed is
// not the best any more.
void trp_control_count_end(trp_control *control, const trp_trial *trial);
// Puts down how a trial has ended, and has the study take it in.
troupe_status trp_control_put_end(trp_control *control, const trp_trial *trial);
// A run of the trial is over, as its result says, which is the trial's then; NULL: there is none.
troupe_status trp_control_take_result(trp_control *control, trp_trial *trial, troupe_status status,
                                      const char *error, bool stopped, troupe_result *result);
// Its job has ended: takes the result, and does what follows from it.
troupe_status trp_control_collect(trp_control *control, trp_trial *trial);
// The next run of a trial begins with the clone's checkpoint and config,
troupe_status trp_control_go_on_as_clone(trp_control *control, trp_trial *trial);
// or from the trial's newest checkpoint, or else as the last one began.
troupe_status trp_control_go_on_as_it_was(trp_control *control, trp_trial *trial);
// Reports that were kept, as their trial was to be paused.
void trp_control_drop_first_pent(trp_trial *trial);
void trp_control_drop_pent(trp_trial *trial);
// A group of the trial runs.
void trp_control_job_begins(trp_control *control, trp_trial *trial);
// Ends those that take too long.
void trp_control_look_for_overdue(trp_control *control);

// ---- pauses.c

// The trial's job is paused.
void trp_control_job_paused(trp_control *control, trp_trial *trial);
// The study has it go on.
troupe_status trp_control_again(trp_control *control, trp_trial *trial);
// A paused trial is over. It may have no job any more.
troupe_status trp_control_end_paused(trp_control *control, trp_trial *trial);
// The sweep is paused, or goes on.
void trp_control_pause_all(trp_control *control, bool pause);

// ---- control.c

// A turn is to act, and then to take in what has come. Acts: submits what can be, and looks what is
// due. *over: nothing is left.
troupe_status trp_control_act(trp_control *control, bool *over);
// By when to act again at the latest, with or without an event, by the sweep's clock.
int64_t trp_control_due_ns(const trp_control *control);
// Takes in what trp_events_pop has given. Without an event (TROUPE_TIMED_OUT): looks whether a job
// has ended without a word.
troupe_status trp_control_take(trp_control *control, troupe_status popped, trp_event *event);
// What paused trials still had to be decided on is given up, at the end of the sweep.
void trp_control_forget(trp_control *control);
// Ends what still runs, after a failure of the sweep itself. Jobs of a train server go on, as after
// the end of this program: the sweep may be opened again.
void trp_control_abandon(trp_control *control);

// Around what waits in Train, and is no business of who reads the sweep.
void trp_control_away(trp_control *control);
void trp_control_back(trp_control *control);
// Asks that of the trial's job, which may wait for a train server.
void trp_control_ask(trp_control *control, const trp_trial *trial, void (*what)(troupe_job *job));

// ---- go_on.c

// Opens the study over the record, with what an earlier life has put down (control->past).
troupe_status trp_control_open_study(trp_control *control, const troupe_study_options *how);
// Finds the trials again, and is where the earlier life was. Nothing is written before all are
// found: a failure changes nothing.
troupe_status trp_control_go_on(trp_control *control);

// ---- left.c: runs of this program's own that an earlier life of it has left.

// The trial has the result that its run has told, where it has told one.
troupe_status trp_control_show_left(trp_control *control, trp_trial *trial);
// Whether the run that the trial is at was begun, though no line says so. A folder that is another
// run's stays where it is: trp_control_make_way sees to it when the trial's own begins.
troupe_status trp_control_find_left(trp_control *control, trp_trial *trial);
// What is in the way of a run that begins is moved aside.
troupe_status trp_control_make_way(trp_control *control, const trp_trial *trial);
// Takes in what the trial's run has reported and nobody has looked at. Then the run is over, stays
// paused, or is to be opened again. With `now` it is not to stay paused.
troupe_status trp_control_take_left(trp_control *control, trp_trial *trial, bool now);
// The folder of the run that the trial is at.
void trp_control_run_folder(const trp_control *control, const trp_trial *trial, char *path,
                            size_t size);

#endif
