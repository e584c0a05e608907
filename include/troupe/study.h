// study.h: ask and tell: a search that runs nothing, for programs that run their trials themselves.
// It needs no runtime. A study is used by one thread at a time.
//
//     troupe_space *space;
//     troupe_must(troupe_space_open(settings, rows, &space));
//     troupe_study *study;
//     troupe_must(troupe_study_open(space, &study, .trials = 100));
//     for (troupe_asked asked; troupe_study_ask(study, &asked) == TROUPE_OK;)
//         troupe_must(troupe_study_tell(study, asked.number, loss_of(asked.config)));
//     const settings *best = troupe_study_best(study)->config;
#ifndef TROUPE_STUDY_H
#define TROUPE_STUDY_H

#include <troupe/schedule.h>
#include <troupe/train.h>

TROUPE_BEGIN_C

typedef struct troupe_study troupe_study;

typedef struct troupe_study_options {
    size_t size;
    troupe_goal goal;         // Default: TROUPE_MINIMIZE.
    const troupe_goal *goals; // Of several objectives, instead; goal_count of them, up to 8.
    size_t goal_count;
    troupe_searcher *searcher;   // Consumed; default: troupe_search_auto().
    troupe_scheduler *scheduler; // Consumed; default: all trials run to their end.
    // TROUPE_END after so many; default: as many as are asked for. Of a space with grids, for each
    // of their combinations, which are tried in turn (with a searcher that covers them itself: in
    // all), and .first come besides. A study that goes on may have another number.
    int trials;
    uint64_t seed; // Default 1.
    // A file where every step is put down, a line of JSON each, before it is answered; default:
    // none. What was told lasts a power failure once troupe_study_sync has returned, or, with
    // .sync, at once: where it does not, its status is returned, and what was told holds.
    const char *file;
    // TROUPE_OPEN_NEW, the default: TROUPE_EXISTS where the file has a study. TROUPE_OPEN_RESUME:
    // its study goes on, as if it had never ended; TROUPE_NOT_FOUND where there is none.
    // TROUPE_OPEN_RESUME_OR_NEW: the one or the other. TROUPE_EXISTS: it is another study, and in
    // what; TROUPE_BUSY: another process has it open.
    //
    // One that goes on may have a larger space, from which it draws then: ranges that hold the
    // earlier ones, with the same scale and steps (counted from the same low end, of real numbers);
    // more choices at the end of a list; a range or a list that has what was fixed; further rows,
    // wherever they stand, which in the trials before were what the base has, or what JSON says to
    // be "before". A space that is less, or a row whose value in a trial before is not known, is
    // TROUPE_EXISTS; so is another space at all where the searcher numbers its points (_grid) or
    // trials were clones.
    troupe_open open;
    bool sync;
    // Points to try first, in this order: configs, or, of a space from JSON, texts of JSON objects;
    // rows that are missing in the latter are drawn.
    const void *const *first;
    size_t first_count;
    // Whether a config may be tried (of a space from JSON: its text). It must be a function of its
    // argument. Where the searcher suggests one that may not, another is drawn at random; after
    // 1,000 draws in vain troupe_study_ask is TROUPE_INVALID.
    bool (*allowed)(void *user, const void *config);
    void *user;
    // Files of earlier studies or trials.jsonl of sweeps, whose trials that have ended the searcher
    // learns from first: those that have a value for every row which counts, by its name. They are
    // put down in the file, and not read again by a study that goes on.
    const char *const *warm;
    size_t warm_count;
    int unused_;
} troupe_study_options;

typedef enum troupe_study_state {
    TROUPE_STUDY_RUNNING,
    TROUPE_STUDY_COMPLETE,
    TROUPE_STUDY_STOPPED, // By the scheduler.
    TROUPE_STUDY_FAILED,
    TROUPE_STUDY_PAUSED, // By the scheduler; troupe_study_ask gives it again when it goes on.
} troupe_study_state;

// A trial of a study. All of it lives as long as the study; values until the next call.
typedef struct troupe_study_trial {
    size_t size; // Of this struct.
    int number;
    troupe_study_state state;
    const double *x;
    const void *config;   // Of a space from JSON: its text.
    const double *values; // One for each objective, as they were told; NaN: none.
    int reports;
    double best; // The best value that it reported or was told, of the first objective; NaN: none.
    double violation;  // As it was told.
    const char *error; // Of one that failed; else empty.
} troupe_study_trial;

typedef struct troupe_asked {
    int number;
    const void *config; // As of a troupe_study_trial.
    const double *x;
    bool again;  // A paused trial, which goes on
    int reports; // behind this report; else 0.
} troupe_asked;

// Opens a study over a space, which is borrowed: it must live longer.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_study_open_with(
    const troupe_space *space, troupe_study **study, const troupe_study_options *how);
#define troupe_study_open(...) TROUPE_STUDY_OPEN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_STUDY_OPEN_(space, study, ...)                                                      \
    troupe_study_open_with(                                                                        \
        (space), (study),                                                                          \
        &(troupe_study_options){.size = sizeof(troupe_study_options), __VA_ARGS__})
TROUPE_EXPERIMENTAL void troupe_study_free(troupe_study **study);

// The next trial. TROUPE_END: there are no more. TROUPE_BUSY: none before a running one has
// reported or ended.
// Of a study that goes on, trials that ran when its process ended are given first, each as it was
// given last, once. What it had reported since then is passed over when it comes again, with what
// was answered then.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_study_ask(troupe_study *study,
                                                                   troupe_asked *asked);
// A running trial's next report. *act: what becomes of it: TROUPE_ACT_GO_ON; with _STOP and _END it
// is over, and nothing more is told of it; with _PAUSE it waits until troupe_study_ask gives it
// again. Schedulers that clone or resize are TROUPE_UNSUPPORTED in a study of one's own.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_study_report(troupe_study *study,
                                                                      int number, double value,
                                                                      troupe_act *act);
// A running trial's end, with its value, or with one for each objective; one that is not a finite
// number: it failed. `violation`: the sum of what constraints are violated by; 0: all hold.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_study_tell(troupe_study *study, int number,
                                                                    double value);
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_study_tell_values(troupe_study *study,
                                                                           int number,
                                                                           const double *values,
                                                                           double violation);
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_study_tell_failed(troupe_study *study,
                                                                           int number,
                                                                           const char *why);
// Waits until all that was told lasts. A study without a file: at once. TROUPE_NO_SPACE,
// TROUPE_IO: the file lacks the end of it, which is tried again by the next call.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_study_sync(troupe_study *study);

TROUPE_EXPERIMENTAL size_t troupe_study_count(const troupe_study *study);
// NULL: there is none.
TROUPE_EXPERIMENTAL const troupe_study_trial *troupe_study_trial_at(troupe_study *study,
                                                                    size_t number);
// The best by the first objective of those that have not failed and violate no constraint; NULL:
// none has a value.
TROUPE_EXPERIMENTAL const troupe_study_trial *troupe_study_best(troupe_study *study);
// The numbers of the complete trials without violations that no other is as good as in every
// objective and better in one (Pareto's front), in their order; they belong to the thread's arena.
// NULL: memory is short, or there are none.
TROUPE_EXPERIMENTAL const int *troupe_study_front(troupe_study *study, size_t *count);

TROUPE_END_C

#endif
