// gp_process.c: see tune/search/gp_process.h; Rasmussen and Williams, Gaussian
// Processes for Machine Learning, algorithm 2.1 and section 5.4.1.
#include <tune/search/gp_process.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <tune/search/gp_minimize.h>
#include <tune/search/linear.h>

static const double least_noise = 1e-6;

troupe_status trp_gp_process_open(trp_gp_process *process, const trp_gp_feature *features,
                                  size_t count, size_t lengths)
{
    *process = (trp_gp_process){.features = features,
                                .feature_count = count,
                                .length_count = lengths,
                                .inverse = trp_alloc((lengths + 1) * sizeof(double)),
                                .scale = 1,
                                .noise = 0.1};
    if (process->inverse == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a Gaussian process");
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
    *process = (trp_gp_process){.points = NULL};
}

static troupe_status grow(trp_gp_process *process)
{
    size_t capacity = process->capacity == 0 ? 32 : process->capacity * 2;
    double *points =
        trp_realloc(process->points, capacity * (process->feature_count + 1) * sizeof *points);
    if (points != NULL)
        process->points = points;
    double *weights = trp_realloc(process->weights, capacity * sizeof *weights);
    if (weights != NULL)
        process->weights = weights;
    double *factor = trp_alloc(capacity * capacity * sizeof *factor);
    if (points == NULL || weights == NULL || factor == NULL) {
        trp_free(factor);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a Gaussian process of %zu points",
                           capacity);
    }
    for (size_t i = 0; i < process->count; i++)
        memcpy(factor + i * capacity, process->factor + i * process->capacity,
               process->count * sizeof *factor);
    trp_free(process->factor);
    process->factor = factor;
    process->capacity = capacity;
    return TROUPE_OK;
}

troupe_status trp_gp_process_add(trp_gp_process *process, const double *features)
{
    if (process->count == process->capacity)
        TROUPE_TRY(grow(process));
    memcpy(process->points + process->count++ * process->feature_count, features,
           process->feature_count * sizeof *features);
    return TROUPE_OK;
}

// ---- covariances

static double square_difference(const trp_gp_feature *feature, double a, double b)
{
    if (feature->name)
        return a == b ? 0 : 1;
    return (a - b) * (a - b);
}

static double square_distance(const trp_gp_process *process, const double *inverse, const double *a,
                              const double *b)
{
    double sum = 0;
    for (size_t f = 0; f < process->feature_count; f++) {
        const trp_gp_feature *feature = &process->features[f];
        sum += inverse[feature->length] * square_difference(feature, a[f], b[f]);
    }
    return sum;
}

// Matern's covariance, and *slope: its derivative by the square of the
// distance.
static double matern(double square, double *slope)
{
    double r = sqrt(5 * square), fall = exp(-r);
    *slope = -5.0 / 6 * (1 + r) * fall;
    return (1 + r + r * r / 3) * fall;
}

static const double *point_at(const trp_gp_process *process, size_t i)
{
    return process->points + i * process->feature_count;
}

// ---- the likelihood

typedef struct likelihood {
    trp_gp_process *process;
    size_t n;
    const double *targets;
    // n * n numbers each; below the diagonal: the covariances and their factor,
    // its slopes, and the derivative of the loss by each covariance.
    double *factor, *slopes, *by;
    double *weights, *inverse;
    double scale, noise;
} likelihood;

static troupe_status likelihood_open(likelihood *l, trp_gp_process *process, size_t n,
                                     const double *targets)
{
    *l = (likelihood){.process = process, .n = n, .targets = targets};
    l->factor = trp_alloc((3 * n * n + n + process->length_count + 1) * sizeof(double));
    if (l->factor == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to fit a Gaussian process to %zu points",
                           n);
    l->slopes = l->factor + n * n;
    l->by = l->slopes + n * n;
    l->weights = l->by + n * n;
    l->inverse = l->weights + n;
    return TROUPE_OK;
}

static void set_covariances(likelihood *l)
{
    for (size_t i = 0; i < l->n; i++) {
        for (size_t j = 0; j < i; j++) {
            double slope, square = square_distance(l->process, l->inverse, point_at(l->process, i),
                                                   point_at(l->process, j));
            l->factor[i * l->n + j] = l->scale * matern(square, &slope);
            l->slopes[i * l->n + j] = l->scale * slope;
        }
        l->factor[i * l->n + i] = l->scale + l->noise;
    }
}

// by = inverse(K) - weights * weights', of which half is the derivative of the
// loss by K. The factor is replaced by its inverse.
static void set_derivative(likelihood *l)
{
    size_t n = l->n;
    trp_invert_lower(l->factor, n, n);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++)
            l->by[i * n + j] = -l->weights[i] * l->weights[j];
    }
    for (size_t k = 0; k < n; k++) {
        const double *row = l->factor + k * n;
        for (size_t i = 0; i <= k; i++) {
            double *to = l->by + i * n, weight = row[i];
            for (size_t j = 0; j <= i; j++)
                to[j] += weight * row[j];
        }
    }
}

static double add_prior(const likelihood *l, double *gradient)
{
    size_t d = l->process->length_count;
    double loss = 0, noise_share = l->noise - 0.99 * least_noise;
    for (size_t i = 0; i < d; i++) {
        loss += 0.1 / l->inverse[i] + 0.1 * l->inverse[i];
        gradient[i] += 0.1 * l->inverse[i] - 0.1 / l->inverse[i];
    }
    loss -= log(l->scale) - l->scale;
    gradient[d] += l->scale - 1;
    loss -= 0.1 * log(l->noise) - 30 * l->noise;
    gradient[d + 1] += (30 - 0.1 / l->noise) * noise_share;
    return loss;
}

// The loss where the hyperparameters' logarithms are raw; infinite where it has
// none.
static double loss_at(void *user, const double *raw, double *gradient)
{
    likelihood *l = user;
    const trp_gp_process *process = l->process;
    size_t n = l->n, d = process->length_count;
    for (size_t i = 0; i < d; i++)
        l->inverse[i] = exp(raw[i]);
    l->scale = exp(raw[d]);
    l->noise = exp(raw[d + 1]) + 0.99 * least_noise;
    set_covariances(l);
    if (!trp_cholesky(l->factor, n, n))
        return (double)INFINITY;
    memcpy(l->weights, l->targets, n * sizeof *l->weights);
    trp_solve_lower(l->factor, n, n, l->weights);
    double loss = 0.5 * trp_dot(l->weights, l->weights, n);
    trp_solve_lower_transposed(l->factor, n, n, l->weights);
    for (size_t i = 0; i < n; i++)
        loss += log(l->factor[i * n + i]);
    set_derivative(l);
    memset(gradient, 0, (d + 2) * sizeof *gradient);
    for (size_t i = 0; i < n; i++) {
        const double *a = point_at(process, i);
        for (size_t j = 0; j < i; j++) {
            const double *b = point_at(process, j);
            double by = l->by[i * n + j] * l->slopes[i * n + j];
            for (size_t f = 0; f < process->feature_count; f++) {
                const trp_gp_feature *feature = &process->features[f];
                gradient[feature->length] += by * square_difference(feature, a[f], b[f]);
            }
        }
        gradient[d + 1] += 0.5 * l->by[i * n + i];
    }
    // By the scale: trace(by K) / 2 without the noise's part, where K by its
    // inverse is the unit.
    double fits = (double)n - trp_dot(l->weights, l->targets, n);
    gradient[d] = 0.5 * fits - l->noise * gradient[d + 1];
    gradient[d + 1] *= exp(raw[d + 1]);
    for (size_t i = 0; i < d; i++)
        gradient[i] *= l->inverse[i];
    return loss + add_prior(l, gradient);
}

troupe_status trp_gp_process_loss(trp_gp_process *process, size_t n, const double *targets,
                                  const double *raw, double *loss, double *gradient)
{
    likelihood l;
    TROUPE_TRY(likelihood_open(&l, process, n, targets));
    *loss = loss_at(&l, raw, gradient);
    trp_free(l.factor);
    return TROUPE_OK;
}

// The start'th point to begin at, in logarithms: first the hyperparameters that it has.
static void set_start(const trp_gp_process *process, int start, double *raw)
{
    static const double others[][3] = {{0, 0, -3}, {3, 0, -7}};
    size_t d = process->length_count;
    for (size_t i = 0; i < d + 2; i++) {
        if (start > 0)
            raw[i] = others[start - 1][i < d ? 0 : i - d + 1];
        else if (i < d)
            raw[i] = log(process->inverse[i]);
        else
            raw[i] = log(i == d ? process->scale : process->noise - 0.99 * least_noise);
    }
}

static troupe_status fit(likelihood *l, int starts, double *room)
{
    enum { EVALUATIONS = 60 };
    trp_gp_process *process = l->process;
    size_t d = process->length_count;
    double *low = room, *high = low + d + 2, *raw = high + d + 2, *best = raw + d + 2;
    double loss, least = INFINITY;
    for (size_t i = 0; i < d + 2; i++) {
        low[i] = i == d + 1 ? log(0.01 * least_noise) : -12;
        high[i] = i < d ? 12 : 5;
    }
    for (int start = 0; start < starts; start++) {
        set_start(process, start, raw);
        for (size_t i = 0; i < d + 2; i++)
            raw[i] = fmin(fmax(raw[i], low[i]), high[i]);
        TROUPE_TRY(trp_gp_minimize(loss_at, l, d + 2, low, high, 1e-2, EVALUATIONS, raw, &loss));
        if (loss < least) {
            least = loss;
            memcpy(best, raw, (d + 2) * sizeof *best);
        }
    }
    if (!isfinite(least)) // Those that it has stay.
        return TROUPE_OK;
    for (size_t i = 0; i < d; i++)
        process->inverse[i] = exp(best[i]);
    process->scale = exp(best[d]);
    process->noise = exp(best[d + 1]) + 0.99 * least_noise;
    return TROUPE_OK;
}

troupe_status trp_gp_process_fit(trp_gp_process *process, size_t n, const double *targets,
                                 bool anew)
{
    likelihood l;
    TROUPE_TRY(likelihood_open(&l, process, n, targets));
    troupe_status status = TROUPE_NO_MEMORY;
    double *room = trp_alloc(4 * (process->length_count + 2) * sizeof *room);
    if (room != NULL)
        status = fit(&l, anew ? 3 : 1, room);
    else
        troupe_fail(status, "no memory to fit a Gaussian process");
    trp_free(room);
    trp_free(l.factor);
    return status;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

// Copies the best third of `most` points, and others evenly from all. `sorted`: room for n targets.
static troupe_status choose(const trp_gp_process *process, size_t n, const double *targets,
                            size_t most, trp_gp_process *part, double *sorted, double *chosen)
{
    size_t others = most - most / 3;
    memcpy(sorted, targets, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    for (size_t i = 0; i < n; i++) {
        bool good = targets[i] < sorted[most / 3];
        if (!good && i * others / n == (i + 1) * others / n)
            continue;
        chosen[part->count] = targets[i];
        TROUPE_TRY(trp_gp_process_add(part, point_at(process, i)));
    }
    return TROUPE_OK;
}

troupe_status trp_gp_process_fit_part(trp_gp_process *process, size_t n, const double *targets,
                                      size_t most)
{
    trp_gp_process part;
    size_t d = process->length_count;
    TROUPE_TRY(trp_gp_process_open(&part, process->features, process->feature_count, d));
    memcpy(part.inverse, process->inverse, d * sizeof *part.inverse);
    part.scale = process->scale;
    part.noise = process->noise;
    troupe_status status = TROUPE_NO_MEMORY;
    double *room = trp_alloc((n + most) * sizeof *room);
    if (room == NULL)
        troupe_fail(status, "no memory to fit a Gaussian process to %zu points", most);
    else
        status = choose(process, n, targets, most, &part, room, room + n);
    if (status == TROUPE_OK)
        status = trp_gp_process_fit(&part, part.count, room + n, false);
    if (status == TROUPE_OK) {
        memcpy(process->inverse, part.inverse, d * sizeof *part.inverse);
        process->scale = part.scale;
        process->noise = part.noise;
    }
    trp_free(room);
    trp_gp_process_close(&part);
    return status;
}

// ---- what is expected

// The covariances of a point with the first n.
static void set_row(const trp_gp_process *process, size_t n, const double *features, double *row)
{
    double slope;
    for (size_t i = 0; i < n; i++) {
        double square = square_distance(process, process->inverse, features, point_at(process, i));
        row[i] = process->scale * matern(square, &slope);
    }
}

// Rows `from` up to `to` of the factor.
static bool factorise(trp_gp_process *process, size_t from, size_t to, double noise)
{
    for (size_t i = from; i < to; i++) {
        double *row = process->factor + i * process->capacity;
        set_row(process, i, point_at(process, i), row);
        row[i] = process->scale + noise;
        if (!trp_cholesky_row(process->factor, i, process->capacity))
            return false;
    }
    return true;
}

troupe_status trp_gp_process_condition(trp_gp_process *process, size_t n, const double *targets)
{
    double noise = process->noise; // More where rounding has made the covariances singular.
    while (!factorise(process, 0, n, noise)) {
        noise *= 10;
        if (!(noise < 1e6 * (1 + process->scale)))
            return troupe_fail(TROUPE_FAILED, "the covariances of %zu trials have no factor", n);
    }
    memcpy(process->weights, targets, n * sizeof *targets);
    trp_solve_lower(process->factor, n, process->capacity, process->weights);
    trp_solve_lower_transposed(process->factor, n, process->capacity, process->weights);
    process->seen = n;
    return TROUPE_OK;
}

troupe_status trp_gp_process_suppose(trp_gp_process *process)
{
    double noise = process->noise;
    while (!factorise(process, process->seen, process->count, noise)) {
        noise *= 10;
        if (!(noise < 1e6 * (1 + process->scale)))
            return troupe_fail(TROUPE_FAILED, "the covariances of running trials have no factor");
    }
    return TROUPE_OK;
}

// The variance's floor: rounding may take it below nothing.
static double positive(const trp_gp_process *process, double variance)
{
    return fmax(variance, 1e-12 * process->scale);
}

void trp_gp_process_predict(const trp_gp_process *process, const double *features, double *mean,
                            double *variance, double *mean_slope, double *variance_slope,
                            double *scratch)
{
    size_t n = process->count;
    double *solved = scratch, *slopes = scratch + n;
    for (size_t i = 0; i < n; i++) {
        double square = square_distance(process, process->inverse, features, point_at(process, i));
        solved[i] = process->scale * matern(square, &slopes[i]);
    }
    *mean = trp_dot(solved, process->weights, process->seen);
    trp_solve_lower(process->factor, n, process->capacity, solved);
    *variance = positive(process, process->scale - trp_dot(solved, solved, n));
    if (mean_slope == NULL)
        return;
    trp_solve_lower_transposed(process->factor, n, process->capacity, solved);
    memset(mean_slope, 0, process->feature_count * sizeof *mean_slope);
    memset(variance_slope, 0, process->feature_count * sizeof *variance_slope);
    for (size_t i = 0; i < n; i++) {
        const double *point = point_at(process, i);
        double weight = i < process->seen ? process->weights[i] : 0;
        for (size_t f = 0; f < process->feature_count; f++) {
            const trp_gp_feature *feature = &process->features[f];
            if (feature->name)
                continue;
            double by = 2 * process->scale * slopes[i] * process->inverse[feature->length] *
                        (features[f] - point[f]);
            mean_slope[f] += weight * by;
            variance_slope[f] -= 2 * solved[i] * by;
        }
    }
}

void trp_gp_process_predict_lanes(const trp_gp_process *process, const double *features,
                                  double *mean, double *variance, double *scratch)
{
    enum { LANES = TRP_GP_LANES };
    size_t n = process->count;
    double slope;
    for (size_t lane = 0; lane < LANES; lane++) {
        mean[lane] = 0;
        variance[lane] = process->scale;
        const double *at = features + lane * process->feature_count;
        for (size_t i = 0; i < n; i++) {
            double square = square_distance(process, process->inverse, at, point_at(process, i));
            double k = process->scale * matern(square, &slope);
            scratch[i * LANES + lane] = k;
            mean[lane] += i < process->seen ? k * process->weights[i] : 0;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const double *row = process->factor + i * process->capacity;
        double rest[LANES], scale = 1 / row[i];
        memcpy(rest, scratch + i * LANES, sizeof rest);
        for (size_t j = 0; j < i; j++) {
            const double *solved = scratch + j * LANES;
            double weight = row[j];
            for (size_t lane = 0; lane < LANES; lane++)
                rest[lane] -= weight * solved[lane];
        }
        for (size_t lane = 0; lane < LANES; lane++) {
            rest[lane] *= scale;
            variance[lane] -= rest[lane] * rest[lane];
        }
        memcpy(scratch + i * LANES, rest, sizeof rest);
    }
    for (size_t lane = 0; lane < LANES; lane++)
        variance[lane] = positive(process, variance[lane]);
}
