// space.h: a search space: rows that say how fields of a config are filled, checked once against
// the config's type, so that drawing cannot fail.
#ifndef TRP_SPACE_H
#define TRP_SPACE_H

#include <troupe/tune.h>
#include <tune/space/random.h>

typedef struct trp_space_row {
    troupe_param param; // Name and text are the space's own copies.
    troupe_kind kind;   // Of the field.
} trp_space_row;

typedef struct trp_space {
    const troupe_type *type;
    trp_space_row *rows;
    size_t count;
    const void *defaults; // What a config is before its rows are filled; NULL: zeros.
} trp_space;

// Checks the rows and copies them. TROUPE_INVALID names the row by its index, the field and what is
// wrong with it; the space is empty then.
troupe_status trp_space_open(trp_space *space, const troupe_type *type, const troupe_param *params,
                             size_t count);
void trp_space_close(trp_space *space);

// Fills a whole config (type->size bytes): drawn rows by `random`, fixed ones, all else as in the
// defaults. Texts of rows point into the space.
void trp_space_draw(const trp_space *space, trp_random *random, void *config);

// The number of combinations of a grid with `points` in each range; UINT64_MAX: that many or more.
uint64_t trp_space_grid_size(const trp_space *space, int points);
// Fills a config with combination `index` of the grid; the last row varies fastest.
void trp_space_grid(const trp_space *space, int points, uint64_t index, void *config);

// Whether two configs can differ in this row.
bool trp_space_row_varies(const trp_space_row *row);
// The row's value in a config: numbers and bools as they are, 0 for a text.
double trp_space_value(const trp_space_row *row, const void *config);

#endif
