// space.h: a search space as the rest of Tune sees it: rows that were checked once, the dimensions
// of those that vary, and points in them as configs, as JSON and as options of a run.
//
// A row whose draw has one value is fixed and no dimension: a choice of one, low == high. What
// hangs on it counts wherever it does.
#ifndef TRP_SPACE_H
#define TRP_SPACE_H

#include <runtime/codec/json.h>
#include <troupe/space.h>
#include <troupe/train.h>
#include <tune/space/random.h>

enum {
    TRP_SPACE_NAME_MAX = 127,     // Bytes of a row's name.
    TRP_SPACE_ROWS_MAX = 4096,    // Rows of a space.
    TRP_SPACE_CHOICES_MAX = 1024, // Of texts or values; a condition hangs on the first 32.
};

typedef struct trp_space_row {
    const char *name;
    troupe_draw draw;
    bool option;             // A member of troupe_train_options, not of the config.
    size_t offset, size;     // Of the field.
    const troupe_type *type; // Of the field, or of its items; NULL: of a space from JSON.
    const troupe_type *held; // A record with this field alone.
    int dim;                 // -1: fixed.
    int parent;              // As in troupe_dim, of fixed rows too.
    uint32_t when;
    size_t count;           // Of choices; 1: fixed; 0: a range.
    const char *values;     // So many fields, one behind the other; NULL: of a space from JSON.
    const trp_json *texts;  // The same as canonical JSON,
    const trp_json *packed; // and packed, to be compared; NULL: of a space from JSON.
    // Of a space from JSON: what the field was before the row was there; empty: not said.
    trp_json before;
} trp_space_row;

struct troupe_space {
    trp_arena arena;         // All that it has, the struct itself apart.
    const troupe_type *type; // NULL: from JSON.
    const void *base;        // NULL: zeros.
    trp_space_row *rows;
    size_t count;
    troupe_dim *dims;
    const trp_space_row **drawn; // The row of each dimension.
    size_t dim_count;
    uint64_t *combinations; // Of the grid's: of each dimension and what hangs on it.
};

// Whether the row counts at a point.
bool trp_space_counts(const trp_space_row *row, const double *x);
// Moves a point to the nearest one that a config can hold: as trp_dims_snap does, and in the
// precision of a float field. The config of what comes out maps back to the same point.
void trp_space_settle(const troupe_space *space, double *x);
// Draws each coordinate that counts and is NaN, and makes NaN of those that do not count.
void trp_space_complete(const troupe_space *space, trp_random *random, double *x);

// The point of a config. Fields without a row that varies do not matter; what is no field of the
// config (an option of the run) becomes NaN. TROUPE_INVALID: a value that the row cannot draw.
troupe_status trp_space_point(const troupe_space *space, const void *config, double *x);
// The point of a JSON object, as troupe_space_json writes it: members that are missing, and those
// that do not count, become NaN, and those of fixed rows do not matter. TROUPE_INVALID: a member
// that no row has, or that its row cannot draw; with `lenient` these are passed over as missing.
troupe_status trp_space_read_point(const troupe_space *space, trp_json object, bool lenient,
                                   double *x);
// The coordinate of a row that varies, of JSON. TROUPE_INVALID: a value that it cannot draw.
troupe_status trp_space_coordinate(const troupe_space *space, const trp_space_row *row,
                                   trp_json value, double *coordinate);
// Writes the point as troupe_space_json gives it.
void trp_space_write_point(const troupe_space *space, const double *x, trp_buffer *out);

// Writes the space as troupe_space_parse reads it, always alike, in the order of its rows. What is
// read from that has the same dimensions, bit for bit.
void trp_space_describe(const troupe_space *space, trp_buffer *out);
// One of its rows, as it stands in that.
void trp_space_describe_row(const troupe_space *space, const trp_space_row *row, trp_buffer *out);
// TROUPE_OK: it is the description of this space; TROUPE_EXISTS says which row differs, and how.
troupe_status trp_space_check_same(const troupe_space *space, trp_json description);
// Lays the option rows of a point over the options of its run.
void trp_space_options(const troupe_space *space, const double *x, troupe_train_options *options);

// Combinations of the rows of TROUPE_DRAW_GRID; 1: there are none; UINT64_MAX: that many or more.
// A row that hangs on another of them is counted where it counts alone.
uint64_t trp_space_combinations(const troupe_space *space);
// Sets the coordinates of such rows to those of combination `index`, NaN where they do not count,
// and leaves the others. The last row varies fastest.
void trp_space_combination(const troupe_space *space, uint64_t index, double *x);
// Which combination a point has.
uint64_t trp_space_combination_of(const troupe_space *space, const double *x);

#endif
