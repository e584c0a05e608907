// explore.h: a point near another one, as population based training has it.
#ifndef TRP_EXPLORE_H
#define TRP_EXPLORE_H

#include <stdbool.h>
#include <troupe/search.h>
#include <tune/space/random.h>

typedef struct trp_explore {
    double resample; // The chance of a coordinate to be drawn anew.
    double up, down; // Else it is multiplied by one of these.
    // By dimension, whether it changes; NULL: all do.
    const bool *mutates;
} trp_explore;

// Changes the point x, which stays one that the problem allows. A whole or stepped coordinate moves
// by at least one step; an ordered choice to a neighbour; another choice stays, where it is not
// drawn anew. What has come to count is drawn. If the problem forbids 100 such points in a row, x
// stays what it was. *x: one coordinate a dimension; `room`: as many.
void trp_explore_point(const trp_explore *how, const troupe_problem *problem, trp_random *random,
                       double *x, double *room);

#endif
