// results.h: the results of a record as the files of this room see them.
#ifndef TRP_RESULTS_H
#define TRP_RESULTS_H

#include <troupe/results.h>
#include <tune/why/trials.h>

struct troupe_results {
    trp_trials seen;
    troupe_trial_results *views; // One for each trial, in their order.
};

// Reads a record (trp_trials_free) and finds its best trial, which has a config; `how` NULL: the
// best as the sweep itself goes by. TROUPE_NOT_FOUND: there is none.
troupe_status trp_trials_read_best(const char *path, const troupe_best_options *how,
                                   trp_trials *trials, const trp_seen_trial **best, double *value);

#endif
