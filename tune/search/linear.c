// linear.c: see tune/search/linear.h.
#include <tune/search/linear.h>

#include <math.h>
#include <stdbool.h>

double trp_dot(const double *a, const double *b, size_t n)
{
    double sum[4] = {0}; // Apart, so that one addition need not wait for the one before it.
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (size_t k = 0; k < 4; k++)
            sum[k] += a[i + k] * b[i + k];
    }
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void trp_solve_lower(const double *l, size_t n, size_t width, double *b)
{
    for (size_t i = 0; i < n; i++)
        b[i] = (b[i] - trp_dot(l + i * width, b, i)) / l[i * width + i];
}

void trp_solve_lower_transposed(const double *l, size_t n, size_t width, double *b)
{
    for (size_t i = n; i-- > 0;) {
        const double *row = l + i * width;
        b[i] /= row[i];
        for (size_t j = 0; j < i; j++)
            b[j] -= row[j] * b[i];
    }
}

// Turns the plane of axes p and q so that a[p][q] becomes 0.
static void turn(double *a, size_t n, double *vectors, size_t p, size_t q)
{
    double off = a[p * n + q];
    double slope = (a[q * n + q] - a[p * n + p]) / (2 * off);
    double t = fabs(slope) > 1e150 ? 1 / (2 * slope)
                                   : copysign(1, slope) / (fabs(slope) + sqrt(slope * slope + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (size_t k = 0; k < n; k++) {
        double kp = a[k * n + p], kq = a[k * n + q];
        a[k * n + p] = c * kp - s * kq;
        a[k * n + q] = s * kp + c * kq;
    }
    for (size_t k = 0; k < n; k++) {
        double pk = a[p * n + k], qk = a[q * n + k];
        a[p * n + k] = c * pk - s * qk;
        a[q * n + k] = s * pk + c * qk;
    }
    a[p * n + q] = a[q * n + p] = 0;
    for (size_t k = 0; k < n; k++) {
        double kp = vectors[k * n + p], kq = vectors[k * n + q];
        vectors[k * n + p] = c * kp - s * kq;
        vectors[k * n + q] = s * kp + c * kq;
    }
}

// Jacobi's method, row by row (Golub and Van Loan, Matrix Computations, section 8.5).
void trp_eigen(double *a, size_t n, double *values, double *vectors)
{
    enum { SWEEPS = 60 }; // It converges quadratically: ten are many.
    for (size_t i = 0; i < n * n; i++)
        vectors[i] = i % (n + 1) == 0;
    bool turned = true;
    for (int sweep = 0; sweep < SWEEPS && turned; sweep++) {
        turned = false;
        for (size_t p = 0; p + 1 < n; p++) {
            for (size_t q = p + 1; q < n; q++) {
                double size = sqrt(fabs(a[p * n + p])) * sqrt(fabs(a[q * n + q]));
                if (!(fabs(a[p * n + q]) > 1e-17 * size))
                    continue;
                turn(a, n, vectors, p, q);
                turned = true;
            }
        }
    }
    for (size_t i = 0; i < n; i++)
        values[i] = a[i * n + i];
}
