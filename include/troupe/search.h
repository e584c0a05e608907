// search.h: searchers: what is tried next. A searcher is a pure object: it is told which points
// were given out and what came of them, and names the next one; it knows no jobs, clocks, threads.
#ifndef TROUPE_SEARCH_H
#define TROUPE_SEARCH_H

#include <troupe/space.h>

TROUPE_BEGIN_C

// What is searched.
typedef struct troupe_problem {
    size_t size; // Of this struct.
    const troupe_dim *dims;
    size_t dim_count;
    size_t objectives; // 1 or more.
    uint64_t seed;
    int trials; // How many there will be; 0: not known.
    // Whether a point may be tried; NULL: each may. What a searcher that ignores it suggests in
    // vain, the study replaces by a point that it draws at random.
    bool (*allowed)(const void *allowed_user, const double *x);
    const void *allowed_user;
} troupe_problem;

typedef enum troupe_ending {
    TROUPE_ENDING_COMPLETE, // It had all that a trial may have.
    TROUPE_ENDING_STOPPED,  // The scheduler ended it early.
    TROUPE_ENDING_FAILED,   // It has no result.
} troupe_ending;

typedef struct troupe_observation {
    size_t size; // Of this struct.
    int number;  // Of the trial.
    troupe_ending ending;
    const double *x; // One for each dimension.
    // One for each objective: lower is better (of one that is maximised, the negative); NaN: it has
    // none. Of a trial that was stopped, the best that it reported.
    const double *scores;
    int reports;      // That it made.
    double violation; // The sum of what constraints were violated by; 0: all hold.
} troupe_observation;

typedef struct troupe_searcher troupe_searcher;
// A searcher as a table, for own ones too: set abi, name, suggest and destroy, the rest may be
// NULL. All functions are called by one thread at a time. What a searcher knows is a fold over the
// calls of begin, given, report and observe, in their order: a sweep that goes on repeats just
// these. So suggest changes nothing, and what it draws depends on (seed, number) and that fold. A
// function that fails leaves the searcher as it was.
struct troupe_searcher {
    uint32_t abi;     // TROUPE_ABI
    const char *name; // For tables: "TPE".
    void *user;
    // Once, before all else. The problem lives as long as the searcher. TROUPE_INVALID or
    // TROUPE_UNSUPPORTED: it cannot search that, and why.
    troupe_status (*begin)(troupe_searcher *self, const troupe_problem *problem);
    // Fills x, one coordinate a dimension: within its bounds, on its steps, NaN where it does not
    // count. TROUPE_END: there are no more points. Coordinates of grids are the study's to set,
    // but where the searcher covers them.
    troupe_status (*suggest)(troupe_searcher *self, int number, double *x);
    // Trial `number` has this point: the one suggested, or one that was given by other means.
    // Trials of earlier studies have negative numbers, and come first. The point of one that a
    // scheduler has clone another may be observed with another point than it was given.
    troupe_status (*given)(troupe_searcher *self, int number, const double *x);
    // A running trial's report (from 1, rising) of the first objective.
    troupe_status (*report)(troupe_searcher *self, int number, int report, double score);
    troupe_status (*observe)(troupe_searcher *self, const troupe_observation *observation);
    void (*destroy)(troupe_searcher *self); // Frees it.
    troupe_status refusal; // Not TROUPE_OK: its options are wrong; who is given it fails so.
    bool covers_grids;     // It sees itself to it that all choices of a grid's rows are tried.
};

// The constructors below never return NULL: if an option is out of range or memory is short, the
// last error is set, and what is given the searcher fails with the same status and text. A study or
// a sweep consumes its searcher, also on failure.

// Chooses by the space and the number of trials.
TROUPE_EXPERIMENTAL troupe_searcher *troupe_search_auto(void);
// Independent draws.
TROUPE_EXPERIMENTAL troupe_searcher *troupe_search_random(void);
// Every combination of choices, integers and, for a range, the midpoints of `points` equal parts
// (0: 3); the last dimension varies fastest.
TROUPE_EXPERIMENTAL troupe_searcher *troupe_search_grid(int points);
// Sobol's sequence with the direction numbers of Joe and Kuo (2008), up to 64 dimensions, scrambled
// by the seed (Owen 1995 as hashed by Burley 2020).
TROUPE_EXPERIMENTAL troupe_searcher *troupe_search_sobol(void);

typedef struct troupe_tpe_options {
    size_t size;
    int startup;    // Trials that are drawn at random first; default 10.
    int candidates; // Points drawn from the good ones' density, of which the best is taken;
                    // default 24.
    // Each dimension by itself; default: together for one objective, alone for several.
    bool univariate, multivariate;
    bool no_liar; // Trials that run are left out, rather than taken for bad ones.
    // Learns from the reports of the largest budget that enough trials have reached, not from ends
    // alone (BOHB: Falkner et al., ICML 2018).
    bool budgets;
    int unused_;
} troupe_tpe_options;
// The tree-structured Parzen estimator (Bergstra et al., NIPS 2011; Watanabe, arXiv 2304.11127).
TROUPE_EXPERIMENTAL troupe_searcher *troupe_search_tpe_with(const troupe_tpe_options *how);
#define troupe_search_tpe(...)                                                                     \
    troupe_search_tpe_with(&(troupe_tpe_options){.size = sizeof(troupe_tpe_options), __VA_ARGS__})

typedef struct troupe_cmaes_options {
    size_t size;
    int population; // Default 4 + floor(3 ln d).
    double sigma;   // The first step, as a share of each range; default 1/6.
    bool
        restarts; // With twice the population where it has converged (IPOP: Auger and Hansen 2005).
    int unused_;
} troupe_cmaes_options;
// Covariance matrix adaptation (Hansen, arXiv 1604.00772). Numbers alone: choices are drawn at
// random beside it; integers keep a margin (Hamano et al., GECCO 2022).
TROUPE_EXPERIMENTAL troupe_searcher *troupe_search_cmaes_with(const troupe_cmaes_options *how);
#define troupe_search_cmaes(...)                                                                   \
    troupe_search_cmaes_with(                                                                      \
        &(troupe_cmaes_options){.size = sizeof(troupe_cmaes_options), __VA_ARGS__})

typedef struct troupe_gp_options {
    size_t size;
    int startup; // Trials that are drawn by Sobol's sequence first; default 10.
    int unused_;
} troupe_gp_options;
// A Gaussian process (Matern 5/2, a length for each dimension) with the logarithm of the expected
// improvement (Ament et al., NeurIPS 2023). Its cost grows with the cube of the trials.
TROUPE_EXPERIMENTAL troupe_searcher *troupe_search_gp_with(const troupe_gp_options *how);
#define troupe_search_gp(...)                                                                      \
    troupe_search_gp_with(&(troupe_gp_options){.size = sizeof(troupe_gp_options), __VA_ARGS__})

typedef struct troupe_nsga2_options {
    size_t size;
    int population;   // Default 50.
    double crossover; // The share of children of two parents; default 0.9.
    double swap;      // The share of a child's coordinates from the second parent; default 0.5.
    double mutation;  // The share of coordinates that are drawn anew; default 1/d.
    int unused_;
} troupe_nsga2_options;
// For several objectives (Deb et al. 2002).
TROUPE_EXPERIMENTAL troupe_searcher *troupe_search_nsga2_with(const troupe_nsga2_options *how);
#define troupe_search_nsga2(...)                                                                   \
    troupe_search_nsga2_with(                                                                      \
        &(troupe_nsga2_options){.size = sizeof(troupe_nsga2_options), __VA_ARGS__})

// Each point of another searcher, which is consumed, is tried `repeats` times (2 or more); what
// that searcher is told is the mean of those that did not fail.
TROUPE_EXPERIMENTAL troupe_searcher *troupe_search_repeat(troupe_searcher *inner, int repeats);

// Frees a searcher that was not given away, and clears it. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_searcher_free(troupe_searcher **searcher);

TROUPE_END_C

#endif
