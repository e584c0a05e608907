// results.h: the results of a record as the files of this room see them.
#ifndef TRP_RESULTS_H
#define TRP_RESULTS_H

#include <troupe/results.h>
#include <tune/why/trials.h>

struct troupe_results {
    trp_trials seen;
    troupe_trial_results *views; // One for each trial, in their order.
};

#endif
