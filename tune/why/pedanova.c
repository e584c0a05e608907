// pedanova.c: see pedanova.h. Cells of the grid, bandwidths and the prior's kernel are those of the
// authors' implementation, so that figures compare with those of other tools.
#include <tune/why/pedanova.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <tune/space/dims.h>

enum { CELLS = 50, REGIME_MIN = 2 };

// The grid of one dimension.
typedef struct grid {
    int cells;
    bool kinds; // Cells without an order.
    double low, step;
} grid;

static grid grid_of(const troupe_dim *dim)
{
    double values = trp_dim_values(dim), last = dim->high;
    grid it = {.cells = CELLS};
    if (dim->kind == TROUPE_DIM_CHOICE)
        return (grid){.cells = dim->choices, .kinds = !dim->ordered, .step = 1};
    if (values > 0)
        last = dim->low + (dim->step > 0 ? dim->step : 1) * (values - 1);
    if (dim->kind == TROUPE_DIM_INTEGER && dim->log)
        values = ceil(log2(last - dim->low + 1)) + 1;
    if (values > 0 && values < CELLS)
        it.cells = (int)values;
    it.low = trp_dim_scaled(dim, dim->low);
    it.step = it.cells > 1 ? (trp_dim_scaled(dim, last) - it.low) / (it.cells - 1) : 0;
    return it;
}

static int cell_of(const grid *it, const troupe_dim *dim, double value)
{
    double at = ceil((trp_dim_scaled(dim, value) - it->low) / it->step - 0.5);
    return (int)fmin(fmax(at, 0), it->cells - 1);
}

// ---- densities

typedef struct density {
    int cells;
    double counts[CELLS];
    double total;
} density;

static double normal_below(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

// Adds a normal kernel that is cut off at the grid's ends, as one probability a cell.
static void add_kernel(int cells, double mean, double sigma, double weight, double *out)
{
    double all = normal_below((cells - 0.5 - mean) / sigma) - normal_below((-0.5 - mean) / sigma);
    for (int i = 0; i < cells; i++)
        out[i] +=
            weight *
            (normal_below((i + 0.5 - mean) / sigma) - normal_below((i - 0.5 - mean) / sigma)) / all;
}

// Scott's rule on the counted cells, in cells; at least so wide that nine tenths of a kernel lie in
// its own cell.
static double bandwidth(const density *of)
{
    static const double least = 0.5 / 1.64;
    double mean = 0, square = 0, before = 0;
    int first = -1, third = -1, last = 0;
    for (int i = 0; i < of->cells; i++)
        mean += i * of->counts[i] / of->total;
    for (int i = 0; i < of->cells; i++) {
        if (of->counts[i] == 0)
            continue;
        square += (i - mean) * (i - mean) * of->counts[i];
        before += of->counts[i];
        last = i;
        if (first < 0 && before >= floor(of->total / 4))
            first = i;
        if (third < 0 && before > floor(of->total * 3 / 4))
            third = i;
    }
    double sigma = sqrt(square / fmax(1, of->total - 1));
    double range = (third < 0 ? last : third) - first;
    return fmax(1.059 * fmin(range / 1.34, sigma) * pow(of->total, -0.2), least);
}

// The estimator's probability of each cell: a kernel for each cell that has points, by their
// number, and one for the prior, which counts as one point.
static void estimate(const density *of, bool kinds, double *out)
{
    double share = 1 / (of->total + 1), used = 1;
    memset(out, 0, sizeof *out * CELLS);
    for (int i = 0; i < of->cells; i++)
        used += of->counts[i] > 0;
    if (!kinds) {
        double sigma = bandwidth(of);
        for (int i = 0; i < of->cells; i++)
            if (of->counts[i] > 0)
                add_kernel(of->cells, i, sigma, share * of->counts[i], out);
        add_kernel(of->cells, (of->cells - 1) / 2.0, of->cells, share, out);
        return;
    }
    // A kind's kernel has 1/used for each kind, and 1 more for its own, over their sum.
    double sum = 1 + of->cells / used;
    for (int i = 0; i < of->cells; i++)
        out[i] = share * (of->counts[i] / sum + of->total / (used * sum) + 1.0 / of->cells);
}

static double divergence(const density *best, const density *region, bool kinds)
{
    static const double least = 1e-12; // So that no cell is without a chance.
    double of_best[CELLS], of_region[CELLS], sum = 0;
    estimate(best, kinds, of_best);
    estimate(region, kinds, of_region);
    for (int i = 0; i < best->cells; i++) {
        double below = of_region[i] + least, ratio = (of_best[i] + least) / below - 1;
        sum += below * ratio * ratio;
    }
    return sum;
}

// ---- which points

// The score that `share` of the sorted ones reach.
static double cut_off(const double *sorted, size_t count, double share)
{
    size_t most = (size_t)ceil(share * (double)count);
    return sorted[most > 0 ? most - 1 : 0];
}

static int by_value(const void *left, const void *right)
{
    double one = *(const double *)left, other = *(const double *)right;
    return (one > other) - (one < other);
}

// The scores that count, in their order; their number.
static size_t sort_scores(const double *scores, size_t count, double *sorted)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(scores[i]))
            sorted[used++] = scores[i];
    qsort(sorted, used, sizeof *sorted, by_value);
    return used;
}

typedef struct regime {
    double best_most, region_most; // Scores up to these.
    double best, region;           // Points with them.
} regime;

// Where a dimension counts at some of the points alone, the divergence is that among these, times
// the square of their share of the best over their share of the region.
static double importance_of(const troupe_dim *dim, const double *column, size_t stride,
                            const double *scores, size_t count, const regime *of)
{
    grid it = grid_of(dim);
    density best = {.cells = it.cells}, region = {.cells = it.cells};
    if (it.cells < 2 || !(it.step > 0))
        return 0;
    for (size_t i = 0; i < count; i++) {
        double value = column[i * stride];
        if (!isfinite(scores[i]) || scores[i] > of->region_most || !isfinite(value))
            continue;
        int cell = cell_of(&it, dim, value);
        region.counts[cell]++;
        region.total++;
        if (scores[i] <= of->best_most) {
            best.counts[cell]++;
            best.total++;
        }
    }
    if (region.total < REGIME_MIN || best.total == 0)
        return 0;
    double of_best = best.total / of->best, of_region = region.total / of->region;
    double share = of->best / of->region;
    return share * share * of_best * of_best / of_region * divergence(&best, &region, it.kinds);
}

troupe_status trp_pedanova(const troupe_dim *dims, size_t dim_count, const double *points,
                           const double *scores, size_t count, const trp_pedanova_how *how,
                           double *importance)
{
    if (!(how->quantile > 0 && how->quantile < how->region && how->region <= 1))
        return troupe_fail(TROUPE_INVALID,
                           "quantile is %g and region %g; 0 < quantile < region <= 1 must hold",
                           how->quantile, how->region);
    double *sorted = trp_alloc((count + 1) * sizeof *sorted);
    if (sorted == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the importance of %zu trials", count);
    size_t used = sort_scores(scores, count, sorted);
    memset(importance, 0, dim_count * sizeof *importance);
    if (used >= 2) {
        regime of = {.best_most = cut_off(sorted, used, how->quantile),
                     .region_most = cut_off(sorted, used, how->region)};
        for (size_t i = 0; i < used; i++) {
            of.best += sorted[i] <= of.best_most;
            of.region += sorted[i] <= of.region_most;
        }
        for (size_t i = 0; i < dim_count; i++)
            importance[i] = importance_of(&dims[i], points + i, dim_count, scores, count, &of);
    }
    trp_free(sorted);
    return TROUPE_OK;
}
