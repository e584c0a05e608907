// rows.h: making a space row by row: of a config's type, or of JSON.
#ifndef TRP_ROWS_H
#define TRP_ROWS_H

#include <tune/space/space.h>

// An empty space with room for so many rows, of configs of a type (NULL: of JSON). NULL: no memory.
troupe_space *trp_space_new(const troupe_type *type, size_t rows);

// Adds the row of a field. TROUPE_INVALID says what is wrong, without the row's name.
troupe_status trp_space_add(troupe_space *space, const troupe_param *param);
// Whether a row of the same field was added.
bool trp_space_has_row(const troupe_space *space, const troupe_param *param);
// Adds a condition to a row that was added.
troupe_status trp_space_add_condition(troupe_space *space, const troupe_param *param);

// Adds a row of JSON: a range (`whole`: a normal draw of whole numbers), or one of so many
// canonical texts, which are the space's already.
troupe_status trp_space_add_range(troupe_space *space, const troupe_param *param, bool whole);
troupe_status trp_space_add_texts(troupe_space *space, const char *name, troupe_draw draw,
                                  const trp_json *texts, size_t count);

// The row has to come behind `other` (NULL: there is no such row), and counts where that has one of
// its choices whose bits are set from now on.
troupe_status trp_row_depend(troupe_space *space, trp_space_row *row, const trp_space_row *other,
                             const char *other_name, uint32_t when);
// The row of that name; NULL: none.
trp_space_row *trp_space_row_named(const troupe_space *space, const char *name);
// The choice whose text, or packed value, that is; -1: none.
int trp_row_choice(const trp_space_row *row, trp_json text);
// The first of a row's choices that is the same as that one: a choice that is to be drawn more
// often may be there more than once.
int trp_row_first(const trp_space_row *row, int choice);
int trp_row_choice_packed(const trp_space_row *row, const trp_buffer *packed);

// Once all rows are there: counts the combinations of the grid.
troupe_status trp_space_count_grid(troupe_space *space);

// The number that JSON has; false: it is no number, or none that a double can be.
bool trp_space_read_number(trp_json value, double *number);
// The bytes of a buffer, which is freed, as the space's own; {NULL, 0}: no memory.
trp_json trp_space_keep(troupe_space *space, trp_buffer *bytes);
troupe_status trp_space_no_memory(void);

#endif
