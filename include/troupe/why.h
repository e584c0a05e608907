// why.h: why a search came out as it did: which parameters mattered, the best config, and a page of
// it all. It asks files and numbers alone, so a search may be running, or have been killed.
//
//     troupe_must(troupe_sweep_report("runs/fit", NULL));
//     troupe_best_trial best;
//     troupe_must(troupe_best_trial_get("runs/fit", &best));
//     printf("%s\n", best.config);
#ifndef TROUPE_WHY_H
#define TROUPE_WHY_H

#include <troupe/space.h>

TROUPE_BEGIN_C

typedef enum troupe_importance_method {
    // What made trials be among the best (Watanabe et al., IJCAI 2023): the best `.quantile` beside
    // the best `.region`.
    TROUPE_IMPORTANCE_PEDANOVA,
    // What the score depends on over the whole space (Hutter et al., ICML 2014): the share of its
    // variance that the parameter explains by itself, of 1, by a forest.
    TROUPE_IMPORTANCE_FANOVA,
} troupe_importance_method;

typedef struct troupe_importance_options {
    size_t size;
    troupe_importance_method method;
    double quantile; // Default 0.1.
    double region;   // Default 1: all.
    int trees;       // Of the forest; default 64.
    int depth;       // Of a tree; default 64.
    uint64_t seed;   // Of the forest; default 1.
    int objective;   // Of troupe_importance_of: which, from 0.
    int unused_;
} troupe_importance_options;

// Fills importance[dim_count] from `count` points, dim_count coordinates each (NaN: the dimension
// does not count there), and their scores, of which lower ones are better. Points without a finite
// score are left out. With fewer than two, and for a dimension that does not vary, it is 0.
// TROUPE_INVALID: an option or a dimension is out of range; a choice has at most
// TROUPE_CHOICES_MAX.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_importance_with(
    const troupe_dim *dims, size_t dim_count, const double *points, const double *scores,
    size_t count, double *importance, const troupe_importance_options *how);
#define troupe_importance(...) TROUPE_IMPORTANCE_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_IMPORTANCE_(dims, dim_count, points, scores, count, importance, ...)                \
    troupe_importance_with(                                                                        \
        (dims), (dim_count), (points), (scores), (count), (importance),                            \
        &(troupe_importance_options){.size = sizeof(troupe_importance_options), __VA_ARGS__})

typedef struct troupe_param_importance {
    const char *name; // Of a nested parameter with dots: "fitting.rate".
    double value;
    double share; // Of the sum of all; 0 where that is 0.
} troupe_param_importance;

// The same of a sweep's folder or a study's file, for each parameter that varies, the most
// important first; *params belongs to the thread's arena. Trials that were stopped count with the
// best that they reported; those that failed or have a violation do not count. TROUPE_NOT_FOUND,
// TROUPE_CORRUPT: it is none, and why; TROUPE_VERSION: it is a later version's.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_importance_of_with(const char *path, const troupe_param_importance **params, size_t *count,
                          const troupe_importance_options *how);
#define troupe_importance_of(...) TROUPE_IMPORTANCE_OF_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_IMPORTANCE_OF_(path, params, count, ...)                                            \
    troupe_importance_of_with(                                                                     \
        (path), (params), (count),                                                                 \
        &(troupe_importance_options){.size = sizeof(troupe_importance_options), __VA_ARGS__})

// Writes a page (HTML, one file) of a sweep's folder or a study's file: history, importance,
// parallel coordinates, slices, curves, the table of trials. `file`: NULL: report.html in the
// folder; of a study's file, its name with ".html". Errors as above, and those of writing it.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_sweep_report(const char *path,
                                                                      const char *file);
// The best trial by the first objective. Texts belong to the thread's arena.
typedef struct troupe_best_trial {
    int number;
    double value;
    const char *name;   // Of its folder beside the record; NULL: it has none.
    const char *config; // JSON.
    const char *model;  // "digits@3": the version of the repository that was trained; NULL: not
                        // known, or the trainer is a program's own.
    // Of a sweep of another program: its command line with the config filled in, NULL at its end;
    // else NULL.
    const char *const *command;
    const char *command_folder; // Where the sweep of it began; NULL: not known, or no command.
} troupe_best_trial;
// Fills *best; trials that failed or have a violation do not count. TROUPE_NOT_FOUND: none has a
// value; else errors as above.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_best_trial_get(const char *path,
                                                                        troupe_best_trial *best,
                                                                        size_t size);
#define troupe_best_trial_get(path, best)                                                          \
    troupe_best_trial_get((path), (best), sizeof(troupe_best_trial))
// Has the program of a sweep train the best config once more, in place of this process, as
// execve(2) does: returns on failure alone. The program is started in the folder and with the
// arguments that it had when the sweep began, which the sweep's record has, and with this process's
// environment. What it does up to its troupe_tune or troupe_sweep_start, it does again; there it
// trains instead, with the config and the options of the best trial and all else as main gives it,
// shows the run, and ends: with 0; 1 where the run failed, where its config is another struct by
// now, or where main ends without that sweep, and a sentence on standard error; 3: a signal has
// stopped it. The run is `best` in the sweep's folder. TROUPE_NOT_FOUND: no trial has a value, or
// the program or its folder is gone; TROUPE_UNSUPPORTED: the sweep was of a version of a
// repository, of a command, or of a library that put no program down; TROUPE_IO; else as above.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_best_trial_exec(const char *path);

TROUPE_END_C

#endif
