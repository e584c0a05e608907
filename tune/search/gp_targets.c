// gp_targets.c: see tune/search/gp_targets.h.
#include <tune/search/gp_targets.h>

#include <math.h>

// To mean 0 and deviation 1, or to all 0.
static void standardise(double *x, size_t n)
{
    double size = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        size = fmax(size, fabs(x[i]));
    size = size > 0 ? size : 1;
    for (size_t i = 0; i < n; i++) { // No larger than 1, so that no sum is beyond a double.
        x[i] /= size;
        sum += x[i];
    }
    for (size_t i = 0; i < n; i++) {
        x[i] -= sum / (double)n;
        squares += x[i] * x[i];
    }
    double deviation = sqrt(squares / (double)n);
    for (size_t i = 0; i < n; i++)
        x[i] = deviation > 1e-14 ? x[i] / deviation : 0;
}

static double bent(double x, double power)
{
    if (x < 0)
        return -bent(-x, 2 - power);
    return fabs(power) < 1e-9 ? log1p(x) : expm1(power * log1p(x)) / power;
}

// The logarithm of the likelihood of the power, less a constant: Yeo and
// Johnson, section 3.
static double likelihood(const double *x, size_t n, double power)
{
    double sum = 0, squares = 0, stretch = 0;
    for (size_t i = 0; i < n; i++) {
        double y = bent(x[i], power);
        sum += y;
        squares += y * y;
        stretch += copysign(log1p(fabs(x[i])), x[i]);
    }
    double mean = sum / (double)n, variance = squares / (double)n - mean * mean;
    return (power - 1) * stretch - 0.5 * (double)n * log(fmax(variance, 1e-300));
}

bool trp_gp_targets(const double *scores, size_t n, double *targets)
{
    double least = INFINITY, most = -INFINITY, power = 1, likely = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(scores[i])) {
            least = fmin(least, scores[i]);
            most = fmax(most, scores[i]);
        }
    }
    if (!(least <= most))
        return false;
    for (size_t i = 0; i < n; i++)
        targets[i] = fmin(fmax(scores[i], least), most);
    standardise(targets, n);
    for (int k = -20; k <= 40; k++) { // As far on both sides of 1, which bends nothing.
        double got = likelihood(targets, n, k / 10.0);
        if (got > likely) {
            likely = got;
            power = k / 10.0;
        }
    }
    for (size_t i = 0; i < n; i++)
        targets[i] = bent(targets[i], power);
    standardise(targets, n);
    return true;
}
