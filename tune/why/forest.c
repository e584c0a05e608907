// forest.c: see forest.h. Each dimension's points are sorted once; a split divides the sorted lists
// and keeps their order, so a level of a tree costs its points times the dimensions.
#include <tune/why/forest.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <tune/space/random.h>

typedef struct grower {
    const trp_sample *sample;
    trp_random random;
    int depth;
    int *sorted;     // For each dimension that has an order, all points by their coordinate.
    int *lists;      // The same of the points that this tree has; the last list has no order.
    int *spare;      // Room for one list.
    double *weights; // How often the tree's sample has each point.
    bool *left;      // Which way points go.
    size_t *order;   // Dimensions, in the order in which they are looked at.
    trp_tree *tree;
    size_t room;
    size_t kept; // Points that the tree has.
} grower;

typedef struct split {
    int dim;
    double at, gain;
    uint32_t set;
} split;

static bool is_choice(const grower *it, size_t dim)
{
    return it->sample->dims[dim].kind == TROUPE_DIM_CHOICE;
}

static const double *column(const grower *it, size_t dim)
{
    return it->sample->columns + dim * it->sample->count;
}

static int *list_of(const grower *it, size_t dim)
{
    return it->lists + (is_choice(it, dim) ? it->sample->dim_count : dim) * it->sample->count;
}

// ---- splits

typedef struct part {
    double weight, sum;
} part;

static double gain_of(part one, part other)
{
    return one.sum * one.sum / one.weight + other.sum * other.sum / other.weight;
}

static part all_of(const grower *it, const int *list, size_t count)
{
    part all = {0};
    for (size_t i = 0; i < count; i++) {
        all.weight += it->weights[list[i]];
        all.sum += it->weights[list[i]] * it->sample->scores[list[i]];
    }
    return all;
}

// Better by more than the sums' rounding, which depends on their order: else what was looked at
// first would be split rather than one by chance.
static bool is_better(double gain, const split *best)
{
    return gain > best->gain + fabs(best->gain) * 1e-12;
}

static void try_order(const grower *it, size_t dim, size_t begin, size_t count, part all,
                      split *best)
{
    const int *list = list_of(it, dim) + begin;
    const double *x = column(it, dim);
    part left = {0};
    for (size_t i = 0; i + 1 < count; i++) {
        left.weight += it->weights[list[i]];
        left.sum += it->weights[list[i]] * it->sample->scores[list[i]];
        if (!(x[list[i]] < x[list[i + 1]]))
            continue;
        double gain = gain_of(left, (part){all.weight - left.weight, all.sum - left.sum});
        double at = x[list[i]] / 2 + x[list[i + 1]] / 2;
        if (is_better(gain, best) && at > x[list[i]])
            *best = (split){(int)dim, at, gain, 0};
    }
}

// The best division of choices is one of those in the order of their means (Fisher 1958).
static void try_choice(const grower *it, size_t dim, size_t begin, size_t count, part all,
                       split *best)
{
    const int *list = list_of(it, dim) + begin;
    const double *x = column(it, dim);
    part parts[TROUPE_CHOICES_MAX] = {0}, left = {0};
    int order[TROUPE_CHOICES_MAX], used = 0;
    uint32_t set = 0;
    for (size_t i = 0; i < count; i++) {
        part *one = &parts[(int)x[list[i]]];
        one->weight += it->weights[list[i]];
        one->sum += it->weights[list[i]] * it->sample->scores[list[i]];
    }
    for (int choice = 0; choice < it->sample->dims[dim].choices; choice++) {
        if (parts[choice].weight == 0)
            continue;
        double mean = parts[choice].sum / parts[choice].weight;
        int at = used++;
        for (; at > 0 && parts[order[at - 1]].sum / parts[order[at - 1]].weight > mean; at--)
            order[at] = order[at - 1];
        order[at] = choice;
    }
    for (int i = 0; i + 1 < used; i++) {
        left.weight += parts[order[i]].weight;
        left.sum += parts[order[i]].sum;
        set |= UINT32_C(1) << order[i];
        double gain = gain_of(left, (part){all.weight - left.weight, all.sum - left.sum});
        if (is_better(gain, best))
            *best = (split){(int)dim, 0, gain, set};
    }
}

static void shuffle(grower *it)
{
    for (size_t i = it->sample->dim_count; i > 1; i--) {
        size_t other = (size_t)trp_random_below(&it->random, i), kept = it->order[i - 1];
        it->order[i - 1] = it->order[other];
        it->order[other] = kept;
    }
}

static bool find_split(grower *it, size_t begin, size_t count, part all, split *best)
{
    double none = all.sum * all.sum / all.weight, square = 0;
    const int *list = it->lists + it->sample->dim_count * it->sample->count + begin;
    for (size_t i = 0; i < count; i++)
        square += it->weights[list[i]] * it->sample->scores[list[i]] * it->sample->scores[list[i]];
    *best = (split){-1, 0, none, 0};
    if (square - none <= square * 1e-12) // All its scores are the same.
        return false;
    best->gain = -1;
    shuffle(it);
    for (size_t i = 0; i < it->sample->dim_count; i++) {
        size_t dim = it->order[i];
        if (is_choice(it, dim))
            try_choice(it, dim, begin, count, all, best);
        else
            try_order(it, dim, begin, count, all, best);
    }
    return best->dim >= 0;
}

// Divides every list; how many go left.
static size_t divide(grower *it, size_t begin, size_t count, const split *by)
{
    const double *x = column(it, (size_t)by->dim);
    const int *any = it->lists + it->sample->dim_count * it->sample->count + begin;
    bool choice = is_choice(it, (size_t)by->dim);
    size_t lefts = 0;
    for (size_t i = 0; i < count; i++) {
        double at = x[any[i]];
        it->left[any[i]] = choice ? (by->set >> (int)at & 1) != 0 : at < by->at;
        lefts += it->left[any[i]];
    }
    for (size_t dim = 0; dim <= it->sample->dim_count; dim++) {
        if (dim < it->sample->dim_count && is_choice(it, dim))
            continue;
        int *list = it->lists + dim * it->sample->count + begin;
        size_t to = 0, rights = 0;
        for (size_t i = 0; i < count; i++)
            if (it->left[list[i]])
                list[to++] = list[i];
            else
                it->spare[rights++] = list[i];
        memcpy(list + to, it->spare, rights * sizeof *list);
    }
    return lefts;
}

// ---- trees

static int add_node(grower *it, trp_node node)
{
    trp_tree *tree = it->tree;
    if (tree->count == it->room) {
        size_t room = it->room > 0 ? 2 * it->room : 64;
        trp_node *larger = trp_realloc(tree->nodes, room * sizeof *larger);
        if (larger == NULL)
            return -1;
        tree->nodes = larger;
        it->room = room;
    }
    tree->nodes[tree->count] = node;
    return (int)tree->count++;
}

// The node of `count` points of the lists, and all below it; -1: no memory.
static int grow(grower *it, size_t begin, size_t count, int depth)
{
    const int *list = it->lists + it->sample->dim_count * it->sample->count + begin;
    part all = all_of(it, list, count);
    split by;
    int node = add_node(it, (trp_node){.dim = -1, .value = all.sum / all.weight});
    if (node < 0 || depth == 0 || !find_split(it, begin, count, all, &by))
        return node;
    size_t lefts = divide(it, begin, count, &by);
    int left = grow(it, begin, lefts, depth - 1);
    int right = left < 0 ? -1 : grow(it, begin + lefts, count - lefts, depth - 1);
    if (right < 0)
        return -1;
    it->tree->nodes[node] =
        (trp_node){.dim = by.dim, .left = left, .right = right, .left_set = by.set, .at = by.at};
    return node;
}

static bool grow_tree(grower *it, uint64_t seed, int number)
{
    size_t count = it->sample->count;
    trp_random_seed(&it->random, seed, (uint64_t)number);
    memset(it->weights, 0, count * sizeof *it->weights);
    for (size_t i = 0; i < count; i++)
        it->weights[trp_random_below(&it->random, count)]++;
    for (size_t dim = 0; dim <= it->sample->dim_count; dim++) {
        const int *from = it->sorted + dim * count;
        int *to = it->lists + dim * count;
        it->kept = 0;
        for (size_t i = 0; i < count; i++)
            if (it->weights[from[i]] > 0)
                to[it->kept++] = from[i];
    }
    it->room = 0;
    return grow(it, 0, it->kept, it->depth) >= 0;
}

// ---- the forest

typedef struct keyed {
    double key;
    int index;
} keyed;

static int by_key(const void *left, const void *right)
{
    const keyed *one = left, *other = right;
    if (one->key != other->key)
        return one->key < other->key ? -1 : 1;
    return (one->index > other->index) - (one->index < other->index);
}

static bool sort_all(grower *it)
{
    size_t count = it->sample->count;
    keyed *keys = trp_alloc(count * sizeof *keys);
    if (keys == NULL)
        return false;
    for (size_t dim = 0; dim <= it->sample->dim_count; dim++) {
        bool ordered = dim < it->sample->dim_count && !is_choice(it, dim);
        for (size_t i = 0; i < count; i++)
            keys[i] = (keyed){ordered ? column(it, dim)[i] : 0, (int)i};
        qsort(keys, count, sizeof *keys, by_key);
        for (size_t i = 0; i < count; i++)
            it->sorted[dim * count + i] = keys[i].index;
    }
    trp_free(keys);
    return true;
}

static bool make_room(grower *it)
{
    size_t count = it->sample->count, lists = it->sample->dim_count + 1;
    it->sorted = trp_alloc(lists * count * sizeof *it->sorted);
    it->lists = trp_alloc(lists * count * sizeof *it->lists);
    it->spare = trp_alloc(count * sizeof *it->spare);
    it->weights = trp_alloc(count * sizeof *it->weights);
    it->left = trp_alloc(count * sizeof *it->left);
    it->order = trp_alloc(lists * sizeof *it->order);
    if (it->sorted == NULL || it->lists == NULL || it->spare == NULL || it->weights == NULL ||
        it->left == NULL || it->order == NULL)
        return false;
    for (size_t dim = 0; dim < it->sample->dim_count; dim++)
        it->order[dim] = dim;
    return sort_all(it);
}

troupe_status trp_forest_grow(const trp_sample *sample, int trees, int depth, uint64_t seed,
                              trp_forest *forest)
{
    grower it = {.sample = sample, .depth = depth};
    *forest = (trp_forest){.trees = trp_alloc((size_t)trees * sizeof *forest->trees)};
    bool grown = forest->trees != NULL && (sample->count == 0 || make_room(&it));
    for (int i = 0; grown && sample->count > 0 && i < trees; i++) {
        it.tree = &forest->trees[forest->count++];
        grown = grow_tree(&it, seed, i);
    }
    trp_free(it.sorted);
    trp_free(it.lists);
    trp_free(it.spare);
    trp_free(it.weights);
    trp_free(it.left);
    trp_free(it.order);
    if (grown)
        return TROUPE_OK;
    trp_forest_free(forest);
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a forest of %d trees of %zu trials", trees,
                       sample->count);
}

void trp_forest_free(trp_forest *forest)
{
    for (size_t i = 0; i < forest->count; i++)
        trp_free(forest->trees[i].nodes);
    trp_free(forest->trees);
    *forest = (trp_forest){0};
}

double trp_tree_at(const trp_tree *tree, const troupe_dim *dims, const double *x)
{
    const trp_node *node = tree->nodes;
    while (node->dim >= 0) {
        double at = x[node->dim];
        bool left = dims[node->dim].kind == TROUPE_DIM_CHOICE ? (node->left_set >> (int)at & 1) != 0
                                                              : at < node->at;
        node = &tree->nodes[left ? node->left : node->right];
    }
    return node->value;
}
