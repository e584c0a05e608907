// cmaes_evolution.c: see tune/search/cmaes_evolution.h. Equations are those of Hansen, "The CMA
// Evolution Strategy: A Tutorial", arXiv 1604.00772 v2.
#include <tune/search/cmaes_evolution.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <tune/search/linear.h>

size_t trp_evolution_population(size_t d)
{
    return 4 + (size_t)(3 * log((double)d));
}

// Weights and rates: equations 49 to 58.
static void set_parameters(trp_evolution *e)
{
    double d = (double)e->d, sums[2] = {0}, squares[2] = {0};
    size_t parents = e->population / 2;
    for (size_t i = 0; i < e->population; i++) {
        double w = log(((double)e->population + 1) / 2) - log((double)i + 1);
        e->weights[i] = w;
        sums[i >= parents] += w;
        squares[i >= parents] += w * w;
    }
    double effective = sums[0] * sums[0] / squares[0];
    double effective_minus = sums[1] * sums[1] / squares[1];
    e->effective = effective;
    e->rate_one = 2 / ((d + 1.3) * (d + 1.3) + effective);
    e->rate_mu = fmin(1 - e->rate_one,
                      2 * (0.25 + effective + 1 / effective - 2) / ((d + 2) * (d + 2) + effective));
    double negative = fmin(1 + e->rate_one / e->rate_mu, 1 + 2 * effective_minus / (effective + 2));
    negative = fmin(negative, (1 - e->rate_one - e->rate_mu) / (d * e->rate_mu));
    double positive_sum = 0, negative_sum = 0;
    for (size_t i = 0; i < e->population; i++)
        *(e->weights[i] >= 0 ? &positive_sum : &negative_sum) += fabs(e->weights[i]);
    e->weight_sum = 0;
    for (size_t i = 0; i < e->population; i++) {
        e->weights[i] *= e->weights[i] >= 0 ? 1 / positive_sum : negative / negative_sum;
        e->weight_sum += e->weights[i];
    }
    e->rate_path = (4 + effective / d) / (d + 4 + 2 * effective / d);
    e->rate_sigma = (effective + 2) / (d + effective + 5);
    e->damping = 1 + 2 * fmax(0, sqrt((effective - 1) / (d + 1)) - 1) + e->rate_sigma;
    e->length = sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d));
}

troupe_status trp_evolution_open(trp_evolution *e, size_t d, size_t population, const double *mean,
                                 double sigma)
{
    *e = (trp_evolution){.d = d, .population = population, .sigma = sigma, .sigma_first = sigma};
    // One piece: the mean first, by which it is freed.
    e->mean = trp_alloc((3 * d * d + 7 * d + population) * sizeof *e->mean);
    if (e->mean == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for CMA-ES over %zu dimensions", d);
    e->covariance = e->mean + d;
    e->axes = e->covariance + d * d;
    e->scratch = e->axes + d * d;
    e->lengths = e->scratch + d * d + 3 * d;
    e->path = e->lengths + d;
    e->path_sigma = e->path + d;
    e->weights = e->path_sigma + d;
    memcpy(e->mean, mean, d * sizeof *mean);
    for (size_t i = 0; i < d; i++)
        e->covariance[i * d + i] = e->axes[i * d + i] = e->lengths[i] = 1;
    set_parameters(e);
    return TROUPE_OK;
}

void trp_evolution_close(trp_evolution *e)
{
    trp_free(e->mean);
    *e = (trp_evolution){0};
}

static double normal(trp_random *random)
{
    double radius = sqrt(-2 * log(1 - trp_random_unit(random)));
    return radius * cos(2 * acos(-1.0) * trp_random_unit(random));
}

void trp_evolution_draw(const trp_evolution *e, trp_random *random, double *y)
{
    memset(y, 0, e->d * sizeof *y);
    for (size_t k = 0; k < e->d; k++) {
        double z = normal(random) * e->lengths[k];
        for (size_t i = 0; i < e->d; i++)
            y[i] += e->axes[i * e->d + k] * z;
    }
}

// The inverse root of the covariance times y.
static void whiten(const trp_evolution *e, const double *y, double *white)
{
    memset(white, 0, e->d * sizeof *white);
    for (size_t k = 0; k < e->d; k++) {
        double along = 0;
        for (size_t i = 0; i < e->d; i++)
            along += e->axes[i * e->d + k] * y[i];
        along /= e->lengths[k];
        for (size_t i = 0; i < e->d; i++)
            white[i] += e->axes[i * e->d + k] * along;
    }
}

// The square of y's length where the covariance's ellipsoid is the unit sphere.
static double square_length(const trp_evolution *e, const double *y)
{
    double sum = 0;
    for (size_t k = 0; k < e->d; k++) {
        double along = 0;
        for (size_t i = 0; i < e->d; i++)
            along += e->axes[i * e->d + k] * y[i];
        sum += along * along / (e->lengths[k] * e->lengths[k]);
    }
    return sum;
}

void trp_evolution_shorten(const trp_evolution *e, double *y)
{
    double d = (double)e->d, most = sqrt(d) + 2 * d / (d + 2);
    double length = sqrt(square_length(e, y));
    if (length <= most)
        return;
    for (size_t i = 0; i < e->d; i++)
        y[i] = isfinite(length) ? y[i] * (most / length) : 0;
}

static void decompose(trp_evolution *e)
{
    size_t d = e->d;
    double *copy = e->scratch, most = 0;
    memcpy(copy, e->covariance, d * d * sizeof *copy);
    trp_eigen(copy, d, e->lengths, e->axes);
    for (size_t i = 0; i < d; i++)
        most = fmax(most, e->lengths[i]);
    for (size_t i = 0; i < d; i++) // What rounding has made of a tiny one may be negative.
        e->lengths[i] = sqrt(fmax(e->lengths[i], 1e-15 * most));
    e->decomposed = e->generation;
}

// C = old * C + rate_one path path' + rate_mu * sum of w y y': equation 47.
static void update_covariance(trp_evolution *e, const double *const *ys, bool stalled)
{
    size_t d = e->d;
    double kept = 1 - e->rate_one - e->rate_mu * e->weight_sum;
    if (stalled)
        kept += e->rate_one * e->rate_path * (2 - e->rate_path);
    for (size_t i = 0; i < d; i++) {
        for (size_t j = 0; j <= i; j++) {
            double *at = &e->covariance[i * d + j];
            *at = kept * *at + e->rate_one * e->path[i] * e->path[j];
        }
    }
    for (size_t k = 0; k < e->population; k++) {
        double w = e->rate_mu * e->weights[k];
        if (w < 0) // Equation 46: so that the covariance stays positive definite.
            w *= (double)d / (square_length(e, ys[k]) + 1e-8);
        for (size_t i = 0; i < d; i++) {
            for (size_t j = 0; j <= i; j++)
                e->covariance[i * d + j] += w * ys[k][i] * ys[k][j];
        }
    }
    for (size_t i = 0; i < d; i++) {
        for (size_t j = 0; j < i; j++)
            e->covariance[j * d + i] = e->covariance[i * d + j];
    }
}

void trp_evolution_update(trp_evolution *e, const double *const *ys)
{
    size_t d = e->d, parents = e->population / 2;
    double *step = e->scratch + d * d, *white = step + d;
    memset(step, 0, d * sizeof *step);
    for (size_t k = 0; k < parents; k++) {
        for (size_t i = 0; i < d; i++)
            step[i] += e->weights[k] * ys[k][i];
    }
    whiten(e, step, white);
    e->generation++;

    // The step's size: equations 43 and 44.
    double to_sigma = sqrt(e->rate_sigma * (2 - e->rate_sigma) * e->effective), length = 0;
    for (size_t i = 0; i < d; i++) {
        e->mean[i] += e->sigma * step[i];
        e->path_sigma[i] = (1 - e->rate_sigma) * e->path_sigma[i] + to_sigma * white[i];
        length += e->path_sigma[i] * e->path_sigma[i];
    }
    length = sqrt(length);
    double sigma = e->sigma * exp(e->rate_sigma / e->damping * (length / e->length - 1));
    e->sigma = fmin(fmax(sigma, 1e-100), 1e100);

    // Its shape: equations 45 to 47. A path that grows fast is not followed.
    double grown = 1 - pow(1 - e->rate_sigma, 2.0 * e->generation);
    bool stalled = length / sqrt(grown) >= (1.4 + 2 / ((double)d + 1)) * e->length;
    double to_path = sqrt(e->rate_path * (2 - e->rate_path) * e->effective);
    for (size_t i = 0; i < d; i++)
        e->path[i] = (1 - e->rate_path) * e->path[i] + (stalled ? 0 : to_path * step[i]);
    update_covariance(e, ys, stalled);

    // Not each time in many dimensions, where it changes slowly and costs d^3: section B.2.
    double every = 1 / ((e->rate_one + e->rate_mu) * (double)d * 10);
    if (e->generation - e->decomposed >= every)
        decompose(e);
}

bool trp_evolution_converged(const trp_evolution *e)
{
    double least = e->lengths[0], most = e->lengths[0];
    for (size_t i = 1; i < e->d; i++) {
        least = fmin(least, e->lengths[i]);
        most = fmax(most, e->lengths[i]);
    }
    // Section B.3: TolX and ConditionCov.
    return e->sigma * most < 1e-12 * e->sigma_first || most > 1e7 * least;
}
