// sweep_file.h: a sweep as a file of JSON, for programs that know nothing of Troupe:
//
//     {"space": {"lr": {"log_uniform": [1e-4, 1]}, "width": {"integer": [8, 64]}},
//      "metric": "loss", "goal": "minimize", "trials": 50,
//      "searcher": {"tpe": {"startup": 8}}, "scheduler": {"asha": {"reduction": 3, "limit": 81}}}
//
// A space is as in troupe_space_parse; the members of searchers and schedulers are the options of
// their constructors in troupe/search.h and troupe/schedule.h, by the same names.
#ifndef TRP_SWEEP_FILE_H
#define TRP_SWEEP_FILE_H

#include <runtime/base/arena.h>
#include <troupe/schedule.h>
#include <troupe/train.h>
#include <tune/command/constraints.h>

enum { TRP_FILE_OBJECTIVES_MAX = 8 }; // As many as a sweep has.

typedef struct trp_sweep_file {
    troupe_space *space;
    const char *space_text; // As it was written.
    const char *metric;     // The first objective's.
    troupe_goal goal;
    const char
        *metrics[TRP_FILE_OBJECTIVES_MAX]; // Of several objectives, where there are more than one.
    troupe_goal goals[TRP_FILE_OBJECTIVES_MAX];
    size_t objective_count;
    troupe_searcher *searcher;       // NULL: it says none.
    troupe_scheduler *scheduler;     // NULL: it says none.
    int trials, concurrent, retries; // 0: it says none.
    uint64_t seed;
    double time_budget_s, trial_timeout_s;
    const double *target; // NULL: it says none.
    int patience;
    const void **first; // Objects of JSON, as texts.
    size_t first_count;
    const char **warm;
    size_t warm_count;
    trp_constraints constraints;
    const char *name, *storage, *columns;
    double cpus, gpus; // Of a trial.
    bool server;       // Its trials are a train server's.
} trp_sweep_file;

// Reads it; texts are in the arena. `own_space`: it may have no space. TROUPE_MALFORMED: it is not
// JSON, and where; TROUPE_INVALID and TROUPE_WRONG_TYPE name the member that is wrong and say what
// was expected.
troupe_status trp_sweep_file_read(const char *text, size_t size, bool own_space, trp_arena *arena,
                                  trp_sweep_file *file);
void trp_sweep_file_close(trp_sweep_file *file); // Frees what was not taken out of it.

#endif
