// search.h: where configurations come from. A searcher is a pure object: it is asked for the config
// of a trial by its number and told what came of it; it knows no jobs, clocks or threads.
#ifndef TRP_SEARCH_H
#define TRP_SEARCH_H

#include <tune/space/draws.h>

typedef struct trp_search trp_search;
struct trp_search {
    // Fills the config of trial `number`; false when there is none with that number. What it
    // gives may depend on what was observed before, but never on when it is asked.
    bool (*suggest)(trp_search *search, int number, void *config);
    // Trial `number` ended with this best score: lower is better, NaN: it has none.
    void (*observe)(trp_search *search, int number, double score);
    void (*destroy)(trp_search *search);
};

// Independent draws: trial i depends on the seed and i alone. The space is borrowed. NULL: no
// memory.
trp_search *trp_search_random(const trp_space *space, uint64_t seed);
// Every combination, see trp_space_grid.
trp_search *trp_search_grid(const trp_space *space, int points);

// Frees a searcher and clears it. Harmless on NULL.
void trp_search_destroy(trp_search **search);

#endif
