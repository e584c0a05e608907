// schedule.h: schedulers: which trials go on. A scheduler is a pure object that is asked at
// reports; it knows no jobs, clocks or threads.
#ifndef TROUPE_SCHEDULE_H
#define TROUPE_SCHEDULE_H

#include <troupe/search.h>

TROUPE_BEGIN_C

// A trial's report.
typedef struct troupe_progress {
    size_t size; // Of this struct.
    int trial;
    int report;       // From 1, rising. A clone goes on with its own count.
    double score;     // Of the first objective: lower is better; NaN: it is not a number.
    double elapsed_s; // Of the trial, pauses left out.
    const double *x;  // Its point; one coordinate a dimension.
    int ranks;        // Of its group.
} troupe_progress;

typedef enum troupe_act {
    TROUPE_ACT_GO_ON,
    TROUPE_ACT_STOP,  // Others are better: it ends early.
    TROUPE_ACT_END,   // It has had all that a trial may have: ends as if by itself.
    TROUPE_ACT_PAUSE, // It holds nothing, until `next` names it or it is given up.
    // It goes on from the newest checkpoint of trial `source`, with the point x.
    TROUPE_ACT_CLONE,
    TROUPE_ACT_RESIZE, // It goes on with `ranks` ranks.
} troupe_act;

typedef struct troupe_verdict {
    size_t size; // Of this struct.
    troupe_act act;
    int source;
    double *x; // The caller's room: the trial's point, to be changed for a clone.
    int ranks;
} troupe_verdict;

typedef struct troupe_scheduler troupe_scheduler;
// A scheduler as a table, for own ones too: set abi, decide and destroy, the rest may be NULL. All
// functions are called by one thread at a time; what it decides is a function of the calls before,
// in their order, so that a sweep that goes on decides the same. Calls of `decides_at` and those of
// `next` that name no paused trial change nothing, and are not repeated; nor do calls that fail.
struct troupe_scheduler {
    uint32_t abi; // TROUPE_ABI
    const char
        *describe; // For tables: "ASHA (grace 1, reduction 3, limit 81)". Lives as long as it.
    void *user;
    // Once, before all else.
    troupe_status (*begin)(troupe_scheduler *self, const troupe_problem *problem);
    // A new trial has been given its point.
    troupe_status (*added)(troupe_scheduler *self, int trial, const double *x);
    // The next of a trial's reports, after that many, at which it may be anything but going on; 0:
    // there is none. These reports wait for the decision, others do not. NULL: all of them. A sweep
    // asks for those of a run as it begins, or is opened again.
    int (*decides_at)(troupe_scheduler *self, int trial, int after);
    // Asked at every report. The verdict is made out for going on. A failure ends the sweep and
    // leaves the scheduler as it was.
    troupe_status (*decide)(troupe_scheduler *self, const troupe_progress *progress,
                            troupe_verdict *verdict);
    // A trial is over: by the scheduler's own word, by itself, or as a failure.
    troupe_status (*ended)(troupe_scheduler *self, int trial, troupe_ending ending);
    // There is room for a trial. *trial: a paused one that goes on, as the verdict says, which is
    // made out for going on: that, or as a clone, or with other ranks; or -1: a new one (NULL:
    // always that), which is `added` then. TROUPE_STOPPED: the paused trial *trial is over, as
    // stopped; `ended` is called of it; ask again. TROUPE_BUSY: none before another report or end,
    // never said where no trial runs. TROUPE_END: no new one any more. `fresh`: a new one may be
    // had; false: none comes any more, so what waits for new ones is decided without them. Only
    // where it names a trial it changes what the scheduler knows: a sweep that goes on repeats just
    // these calls, with the same `fresh`.
    troupe_status (*next)(troupe_scheduler *self, bool fresh, int *trial, troupe_verdict *verdict);
    void (*destroy)(troupe_scheduler *self); // Frees it.
    troupe_status refusal; // Not TROUPE_OK: its options are wrong; who is given it fails so.
    // What a trial reaches at most: reports, for bars and the rest of time; 0: not known.
    int limit;
};

// The constructors below never return NULL: if an option is out of range or memory is short, the
// last error is set, and what is given the scheduler fails with the same status and text. A study
// or a sweep consumes its scheduler, also on failure.

typedef struct troupe_asha_options {
    size_t size;
    int grace;     // Reports before a trial may be stopped; default 1.
    int reduction; // One trial in `reduction` continues at a rung; default 4.
    int limit;     // Reports after which a trial is ended; default 100.
    int unused_;
    // Trials pause at a rung, and the best of those that wait there are promoted as others arrive
    // (algorithm 2 of the paper), rather than stopped for good.
    bool promote;
    // Each new trial is given one of so many brackets s = 0, 1 .., whose first rung is at grace *
    // reduction^s: in turns, as many of each as HyperBand's bracket with as many rungs begins with;
    // default 1.
    int brackets;
    // Decides as Ray's ASHAScheduler does on the same reports: a trial stops if it is strictly
    // worse than the quantile 1 - 1/reduction (with linear interpolation) of those before it.
    // Brackets are drawn by the softmax of their rungs.
    bool as_ray;
} troupe_asha_options;
// Asynchronous successive halving (Li et al., "A System for Massively Parallel Hyperparameter
// Tuning", MLSys 2020), in the stopping form: rungs are at grace * reduction^k reports; a trial
// that reaches a rung continues if its metric there is among the best 1/reduction (rounded down, at
// least one) of those recorded at that rung so far, its own included; equal values share a rank,
// NaN is worst.
TROUPE_EXPERIMENTAL troupe_scheduler *troupe_asha_with(const troupe_asha_options *how);
#define troupe_asha(...)                                                                           \
    troupe_asha_with(&(troupe_asha_options){.size = sizeof(troupe_asha_options), __VA_ARGS__})

typedef struct troupe_hyperband_options {
    size_t size;
    int limit;     // Most reports of a trial, R; default 81.
    int reduction; // eta; default 3.
    // Brackets and sizes as Ray's HyperBandScheduler makes them, and of equal scores the trial that
    // was added last is better.
    bool as_ray;
    int unused_;
} troupe_hyperband_options;
// HyperBand (Li et al., JMLR 2018): brackets of synchronous successive halving; trials pause at
// their rungs. With a searcher that learns from budgets (.budgets of troupe_search_tpe) it is BOHB.
TROUPE_EXPERIMENTAL troupe_scheduler *troupe_hyperband_with(const troupe_hyperband_options *how);
#define troupe_hyperband(...)                                                                      \
    troupe_hyperband_with(                                                                         \
        &(troupe_hyperband_options){.size = sizeof(troupe_hyperband_options), __VA_ARGS__})

typedef struct troupe_median_options {
    size_t size;
    int grace;   // Reports before a trial may be stopped; default 1.
    int samples; // Other trials that must have reached that report; default 3.
    int limit;   // Reports after which a trial is ended; default: none.
    int unused_;
} troupe_median_options;
// The median stopping rule (Golovin et al., KDD 2017): a trial stops where its best so far is worse
// than the median of the running means of all others up to the same report.
TROUPE_EXPERIMENTAL troupe_scheduler *troupe_median_with(const troupe_median_options *how);
#define troupe_median(...)                                                                         \
    troupe_median_with(&(troupe_median_options){.size = sizeof(troupe_median_options), __VA_ARGS__})

typedef struct troupe_pbt_options {
    size_t size;
    int interval; // Reports between perturbations; default 1.
    int burn_in;  // Reports before the first; default 0.
    double
        quantile; // The share at the bottom that clones one of the share at the top; default 0.25.
    double resample;  // The chance of a coordinate to be drawn anew; default 0.25.
    double up, down;  // Else it is multiplied by one of these; default 1.2 and 0.8.
    int limit;        // Reports after which a trial is ended; default: none.
    bool synchronous; // All trials wait for each other at each interval.
    // A file where each trial's first point and each clone are put down as lines of JSON; default:
    // none. It is made anew; a sweep that goes on writes the same again.
    const char *log;
    const char *mutate; // Names of the dimensions that change, by commas; default: all.
    int unused_;
} troupe_pbt_options;
// Population based training (Jaderberg et al., arXiv 1711.09846). Whole and stepped coordinates
// move by at least a step, ordered choices to a neighbour; other choices change only where they are
// drawn anew. Where there are more trials than room, they take turns, and pause at each interval.
TROUPE_EXPERIMENTAL troupe_scheduler *troupe_pbt_with(const troupe_pbt_options *how);
#define troupe_pbt(...)                                                                            \
    troupe_pbt_with(&(troupe_pbt_options){.size = sizeof(troupe_pbt_options), __VA_ARGS__})
// Repeats, for one trial, the points that a population's trial had at each report, read from the
// `log` of troupe_pbt. The trial's first point is the log's: give it with .first.
TROUPE_EXPERIMENTAL troupe_scheduler *troupe_pbt_replay(const char *log, int trial);

typedef struct troupe_resize_options {
    size_t size;
    int cpus;      // That the sweep may use, in ranks; required.
    int max_ranks; // Of one trial; default: no limit.
    int unused_;
} troupe_resize_options;
// Shares `cpus` ranks evenly among the trials that run, are paused or are still to come, as they
// report, beside another scheduler (NULL: first in, first out), which is consumed. No trial gets
// fewer than trials begin with.
TROUPE_EXPERIMENTAL troupe_scheduler *troupe_resizing_with(troupe_scheduler *inner,
                                                           const troupe_resize_options *how);
#define troupe_resizing(inner, ...) TROUPE_RESIZING_(inner, __VA_ARGS__, .unused_ = 0)
#define TROUPE_RESIZING_(inner, ...)                                                               \
    troupe_resizing_with(                                                                          \
        (inner), &(troupe_resize_options){.size = sizeof(troupe_resize_options), __VA_ARGS__})

typedef struct troupe_stop_when {
    size_t size;
    int reports;      // A trial ends after so many reports; 0: not for that.
    double elapsed_s; // Or after so long.
    // Or where in so many reports its score has not been better by more than `margin` (0: at all)
    // than the last that was; 0: not for that.
    int patience;
    double margin;
    // Or where the standard deviation of its last `plateau` scores is below `deviation`.
    int plateau;
    double deviation;
    int grace; // Reports before patience and plateau count.
    // Or where this says so; NULL: not for that. Must be a function of its arguments.
    bool (*predicate)(void *user, const troupe_progress *progress);
    void *user;
} troupe_stop_when;
// Ends trials, beside another scheduler (NULL: first in, first out), which is consumed.
TROUPE_EXPERIMENTAL troupe_scheduler *troupe_stopping(troupe_scheduler *inner,
                                                      const troupe_stop_when *when);

// Frees a scheduler that was not given away, and clears it. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_scheduler_free(troupe_scheduler **scheduler);

TROUPE_END_C

#endif
