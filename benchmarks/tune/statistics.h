// statistics.h: what is said of two samples of runs.
#ifndef BENCH_TUNE_STATISTICS_H
#define BENCH_TUNE_STATISTICS_H

#include <stddef.h>

enum { TUNE_SAMPLE_MAX = 64 };

typedef struct tune_summary {
    double median, low, high; // The interval has the median with at least 95 %, from order alone.
} tune_summary;

// Of 1 to TUNE_SAMPLE_MAX values. NaN counts as positive infinity.
tune_summary tune_summarize(const double *values, size_t count);

// The chance that values of a would be as much larger than those of b as they are if both came from
// the same distribution: one-sided Mann-Whitney, the normal approximation with its corrections for
// ties and continuity.
double tune_larger(const double *a, size_t a_count, const double *b, size_t b_count);

#endif
