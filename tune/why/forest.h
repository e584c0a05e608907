// forest.h: a forest of regression trees over the unit cube of a space (Breiman 2001): each is
// grown on a bootstrap sample until its leaves are pure. Pure: its seed decides what it is.
#ifndef TRP_FOREST_H
#define TRP_FOREST_H

#include <troupe/space.h>

// A point goes left where its coordinate is below `at`; of a choice, where `left_set` has it.
typedef struct trp_node {
    int dim;         // -1: a leaf.
    int left, right; // Nodes of the same tree.
    uint32_t left_set;
    double at;    // In units: see trp_dim_unit.
    double value; // Of a leaf: the mean of its scores.
} trp_node;

typedef struct trp_tree {
    trp_node *nodes; // The first is the root.
    size_t count;
} trp_tree;

// What it is grown on. A column for each dimension, one after the other: units, or the choice's
// number. Scores are finite.
typedef struct trp_sample {
    const troupe_dim *dims;
    size_t dim_count;
    const double *columns; // columns[dim * count + i]
    const double *scores;
    size_t count;
} trp_sample;

typedef struct trp_forest {
    trp_tree *trees;
    size_t count;
} trp_forest;

// Grows `trees` trees of at most that depth. TROUPE_NO_MEMORY; the forest is empty then.
troupe_status trp_forest_grow(const trp_sample *sample, int trees, int depth, uint64_t seed,
                              trp_forest *forest);
void trp_forest_free(trp_forest *forest);
// What a tree says of a point (units, or choices' numbers).
double trp_tree_at(const trp_tree *tree, const troupe_dim *dims, const double *x);

#endif
