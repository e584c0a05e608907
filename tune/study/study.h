// study.h: a study as a sweep sees it: everything that is decided, and the record of it. It knows
// no jobs, clocks or threads: who runs the trials tells it what happened, and does what it says.
//
// Each step is one line of the record, with all that was decided in it, and is there before the
// caller hears of the step: a process that is killed has taken a step or has not.
//     study    what must be the same to go on (space, goals, searcher, scheduler, seed, points to
//              try first), and how many trials it is to have
//     warm     a trial of an earlier study
//     suggest  a trial begins: its point, and its params
//     again    a paused trial goes on
//     over     a paused trial is over, as stopped: the scheduler's `next` says so
//     report   a report, and what the scheduler said, where that was not to go on
//     end      how a trial ended
//     extend   the number of trials is another one from now on
//     space    the space is a larger one from now on: points have its dimensions. `before` has what
//              new rows were in the trials before
// Opened again, the study repeats the steps: points are read, searchers are told the same and are
// not asked to suggest, and what the scheduler says (`decide`, `next`) is compared.
//
// A call that fails has not been taken, and may be made again; but where one of searcher and
// scheduler has taken it and the other has not, the study is at its end: all further calls fail
// with that status and text. What the record has is whole, and can be opened again.
#ifndef TRP_STUDY_H
#define TRP_STUDY_H

#include <tune/study/record.h>

enum { TRP_STUDY_VERSION = 1 }; // Of the record.

typedef enum trp_next_kind {
    TRP_NEXT_NEW,   // Trial `number` begins: it has a point.
    TRP_NEXT_AGAIN, // Paused trial `number` goes on.
    TRP_NEXT_OVER,  // Paused trial `number` is over, as stopped: it needs no trp_study_end. Ask
                    // again.
    TRP_NEXT_LATER, // Nothing before another report or end of one that runs.
    TRP_NEXT_NONE,  // Nothing new any more; where no trial runs, the study is at its end, and
                    // trials that are paused stay so.
} trp_next_kind;

typedef struct trp_next {
    trp_next_kind kind;
    int number;
} trp_next;

// There is room for a trial: which. `fresh`: it may be a new one; false: no new one comes any more
// (not: at the moment), so that what waits for new ones is decided without them. Of one that goes
// on, trp_study_decided has the verdict: as it was, as a clone, or with other ranks.
troupe_status trp_study_next(troupe_study *study, bool fresh, trp_next *next);
// The next of a trial's reports after that many at which it may be anything but going on; 0: none.
int trp_study_decides_at(troupe_study *study, int number, int after);
// A running trial's report, with a value for each objective in the user's sense; `report` is above
// those before. verdict->x is the study's room. With _STOP and _END the trial runs until
// trp_study_end, and reports no more to the study; with _PAUSE it is paused; a trial that clones
// has its new point from then on. `more`: members for the line, `, "metrics": {..}`, or NULL.
troupe_status trp_study_decide(troupe_study *study, int number, int report, const double *values,
                               double elapsed_s, int ranks, const char *more,
                               troupe_verdict *verdict);
// What was decided last of the trial, also by an earlier life, at its report *report (0: it has
// none; the verdict is made out for going on then) or when it went on behind that. What follows
// from it may not have been done yet. verdict->x is the trial's point.
void trp_study_decided(const troupe_study *study, int number, int *report, troupe_verdict *verdict);
// A running or paused trial is over. `values`: NULL: those of its best report by the first
// objective. `error`: why it failed; else NULL. `more`: as above.
troupe_status trp_study_end(troupe_study *study, int number, troupe_ending ending,
                            const double *values, double violation, const char *error,
                            const char *more);
// Another number of trials than it was opened for: a sweep that is extended; 0: no limit. Times the
// combinations of a grid, as when it was opened. TROUPE_INVALID: fewer than there are.
troupe_status trp_study_extend(troupe_study *study, int trials);
// So many more than it is to have by now; nothing where it has no limit.
troupe_status trp_study_extend_by(troupe_study *study, int trials);
// What its searcher calls itself, now that it has begun: auto by what it has chosen.
const char *trp_study_searcher(const troupe_study *study);
// How many there will be, grids included; 0: not known.
int trp_study_trials(const troupe_study *study);
// Of its space's grids, each of which has as many as it was opened for; 1: there are none, or its
// searcher sees to them.
int trp_study_combinations(const troupe_study *study);

// Whether a trial was begun before the space became what it is.
bool trp_study_is_earlier(const troupe_study *study, int number);
// A point's trial, and how it is with it.
const double *trp_study_point(const troupe_study *study, int number);
troupe_study_state trp_study_state(const troupe_study *study, int number);

// For a sweep: a study whose record is the sweep's, open already and closed by it after the study.
// `lines`: what trp_tune_record_open found, or NULL. `visit` is given each line, those of the study
// once it has taken them in (`number`: of the line's trial, where it is the study's; else -1).
// Of a study that goes on nothing is written before trp_study_opened, or its next step: whoever
// cannot go on has not changed it. Nothing is, where it has the same space and number of trials.
// Lines of the sweep have an "event" of another name than those above; they may stand before the
// study's first.
typedef struct trp_study_past {
    const char *lines;
    size_t size;
    troupe_status (*visit)(void *user, const char *line, size_t length, int number);
    void *user;
} trp_study_past;
troupe_status trp_study_open(const troupe_space *space, const troupe_study_options *how,
                             trp_tune_record *record, const trp_study_past *past,
                             troupe_study **study);
// It goes on: what its opening has changed (space, number of trials) is put down.
void trp_study_opened(troupe_study *study);
trp_tune_record *trp_study_record(troupe_study *study);

#endif
