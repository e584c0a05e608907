// study_parts.h: a study from inside: what the files of this folder share.
#ifndef TRP_STUDY_PARTS_H
#define TRP_STUDY_PARTS_H

#include <runtime/codec/json.h>
#include <tune/space/extend.h>
#include <tune/space/space.h>
#include <tune/study/study.h>

enum {
    TRP_OBJECTIVES_MAX = 8,
    TRP_CHUNK = 256,      // Trials that are allocated together.
    TRP_NUMBER_ROOM = 32, // Bytes that a number of a line takes at most, its comma included.
};

typedef struct trp_study_trial {
    troupe_study_trial view; // Its config is made when it is first asked for.
    double *best_values;     // Of the best report by the first objective; NaN: none.
    double elapsed_s;        // At the last report.
    // What was decided last.
    int source, ranks;
    troupe_act act;
    // In a study of one's own: it ran when the process ended, and has not been given out since;
    bool left;
    bool earlier;      // Its point was of a space that has become larger since.
    int from, repeats; // the report behind which it was given last; reports that come again.
    double since_s;    // When it would have begun, had it run without a pause; by `now_s`.
} trp_study_trial;

struct troupe_study {
    const troupe_space *space;
    const troupe_dim *dims;
    size_t dim_count, objectives;
    troupe_goal goals[TRP_OBJECTIVES_MAX];
    troupe_problem problem; // As searcher and scheduler were begun with.
    troupe_searcher *searcher;
    troupe_scheduler *scheduler;
    char *searcher_name, *scheduler_name; // As they were before they began.
    bool (*allowed)(void *user, const void *config);
    void *user;
    int trials;       // As asked for; 0: without end.
    int total;        // With all combinations and points to try first; 0: without end.
    int combinations; // Of grids, which are the study's to set; 1: there are none.
    bool only_grids;  // There is nothing for a searcher to suggest, but an end.
    double *first;    // Points to try first, and behind them what was given of each.
    // Spaces that it had before this one, in the order of the record. The last of them may be that
    // of the record: then a line of this one is to come.
    trp_extension *earlier;
    size_t earlier_count;
    bool enlarges;
    trp_buffer before; // Then: JSON, what new rows were in trials before.
    int *had; // Trials of each combination, where there were other combinations; else NULL.
    int first_count;
    trp_tune_record *record; // NULL: there is none.
    double (*now_s)(void);   // The clock of what is asked and told.
    bool own, sync;          // The record is the study's; each step is to last at once.
    bool opens;              // Lines wait in `held`, since it may be refused yet.
    trp_buffer held;

    trp_study_trial **chunks;
    size_t chunk_count;
    int count, running, paused, left;
    int best;            // Trial; -1: none.
    bool exhausted;      // The searcher has no more points.
    troupe_error broken; // Not TROUPE_OK: the study is at its end, and why.

    double *point, *cloned, *kept, *scores; // Rooms for one step.
    void *config;                           // Of `allowed`.
    trp_buffer text;                        // Of `allowed`, for a space from JSON.
    bool short_of_memory;                   // For that.
};

// ---- trials (trials.c)

trp_study_trial *trp_study_at(const troupe_study *study, int number);
// Makes room for one more trial; it is there once `count` has risen.
troupe_status trp_study_make_room(troupe_study *study);
// Counts it in, with its point.
void trp_study_push(troupe_study *study, const double *x);
// Takes a value of the first objective in, for the best of the trial and of all.
void trp_study_note(troupe_study *study, trp_study_trial *trial, const double *values);
// The best of all, where one that was it has turned out to violate constraints.
void trp_study_find_best(troupe_study *study);
// Makes the trial's config, if it is not there.
troupe_status trp_study_configure(const troupe_study *study, trp_study_trial *trial);
void trp_study_free_trials(troupe_study *study);
// Whether a is better than b by the first objective; NaN never is, and is worse than any number.
bool trp_study_better(const troupe_study *study, double a, double b);

// ---- steps (steps.c), which are taken from the caller or from a line

// TROUPE_OK, unless the study is at its end.
troupe_status trp_study_is_whole(troupe_study *study);
// The study is at its end, for the last error.
troupe_status trp_study_break(troupe_study *study);
// The value of a score in the sense of searchers and schedulers, and back.
double trp_study_score(const troupe_study *study, size_t objective, double value);
// Whether a point is one of the space: each coordinate that counts within its bounds and on its
// steps. Moves it to the nearest that a config can hold, with NaN where a dimension does not count.
// TROUPE_INVALID names `who` gave it, and the dimension. `grids`: the coordinates of grids too.
troupe_status trp_study_check_point(const troupe_study *study, const char *who, bool grids,
                                    double *x);
bool trp_study_allows(troupe_study *study, const double *x);

troupe_status trp_study_take_trial(troupe_study *study, const double *x);
typedef struct trp_study_report {
    int trial, number;
    const double *values;
    double elapsed_s;
    int ranks;
} trp_study_report;
// Tells searcher and scheduler of it; *verdict is what that one says, checked.
troupe_status trp_study_take_report(troupe_study *study, const trp_study_report *report,
                                    troupe_verdict *verdict);
// The scheduler's `next`; NULL: none. *trial: -1: a new one. TROUPE_OK, _STOPPED, _BUSY and _END as
// that one's, checked; all else is a failure.
troupe_status trp_study_take_next(troupe_study *study, bool fresh, int *trial,
                                  troupe_verdict *verdict, bool *failed);
void trp_study_take_again(troupe_study *study, int number, const troupe_verdict *verdict);
typedef struct trp_study_ended {
    int trial;
    troupe_ending ending;
    const double *values; // NULL: of its best report.
    double violation;
    const char *error; // Copied; NULL: none.
} trp_study_ended;
troupe_status trp_study_take_end(troupe_study *study, const trp_study_ended *end);
// Of a study of one's own: a running trial that the scheduler has ended is over.
troupe_status trp_study_settle(troupe_study *study, int number);
void trp_study_take_total(troupe_study *study, int trials);
// Once all lines are repeated: a searcher that had no more points may have some by now, as in a
// larger space.
void trp_study_settle_exhausted(troupe_study *study);
// A trial of an earlier study. TROUPE_OK, _CORRUPT.
troupe_status trp_study_take_warm(troupe_study *study, int number, const trp_study_ended *end,
                                  int reports, const double *x);

// ---- opening (study.c, repeat.c, warm.c)

// Repeats the lines behind the study's first, which is line `line_number` of them.
troupe_status trp_study_repeat(troupe_study *study, const trp_study_past *past, size_t from,
                               size_t line_number);
// Tells the searcher of the trials in the files of earlier studies, and writes their lines, one
// behind the other, whole. *count: how many there were.
troupe_status trp_study_warm(troupe_study *study, const char *const *files, size_t file_count,
                             trp_buffer *lines, int *count);
// Finds the spaces that the record has had: `first`, that of its study's line, and those of lines
// from `from` on. TROUPE_EXISTS: this one is not the last of them, and has not all of it.
troupe_status trp_study_find_spaces(troupe_study *study, const trp_study_past *past, size_t from,
                                    trp_json first);
// Once all lines are repeated: has it put down that the study has another space now, and counts
// what has been had of its grids.
troupe_status trp_study_settle_space(troupe_study *study);
void trp_study_free_spaces(troupe_study *study);
// The number of trials with all combinations of a grid.
int trp_study_total_of(const troupe_study *study, int trials, uint64_t combinations);
// How many trials it may have for each combination in an earlier space; NULL: in its own.
int trp_study_most(const troupe_study *study, const trp_extension *was);
// "PATH" of its record, or "the study".
const char *trp_study_name(const troupe_study *study);

#endif
