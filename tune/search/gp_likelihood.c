// gp_likelihood.c: see tune/search/gp_likelihood.h; Rasmussen and Williams,
// Gaussian Processes for Machine Learning, algorithm 2.1 and section 5.4.1.
#include <tune/search/gp_likelihood.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <tune/search/gp_minimize.h>
#include <tune/search/linear.h>

enum {
    LANES = TRP_GP_LANES,
    FEW = 64,   // Points that are searched from all beginnings,
    MANY = 256, // and at most: it takes the cube of their number, many times.
};

static const double least_noise = 1e-6;

// Points stand in strips of eight, one a lane. Of strip s a column of covariances has the points
// up to those of the strip, a column of the factor's inverse those from there on.
typedef struct likelihood {
    const trp_gp_process *process;
    const trp_gp_kernels *with;
    size_t n, strips;
    const double *targets;
    trp_gp_points points; // With the inverse squares of lengths and the scale that are tried.
    double *inverse, noise;
    double *factor;   // n rows of n.
    double *slopes;   // A column each strip,
    double *inverses; // likewise,
    double *at;       // and the features of its points.
    double *column, *weights, *sums;
} likelihood;

static size_t slopes_at(size_t strip)
{
    return LANES * LANES * (strip * (strip + 1) / 2);
}

static double *inverse_at(const likelihood *l, size_t strip)
{
    size_t before = strip * l->n - LANES * (strip * (strip - 1) / 2);
    return l->inverses + (strip == 0 ? 0 : before) * LANES;
}

static size_t lanes_of(const likelihood *l, size_t strip)
{
    return l->n - strip * LANES < LANES ? l->n - strip * LANES : LANES;
}

// Lanes behind the last point have its features.
static void set_strips(likelihood *l)
{
    size_t size = l->process->feature_count;
    for (size_t i = 0; i < l->strips * LANES; i++) {
        const double *point = l->process->points + (i < l->n ? i : l->n - 1) * size;
        for (size_t f = 0; f < size; f++)
            l->at[(i / LANES * size + f) * LANES + i % LANES] = point[f];
    }
}

static troupe_status likelihood_open(likelihood *l, const trp_gp_process *process, size_t n,
                                     const double *targets)
{
    size_t strips = (n + LANES - 1) / LANES, wide = strips * LANES, size = process->feature_count;
    size_t numbers = n * n + slopes_at(strips) + strips * n * LANES + (strips + 1) * size * LANES +
                     wide * LANES + n + process->length_count + 1;
    *l = (likelihood){.process = process,
                      .with = trp_gp_kernels_best(),
                      .n = n,
                      .strips = strips,
                      .targets = targets,
                      .factor = trp_alloc(numbers * sizeof(double))};
    if (l->factor == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to fit a Gaussian process to %zu points",
                           n);
    l->slopes = l->factor + n * n;
    l->inverses = l->slopes + slopes_at(strips);
    l->at = l->inverses + strips * n * LANES;
    l->sums = l->at + strips * size * LANES;
    l->column = l->sums + size * LANES;
    l->weights = l->column + wide * LANES;
    l->inverse = l->weights + n;
    l->points = (trp_gp_points){.features = process->features,
                                .feature_count = size,
                                .points = process->points,
                                .inverse = l->inverse};
    set_strips(l);
    return TROUPE_OK;
}

// The factor of the covariances, and their slopes. False: there is none.
static bool factorise(likelihood *l)
{
    size_t size = l->process->feature_count;
    for (size_t strip = 0; strip < l->strips; strip++) {
        size_t row = strip * LANES, rows = lanes_of(l, strip);
        l->with->covary(&l->points, row + rows, l->at + row * size, l->column,
                        l->slopes + slopes_at(strip));
        for (size_t lane = 0; lane < rows; lane++)
            l->column[(row + lane) * LANES + lane] = l->points.scale + l->noise;
        if (!trp_gp_factor(l->with, l->factor, l->n, row, rows, l->column))
            return false;
    }
    return true;
}

static void invert(likelihood *l)
{
    for (size_t strip = 0; strip < l->strips; strip++) {
        size_t row = strip * LANES, rows = l->n - row;
        double *column = inverse_at(l, strip);
        memset(column, 0, rows * LANES * sizeof *column);
        for (size_t lane = 0; lane < lanes_of(l, strip); lane++)
            column[lane * (LANES + 1)] = 1;
        l->with->solve(l->factor + row * (l->n + 1), rows, l->n, column);
    }
}

// With K the covariances, half of inverse(K) - weights * weights' is the derivative of the loss by
// K. Fills the strip's column with what is below the diagonal, times the slopes, and returns the
// sum of what is on it.
static double set_derivative(likelihood *l, size_t strip)
{
    double trace = 0;
    size_t row = strip * LANES, rows = lanes_of(l, strip);
    for (size_t of = 0; of <= strip; of++) {
        double *tile = l->column + of * LANES * LANES;
        const double *slopes = l->slopes + slopes_at(strip) + of * LANES * LANES;
        memset(tile, 0, LANES * LANES * sizeof *tile);
        l->with->subtract(inverse_at(l, of) + (row - of * LANES) * LANES, inverse_at(l, strip),
                          l->n - row, tile);
        for (size_t i = 0; i < (of < strip ? LANES : rows); i++) {
            double weight = l->weights[of * LANES + i], *to = tile + i * LANES;
            for (size_t lane = 0; lane < rows; lane++) {
                double by = -to[lane] - weight * l->weights[row + lane];
                if (of == strip && i == lane)
                    trace += by;
                to[lane] = of == strip && i >= lane ? 0 : by * slopes[i * LANES + lane];
            }
            for (size_t lane = rows; lane < LANES; lane++)
                to[lane] = 0;
        }
    }
    return trace;
}

static double add_prior(const likelihood *l, double *gradient)
{
    size_t d = l->process->length_count;
    double loss = 0, scale = l->points.scale, noise_share = l->noise - 0.99 * least_noise;
    for (size_t i = 0; i < d; i++) {
        loss += 0.1 / l->inverse[i] + 0.1 * l->inverse[i];
        gradient[i] += 0.1 * l->inverse[i] - 0.1 / l->inverse[i];
    }
    loss -= log(scale) - scale;
    gradient[d] += scale - 1;
    loss -= 0.1 * log(l->noise) - 30 * l->noise;
    gradient[d + 1] += (30 - 0.1 / l->noise) * noise_share;
    return loss;
}

// The loss where the hyperparameters' logarithms are raw; infinite where it has
// none.
static double loss_at(void *user, const double *raw, double *gradient)
{
    likelihood *l = user;
    size_t n = l->n, d = l->process->length_count, size = l->process->feature_count;
    for (size_t i = 0; i < d; i++)
        l->inverse[i] = exp(raw[i]);
    l->points.scale = exp(raw[d]);
    l->noise = exp(raw[d + 1]) + 0.99 * least_noise;
    if (!factorise(l))
        return (double)INFINITY;
    memcpy(l->weights, l->targets, n * sizeof *l->weights);
    trp_solve_lower(l->factor, n, n, l->weights);
    double loss = 0.5 * trp_dot(l->weights, l->weights, n), trace = 0;
    trp_solve_lower_transposed(l->factor, n, n, l->weights);
    for (size_t i = 0; i < n; i++)
        loss += log(l->factor[i * (n + 1)]);
    invert(l);
    memset(l->sums, 0, size * LANES * sizeof *l->sums);
    for (size_t strip = 0; strip < l->strips; strip++) {
        size_t row = strip * LANES;
        trace += set_derivative(l, strip);
        l->with->spread(&l->points, row + lanes_of(l, strip), l->at + row * size, l->column, true,
                        l->sums);
    }
    memset(gradient, 0, (d + 2) * sizeof *gradient);
    for (size_t i = 0; i < size * LANES; i++)
        gradient[l->process->features[i / LANES].length] += l->sums[i];
    // By the scale: trace(by K) / 2 without the noise's part, where K by its
    // inverse is the unit.
    double fits = (double)n - trp_dot(l->weights, l->targets, n);
    gradient[d] = 0.5 * (fits - l->noise * trace);
    gradient[d + 1] = 0.5 * trace * exp(raw[d + 1]);
    for (size_t i = 0; i < d; i++)
        gradient[i] *= l->inverse[i];
    return loss + add_prior(l, gradient);
}

troupe_status trp_gp_loss(trp_gp_process *process, size_t n, const double *targets,
                          const double *raw, double *loss, double *gradient)
{
    likelihood l;
    TROUPE_TRY(likelihood_open(&l, process, n, targets));
    *loss = loss_at(&l, raw, gradient);
    trp_free(l.factor);
    return TROUPE_OK;
}

// ---- the most likely ones

// Seeks them from raw, and keeps them there if they are more likely than `least`.
static troupe_status seek(likelihood *l, const double *from, double *room, double *least,
                          double *raw)
{
    enum { EVALUATIONS = 60 };
    size_t d = l->process->length_count;
    double *low = room, *high = low + d + 2, *at = high + d + 2, loss;
    for (size_t i = 0; i < d + 2; i++) {
        low[i] = i == d + 1 ? log(0.01 * least_noise) : -12;
        high[i] = i < d ? 12 : 5;
        at[i] = fmin(fmax(from[i], low[i]), high[i]);
    }
    TROUPE_TRY(trp_gp_minimize(loss_at, l, d + 2, low, high, 1e-2, EVALUATIONS, at, &loss));
    if (loss < *least) {
        *least = loss;
        memcpy(raw, at, (d + 2) * sizeof *raw);
    }
    return TROUPE_OK;
}

// By the points of a part: from fixed beginnings, or from raw.
static troupe_status fit(const trp_gp_process *part, const double *targets, bool anew, double *room,
                         double *raw)
{
    static const double beginnings[][3] = {{0, 0, -3}, {3, 0, -7}};
    size_t d = part->length_count;
    double *from = room + 3 * (d + 2), least = INFINITY;
    likelihood l;
    TROUPE_TRY(likelihood_open(&l, part, part->count, targets));
    troupe_status status = TROUPE_OK;
    for (size_t k = 0; k < (anew ? 2 : 1) && status == TROUPE_OK; k++) {
        for (size_t i = 0; i < d + 2; i++)
            from[i] = anew ? beginnings[k][i < d ? 0 : i - d + 1] : raw[i];
        status = seek(&l, from, room, &least, raw);
    }
    trp_free(l.factor);
    return status;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

// Copies `most` points at most: the best third of these, and others evenly from all. `sorted`: room
// for n targets.
static troupe_status choose(const trp_gp_process *process, size_t n, const double *targets,
                            size_t most, trp_gp_process *part, double *sorted, double *chosen)
{
    size_t others = most - most / 3;
    memcpy(sorted, targets, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    part->count = 0;
    for (size_t i = 0; i < n; i++) {
        bool good = n > most && targets[i] < sorted[most / 3];
        if (n > most && !good && i * others / n == (i + 1) * others / n)
            continue;
        chosen[part->count] = targets[i];
        TROUPE_TRY(trp_gp_process_add(part, process->points + i * process->feature_count));
    }
    return TROUPE_OK;
}

static troupe_status fit_parts(const trp_gp_process *process, size_t n, const double *targets,
                               trp_gp_process *part, double *room, double *raw)
{
    double *sorted = room + 4 * (process->length_count + 2), *chosen = sorted + n;
    TROUPE_TRY(choose(process, n, targets, FEW, part, sorted, chosen));
    TROUPE_TRY(fit(part, chosen, true, room, raw));
    if (n <= FEW)
        return TROUPE_OK;
    TROUPE_TRY(choose(process, n, targets, MANY, part, sorted, chosen));
    return fit(part, chosen, false, room, raw);
}

troupe_status trp_gp_fit(trp_gp_process *process, size_t n, const double *targets)
{
    trp_gp_process part;
    size_t d = process->length_count;
    double *room = trp_alloc((5 * (d + 2) + 2 * n) * sizeof *room);
    if (room == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to fit a Gaussian process");
    double *raw = room + 4 * (d + 2) + 2 * n;
    for (size_t i = 0; i < d + 2; i++) // What stays where nothing is likely.
        raw[i] = i == d + 1 ? log(0.1) : 0;
    troupe_status status = trp_gp_process_open(&part, process->features, process->feature_count, d);
    if (status == TROUPE_OK) {
        status = fit_parts(process, n, targets, &part, room, raw);
        trp_gp_process_close(&part);
    }
    if (status == TROUPE_OK) {
        for (size_t i = 0; i < d; i++)
            process->inverse[i] = exp(raw[i]);
        process->scale = exp(raw[d]);
        process->noise = exp(raw[d + 1]) + 0.99 * least_noise;
    }
    trp_free(room);
    return status;
}
