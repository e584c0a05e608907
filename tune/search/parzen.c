// parzen.c: see tune/search/parzen.h.
#include <tune/search/parzen.h>

#include <math.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <string.h>

// A dimension of more values is one of a continuum: each kernel is many cells wide.
enum { CELLS_MAX = 256 };
// Kernels are worked on in blocks, which the first-level cache holds.
enum { BLOCK = 128, LANES = 2 };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(8)));

static const double half_log_two_pi = 0.91893853320467274178;

// ---- dimensions

void trp_axis_open(trp_axis *axis, const troupe_dim *dim)
{
    double values = trp_dim_values(dim);
    *axis = (trp_axis){.dim = dim, .kind = TRP_AXIS_REAL};
    if (dim->kind == TROUPE_DIM_CHOICE && !dim->ordered)
        axis->kind = TRP_AXIS_CHOICE;
    else if (values > 0 && values <= CELLS_MAX)
        axis->kind = TRP_AXIS_CELLS;
}

troupe_status trp_axis_reserve(trp_axis *axis)
{
    if (axis->count < axis->room)
        return TROUPE_OK;
    size_t room = axis->room == 0 ? 64 : axis->room * 2;
    double **columns[] = {&axis->at, &axis->width, &axis->constant};
    for (int i = 0; i < 3; i++) {
        double *grown = trp_realloc(*columns[i], room * sizeof *grown);
        if (grown == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu points of a search", room);
        *columns[i] = grown;
    }
    int *order = trp_realloc(axis->order, room * sizeof *order);
    if (order == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu points of a search", room);
    axis->order = order;
    axis->room = room;
    return TROUPE_OK;
}

double trp_axis_coordinate(const trp_axis *axis, double x)
{
    return axis->kind == TRP_AXIS_CHOICE || isnan(x) ? x : trp_dim_unit(axis->dim, x);
}

void trp_axis_add(trp_axis *axis, double x)
{
    size_t point = axis->count++;
    double at = trp_axis_coordinate(axis, x);
    axis->at[point] = at;
    axis->width[point] = -1; // Not worked out.
    axis->constant[point] = 0;
    if (isnan(at))
        return;
    size_t low = 0, high = axis->ordered; // After those that are equal: they are older.
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (axis->at[axis->order[middle]] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(axis->order + low + 1, axis->order + low, (axis->ordered - low) * sizeof *axis->order);
    axis->order[low] = (int)point;
    axis->ordered++;
}

void trp_axis_close(trp_axis *axis)
{
    trp_free(axis->at);
    trp_free(axis->order);
    trp_free(axis->width);
    trp_free(axis->constant);
    *axis = (trp_axis){0};
}

double trp_axis_value(const trp_axis *axis, double coordinate)
{
    return axis->kind == TRP_AXIS_REAL ? trp_dim_at(axis->dim, coordinate) : coordinate;
}

// The cell of a value, in units.
static void edges_of(const trp_axis *axis, double value, double *low, double *high)
{
    const troupe_dim *dim = axis->dim;
    double half = dim->kind != TROUPE_DIM_CHOICE && dim->step > 0 ? dim->step / 2 : 0.5;
    *low = value - half < dim->low ? 0 : trp_dim_unit(dim, value - half);
    *high = value + half > dim->high ? 1 : trp_dim_unit(dim, value + half);
}

// ---- kernels

// A centre lies between 0 and 1 and no kernel is wider, so a third of each at least is within.
static double within(double at, double width)
{
    double scale = M_SQRT1_2 / width;
    return 0.5 * (erf((1 - at) * scale) + erf(at * scale));
}

static double constant_of(trp_axis_kind kind, double at, double width)
{
    double constant = -log(within(at, width));
    return kind == TRP_AXIS_REAL ? constant - log(width) - half_log_two_pi : constant;
}

// The logarithm of the normal distribution's mass of low <= z < high, finite however far they are.
static double log_mass(double low, double high)
{
    if (low > 0) { // By symmetry in the lower tail, where nothing cancels.
        double swap = -low;
        low = -high;
        high = swap;
    }
    if (high < -8) // The tail's leading term, phi(z) / -z, at both ends.
        return log1p(-exp((high * high - low * low) / 2)) - high * high / 2 - half_log_two_pi -
               log(-high);
    return log(trp_normal_below(high) - trp_normal_below(low));
}

static double *column(double *columns, const trp_parzen *parzen, size_t axis)
{
    return columns + axis * parzen->room;
}

// Each kernel is as wide as the gap to its farther neighbour, but those at the ends, where there
// are two or more, as to their only one; never wider than the range, nor narrower than a share of
// it that shrinks as kernels are added (Bergstra et al. 2011; Watanabe 2023, section 3.3.4).
static void widths_of(trp_axis *axis, const int *sorted, size_t count)
{
    double least = 1 / fmin(100, 2 + (double)count);
    for (size_t i = 0; i < count; i++) {
        double at = axis->at[sorted[i]];
        double left = at - (i > 0 ? axis->at[sorted[i - 1]] : 0);
        double right = (i + 1 < count ? axis->at[sorted[i + 1]] : 1) - at;
        if (count > 1 && i == 0)
            left = right;
        if (count > 1 && i == count - 1)
            right = left;
        double width = fmin(fmax(fmax(left, right), least), 1);
        if (width == axis->width[sorted[i]])
            continue;
        axis->width[sorted[i]] = width;
        axis->constant[sorted[i]] = constant_of(axis->kind, at, width);
    }
}

// Numbers kernels, of which many are alike where a dimension has few values.
static void pairs_of(trp_parzen *parzen, size_t index, const int *place, size_t members)
{
    const trp_axis *axis = parzen->axes[index];
    double *at = column(parzen->pair_at, parzen, index);
    double *inverse = column(parzen->pair_inverse, parzen, index);
    int *pair = parzen->pair + index * parzen->room, pairs = 0;
    for (size_t i = 0; i < members; i++) {
        int point = parzen->sorted[i];
        double this_at = axis->at[point], this_inverse = 1 / axis->width[point];
        if (pairs == 0 || at[pairs - 1] != this_at || inverse[pairs - 1] != this_inverse) {
            at[pairs] = this_at;
            inverse[pairs++] = this_inverse;
        }
        pair[place[point]] = pairs - 1;
    }
    at[pairs] = 0.5; // The prior's.
    inverse[pairs] = 1;
    pair[members] = pairs;
    parzen->pair_counts[index] = (size_t)pairs + 1;
}

static void numbers_of(trp_parzen *parzen, size_t index, const int *members, size_t count,
                       const int *place)
{
    trp_axis *axis = parzen->axes[index];
    double *at = column(parzen->at, parzen, index);
    double *inverse = column(parzen->inverse, parzen, index);
    size_t found = 0;
    for (size_t i = 0; i < axis->ordered && found < count; i++)
        if (place[axis->order[i]] >= 0)
            parzen->sorted[found++] = axis->order[i];
    widths_of(axis, parzen->sorted, count);
    for (size_t i = 0; i < count; i++) {
        at[i] = axis->at[members[i]];
        inverse[i] = 1 / axis->width[members[i]];
        parzen->constants[i] += axis->constant[members[i]];
    }
    at[count] = 0.5;
    inverse[count] = 1;
    parzen->constants[count] += constant_of(axis->kind, 0.5, 1);
    if (axis->kind == TRP_AXIS_CELLS)
        pairs_of(parzen, index, place, count);
}

// A choice has 1 / kernels everywhere and 1 more at the one that was seen, over their sum.
static void choices_of(trp_parzen *parzen, size_t index, const int *members, size_t count)
{
    const trp_axis *axis = parzen->axes[index];
    double *at = column(parzen->at, parzen, index);
    double kernels = (double)count + 1, others = log(axis->dim->choices + kernels);
    parzen->choice_bonus[index] = log1p(kernels);
    for (size_t i = 0; i < count; i++) {
        at[i] = axis->at[members[i]];
        parzen->constants[i] -= others;
    }
    at[count] = -1; // The prior has none of its own.
    parzen->constants[count] -= log(axis->dim->choices);
}

// Older ones weigh less, by a ramp from 1 / count, but for the newest; the prior weighs 1.
static void weights_of(trp_parzen *parzen, size_t count, bool fading)
{
    size_t ramp = fading && count > TRP_PARZEN_ALIKE_MAX ? count - TRP_PARZEN_ALIKE_MAX : 0;
    double first = 1 / (double)(count == 0 ? 1 : count), sum = 1;
    for (size_t i = 0; i < count; i++) {
        double part = ramp > 1 ? (double)i / (double)(ramp - 1) : 0;
        parzen->weights[i] = i < ramp ? first + part * (1 - first) : 1;
        sum += parzen->weights[i];
    }
    parzen->weights[count] = 1;
    for (size_t i = 0; i <= count; i++)
        parzen->weights[i] /= sum;
}

static troupe_status parzen_grow(trp_parzen *parzen, size_t axes, size_t kernels)
{
    size_t room = (kernels + kernels / 2 + BLOCK - 1) / BLOCK * BLOCK;
    if (kernels <= parzen->room && axes == parzen->axis_count)
        return TROUPE_OK;
    trp_parzen_close(parzen);
    parzen->weights = trp_alloc(room * sizeof(double));
    parzen->constants = trp_alloc(room * sizeof(double));
    parzen->at = trp_alloc(axes * room * sizeof(double));
    parzen->inverse = trp_alloc(axes * room * sizeof(double));
    parzen->pair_at = trp_alloc(axes * room * sizeof(double));
    parzen->pair_inverse = trp_alloc(axes * room * sizeof(double));
    parzen->pair = trp_alloc(axes * room * sizeof(int));
    parzen->sorted = trp_alloc(room * sizeof(int));
    parzen->pair_counts = trp_alloc(axes * sizeof(size_t));
    parzen->choice_bonus = trp_alloc(axes * sizeof(double));
    if (parzen->weights == NULL || parzen->constants == NULL || parzen->at == NULL ||
        parzen->inverse == NULL || parzen->pair_at == NULL || parzen->pair_inverse == NULL ||
        parzen->pair == NULL || parzen->sorted == NULL || parzen->pair_counts == NULL ||
        parzen->choice_bonus == NULL) {
        trp_parzen_close(parzen);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a density of %zu kernels", kernels);
    }
    parzen->room = room;
    parzen->axis_count = axes;
    return TROUPE_OK;
}

// What fills the last block adds nothing.
static void pad(trp_parzen *parzen)
{
    for (size_t k = parzen->count; k < parzen->room; k++) {
        parzen->weights[k] = 0;
        parzen->constants[k] = -INFINITY;
        for (size_t i = 0; i < parzen->axis_count; i++)
            parzen->pair[i * parzen->room + k] = 0;
    }
}

troupe_status trp_parzen_build(trp_parzen *parzen, trp_axis **axes, size_t axis_count,
                               const int *members, size_t count, const int *place, bool fading)
{
    TROUPE_TRY(parzen_grow(parzen, axis_count, count + 1));
    parzen->axes = axes;
    parzen->count = count + 1;
    memset(parzen->constants, 0, parzen->count * sizeof *parzen->constants);
    for (size_t i = 0; i < axis_count; i++) {
        if (axes[i]->kind == TRP_AXIS_CHOICE)
            choices_of(parzen, i, members, count);
        else
            numbers_of(parzen, i, members, count, place);
    }
    weights_of(parzen, count, fading);
    pad(parzen);
    return TROUPE_OK;
}

void trp_parzen_close(trp_parzen *parzen)
{
    trp_free(parzen->weights);
    trp_free(parzen->constants);
    trp_free(parzen->at);
    trp_free(parzen->inverse);
    trp_free(parzen->pair_at);
    trp_free(parzen->pair_inverse);
    trp_free(parzen->pair);
    trp_free(parzen->sorted);
    trp_free(parzen->pair_counts);
    trp_free(parzen->choice_bonus);
    *parzen = (trp_parzen){0};
}

// ---- draws

static double draw_number(const trp_axis *axis, double at, double width, trp_random *random)
{
    double low = trp_normal_below(-at / width), high = trp_normal_below((1 - at) / width);
    double drawn = at + width * trp_normal_at(low + trp_random_unit(random) * (high - low));
    drawn = fmin(fmax(drawn, 0), nextafter(1, 0));
    return axis->kind == TRP_AXIS_CELLS ? trp_dim_at(axis->dim, drawn) : drawn;
}

// The sum of "1 / kernels everywhere" is as much as all choices of the number of kernels' shares.
static double draw_choice(const trp_axis *axis, double own, double kernels, trp_random *random)
{
    double choices = axis->dim->choices, part = trp_random_unit(random) * (choices + kernels);
    if (own >= 0 && part >= choices)
        return own;
    return (double)trp_random_below(random, (uint64_t)choices);
}

void trp_parzen_draw(const trp_parzen *parzen, trp_random *random, double *candidate)
{
    double left = trp_random_unit(random);
    size_t kernel = 0;
    for (; kernel + 1 < parzen->count && left >= parzen->weights[kernel]; kernel++)
        left -= parzen->weights[kernel];
    for (size_t i = 0; i < parzen->axis_count; i++) {
        const trp_axis *axis = parzen->axes[i];
        double at = parzen->at[i * parzen->room + kernel];
        if (axis->kind == TRP_AXIS_CHOICE)
            candidate[i] = draw_choice(axis, at, (double)parzen->count, random);
        else
            candidate[i] =
                draw_number(axis, at, 1 / parzen->inverse[i * parzen->room + kernel], random);
    }
}

// ---- densities

// The masses of the cells of values that candidates have: for each dimension of cells a row for
// each candidate, of which those with the same value share one.
typedef struct masses {
    double *rows;
    size_t *row; // Where the row begins, of candidate c and axis i at c * axes + i.
} masses;

static size_t masses_size(const trp_parzen *parzen)
{
    size_t size = 0;
    for (size_t i = 0; i < parzen->axis_count; i++)
        if (parzen->axes[i]->kind == TRP_AXIS_CELLS)
            size += parzen->pair_counts[i];
    return size;
}

static void mass_row(const trp_parzen *parzen, size_t index, double value, double *row)
{
    const double *at = parzen->pair_at + index * parzen->room;
    const double *inverse = parzen->pair_inverse + index * parzen->room;
    double low, high;
    edges_of(parzen->axes[index], value, &low, &high);
    for (size_t k = 0; k < parzen->pair_counts[index]; k++)
        row[k] = log_mass((low - at[k]) * inverse[k], (high - at[k]) * inverse[k]);
}

static troupe_status masses_open(masses *cells, const trp_parzen *parzen, const double *candidates,
                                 size_t count)
{
    size_t axes = parzen->axis_count, used = 0, size = masses_size(parzen);
    *cells = (masses){0};
    if (size == 0)
        return TROUPE_OK;
    cells->rows = trp_alloc(count * size * sizeof *cells->rows);
    cells->row = trp_alloc(count * axes * sizeof *cells->row);
    if (cells->rows == NULL || cells->row == NULL) {
        trp_free(cells->rows);
        trp_free(cells->row);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the cells of a density");
    }
    for (size_t i = 0; i < axes; i++) {
        if (parzen->axes[i]->kind != TRP_AXIS_CELLS)
            continue;
        for (size_t c = 0; c < count; c++) {
            size_t same = 0;
            while (candidates[same * axes + i] != candidates[c * axes + i])
                same++;
            if (same == c) {
                mass_row(parzen, i, candidates[c * axes + i], cells->rows + used);
                cells->row[c * axes + i] = used;
                used += parzen->pair_counts[i];
            } else {
                cells->row[c * axes + i] = cells->row[same * axes + i];
            }
        }
    }
    return TROUPE_OK;
}

// Exponents of a block of kernels without what a real dimension takes off; in place, if need be.
static void less_real(const double *from, const double *at, const double *inverse, double x,
                      double *sums)
{
    for (int k = 0; k < BLOCK; k += LANES) {
        lanes sum, centre, scale;
        memcpy(&sum, from + k, sizeof sum);
        memcpy(&centre, at + k, sizeof centre);
        memcpy(&scale, inverse + k, sizeof scale);
        lanes z = (x - centre) * scale;
        sum -= 0.5 * z * z;
        memcpy(sums + k, &sum, sizeof sum);
    }
}

// Exponents of a block of kernels at a candidate.
static void exponents(const trp_parzen *parzen, size_t block, const double *candidate,
                      const masses *cells, size_t number, double *sums)
{
    const double *before = parzen->constants + block;
    for (size_t i = 0; i < parzen->axis_count; i++, before = sums) {
        size_t from = i * parzen->room + block;
        const double *at = parzen->at + from;
        if (parzen->axes[i]->kind == TRP_AXIS_REAL) {
            less_real(before, at, parzen->inverse + from, candidate[i], sums);
        } else if (parzen->axes[i]->kind == TRP_AXIS_CHOICE) {
            double bonus = parzen->choice_bonus[i];
            for (int k = 0; k < BLOCK; k++)
                sums[k] = before[k] + (at[k] == candidate[i] ? bonus : 0);
        } else {
            trp_assert(cells->row != NULL);
            const double *row = cells->rows + cells->row[number * parzen->axis_count + i];
            const int *pair = parzen->pair + from;
            for (int k = 0; k < BLOCK; k++)
                sums[k] = before[k] + row[pair[k]];
        }
    }
}

static double larger(double a, double b)
{
    return a > b ? a : b; // One instruction, which fmax is not.
}

static double largest(const double *sums)
{
    double most[4] = {sums[0], sums[1], sums[2], sums[3]}; // Which need not wait for each other.
    for (int k = 4; k < BLOCK; k += 4)
        for (int i = 0; i < 4; i++)
            most[i] = larger(most[i], sums[k + i]);
    return larger(larger(most[0], most[1]), larger(most[2], most[3]));
}

troupe_status trp_parzen_log(const trp_parzen *parzen, const double *candidates, size_t count,
                             double *logs)
{
    // Of less than e^-40 of the greatest, ten thousand would change no digit that counts.
    enum { NOTHING = -40 };
    trp_assert(parzen->axis_count > 0);
    masses cells;
    TROUPE_TRY(masses_open(&cells, parzen, candidates, count));
    double sums[BLOCK];
    for (size_t c = 0; c < count; c++) {
        double most = -INFINITY, sum = 0; // Of exp(exponent - most).
        for (size_t block = 0; block < parzen->count; block += BLOCK) {
            exponents(parzen, block, candidates + c * parzen->axis_count, &cells, c, sums);
            double here = largest(sums);
            if (here > most) {
                sum *= exp(most - here);
                most = here;
            }
            if (here < most + NOTHING)
                continue;
            for (int k = 0; k < BLOCK; k++)
                if (sums[k] > most + NOTHING)
                    sum += parzen->weights[block + (size_t)k] * exp(sums[k] - most);
        }
        logs[c] = log(sum) + most;
    }
    trp_free(cells.rows);
    trp_free(cells.row);
    return TROUPE_OK;
}
