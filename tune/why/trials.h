// trials.h: what the record of a sweep or a study says of its trials, for who looks at it.
//
// The file may be that of a sweep that goes on, of one that was killed, or damaged: lines that
// cannot be read are counted, and events that nothing is known of are passed over. Nothing is
// written, and no lock is taken.
#ifndef TRP_TRIALS_H
#define TRP_TRIALS_H

#include <limits.h>
#include <runtime/base/arena.h>
#include <runtime/codec/json.h>
#include <troupe/train.h>
#include <troupe/why.h>
#include <tune/why/seen_names.h>

enum {
    TRP_TRIALS_COLUMNS = 64,      // Parameters beyond are counted.
    TRP_TRIALS_OBJECTIVES = 8,    // As many as a study can have.
    TRP_TRIALS_TIMED = 2000,      // Trials whose folders are looked into, evenly.
    TRP_TRIALS_POINTS = 64,       // Of a trial's curve, at equal distances, which double.
    TRP_TRIALS_NUMBERS = 1000000, // Numbers from here on are taken for damage.
};

typedef enum trp_trials_state {
    TRP_TRIALS_PENDING,
    TRP_TRIALS_RUNNING,
    TRP_TRIALS_PAUSED,
    TRP_TRIALS_TERMINATED,
    TRP_TRIALS_STOPPED,
    TRP_TRIALS_ERROR,
    TRP_TRIALS_STATES,
} trp_trials_state;

// A parameter that varies.
typedef struct trp_column {
    const char *name;   // Of nested ones with dots: "fitting.rate".
    troupe_dim dim;     // Bounds are those of the space, or else of the trials.
    const char **texts; // Of a choice: as JSON, dim.choices of them.
} trp_column;

typedef struct trp_seen_trial {
    int number;
    const char *name; // NULL: it has none.
    trp_trials_state state;
    trp_json config;                      // Its params; empty: not known.
    trp_json params;                      // What was drawn; empty: not known.
    double *x;                            // One for each column; NaN: it has none.
    double values[TRP_TRIALS_OBJECTIVES]; // In the user's sense, the best ones that it reported or
                                          // was told (of several: told); NaN: none.
    double told[TRP_TRIALS_OBJECTIVES];   // That the end said; NaN: none.
    double violation;                     // Of what must hold for it to count; 0: none.
    int reports;
    double elapsed_s;
    double began, ended; // Seconds of the day 1970-01-01 UTC on; NaN: not known.
    const char *error;   // NULL: none.
    int stride;          // Point i of the curve is of report 1 + i * stride.
    size_t used;
    double *points;                           // NULL: none.
    struct troupe_trial_report *reports_kept; // Where all of them are wanted (seen_reports.h).
    size_t report_count, report_room;
} trp_seen_trial;

typedef struct trp_trials {
    trp_arena arena;
    const char *file;   // Absolute.
    const char *folder; // That it is in.
    const char *name;   // The last part of the folder, or, of a study, of the file.
    bool sweep;         // Else a study's file.
    const char *trainer, *scheduler, *searcher, *seed; // NULL: not known.
    const char *model; // "digits@3": a sweep over a version of the repository; NULL: it is not.
    trp_json settings; // That configs of such a sweep are laid over; empty: none.
    trp_json program;  // How the program that has the trainer was started; empty: not known.
    trp_json command;  // Words of the program that trials run, with places for params; empty: none.
    const char *began_in; // The folder that this program was started in; NULL: not known.
    int wanted;           // Trials; 0: not known.
    const char *metrics[TRP_TRIALS_OBJECTIVES]; // Names of the objectives; NULL: it has none.
    troupe_goal goals[TRP_TRIALS_OBJECTIVES];
    size_t objectives;
    trp_json space;          // As the record describes it; empty: it does not.
    trp_seen_trial **trials; // Those that are known, in the order of their numbers.
    size_t count, room;
    size_t counts[TRP_TRIALS_STATES];
    trp_column *columns; // In the order in which configs name them.
    size_t column_count, columns_left_out;
    trp_json fixed; // The config of the first trial, for what does not vary.
    uint64_t lines, bad_lines, other_lines;
    int version;                 // Of the study's record; 0: it has none.
    bool failed;                 // While it is read: memory was short.
    bool whole;                  // Each report is kept,
    trp_seen_names metric_names; // and these are the names of what they have.
} trp_trials;

// Reads a sweep's folder, its trials.jsonl, or a study's file. TROUPE_NOT_FOUND: there is none;
// TROUPE_CORRUPT: it is no record of a sweep or a study; TROUPE_IO, TROUPE_NO_MEMORY. What was read
// is freed by trp_trials_free in any case.
troupe_status trp_trials_read(const char *path, trp_trials *trials);
// The same with each report that there is (seen_reports.h).
troupe_status trp_trials_read_whole(const char *path, trp_trials *trials);
void trp_trials_free(trp_trials *trials);

// The whole config of a trial that has one, in the arena: over a version, what was drawn over the
// settings of all trials; of others as their trainers have it. NULL: no memory.
const char *trp_trials_config(const trp_trials *trials, const trp_seen_trial *trial,
                              trp_arena *arena);
// Whether it may be the best: it has not failed, and violates nothing.
bool trp_trials_counts(const trp_seen_trial *trial);
// The best by the first objective; NULL: none has a value.
const trp_seen_trial *trp_trials_best(const trp_trials *trials);
// Whether one value of that objective is better than another; NaN is worse than any.
bool trp_trials_better(const trp_trials *trials, size_t objective, double one, double other);
// Marks the trials that no other is better than in every objective: front[i] of trials->trials[i].
// TROUPE_NO_MEMORY.
troupe_status trp_trials_front(const trp_trials *trials, bool *front);
// An importance for each column, by the scores of one objective. TROUPE_NO_MEMORY, TROUPE_INVALID.
troupe_status trp_trials_importance(const trp_trials *trials, const troupe_importance_options *how,
                                    double *importance);
// Fills in when trials began and ended, where their folders beside the record say so (times.c).
// What cannot be read stays unknown.
void trp_trials_times(trp_trials *trials);
const char *trp_trials_state_name(trp_trials_state state);

// Makes columns of what configs differ in (columns.c). TROUPE_NO_MEMORY.
troupe_status trp_trials_columns(trp_trials *trials);

#endif
