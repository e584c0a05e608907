// ranking.h: scores in order, best first: how many are better than one, and which is the n-th, in
// logarithmic time. A skip list with widths (Pugh, "A Skip List Cookbook", 1990, section 3.4).
//
// Lower scores are better; NaN is worse than any number. Equal scores are in the order of their
// ids, so no two entries may have both the same.
#ifndef TRP_RANKING_H
#define TRP_RANKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRP_RANKING_LEVELS = 12 }; // One entry in four is a level higher: for 4^12 entries.

typedef struct trp_ranking_node trp_ranking_node;
typedef struct trp_ranking_link {
    trp_ranking_node *next;
    size_t width; // Entries from here to the next one, itself included.
} trp_ranking_link;

typedef struct trp_ranking { // A zeroed one is empty, and ready for use.
    trp_ranking_link head[TRP_RANKING_LEVELS];
    int levels;
    size_t count;
    uint64_t drawn; // For the heights of nodes.
} trp_ranking;

typedef struct trp_ranked {
    double score;
    int id;
} trp_ranked;

// False: no memory; nothing has changed.
bool trp_ranking_add(trp_ranking *ranking, double score, int id);
// False: there is no such entry.
bool trp_ranking_remove(trp_ranking *ranking, double score, int id);
// Gives an entry, which must be there, another score. Needs no memory.
void trp_ranking_move(trp_ranking *ranking, double from, int id, double to);
// Entries that are strictly better than the score.
size_t trp_ranking_better(trp_ranking *ranking, double score);
// Entries before that one.
size_t trp_ranking_place(trp_ranking *ranking, double score, int id);
// Of count entries the one with that many before it.
trp_ranked trp_ranking_at(trp_ranking *ranking, size_t place);
// Entries that this thread has looked at so far, of all rankings: what tests bound.
extern _Thread_local uint64_t trp_ranking_steps;
void trp_ranking_free(trp_ranking *ranking); // Frees the entries and zeroes *ranking.

#endif
