// draws.h: configs drawn from a space, or named by their number in a grid over all of its
// dimensions.
#ifndef TRP_DRAWS_H
#define TRP_DRAWS_H

#include <tune/space/space.h>

typedef struct trp_space {
    troupe_space *of;
    double *x; // Room for a point.
} trp_space;

// As troupe_space_open_as, but without options of the run; it is empty after a failure.
troupe_status trp_space_open(trp_space *space, const troupe_type *type, const troupe_param *params,
                             size_t count, const void *base);
void trp_space_close(trp_space *space);

// Fills a whole config at random.
void trp_space_draw(const trp_space *space, trp_random *random, void *config);
// The number of combinations of a grid with `points` in each range; UINT64_MAX: that many or more.
uint64_t trp_space_grid_size(const trp_space *space, int points);
// Fills a config with combination `index` of the grid; the last row varies fastest.
void trp_space_grid(const trp_space *space, int points, uint64_t index, void *config);

// What a row is in a config: its number or bool, else which choice it is.
double trp_space_value(const trp_space_row *row, const void *config);

#endif
