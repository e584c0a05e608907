// gp_process.c: see tune/search/gp_process.h; Rasmussen and Williams, Gaussian
// Processes for Machine Learning, algorithm 2.1.
#include <tune/search/gp_process.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <tune/search/linear.h>

enum { LANES = TRP_GP_LANES };

troupe_status trp_gp_process_open(trp_gp_process *process, const trp_gp_feature *features,
                                  size_t count, size_t lengths)
{
    *process = (trp_gp_process){.features = features,
                                .feature_count = count,
                                .length_count = lengths,
                                .inverse = trp_alloc((2 * lengths + 3) * sizeof(double)),
                                .scale = 1,
                                .noise = 0.1};
    if (process->inverse == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a Gaussian process");
    process->factored_with = process->inverse + lengths;
    for (size_t i = 0; i < lengths; i++)
        process->inverse[i] = 1;
    return TROUPE_OK;
}

void trp_gp_process_close(trp_gp_process *process)
{
    trp_free(process->points);
    trp_free(process->inverse);
    trp_free(process->factor);
    trp_free(process->weights);
    trp_free(process->column);
    *process = (trp_gp_process){.points = NULL};
}

static troupe_status grow(trp_gp_process *process)
{
    size_t capacity = process->capacity == 0 ? 32 : process->capacity * 2;
    const size_t sizes[] = {process->feature_count + 1, 1};
    double **rows[] = {&process->points, &process->weights};
    for (size_t i = 0; i < 2; i++) {
        double *grown = trp_realloc(*rows[i], capacity * sizes[i] * sizeof *grown);
        if (grown == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for a Gaussian process of %zu points",
                               capacity);
        *rows[i] = grown;
    }
    process->capacity = capacity;
    return TROUPE_OK;
}

troupe_status trp_gp_process_add(trp_gp_process *process, const double *features)
{
    if (process->count == process->capacity)
        TROUPE_TRY(grow(process));
    process->factored = process->factored < process->count ? process->factored : process->count;
    memcpy(process->points + process->count++ * process->feature_count, features,
           process->feature_count * sizeof *features);
    return TROUPE_OK;
}

// ---- the factor

// Makes room in it for all points.
static troupe_status widen(trp_gp_process *process)
{
    size_t width = process->capacity;
    if (process->width == width)
        return TROUPE_OK;
    double *factor = trp_alloc(width * width * sizeof *factor);
    double *column = trp_alloc((width + LANES) * LANES * sizeof *column);
    if (factor == NULL || column == NULL) {
        trp_free(factor);
        trp_free(column);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a Gaussian process of %zu points",
                           width);
    }
    for (size_t i = 0; i < process->factored; i++)
        memcpy(factor + i * width, process->factor + i * process->width, (i + 1) * sizeof *factor);
    trp_free(process->factor);
    trp_free(process->column);
    process->factor = factor;
    process->column = column;
    process->width = width;
    return TROUPE_OK;
}

static trp_gp_points points_of(const trp_gp_process *process)
{
    return (trp_gp_points){.features = process->features,
                           .feature_count = process->feature_count,
                           .points = process->points,
                           .inverse = process->inverse,
                           .scale = process->scale};
}

// Rows up to `to` of the factor, after those that it has.
static bool factorise(trp_gp_process *process, size_t to, double noise, double *at)
{
    const trp_gp_kernels *with = trp_gp_kernels_best();
    const trp_gp_points points = points_of(process);
    while (process->factored < to) {
        size_t row = process->factored, rows = to - row < LANES ? to - row : LANES;
        for (size_t lane = 0; lane < LANES; lane++) {
            const double *point =
                process->points + (row + (lane < rows ? lane : rows - 1)) * process->feature_count;
            for (size_t f = 0; f < process->feature_count; f++)
                at[f * LANES + lane] = point[f];
        }
        with->covary(&points, row + rows, at, process->column, NULL);
        for (size_t lane = 0; lane < rows; lane++)
            process->column[(row + lane) * LANES + lane] = process->scale + noise;
        if (!trp_gp_factor(with, process->factor, process->width, row, rows, process->column))
            return false;
        process->factored += rows;
    }
    return true;
}

// More noise where rounding has made the covariances singular: the rows from `from` on are then
// made anew.
static troupe_status factorise_noisily(trp_gp_process *process, size_t from, size_t to,
                                       double *noise)
{
    TROUPE_TRY(widen(process));
    double *at = trp_alloc((process->feature_count + 1) * LANES * sizeof *at);
    if (at == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a Gaussian process");
    troupe_status status = TROUPE_OK;
    while (status == TROUPE_OK && !factorise(process, to, *noise, at)) {
        *noise *= 10;
        process->factored = from;
        if (!(*noise < 1e6 * (1 + process->scale)))
            status = troupe_fail(TROUPE_FAILED, "the covariances of %zu trials have no factor", to);
    }
    trp_free(at);
    return status;
}

troupe_status trp_gp_process_condition(trp_gp_process *process, size_t n, const double *targets)
{
    size_t lengths = process->length_count;
    double *with = process->factored_with;
    bool same = memcmp(with, process->inverse, lengths * sizeof *with) == 0 &&
                with[lengths] == process->scale && with[lengths + 1] == process->noise;
    if (!same || process->factored == 0) {
        memcpy(with, process->inverse, lengths * sizeof *with);
        with[lengths] = process->scale;
        with[lengths + 1] = process->factored_noise = process->noise;
        process->factored = 0;
    }
    process->factored = process->factored < n ? process->factored : n;
    TROUPE_TRY(factorise_noisily(process, 0, n, &process->factored_noise));
    memcpy(process->weights, targets, n * sizeof *targets);
    trp_solve_lower(process->factor, n, process->width, process->weights);
    trp_solve_lower_transposed(process->factor, n, process->width, process->weights);
    process->seen = n;
    return TROUPE_OK;
}

troupe_status trp_gp_process_suppose(trp_gp_process *process)
{
    double noise = process->noise;
    process->factored = process->seen;
    return factorise_noisily(process, process->seen, process->count, &noise);
}

// ---- what is expected

// Row by row, `factors` times what a point weighs in the mean.
static void weigh(const double *factors, const double *weights, size_t count, double *to)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t lane = 0; lane < LANES; lane++)
            to[i * LANES + lane] = factors[i * LANES + lane] * weights[i];
    }
}

static void set_slopes(const trp_gp_process *process, const double *at, const double *factors,
                       size_t count, double scale, double *slopes)
{
    const trp_gp_points points = points_of(process);
    memset(slopes, 0, process->feature_count * LANES * sizeof *slopes);
    trp_gp_kernels_best()->spread(&points, count, at, factors, false, slopes);
    for (size_t i = 0; i < process->feature_count * LANES; i++)
        slopes[i] *= scale * process->inverse[process->features[i / LANES].length];
}

void trp_gp_process_predict(const trp_gp_process *process, const double *at, double *mean,
                            double *variance, double *mean_slopes, double *variance_slopes,
                            double *scratch)
{
    size_t n = process->count;
    const trp_gp_kernels *with = trp_gp_kernels_best();
    const trp_gp_points points = points_of(process);
    double *solved = scratch, *slopes = solved + n * LANES, *factors = slopes + n * LANES;
    with->covary(&points, n, at, solved, mean_slopes == NULL ? NULL : slopes);
    for (size_t lane = 0; lane < LANES; lane++) {
        mean[lane] = 0;
        variance[lane] = process->scale;
    }
    for (size_t i = 0; i < process->seen; i++) {
        for (size_t lane = 0; lane < LANES; lane++)
            mean[lane] += process->weights[i] * solved[i * LANES + lane];
    }
    with->solve(process->factor, n, process->width, solved);
    for (size_t i = 0; i < n; i++) {
        for (size_t lane = 0; lane < LANES; lane++)
            variance[lane] -= solved[i * LANES + lane] * solved[i * LANES + lane];
    }
    for (size_t lane = 0; lane < LANES; lane++) // Rounding may take it below nothing.
        variance[lane] = fmax(variance[lane], 1e-12 * process->scale);
    if (mean_slopes == NULL)
        return;
    weigh(slopes, process->weights, process->seen, factors);
    set_slopes(process, at, factors, process->seen, 2, mean_slopes);
    with->solve_transposed(process->factor, n, process->width, solved);
    for (size_t i = 0; i < n * LANES; i++)
        factors[i] = solved[i] * slopes[i];
    set_slopes(process, at, factors, n, -4, variance_slopes);
}
