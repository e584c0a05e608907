// statistics.c: see statistics.h.
#include "statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double worth(double value)
{
    return isnan(value) ? (double)INFINITY : value;
}

static int rises(const void *left, const void *right)
{
    double a = worth(*(const double *)left), b = worth(*(const double *)right);
    return (a > b) - (a < b);
}

// How many values may be left out at each end: the chance that the median lies beyond is at most
// 2.5 % there.
static size_t left_out(size_t count)
{
    double chance = pow(0.5, (double)count), sum = 0; // Of no value below the median.
    size_t k = 0;
    while (sum + chance <= 0.025) {
        sum += chance;
        chance *= (double)(count - k) / (double)(k + 1);
        k++;
    }
    return k == 0 ? 0 : k - 1;
}

tune_summary tune_summarize(const double *values, size_t count)
{
    double sorted[TUNE_SAMPLE_MAX];
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, rises);
    size_t out = left_out(count);
    return (tune_summary){.median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2,
                          .low = sorted[out],
                          .high = sorted[count - 1 - out]};
}

double tune_larger(const double *a, size_t a_count, const double *b, size_t b_count)
{
    double all[2 * TUNE_SAMPLE_MAX], larger = 0, ties = 0;
    size_t count = a_count + b_count;
    for (size_t i = 0; i < a_count; i++)
        for (size_t k = 0; k < b_count; k++)
            larger += worth(a[i]) > worth(b[k]) ? 1 : worth(a[i]) == worth(b[k]) ? 0.5 : 0;
    memcpy(all, a, a_count * sizeof *all);
    memcpy(all + a_count, b, b_count * sizeof *all);
    qsort(all, count, sizeof *all, rises);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && worth(all[end]) == worth(all[i]);)
            end++;
        double alike = (double)(end - i);
        ties += alike * alike * alike - alike;
    }
    double pairs = (double)a_count * (double)b_count, n = (double)count;
    double variance = pairs / 12 * (n + 1 - ties / (n * (n - 1)));
    if (!(variance > 0))
        return 1;
    double z = (larger - pairs / 2 - 0.5) / sqrt(variance);
    return 0.5 * erfc(z / sqrt(2));
}
