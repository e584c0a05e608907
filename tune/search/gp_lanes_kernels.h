// gp_lanes_kernels.h: the kernels of gp_lanes.c, for one set of instructions: included by a source
// that defines LANES_BYTES (of a vector), LANES_TARGET (an attribute of each function), LANES_ROOT
// (of a vector), LANES_NAME (of the table) and LANES_TEXT.
//
// Vectors are those of GCC and Clang. A row of eight lanes is PARTS vectors; as many rows are
// worked on at a time as registers hold, so that what is read is used that often.
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tune/search/gp_lanes.h>

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline)) LANES_TARGET

enum {
    LANES = TRP_GP_LANES,
    WIDTH = LANES_BYTES / 8,
    PARTS = LANES / WIDTH,
    ROWS = WIDTH,
};
typedef double vector __attribute__((vector_size(LANES_BYTES), aligned(8), may_alias));
typedef int64_t mask __attribute__((vector_size(LANES_BYTES)));

INLINE vector load(const double *from, int part)
{
    return *(const vector *)(from + part * WIDTH);
}

INLINE void store(double *to, int part, vector what)
{
    *(vector *)(to + part * WIDTH) = what;
}

INLINE vector all(double value)
{
    return (vector){0} + value;
}

// ---- covariances

// e^x for x of at most 0, and for what is below -700 the exponential of that: x is a multiple of
// log 2 and a rest of at most half of it, whose series has fourteen terms.
INLINE vector exponential(vector x)
{
    const double magic = 0x1.8p52; // Beside it the integers are what doubles are rounded to.
    mask low = x < -700.0;
    x = (vector)((~low & (mask)x) | (low & (mask)all(-700)));
    vector shifted = x * 0x1.71547652b82fep0 + magic, whole = shifted - magic;
    vector rest = (x - whole * 0x1.62e42fee00000p-1) - whole * 0x1.a39ef35793c76p-33;
    vector sum = rest * (1 / 6227020800.0) + 1 / 479001600.0;
    sum = sum * rest + 1 / 39916800.0;
    sum = sum * rest + 1 / 3628800.0;
    sum = sum * rest + 1 / 362880.0;
    sum = sum * rest + 1 / 40320.0;
    sum = sum * rest + 1 / 5040.0;
    sum = sum * rest + 1 / 720.0;
    sum = sum * rest + 1 / 120.0;
    sum = sum * rest + 1 / 24.0;
    sum = sum * rest + 1 / 6.0;
    sum = sum * rest + 0.5;
    sum = sum * rest + 1;
    sum = sum * rest + 1;
    return (vector)((mask)sum + ((mask)shifted << 52)); // The exponent grows by the multiple.
}

INLINE vector difference(const trp_gp_feature *feature, vector at, double point)
{
    if (feature->name)
        return (vector)((mask)(at != point) & (mask)all(1));
    return at - point;
}

LANES_TARGET static void covary(const trp_gp_points *of, size_t count, const double *at,
                                double *values, double *slopes)
{
    for (size_t i = 0; i < count; i++) {
        const double *point = of->points + i * of->feature_count;
        for (int part = 0; part < PARTS; part++) {
            vector square = {0};
            for (size_t f = 0; f < of->feature_count; f++) {
                const trp_gp_feature *feature = &of->features[f];
                vector apart = difference(feature, load(at + f * LANES, part), point[f]);
                square += apart * apart * of->inverse[feature->length];
            }
            vector r = LANES_ROOT(5 * square), fall = exponential(-r) * of->scale;
            store(values + i * LANES, part, (1 + r + r * r * (1.0 / 3)) * fall);
            if (slopes != NULL)
                store(slopes + i * LANES, part, (1 + r) * fall * (-5.0 / 6));
        }
    }
}

LANES_TARGET static void spread(const trp_gp_points *of, size_t count, const double *at,
                                const double *factors, bool squared, double *sums)
{
    for (size_t f = 0; f < of->feature_count; f++) {
        const trp_gp_feature *feature = &of->features[f];
        const double *points = of->points + f;
        if (feature->name && !squared)
            continue;
        for (int part = 0; part < PARTS; part++) {
            vector sum = load(sums + f * LANES, part), mine = load(at + f * LANES, part);
            for (size_t i = 0; i < count; i++) {
                vector apart = difference(feature, mine, points[i * of->feature_count]);
                vector by = load(factors + i * LANES, part) * apart;
                if (squared)
                    by *= apart;
                sum += by;
            }
            store(sums + f * LANES, part, sum);
        }
    }
}

// ---- triangles

// One row of the solution after those before it, of the rows from `first` on that are in `sum`.
#define SUBTRACT_ROW(sum, weight, row)                                                             \
    UNROLL for (int part = 0; part < PARTS; part++)(sum)[part] -= (weight) * (row)[part]

INLINE void solve_row(const double *row, size_t i, double *x)
{
    vector sum[PARTS], other[PARTS];
    UNROLL for (int part = 0; part < PARTS; part++) sum[part] = load(x + i * LANES, part);
    for (size_t j = 0; j < i; j++) {
        UNROLL for (int part = 0; part < PARTS; part++) other[part] = load(x + j * LANES, part);
        SUBTRACT_ROW(sum, row[j], other);
    }
    double inverse = 1 / row[i];
    UNROLL for (int part = 0; part < PARTS; part++) store(x + i * LANES, part, sum[part] * inverse);
}

LANES_TARGET static void solve(const double *l, size_t n, size_t width, double *x)
{
    size_t i = 0;
    for (; i + ROWS <= n; i += ROWS) {
        const double *row = l + i * width;
        vector sum[ROWS][PARTS], other[PARTS];
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int part = 0; part < PARTS; part++)
            sum[r][part] = load(x + (i + (size_t)r) * LANES, part);
        for (size_t j = 0; j < i; j++) {
            UNROLL for (int part = 0; part < PARTS; part++) other[part] = load(x + j * LANES, part);
            UNROLL for (int r = 0; r < ROWS; r++)
                SUBTRACT_ROW(sum[r], row[(size_t)r * width + j], other);
        }
        UNROLL for (int r = 0; r < ROWS; r++)
        {
            const double *mine = row + (size_t)r * width + i;
            UNROLL for (int q = 0; q < r; q++) SUBTRACT_ROW(sum[r], mine[q], sum[q]);
            double inverse = 1 / mine[r];
            UNROLL for (int part = 0; part < PARTS; part++)
            {
                sum[r][part] *= inverse;
                store(x + (i + (size_t)r) * LANES, part, sum[r][part]);
            }
        }
    }
    for (; i < n; i++)
        solve_row(l + i * width, i, x);
}

// From the last row on: each is subtracted from those before it once it is known.
LANES_TARGET static void solve_transposed(const double *l, size_t n, size_t width, double *x)
{
    size_t i = n;
    while (i > 0) {
        int rows = i < ROWS ? (int)i : ROWS;
        vector known[ROWS][PARTS] = {{{0}}}, sum[PARTS];
        i -= (size_t)rows;
        for (int r = rows - 1; r >= 0; r--) {
            UNROLL for (int part = 0; part < PARTS; part++) sum[part] =
                load(x + (i + (size_t)r) * LANES, part);
            for (int q = rows - 1; q > r; q--)
                SUBTRACT_ROW(sum, l[(i + (size_t)q) * width + i + (size_t)r], known[q]);
            double inverse = 1 / l[(i + (size_t)r) * width + i + (size_t)r];
            UNROLL for (int part = 0; part < PARTS; part++)
            {
                known[r][part] = sum[part] * inverse;
                store(x + (i + (size_t)r) * LANES, part, known[r][part]);
            }
        }
        for (size_t j = 0; j < i; j++) { // A block that is not full is the first: none is before.
            UNROLL for (int part = 0; part < PARTS; part++) sum[part] = load(x + j * LANES, part);
            UNROLL for (int q = ROWS - 1; q >= 0; q--)
                SUBTRACT_ROW(sum, l[(i + (size_t)q) * width + j], known[q]);
            UNROLL for (int part = 0; part < PARTS; part++) store(x + j * LANES, part, sum[part]);
        }
    }
}

LANES_TARGET static void subtract(const double *a, const double *b, size_t count, double *tile)
{
    for (int from = 0; from < LANES; from += ROWS) {
        vector sum[ROWS][PARTS], other[PARTS];
        double *rows = tile + from * LANES;
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int part = 0; part < PARTS; part++)
            sum[r][part] = load(rows + r * LANES, part);
        for (size_t i = 0; i < count; i++) {
            UNROLL for (int part = 0; part < PARTS; part++) other[part] = load(b + i * LANES, part);
            UNROLL for (int r = 0; r < ROWS; r++)
                SUBTRACT_ROW(sum[r], a[i * LANES + (size_t)(from + r)], other);
        }
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int part = 0; part < PARTS; part++)
            store(rows + r * LANES, part, sum[r][part]);
    }
}

const trp_gp_kernels LANES_NAME = {
    .name = LANES_TEXT,
    .covary = covary,
    .spread = spread,
    .solve = solve,
    .solve_transposed = solve_transposed,
    .subtract = subtract,
};
