// bbob.c: eight functions of the black-box optimization benchmark, as defined by Hansen, Finck, Ros
// and Auger, "Real-Parameter Black-Box Optimization Benchmarking 2009: Noiseless Functions
// Definitions" (INRIA RR-6829). Numbers in comments are the paper's. Shifts and rotations come from
// the instance's generator, so the instances are not those of COCO; the offset of values is 0.
#include "functions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PEAKS = 101 };
static const double pi = 3.14159265358979323846;

// Position of a coordinate among all, from 0 to 1.
static double share(const tune_instance *at, size_t i)
{
    return at->count > 1 ? (double)i / (double)(at->count - 1) : 0;
}

// The diagonal matrix of section 0.2.
static double lambda(const tune_instance *at, double alpha, size_t i)
{
    return pow(alpha, 0.5 * share(at, i));
}

static double oscillated(double x)
{
    if (x == 0)
        return 0;
    double log_x = log(fabs(x)), c1 = x > 0 ? 10 : 5.5, c2 = x > 0 ? 7.9 : 3.1;
    return copysign(exp(log_x + 0.049 * (sin(c1 * log_x) + sin(c2 * log_x))), x);
}

static void make_asymmetric(const tune_instance *at, double beta, double *x)
{
    for (size_t i = 0; i < at->count; i++)
        if (x[i] > 0)
            x[i] = pow(x[i], 1 + beta * share(at, i) * sqrt(x[i]));
}

// y = the instance's rotation number `which` times x.
static void rotate(const tune_instance *at, int which, const double *x, double *y)
{
    const double *row = &at->numbers[(size_t)which * at->count * at->count];
    for (size_t i = 0; i < at->count; i++, row += at->count) {
        y[i] = 0;
        for (size_t k = 0; k < at->count; k++)
            y[i] += row[k] * x[k];
    }
}

static void subtract_best(const tune_instance *at, const double *x, double *y)
{
    for (size_t i = 0; i < at->count; i++)
        y[i] = x[i] - at->best[i];
}

static double power(double base, const tune_instance *at, size_t i)
{
    return pow(base, share(at, i));
}

// Preparing.

static void shift(tune_instance *at, double most)
{
    for (size_t i = 0; i < at->count; i++)
        at->best[i] = tune_uniform(at, -most, most);
}

// An orthogonal matrix: normal numbers, made orthonormal row by row (Gram and Schmidt).
static void make_rotation(tune_instance *at, double *rows)
{
    size_t n = at->count;
    for (size_t i = 0; i < n; i++) {
        double *row = &rows[i * n], length = 0;
        for (size_t k = 0; k < n; k++)
            row[k] = tune_normal(at);
        for (size_t j = 0; j < i; j++) {
            double product = 0;
            for (size_t k = 0; k < n; k++)
                product += row[k] * rows[j * n + k];
            for (size_t k = 0; k < n; k++)
                row[k] -= product * rows[j * n + k];
        }
        for (size_t k = 0; k < n; k++)
            length += row[k] * row[k];
        for (size_t k = 0; k < n; k++)
            row[k] /= sqrt(length);
    }
}

static bool prepare_shift(tune_instance *at)
{
    shift(at, 4);
    return true;
}

static bool prepare_rotations(tune_instance *at)
{
    size_t n = at->count;
    shift(at, 4);
    at->numbers = calloc(2 * n * n, sizeof *at->numbers);
    for (size_t i = 0; at->numbers != NULL && i < 2; i++)
        make_rotation(at, &at->numbers[i * n * n]);
    return at->numbers != NULL;
}

// The functions.

static double sphere(const tune_instance *at, const double *x) // 1
{
    double z[TUNE_DIMS_MAX] = {0}, sum = 0;
    subtract_best(at, x, z);
    for (size_t i = 0; i < at->count; i++)
        sum += z[i] * z[i];
    return sum;
}

static double ellipsoid(const tune_instance *at, const double *x) // 2
{
    double z[TUNE_DIMS_MAX] = {0}, sum = 0;
    subtract_best(at, x, z);
    for (size_t i = 0; i < at->count; i++)
        sum += power(1e6, at, i) * oscillated(z[i]) * oscillated(z[i]);
    return sum;
}

static double attractive_sector(const tune_instance *at, const double *x) // 6
{
    double y[TUNE_DIMS_MAX] = {0}, z[TUNE_DIMS_MAX] = {0}, sum = 0;
    subtract_best(at, x, z);
    rotate(at, 0, z, y);
    for (size_t i = 0; i < at->count; i++)
        y[i] *= lambda(at, 10, i);
    rotate(at, 1, y, z);
    for (size_t i = 0; i < at->count; i++) {
        double s = z[i] * at->best[i] > 0 ? 100 : 1;
        sum += s * z[i] * s * z[i];
    }
    return pow(oscillated(sum), 0.9);
}

static double step_ellipsoid(const tune_instance *at, const double *x) // 7
{
    double y[TUNE_DIMS_MAX] = {0}, z[TUNE_DIMS_MAX] = {0}, sum = 0;
    subtract_best(at, x, z);
    rotate(at, 0, z, y);
    for (size_t i = 0; i < at->count; i++)
        y[i] *= lambda(at, 10, i);
    double first = fabs(y[0]);
    for (size_t i = 0; i < at->count; i++)
        y[i] = fabs(y[i]) > 0.5 ? floor(0.5 + y[i]) : floor(0.5 + 10 * y[i]) / 10;
    rotate(at, 1, y, z);
    for (size_t i = 0; i < at->count; i++)
        sum += power(100, at, i) * z[i] * z[i];
    return 0.1 * fmax(first / 1e4, sum);
}

static double rosenbrock_factor(const tune_instance *at)
{
    return fmax(1, sqrt((double)at->count) / 8);
}

// Its optimum is where R x is 1/2 in each coordinate.
static bool prepare_rosenbrock(tune_instance *at)
{
    if (!prepare_rotations(at))
        return false;
    for (size_t i = 0; i < at->count; i++) {
        at->best[i] = 0;
        for (size_t k = 0; k < at->count; k++)
            at->best[i] += at->numbers[k * at->count + i] * 0.5 / rosenbrock_factor(at);
    }
    return true;
}

static double rosenbrock(const tune_instance *at, const double *x) // 9
{
    double z[TUNE_DIMS_MAX] = {0}, sum = 0;
    rotate(at, 0, x, z);
    for (size_t i = 0; i < at->count; i++)
        z[i] = rosenbrock_factor(at) * z[i] + 0.5;
    for (size_t i = 0; i + 1 < at->count; i++) {
        double bend = z[i] * z[i] - z[i + 1];
        sum += 100 * bend * bend + (z[i] - 1) * (z[i] - 1);
    }
    return sum;
}

static double rastrigin(const tune_instance *at, const double *x) // 15
{
    double y[TUNE_DIMS_MAX] = {0}, z[TUNE_DIMS_MAX] = {0}, cosines = 0, squares = 0;
    subtract_best(at, x, z);
    rotate(at, 0, z, y);
    for (size_t i = 0; i < at->count; i++)
        y[i] = oscillated(y[i]);
    make_asymmetric(at, 0.2, y);
    rotate(at, 1, y, z);
    for (size_t i = 0; i < at->count; i++)
        z[i] *= lambda(at, 10, i);
    rotate(at, 0, z, y);
    for (size_t i = 0; i < at->count; i++) {
        cosines += cos(2 * pi * y[i]);
        squares += y[i] * y[i];
    }
    return 10 * ((double)at->count - cosines) + squares;
}

static double schaffers(const tune_instance *at, const double *x) // 17
{
    double y[TUNE_DIMS_MAX] = {0}, z[TUNE_DIMS_MAX] = {0}, sum = 0;
    subtract_best(at, x, z);
    rotate(at, 0, z, y);
    make_asymmetric(at, 0.5, y);
    rotate(at, 1, y, z);
    for (size_t i = 0; i < at->count; i++)
        z[i] *= lambda(at, 10, i);
    for (size_t i = 0; i + 1 < at->count; i++) {
        double s = sqrt(z[i] * z[i] + z[i + 1] * z[i + 1]), wave = sin(50 * pow(s, 0.2));
        sum += sqrt(s) * (1 + wave * wave);
    }
    sum /= (double)(at->count - 1);
    return sum * sum;
}

// Of each peak: where it is, and the diagonal of its matrix.
static bool prepare_gallagher(tune_instance *at)
{
    size_t n = at->count, order[PEAKS - 1];
    at->numbers = calloc(n * n + 2 * PEAKS * n, sizeof *at->numbers);
    if (at->numbers == NULL)
        return false;
    make_rotation(at, at->numbers);
    for (size_t i = 0; i < PEAKS - 1; i++) {
        size_t k = (size_t)tune_uniform(at, 0, (double)i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    double *peak = &at->numbers[n * n];
    for (size_t p = 0; p < PEAKS; p++, peak += 2 * n) {
        double alpha = p == 0 ? 1000 : pow(1000, 2 * (double)order[p - 1] / (PEAKS - 2));
        for (size_t i = 0; i < n; i++)
            peak[i] = tune_uniform(at, p == 0 ? -4 : -4.9, p == 0 ? 4 : 4.9);
        for (size_t i = 0; i < n; i++) { // In an order of its own.
            size_t k = (size_t)tune_uniform(at, 0, (double)i + 1);
            peak[n + i] = peak[n + k];
            peak[n + k] = lambda(at, alpha, i) / pow(alpha, 0.25);
        }
    }
    memcpy(at->best, &at->numbers[n * n], n * sizeof *at->best);
    return true;
}

static double gallagher(const tune_instance *at, const double *x) // 21
{
    size_t n = at->count;
    double y[TUNE_DIMS_MAX] = {0}, z[TUNE_DIMS_MAX] = {0}, highest = 0;
    const double *peak = &at->numbers[n * n];
    for (size_t p = 0; p < PEAKS; p++, peak += 2 * n) {
        double weight = p == 0 ? 10 : 1.1 + 8 * ((double)p - 1) / (PEAKS - 2), sum = 0;
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] - peak[i];
        rotate(at, 0, y, z);
        for (size_t i = 0; i < n; i++)
            sum += peak[n + i] * z[i] * z[i];
        highest = fmax(highest, weight * exp(-sum / (2 * (double)n)));
    }
    double height = oscillated(10 - highest);
    return height * height;
}

const struct tune_bbob tune_bbob[TUNE_BBOB] = {
    {"sphere", sphere, prepare_shift},
    {"ellipsoid", ellipsoid, prepare_shift},
    {"attractive_sector", attractive_sector, prepare_rotations},
    {"step_ellipsoid", step_ellipsoid, prepare_rotations},
    {"rosenbrock", rosenbrock, prepare_rosenbrock},
    {"rastrigin", rastrigin, prepare_rotations},
    {"schaffers", schaffers, prepare_rotations},
    {"gallagher", gallagher, prepare_gallagher},
};
