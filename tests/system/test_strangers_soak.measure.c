// test_strangers_soak.measure.c: how long calls took in turns with and without an attack.
#include "strangers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOWS_MAX = 2000 };

typedef struct window {
    phase what;
    _Atomic uint32_t bins[BINS];
} window;

static struct {
    window *windows;
    int count;
    uint32_t seen[PHASES][BINS]; // Of the scores, at the end of the last window.
} measure;

void measure_window(phase what, const score *tally)
{
    if (measure.windows == NULL)
        measure.windows = calloc(WINDOWS_MAX, sizeof *measure.windows);
    if (measure.count == WINDOWS_MAX || measure.windows == NULL)
        abort();
    window *it = &measure.windows[measure.count++];
    it->what = what;
    for (int i = 0; i < BINS; i++) {
        uint32_t now = atomic_load(&tally->bins[i]);
        it->bins[i] = now - measure.seen[what][i];
        measure.seen[what][i] = now;
    }
}

double measure_percentile_us(const _Atomic uint32_t bins[BINS], double share)
{
    uint64_t all = 0, seen = 0;
    for (int i = 0; i < BINS; i++)
        all += bins[i];
    for (int i = 0; i < BINS; i++) {
        seen += bins[i];
        if (seen > 0 && (double)seen >= share * (double)all)
            return ldexp(8.5 + i % 8, i / 8 - 3) / 1000;
    }
    return 0;
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

double measure_ratio(phase what, int *windows)
{
    static double ratios[WINDOWS_MAX];
    int count = 0;
    for (int i = 1; i + 1 < measure.count; i++) {
        window quiet = {.what = QUIET};
        if (measure.windows[i].what != what)
            continue;
        for (int bin = 0; bin < BINS; bin++)
            quiet.bins[bin] = measure.windows[i - 1].bins[bin] + measure.windows[i + 1].bins[bin];
        double base = measure_percentile_us(quiet.bins, 0.99);
        double attacked = measure_percentile_us(measure.windows[i].bins, 0.99);
        if (base > 0 && attacked > 0)
            ratios[count++] = attacked / base;
    }
    qsort(ratios, (size_t)count, sizeof *ratios, by_size);
    *windows = count;
    return count == 0 ? 0 : (ratios[(count - 1) / 2] + ratios[count / 2]) / 2;
}
