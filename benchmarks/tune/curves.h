// curves.h: what schedulers are measured on: families of learning curves, a stream of trials each,
// which were fixed before the first look at a result. As the functions they need no library, so
// that a peer in another language can load them.
#ifndef BENCH_TUNE_CURVES_H
#define BENCH_TUNE_CURVES_H

#include <stddef.h>
#include <stdint.h>

enum {
    TUNE_CURVE_FAMILIES = 4,
    TUNE_CURVE_WORKERS = 8, // That trials have at once,
    TUNE_CURVE_BUDGET = 30, // and reports of all together, in trials of full length.
};

// "power": a power law whose exponent is drawn apart from what it falls to. "crossing": those that
// fall to less fall more slowly. "plateau": nothing is learned until an epoch that is drawn.
// "digits": the table digits.csv in an order that is drawn. NULL: there is no more.
const char *tune_curve_family(size_t index);

typedef struct tune_curves tune_curves;

// NULL: there is no such family, or no memory for it.
tune_curves *tune_curves_open(const char *family, uint64_t seed);
void tune_curves_close(tune_curves *of);
// Reports of a trial of full length, and trials that there are.
int tune_curves_epochs(const tune_curves *of);
int tune_curves_trials(const tune_curves *of);
// What a trial reports at an epoch from 1 on, with its noise; lower is better.
double tune_curves_score(const tune_curves *of, int trial, int epoch);
// How long one of its epochs takes, 0.5 to 1.5.
double tune_curves_pace(const tune_curves *of, int trial);
// What it comes to at the end, without noise, less the least of all trials.
double tune_curves_regret(const tune_curves *of, int trial);

#endif
