// fanova.c: see fanova.h. A tree's leaves are boxes that divide the unit cube. Of a leaf, the
// marginal of a dimension gets value * volume / width on the cells that the leaf covers there
// (section 3, algorithm 2); so one walk over the leaves gives the marginals of all dimensions.
#include <tune/why/fanova.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <tune/space/dims.h>

// What a leaf covers of one dimension.
typedef struct side {
    double low, high;
    uint32_t set; // Of a choice.
} side;

typedef struct marginal {
    double *cuts; // 0, where the tree splits, 1; of a choice NULL.
    double *sums; // Of each cell; while leaves are added, what differs from the one before.
    size_t cells;
    bool splits; // The tree splits there at all.
} marginal;

typedef struct walker {
    const trp_tree *tree;
    const troupe_dim *dims;
    size_t dim_count;
    side *box;
    marginal *marginals;
    double mean, variance;
} walker;

static bool is_choice(const walker *it, size_t dim)
{
    return it->dims[dim].kind == TROUPE_DIM_CHOICE;
}

// The share of the dimension that the side has.
static double width_of(const walker *it, size_t dim)
{
    const side *of = &it->box[dim];
    if (is_choice(it, dim))
        return (double)__builtin_popcount(of->set) / it->dims[dim].choices;
    return of->high - of->low;
}

static double volume_of(const walker *it)
{
    double volume = 1;
    for (size_t dim = 0; dim < it->dim_count; dim++)
        volume *= width_of(it, dim);
    return volume;
}

// ---- walks over the leaves

typedef void leaf_visit(walker *it, double value, double volume);

static void walk(walker *it, int at, leaf_visit *visit)
{
    const trp_node *node = &it->tree->nodes[at];
    if (node->dim < 0) {
        visit(it, node->value, volume_of(it));
        return;
    }
    side *of = &it->box[node->dim], whole = *of;
    of->high = fmin(whole.high, node->at);
    of->set = whole.set & node->left_set;
    walk(it, node->left, visit);
    *of = whole;
    of->low = fmax(whole.low, node->at);
    of->set = whole.set & ~node->left_set;
    walk(it, node->right, visit);
    *of = whole;
}

static void begin_walk(walker *it)
{
    for (size_t dim = 0; dim < it->dim_count; dim++) {
        int choices = is_choice(it, dim) ? it->dims[dim].choices : 0;
        uint32_t set = choices >= 32 ? UINT32_MAX : (UINT32_C(1) << choices) - 1;
        it->box[dim] = (side){0, 1, set};
    }
}

static void add_mean(walker *it, double value, double volume)
{
    it->mean += value * volume;
}

static void add_variance(walker *it, double value, double volume)
{
    it->variance += (value - it->mean) * (value - it->mean) * volume;
}

static size_t cell_at(const marginal *of, double cut)
{
    size_t low = 0, high = of->cells;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (of->cuts[middle] < cut)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_marginals(walker *it, double value, double volume)
{
    for (size_t dim = 0; dim < it->dim_count; dim++) {
        marginal *of = &it->marginals[dim];
        double width = width_of(it, dim);
        double part = width > 0 ? (value - it->mean) * volume / width : 0;
        if (is_choice(it, dim)) {
            for (size_t i = 0; i < of->cells; i++)
                of->sums[i] += (it->box[dim].set >> i & 1) != 0 ? part : 0;
            continue;
        }
        of->sums[cell_at(of, it->box[dim].low)] += part;
        of->sums[cell_at(of, it->box[dim].high)] -= part;
    }
}

// ---- marginals

static int by_value(const void *left, const void *right)
{
    double one = *(const double *)left, other = *(const double *)right;
    return (one > other) - (one < other);
}

static bool make_marginal(walker *it, size_t dim)
{
    marginal *of = &it->marginals[dim];
    size_t cuts = 2;
    for (size_t i = 0; i < it->tree->count; i++)
        cuts += it->tree->nodes[i].dim == (int)dim;
    of->splits = cuts > 2;
    of->cells = is_choice(it, dim) ? (size_t)it->dims[dim].choices : 0;
    if (of->cells > 0) {
        of->sums = trp_alloc(of->cells * sizeof *of->sums);
        return of->sums != NULL;
    }
    of->cuts = trp_alloc(cuts * sizeof *of->cuts);
    of->sums = trp_alloc(cuts * sizeof *of->sums);
    if (of->cuts == NULL || of->sums == NULL)
        return false;
    size_t used = 1;
    for (size_t i = 0; i < it->tree->count; i++)
        if (it->tree->nodes[i].dim == (int)dim)
            of->cuts[used++] = it->tree->nodes[i].at;
    of->cuts[used++] = 1;
    qsort(of->cuts, used, sizeof *of->cuts, by_value);
    for (size_t i = 1; i < used; i++) // Each once.
        if (of->cuts[i] > of->cuts[of->cells])
            of->cuts[++of->cells] = of->cuts[i];
    return true;
}

static double variance_of(const walker *it, size_t dim)
{
    const marginal *of = &it->marginals[dim];
    double sum = 0, at = 0;
    for (size_t i = 0; of->splits && i < of->cells; i++) {
        if (of->cuts == NULL) {
            sum += of->sums[i] * of->sums[i] / (double)of->cells;
            continue;
        }
        at += of->sums[i];
        sum += at * at * (of->cuts[i + 1] - of->cuts[i]);
    }
    return sum;
}

static bool measure(walker *it, double *importance)
{
    begin_walk(it);
    walk(it, 0, add_mean);
    walk(it, 0, add_variance);
    for (size_t dim = 0; dim < it->dim_count; dim++)
        if (!make_marginal(it, dim))
            return false;
    if (!(it->variance > 0))
        return true;
    walk(it, 0, add_marginals);
    for (size_t dim = 0; dim < it->dim_count; dim++)
        importance[dim] = fmin(variance_of(it, dim) / it->variance, 1);
    return true;
}

troupe_status trp_fanova_tree(const trp_tree *tree, const troupe_dim *dims, size_t dim_count,
                              double *importance, bool *varies)
{
    walker it = {.tree = tree, .dims = dims, .dim_count = dim_count};
    memset(importance, 0, dim_count * sizeof *importance);
    it.box = trp_alloc((dim_count + 1) * sizeof *it.box);
    it.marginals = trp_alloc((dim_count + 1) * sizeof *it.marginals);
    bool measured = it.box != NULL && it.marginals != NULL && measure(&it, importance);
    for (size_t dim = 0; it.marginals != NULL && dim < dim_count; dim++) {
        trp_free(it.marginals[dim].cuts);
        trp_free(it.marginals[dim].sums);
    }
    trp_free(it.box);
    trp_free(it.marginals);
    *varies = it.variance > 0;
    return measured ? TROUPE_OK
                    : troupe_fail(TROUPE_NO_MEMORY, "no memory for the marginals of %zu dimensions",
                                  dim_count);
}

// ---- the forest's sample

// Scores as numbers between -1 and 1, so that no square of them is too large.
static void scale_scores(double *scores, size_t count)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, scores[i]);
        high = fmax(high, scores[i]);
    }
    double middle = low / 2 + high / 2, half = high / 2 - low / 2;
    for (size_t i = 0; i < count; i++)
        scores[i] = half > 0 ? (scores[i] - middle) / half : 0;
}

static void fill_sample(const troupe_dim *dims, size_t dim_count, const double *points,
                        const double *scores, size_t count, uint64_t seed, trp_sample *sample,
                        double *columns, double *kept)
{
    trp_random random;
    size_t used = 0;
    trp_random_seed(&random, seed, UINT64_MAX);
    for (size_t i = 0; i < count; i++)
        if (isfinite(scores[i]))
            kept[used++] = scores[i];
    scale_scores(kept, used);
    for (size_t dim = 0; dim < dim_count; dim++)
        for (size_t i = 0, at = 0; i < count; i++) {
            double value = points[i * dim_count + dim];
            if (!isfinite(scores[i]))
                continue;
            if (isnan(value))
                value = trp_dim_draw(&dims[dim], &random);
            value = trp_dim_snap(&dims[dim], value);
            columns[dim * used + at++] =
                dims[dim].kind == TROUPE_DIM_CHOICE ? value : trp_dim_unit(&dims[dim], value);
        }
    *sample = (trp_sample){dims, dim_count, columns, kept, used};
}

// The mean over the trees.
static troupe_status measure_forest(const trp_forest *forest, const trp_sample *sample,
                                    double *shares, double *importance)
{
    size_t used = 0;
    for (size_t i = 0; i < forest->count; i++) {
        bool varies;
        TROUPE_TRY(
            trp_fanova_tree(&forest->trees[i], sample->dims, sample->dim_count, shares, &varies));
        used += varies;
        for (size_t dim = 0; varies && dim < sample->dim_count; dim++)
            importance[dim] += shares[dim];
    }
    for (size_t dim = 0; used > 0 && dim < sample->dim_count; dim++)
        importance[dim] /= (double)used;
    return TROUPE_OK;
}

static troupe_status fit(const trp_sample *sample, const trp_fanova_how *how, double *shares,
                         double *importance)
{
    trp_forest forest;
    if (sample->count < 2)
        return TROUPE_OK;
    TROUPE_TRY(trp_forest_grow(sample, how->trees, how->depth, how->seed, &forest));
    troupe_status status = measure_forest(&forest, sample, shares, importance);
    trp_forest_free(&forest);
    return status;
}

troupe_status trp_fanova(const troupe_dim *dims, size_t dim_count, const double *points,
                         const double *scores, size_t count, const trp_fanova_how *how,
                         double *importance)
{
    double *room = trp_alloc(((dim_count + 1) * (count + 1) + dim_count) * sizeof *room);
    trp_sample sample;
    if (room == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the importance of %zu trials", count);
    double *kept = room + dim_count * count, *shares = kept + count;
    memset(importance, 0, dim_count * sizeof *importance);
    fill_sample(dims, dim_count, points, scores, count, how->seed, &sample, room, kept);
    troupe_status status = fit(&sample, how, shares, importance);
    trp_free(room);
    return status;
}
